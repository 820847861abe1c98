"""Launches of race_global.cu."""

import numpy as np

from .table import Case, ints, zeros

A = ints(1024)
_T = np.arange(1024)
FLAG = (zeros(1), zeros(2, np.uint32), zeros(1))
TOLD = {2: [42]}

CASES = [
    Case("last_block", 8, 32, (A, zeros(8), zeros(1, np.uint32), zeros(1)), {3: A[:256].sum()}),
    Case("last_block_rides_along", 4, 64, (A, zeros(256), zeros(1, np.uint32), zeros(256)), {3: A[:256] * 2}),
    Case("last_block_cta_fence", 4, 64, (A, zeros(256), zeros(1, np.uint32), zeros(256)), {3: A[:256] * 2}),
    Case("flag_release_gpu", 2, 32, FLAG, TOLD),
    Case("flag_acquire_gpu", 2, 32, FLAG, TOLD),
    Case("flag_scope_cta", 2, 32, FLAG, TOLD),
    Case("flag_within_block", 1, 96, FLAG, TOLD),
    Case("atomic_ref_flag", 2, 32, FLAG, TOLD),
    Case("atomic_ref_block_scope", 2, 32, FLAG, TOLD),
    Case("ticket_lock", 6, 32, (zeros(2, np.uint32), zeros(1)), {1: [21]}),
    Case("spin_lock", 2, 32, (zeros(1), zeros(1)), {1: [63 * 32]}),
    Case("work_queue", 8, 32, (A, zeros(4), zeros(4, np.uint32), zeros(4)), {3: A[:4] * 3 + 1}),
    Case("grid_stride", 4, 32, (A, 500), {0: np.where(_T < 500, A * 3 + 1, A)}),
    Case("stencil_in_place", 4, 64, (A, zeros(256), 256), {1: np.where((_T > 0) & (_T < 255), np.roll(A, 1) + np.roll(A, -1), 0)[:256]}),
    Case("histogram", 4, 64, (A, zeros(16)), {1: np.bincount(A[:256] & 15, minlength=16)}),
    Case("grid_barrier", 4, 64, (A, zeros(256), zeros(1, np.uint32), zeros(256)), {3: A[:256][::-1] + 1}),
    Case("same_value", 4, 64, (A, zeros(1)), {1: [1]}, severity="warning"),
    Case("plain_reads_counter", 4, 64, (zeros(1, np.uint32), zeros(4)), {1: np.ones(4)}),
    Case("half_of_a_word", 2, 32, (zeros(2, np.uint32),), {0: [9 << 16, 5]}),
    Case("overlapping_blocks", 4, 64, (A, zeros(256), 256), {1: A[:256]}),
    Case("within_block", 2, 64, (A, zeros(128), zeros(128)), {2: A[_T[:128] ^ 32]}),
    Case("within_warp", 2, 64, (A, zeros(128), zeros(128)), {2: A[_T[:128] ^ 1]}),
    Case("handed_on", 3, 32, FLAG, {2: [7]}),
    Case("readers_then_writer", 3, 64, (zeros(1), zeros(1, np.uint32), zeros(192)), {0: [9], 2: zeros(192)}),
    Case("eight_readers", 9, 32, (zeros(1), zeros(1, np.uint32), zeros(8)), {0: [9], 2: zeros(8)}),
    Case("two_blocks_read", 3, 32, (zeros(2), zeros(2)), {0: [0, 9]}),
    Case("the_first_reader_writes", 2, 64, (zeros(2), zeros(128)), {0: [0, 9]}),
    Case("readers_of_the_block", 2, 64, (zeros(1), zeros(64)), {0: [9], 1: zeros(64)}),
    Case("three_writers_of_a_word", 4, 32, (zeros(4, np.uint8), zeros(1)), {0: [5, 5, 5, 0]}),
    Case("pixels", 4, 64, (zeros(772, np.uint8), A), {0: np.append(np.repeat(A[:256] & 255, 3), zeros(4))}),
    Case("odd_rows", 4, 64, (zeros(256, np.uint8), 51), {0: np.append(np.tile(_T[:51] + 1, 4), zeros(52))}),
    Case("pairs_of_bytes", 4, 50, (zeros(201, np.uint16), A), {0: np.append(0, A[:200])}),
    Case("neighbour_bytes", 3, 32, (A, zeros(12, np.uint8)), {1: (A[[0, 1, 2, 3, 32, 33, 34, 35, 64, 65, 66, 67]] & 255)}),
    Case("release_before_the_write", 2, 32, FLAG, TOLD),
    Case("another_flag", 2, 32, FLAG, TOLD),
    Case("total_for_the_last_block", 4, 64, (A, zeros(1), zeros(1)), {2: A[:256].sum()}),
]
