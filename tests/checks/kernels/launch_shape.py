"""Launches of launch_shape.cu: the repaired one has another shape."""

import numpy as np

from .table import Blank, Case, ints, zeros

A = ints(256)
_T = np.arange(128)
WARNS = {"severity": "warning", "unmarked": True}
REFUSED = {"severity": "error", "unmarked": True}

CASES = [
    Case("block_y", 1, (32, 4), (A, zeros(128)), {1: A[:128]}, **WARNS, repaired_launch={"block": 128}),
    Case("grid_y", (2, 2), 64, (A, zeros(128)), {1: A[:128]}, **WARNS, repaired_launch={"grid": 2}),
    Case("grid_z", (2, 2, 3), (8, 4), (A, zeros(128), 16), {1: A[:128]}, **WARNS, repaired_launch={"grid": (2, 2)}),
    Case("block_z", 1, (8, 4, 2), (A, zeros(32)), {1: np.tile(A[:8], 4)}, **WARNS, repaired_launch={"block": (8, 4)}),
    Case("columns_alike", (3, 2), 32, (A, zeros(64)), {1: A[:64]}, **WARNS, repaired_launch={"grid": (1, 2)}),
    Case("tail_left_out", 2, 32, (A, Blank(80), 80), {1: A[:80] * 2}, **WARNS, also=("uninitialised",), repaired_launch={"grid": 3}),
    Case("too_many_threads", 1, 1025, (zeros(1025),), {0: np.arange(1025) * (np.arange(1025) < 1024)}, **REFUSED, repaired_launch={"block": 1024}),
    Case("grid_y_too_large", (1, 65536), 1, (zeros(64),), {0: np.arange(64)}, **REFUSED, repaired_launch={"grid": (1, 128)}),
    Case("shared_too_large", 1, 32, (zeros(32),), {0: np.arange(32)[::-1]}, **REFUSED, shared=300_000, repaired_launch={"shared": 128}),
    Case("beyond_its_bounds", 1, 128, (zeros(128),), {0: _T}, **REFUSED, repaired_launch={"grid": 2, "block": 64}),
]
