"""Launches of uninitialised.cu."""

import numpy as np

from .table import Blank, Case, ints, zeros

A = ints(256)
W = A[:32]
_T = np.arange(32)
LOCAL = [max((k for k in range(16) if A[k] & 15 == (A[t] & 7) + 8), default=-1) + 1 for t in range(32)]


def _given(*args):  # type: ignore[no-untyped-def]
    return {"args": args}


LAST = np.append(W[1:], W[31])
CASES = [
    Case("global_branch", 1, 32, (Blank(32), zeros(32)), {1: W > 3}, repaired_launch=_given(A, zeros(32))),
    Case("global_address", 1, 32, (Blank(32), A, zeros(32)), {2: A[W % 64]}, repaired_launch=_given(A, A, zeros(32))),
    Case("accumulate", 1, 32, (A, Blank(32)), {1: W}, repaired_launch=_given(A, zeros(32))),
    Case("histogram_without_zeroing", 1, 32, (A, Blank(16)), {1: np.bincount(W & 15, minlength=16)}, repaired_launch=_given(A, zeros(16)), unmarked=True),
    Case("shared_histogram_without_zeroing", 1, 64, (A, zeros(16)), {1: np.bincount(A[:64] & 15, minlength=16) * 2}),
    Case("shared_tail", 1, 64, (A, zeros(1), 50), {1: A[:50].sum()}),
    Case("local_array", 1, 32, (np.arange(32, dtype=np.int32) * 17, zeros(32)), {1: ((_T * 17) & 7) + 9}),
    Case("device_malloc", 1, 32, (A, zeros(32)), {1: np.ones(32)}),
    Case("by_shuffle", 1, 32, (Blank(32), zeros(32)), {1: LAST * 3}, repaired_launch=_given(A, zeros(32))),
    Case("field_of_a_vector", 1, 32, (Blank(128), zeros(32)), {1: _T + 6}),
    Case("hash_of_padding", 1, 32, (Blank(64, np.uint32), zeros(32, np.uint32)), {1: _T * 31 + _T * 5}),
    Case("copied_then_used", 1, 32, (Blank(32), Blank(32), zeros(32)), {2: W[_T ^ 1] > 0}, repaired_launch=_given(A, Blank(32), zeros(32))),
    Case("guard_leaves_a_hole", 1, 64, (A, Blank(50), 50), {1: A[:50]}, unmarked=True),
    Case("one_byte_of_a_word", 1, 32, (Blank(128, np.uint8), zeros(32)), {1: np.ones(32)}),
    Case("scan_reads_ahead", 1, 32, (A, Blank(64), zeros(32)), {2: W + LAST}),
    Case("no_value_on_one_path", 1, 32, (A, zeros(32, np.float32), 64), {1: np.full(32, 2)}),
    Case("scratch_of_assembly", 1, 32, (A, zeros(32)), {1: W + 7}),
    Case("counter_without_zeroing", 1, 32, (A, Blank(1), zeros(32)), {1: [(W > 500).sum()]}, repaired_launch=_given(A, zeros(1), zeros(32))),
]
