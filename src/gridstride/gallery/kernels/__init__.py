"""One package a ladder: its `LADDER`, and its sources beside it."""
