"""Launches of out_of_bounds.cu."""

import numpy as np

import gridstride as gs

from .table import Case, ints, zeros

A = ints(512)
_T = np.arange(512)
ROWS = np.zeros((6, 24), np.int32)
ROWS[:, :20] = A[0] + np.arange(20)
PITCHED = np.zeros((8, 32), np.int32)
PITCHED[:, :20] = A[:160].reshape(8, 20)

CASES = [
    Case("linear_guard", (2, 2), (16, 16), (A, zeros(144), 20, 6, 24), {1: ROWS.ravel()}, kind="race-global"),
    Case("pitch_in_bytes", 1, (32, 8), (A, zeros(256), 20, 8, 128), {1: PITCHED.ravel()}),
    Case("index_overflow", 1, 32, (A, zeros(32), 50000), {1: A[50000 * (np.arange(32, dtype=np.int64) + 49969) // 100000000]}),
    Case("off_by_one", 5, 64, (A, zeros(300), 300), {1: A[:300]}),
    Case("halo_before_the_start", 4, 64, (A, zeros(256), 256), {1: A[:256] + np.where(_T[:256] > 0, np.roll(A, 1)[:256], 0)}),
    Case("into_the_neighbour", 1, 64, (zeros(100), zeros(1000), 100), {0: np.arange(100), 1: np.eye(1, 1000)[0] * 5}, also=("race-global",)),
    Case("constant_overrun", 1, 64, (A, zeros(64)), {1: (A[:64] & 7) + 1}),
    Case("shared_overrun", 1, 64, (A, zeros(64)), {1: A[:64]}),
    Case("dynamic_shared_too_small", 1, 64, (A, zeros(64)), {1: A[:64][::-1]}, shared=128, repaired_launch={"shared": 256}),
    Case("stack_array", 1, 32, (A, zeros(32)), {1: np.arange(32) * (A[:8] & 7).sum()}),
    Case("vector_tail", 1, 64, (A[:202], zeros(64), 202), {1: np.concatenate([A[:200].reshape(50, 4).sum(axis=1), zeros(14)])}),
    Case("use_after_free", 1, 32, (zeros(1),), {0: [11]}),
    Case("null_pointer", 1, 64, (A, zeros(64), gs.pointer(0)), {1: A[:64]}),
    Case("atomic_past_the_end", 1, 64, (A, zeros(16)), {1: np.bincount(A[:64] % 16, minlength=16)}),
    Case("wrong_row_order", 1, (32, 4), (A, zeros(100), 25, 4), {1: A[:100]}),
]
