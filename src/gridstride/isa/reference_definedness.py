"""Plain meanings of the operations on companions: bit k says that byte k is undefined, COMPUTED that all of it is
computed from undefined bytes."""

from __future__ import annotations

from gridstride.isa.registry import Form

BYTES = 0xFFFF
COMPUTED = 1 << 16


def _computed_too(taken: int, source: int) -> int:
    return taken | source & COMPUTED if taken else 0


def any_of(form: Form, a: int, b: int, c: int) -> int:
    return COMPUTED | BYTES if a or b or c else 0


def place(form: Form, a: int, start: int, count: int) -> int:
    return _computed_too((a & ((1 << count) - 1)) << start & BYTES, a)


def take(form: Form, a: int, start: int, count: int) -> int:
    return _computed_too((a & BYTES) >> start & ((1 << count) - 1), a)


def keep(form: Form, a: int, kept: int) -> int:
    return _computed_too(a & kept & BYTES, a)


def permute(form: Form, a: int, b: int, selector: int) -> int:
    joined = a & 15 | (b & 15) << 4
    return _computed_too(sum((joined >> (selector >> 4 * k & 7) & 1) << k for k in range(4)), a | b)


def logic_and(form: Form, a_shadow: int, b_shadow: int, a: int, b: int) -> int:
    bad = (a_shadow and b_shadow) or (a_shadow and b) or (b_shadow and a)
    return COMPUTED | BYTES if bad else 0


def logic_or(form: Form, a_shadow: int, b_shadow: int, a: int, b: int) -> int:
    bad = (a_shadow and b_shadow) or (a_shadow and not b) or (b_shadow and not a)
    return COMPUTED | BYTES if bad else 0
