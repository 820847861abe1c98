"""Launch contracts: what a kernel needs of its launches, held against each launch before it starts, and proved by runs in the simulator."""
