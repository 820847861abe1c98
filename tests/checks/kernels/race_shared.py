"""Launches of race_shared.cu."""

import numpy as np

from .table import Case, ints, zeros

A = ints(1024)
_T = np.arange(1024)


def _rounds(width: int, rounds: int, order: np.ndarray) -> np.ndarray:
    total = np.zeros(width, np.int64)
    for r in range(rounds):
        total = total * 3 + A[r * width : (r + 1) * width][order]
    return total


def _padded(n: int) -> np.ndarray:
    wide = np.concatenate([[0], A[:n], [0]])
    return wide[:-2] + wide[1:-1] + wide[2:]


CASES = [
    Case("halo_tile", 4, 64, (A, zeros(256)), {1: _padded(256)}, also=("uninitialised",)),
    Case("double_buffer", 1, 128, (A, zeros(128), 5), {1: _rounds(128, 5, _T[:128] ^ 64)}),
    Case("producer_consumer", 1, 128, (A, zeros(64), 5), {1: _rounds(64, 5, _T[:64] ^ 63)}),
    Case("named_pairs", 1, 256, (A, zeros(256)), {1: A[_T[:256] ^ 32]}),
    Case("scan_in_place", 1, 128, (A, zeros(128)), {1: np.cumsum(A[:128])}),
    Case("warp_reduction", 1, 32, (A, zeros(1)), {1: A[:32].sum()}),
    Case("halves_of_a_warp", 1, 32, (A, zeros(32)), {1: A[_T[:32] ^ 8]}),
    Case("histogram_zeroing", 1, 256, (A, zeros(64)), {1: np.bincount(A[:256] & 63, minlength=64)}),
    Case("atomic_and_plain", 1, 128, (A, zeros(1)), {1: A[:128].sum()}),
    Case("part_of_a_word", 1, 64, (zeros(2),), {0: [7, 0x20000]}),
    Case("broadcast_flag", 1, 128, (A, zeros(128)), {1: _T[:128]}),
    Case("volatile_exchange", 1, 32, (A, zeros(32)), {1: A[_T[:32] ^ 1]}, severity="warning"),
    Case("same_value", 1, 128, (A, zeros(1)), {1: [1]}, severity="warning"),
    Case("other_values", 1, 128, (A, zeros(1)), {1: A[:128].max()}),
    Case("group_tile", 1, 64, (A, zeros(64)), {1: A[(_T[:64] & ~7) + 7 - _T[:64] % 8]}),
    Case("transpose_tile", 1, (16, 16), (A, zeros(256)), {1: A[:256].reshape(16, 16).T.ravel()}),
    Case("first_byte_of_four", 1, 256, (A, zeros(256)), {1: A[(_T[:256] & ~3) ^ 128] & 255}),
    Case("first_byte_read_later", 1, 256, (A, zeros(128)), {1: A[_T[:128] & ~3] & 255}, also=("uninitialised",)),
    Case("tile_reuse", 1, 128, (A, zeros(128), 4), {1: _rounds(128, 4, 127 - _T[:128])}),
    Case("readers_then_writer", 1, 128, (A, zeros(128)), {1: np.full(128, A[0] + A[1])}),
    Case("three_writers_of_a_word", 1, 128, (A, zeros(1)), {1: [A[0] & 255]}, also=("uninitialised",)),
    Case("two_writers_of_a_word", 1, 32, (A, zeros(1)), {1: [A[5]]}),
    Case("eight_readers", 1, 288, (zeros(288),), {0: np.where(_T[:288] < 32, 0, 7)}),
    Case("readers_of_a_tile", 1, 32, (A, zeros(32)), {1: A[_T[:32] & ~7] * 2 + 1}),
    Case("readers_on_both_sides", 1, 64, (A, zeros(2)), {1: [A[0], A[0]]}),
    Case("bytes_in_place", 1, 100, (A, zeros(100)), {1: A[:100] + 1 & 255}, also=("uninitialised",)),
    Case("transpose_bytes", 1, 256, (A, zeros(256)), {1: A[:256].reshape(32, 8).T.ravel() & 255}, also=("uninitialised",)),
    Case("vector_overlap", 1, 128, (A, zeros(128)), {1: A[:128]}),
    Case("total_for_the_last_thread", 1, 128, (A, zeros(1)), {1: [A[:128].sum()]}),
    Case("one_thread_takes_all", 1, 64, (A, zeros(60)), {1: A[1:61]}),
]
