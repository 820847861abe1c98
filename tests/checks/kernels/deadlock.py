"""Launches of deadlock.cu. A T4 has 40 multiprocessors with room for 16 blocks each."""

import numpy as np

from .table import Case, ints, zeros

A = ints(128)
DEVICE = "sim:t4"
MORE = 40 * 16 + 1

CASES = [
    Case("meet_all_blocks", MORE, 64, (zeros(1), zeros(1)), {1: [3]}, repaired_launch={"grid": 40}),
    Case("flag_of_a_later_block", MORE, 64, (zeros(MORE), zeros(1)), {1: [4]}, in_order_only=True, repaired_launch={"grid": 40}),
    Case("lock_is_kept", 8, 32, (zeros(1), A, zeros(1)), {2: (A[:8] > 100).sum()}, also=("race-global",)),
    Case("barrier_count_too_large", 1, 128, (A, zeros(128)), {1: np.concatenate([A[32:64], A[:32], A[64:]])}),
    Case("two_locks", 2, 32, (zeros(2), zeros(1), zeros(1)), {2: [2]}),
    Case("one_too_many", 4, 32, (zeros(1), zeros(4)), {1: np.ones(4)}),
    Case("both_wait_first", 2, 32, (zeros(2), zeros(2)), {1: np.ones(2)}),
    Case("spin_before_the_barrier", 1, 128, (zeros(1), zeros(128)), {1: np.ones(128)}, also=("divergent-barrier",)),
    Case("consumer_without_producer", 1, 64, (zeros(1), A, zeros(1)), {2: [1]}),
    Case("arrive_once_too_few", 1, 128, (A, zeros(128)), {1: np.concatenate([A[:64], np.full(64, 2)])}),
]
