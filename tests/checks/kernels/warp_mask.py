"""Launches of warp_mask.cu."""

import numpy as np

from .table import Case, ints, zeros

A = ints(256)
W = A[:32]
_T = np.arange(32)


def _sums(n: int) -> np.ndarray:
    kept = np.where(np.arange(64) < n, A[:64], 0)
    return kept.reshape(2, 32).sum(axis=1)


def _partial() -> np.ndarray:
    t = np.arange(48)
    return A[:48] + np.where(t % 16 < 8, A[np.minimum(t + 8, 47)], A[:48])


def _three() -> np.ndarray:
    v = W.astype(np.int64)
    for _ in range(3):
        v = v + v[_T ^ 3]
    return v


def _turns() -> np.ndarray:
    v = W.astype(np.int64)
    for k in range(4):
        v = v[(_T + 1) % 32] + k
    return v


def _rounds() -> np.ndarray:
    v, rounds = W.copy(), zeros(32)
    while (v > 60).any():
        rounds, v = rounds + (v > 60), np.where(v > 60, v // 2, v)
    return rounds


def _nested() -> tuple[np.ndarray, np.ndarray]:
    both = (W & 3) == 3
    alike = np.array([sum(both[j] and W[j] >> 6 == W[k] >> 6 for j in range(32)) for k in range(32)])
    w = np.where(both, alike, np.where(W & 1, W * 3, 1))
    return w, np.where(W & 1, w + 2, 0)


ODD = [sum(int(A[j] & 1) for j in range(k // 32 * 32, min(k // 32 * 32 + 32, 40))) for k in range(40)]
PUT = np.concatenate([A[:40] + ODD, np.arange(40, 64)])
ARMS = np.where(_T < 12, (A[:12] > 990).any(), W // 2)
BALLOT = sum(1 << k for k in range(20) if W[k] > 500)
MATCH = [sum(1 << j for j in range(24) if W[j] & 3 == W[k] & 3) if k < 24 else 0 for k in range(32)]

CASES = [
    Case("early_return", 1, 64, (A, zeros(2), 50), {1: _sums(50)}),
    Case("in_a_branch", 1, 32, (A, zeros(32)), {1: W + np.where(_T < 16, W[_T ^ 1], 0)}),
    Case("reads_outside_the_mask", 1, 32, (A, zeros(32)), {1: np.where(_T < 8, W[(_T + 4) % 8], W)}),
    Case("partial_warp", 1, 48, (A, zeros(48)), {1: _partial()}),
    Case("trip_counts", 1, 32, (A, zeros(32)), {1: _three()}),
    Case("caller_not_named", 1, 32, (A, zeros(32)), {1: np.where(_T < 12, W[0], W)}),
    Case("exchange_with_the_other_half", 1, 32, (A, zeros(32)), {1: np.where(_T & 16, W[_T ^ 16], W)}),
    Case("ballot_in_a_branch", 1, 32, (A, zeros(32)), {1: W + np.where(_T < 20, BALLOT, 0)}),
    Case("syncwarp_in_a_branch", 1, 32, (A, zeros(32)), {1: np.where(_T < 16, W + W // 2, W) + 3}),
    Case("reduction_in_a_branch", 1, 32, (A, zeros(32)), {1: np.where(_T >= 8, W[8:].sum(), 0) + 1}),
    Case("match_in_a_branch", 1, 32, (A, zeros(32)), {1: MATCH}),
    Case("stale_ballot", 1, 32, (A, zeros(32), 20), {1: np.where(_T < 20, W[19], W)}),
    Case("vote_in_one_arm", 1, 32, (A, zeros(4)), {1: ARMS.reshape(8, 4).sum(axis=0)}),
    Case("syncwarp_in_one_arm", 1, 32, (A, zeros(32)), {1: np.where(_T < 20, W[np.maximum(19 - _T, 0)], W & 7) + 5}),
    Case("meets_the_block_instead", 1, 64, (A, zeros(64)), {1: PUT[::-1]}, also=("deadlock",)),
    Case("in_a_nested_branch", 1, 32, (A, zeros(64)), {1: np.concatenate(_nested())}),
    Case("leaves_the_loop", 1, 32, (A, zeros(32)), {1: _rounds()}),
    Case("waits_at_a_barrier", 1, 32, (A, zeros(32)), {1: np.where(_T < 16, (A[:16] < 1000).all(), 0)}),
    Case("exit_in_a_loop", 1, 32, (A, zeros(32)), {1: _turns()}),
]
