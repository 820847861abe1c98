"""Launches of divergent_barrier.cu."""

import numpy as np

from .table import Case, ints, zeros

A = ints(512)
_T = np.arange(128)
B = A[:128]
RACE = ("race-shared",)

CASES = [
    Case("half_of_the_block", 1, 128, (A, zeros(192)), {1: np.concatenate([B[:64] + B[64:], B])}, also=(*RACE, "uninitialised")),
    Case("odd_threads", 1, 128, (A, zeros(128)), {1: B * (1 + _T % 2) + 1}, also=RACE),
    Case("trip_counts", 1, 128, (A, zeros(256)), {1: np.concatenate([B * 4 + 6, np.ones(128)])}, also=RACE),
    Case("trip_counts_in_a_warp", 1, 64, (A, zeros(64)), {1: B[:64] * 10 + 6}, also=RACE),
    Case("two_barriers", 1, 128, (A, zeros(128)), {1: np.where(_T < 64, B[::-1], B * 2)}, also=RACE),
    Case("in_a_switch", 1, 128, (A, zeros(128)), {1: np.where(_T < 32, 5, np.where(_T < 64, B, 7)) + B}, also=RACE),
    Case("counting_barrier", 1, 128, (A, zeros(128)), {1: (B > 600).sum() + _T}),
    Case("in_a_function", 1, 128, (A, zeros(128)), {1: B[_T ^ 1] * 3}, also=RACE, unmarked=True),
    Case("guarded_load", 1, 128, (A, zeros(128), 100), {1: np.where(_T < 99, B * 2, -1)}, also=RACE),
    Case("votes_of_a_block", 1, 128, (A, zeros(128)), {1: np.full(128, (B > 998).any())}),
]
