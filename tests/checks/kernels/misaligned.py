"""Launches of misaligned.cu."""

import numpy as np

from .table import Case, ints, zeros

A = ints(256)
BYTES = ints(256, 120).astype(np.uint8)
BYTES[1] = 13
F = np.arange(64, dtype=np.float32)
_T = np.arange(32)
ODD = np.zeros(128, np.uint8)
ODD[::4] = _T
FIELDS = [int(np.frombuffer(BYTES[5 * k + 1 : 5 * k + 5].tobytes(), "<i4")[0]) for k in range(32)]
LOCAL = [int(np.frombuffer(((BYTES[12:16].astype(int) + t) % 256).astype(np.uint8).tobytes(), "<i4")[0]) for t in range(32)]

CASES = [
    Case("vector_at_one", 1, 32, (A, zeros(128)), {1: A[4:132]}),
    Case("word_among_bytes", 1, 32, (BYTES, zeros(32)), {1: BYTES.view("<i4")[::2]}),
    Case("double_from_floats", 1, 16, (F, zeros(16, np.float64)), {1: F[:32].view(np.float64)}),
    Case("half_word_at_odd", 1, 32, (zeros(132, np.uint8),), {0: np.concatenate([ODD, zeros(4)])}),
    Case("shared_vector", 1, 32, (A, zeros(32)), {1: A[4:132].reshape(32, 4).sum(axis=1)}),
    Case("atomic_among_bytes", 1, 32, (zeros(128, np.uint8),), {0: np.arange(32, dtype="<i4").view(np.uint8)}),
    Case("odd_pitch", 1, (4, 4), (F, zeros(16, np.float32), 9), {1: [F[y * 10 + 2 * x] * 2 + 1 for y in range(4) for x in range(4)]}, repaired_launch={"args": (F, zeros(16, np.float32), 10)}),
    Case("local_bytes", 1, 32, (BYTES, zeros(32)), {1: LOCAL}),
    Case("packed_record", 1, 32, (BYTES, zeros(32)), {1: FIELDS}),
    Case("vector_store_in_a_view", 1, 16, (zeros(40),), {0: [0, 0] + [s * t for t in range(16) for s in (1, -1)] + [0] * 6}),
]
