"""Launches of order_dependent.cu: each is run again in other orders."""

import numpy as np

from .table import Case, ints, zeros

A = ints(256)
F = (A / np.float32(7)).astype(np.float32)
D = A / 7 * 10.0 ** (np.arange(256) // 32)
AGAIN = {"schedules": 5, "unmarked": True}
VALUES = {"severity": "warning", **AGAIN}
ROUNDING = {"severity": "note", **AGAIN}


def _in_turn(values):  # type: ignore[no-untyped-def]
    total = values.dtype.type(0)
    for value in values:
        total += value
    return total


CASES = [
    Case("float_sum", 8, 32, (F, zeros(1, np.float32)), {1: _in_turn(F)}, **ROUNDING),
    Case("double_sum", 8, 32, (D, zeros(1, np.float64)), {1: _in_turn(D)}, **ROUNDING),
    Case("compaction", 8, 32, (A, zeros(1), zeros(256)), {1: (A > 500).sum(), 2: A > 500}, **VALUES),
    Case("last_one_wins", 8, 32, (zeros(1),), {0: [8]}, **VALUES),
    Case("first_one_wins", 8, 32, (zeros(1),), {0: [7]}, **VALUES),
    Case("ticket_as_result", 8, 32, (zeros(1), zeros(8)), {1: np.ones(8)}, **VALUES),
    Case("list_order", 8, 32, (np.full(1, -1, np.int32), zeros(8)), {1: np.arange(8) - 1}, **VALUES),
    Case("work_stealing", 8, 32, (zeros(1), zeros(40)), {0: [48], 1: np.arange(40) * 3}, **VALUES),
    Case("bounded_counter", 8, 32, (zeros(1), zeros(8)), {1: np.ones(8)}, **VALUES),
]
