"""One package a laboratory: its `LAB`, a kernel to begin with, and a solution."""
