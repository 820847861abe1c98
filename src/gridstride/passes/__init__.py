"""Passes from the PTX syntax tree to a control-flow graph that is ready to be lowered, one a file."""
