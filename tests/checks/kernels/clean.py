"""Launches of clean.cu: correct kernels only."""

import numpy as np

from .table import Blank, Case, ints, zeros

A = ints(512)
_T = np.arange(512)
OK = {"severity": "none"}
SAME = [int((A[:32][: t + 1] > 300).sum()) if A[t] > 300 else 0 for t in range(32)]
TURNS = np.zeros(64, np.int64)
for _r in range(4):
    TURNS = TURNS * 3 + A[_r * 64 : _r * 64 + 64][::-1]
F = ints(64).astype(np.float32)
LATER = [max((k for k in range(64) if A[k] == A[t] + 1), default=-1) for t in range(32)]
PLACES = [-1 if k < 0 else 2 * k + (k > 9) for k in LATER]
VOTES = np.array([int((A[t // 32 * 32 : min(t // 32 * 32 + 32, 50)] > 990).any()) + 2 * int(A[t] > 500) if t < 50 else 0 for t in range(64)])


def _sums_of_warps() -> np.ndarray:
    """What the last round of `atomics_of_a_warp` reads."""
    total = np.zeros(4, np.int64)
    shared = np.zeros(4, np.int64)
    for k in range(3):
        added = A[k : 128 + k].reshape(4, 32).sum(axis=1)
        total += added
        shared = np.maximum(shared + added, 1)
        read = shared + total
        shared += 1
    return np.repeat(read, 32)


def _sums_of_blocks() -> list[int]:
    found = []
    for part in A[:192].reshape(2, 96):
        total = 0
        for k in range(3):
            total += int(part.sum()) + 96 * k
            read = total
            total *= 2
        found.append(read)
    return found


CASES = [
    Case("struct_copied_with_padding", 1, 32, (Blank(64), Blank(64), zeros(32)), {2: _T[:32] * 4}, **OK),
    Case("vector_load_of_three", 1, 32, (Blank(128), zeros(32)), {1: _T[:32] + 3}, **OK),
    Case("copies_of_nothing", 1, 32, (Blank(32), Blank(64), zeros(32)), {2: _T[:32]}, **OK),
    Case("undefined_but_not_chosen", 1, 32, (A, zeros(32), 20), {1: np.where(_T[:32] < 20, A[:32], -1)}, **OK),
    Case("bytes_of_one_word", 2, 128, (A, zeros(256, np.uint8)), {1: (np.tile(A[:128], 2) + 1) & 255}, **OK),
    Case("votes_after_early_return", 1, 64, (A, zeros(64), 50), {1: VOTES}, **OK),
    Case("partial_warp_full_mask", 1, 40, (A, zeros(40)), {1: A[_T[:40] ^ 1] + 1}, **OK),
    Case("early_return_of_whole_warps", 1, 128, (A, zeros(128), 64), {1: np.concatenate([A[:64][::-1], zeros(64)])}, **OK),
    Case("coalesced_group_sum", 1, 32, (A, zeros(32)), {1: SAME}, **OK),
    Case("tile_shuffles", 1, 64, (A, zeros(64)), {1: np.repeat(A[:64].reshape(16, 4).sum(axis=1), 4)}, **OK),
    Case("grid_meets", 4, 64, (A, zeros(256), zeros(256)), {2: A[:256][::-1]}, cooperative=True, **OK),
    Case("producer_by_barrier_id", 1, 128, (A, zeros(64)), {1: TURNS}, **OK),
    Case("relaxed_counters", 4, 32, (zeros(1, np.uint32), zeros(128, np.uint32)), {0: [128], 1: np.ones(128)}, **OK),
    Case("acq_rel_lock", 6, 32, (zeros(1), zeros(1)), {1: [21]}, **OK),
    Case("one_acquires_all_read", 3, 64, (zeros(64), zeros(1, np.uint32), zeros(128)), {2: np.tile(np.arange(64)[::-1] * 5, 2)}, **OK),
    Case("divergent_loop_then_barrier", 1, 64, (A, zeros(64)), {1: [sum(range(A[63 - t] % 7)) for t in range(64)]}, **OK),
    Case("barrier_in_uniform_loop", 1, 64, (A, zeros(64), 3), {1: A[_T[:64] ^ 33] * 3 + 3}, **OK),
    Case("masked_shuffle_in_branch", 1, 32, (A, zeros(32), 20), {1: np.where(_T[:32] < 20, A[(_T[:32] + 1) % 20], 0)}, **OK),
    Case("stack_array_in_full", 1, 64, (A, zeros(64)), {1: A[A[:64] & 15] + _T[:64]}, **OK),
    Case("past_the_view_of_nobody", 3, 64, (A, zeros(500), 500), {1: A[:500][::-1]}, **OK),
    Case("warp_sum_by_redux", 1, 64, (A, zeros(2)), {1: A[:64].reshape(2, 32).sum(axis=1)}, **OK),
    Case("match_leaders", 1, 64, (A, zeros(8)), {1: np.bincount(A[:64] & 7, minlength=8)}, **OK),
    Case("defined_byte_beside_a_computed_one", 1, 32, (zeros(32),), {0: _T[:32]}, **OK),
    Case("vote_after_a_store_and_return", 1, 64, (A, zeros(64), 50), {1: np.where(_T[:64] < 50, 1, 7)}, **OK),
    Case("vote_without_lanes_that_may_return", 1, 32, (A, zeros(32), 1), {1: np.where(_T[:32] < 20, (A[:20] & 1).sum(), 0)}, **OK),
    Case("ballots_until_lanes_return", 1, 32, (A, zeros(32)), {1: -(_T[:32] // 12)}, **OK),
    Case("a_reduction_in_each_arm", 1, 32, (A, zeros(32)), {1: np.where(_T[:32] < 16, A[:16].sum(), A[16:32].max())}, **OK),
    Case("syncwarp_in_each_arm", 1, 32, (A, zeros(32)), {1: np.where(_T[:32] < 16, A[(_T[:32] + 16) % 32], A[:32] // 3) + 1}, **OK),
    Case("a_value_where_it_is_used", 1, 32, (A, zeros(32), 64), {1: PLACES}, **OK),
    Case("first_round_begins", 1, 32, (F, zeros(32, np.float32), 5), {1: np.array([F[t : t + 5].max() for t in range(32)])}, **OK),
    Case("three_of_four_are_set", 1, 32, (F, Blank(128, np.float32), zeros(32, np.float32)), {2: F[_T[:32] ^ 1] * 3 + 1}, **OK),
    Case("atomics_that_overwrite", 1, 32, (A, Blank(32), zeros(32)), {2: np.where(_T[:32] % 2, A[:32], 0) + 1}, **OK),
    Case("atomics_of_a_warp", 1, 128, (A, zeros(4), zeros(128)), {2: _sums_of_warps()}, **OK),
    Case("atomics_of_a_block", 2, 96, (A, zeros(2), zeros(192)), {2: np.repeat(_sums_of_blocks(), 96)}, **OK),
]
