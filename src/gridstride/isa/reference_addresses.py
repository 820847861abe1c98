"""Plain meanings of the address instructions on raw bits."""

from __future__ import annotations

from gridstride.isa.registry import Form
from gridstride.isa.windows import HIGHEST_RANK, LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW

_HALF = 1 << RANK_SHIFT - 1


def copy(form: Form, a: int) -> int:
    return a


def _window(form: Form) -> int:
    if any(m.startswith("shared") for m in form.modifiers):
        return SHARED_WINDOW
    return LOCAL_WINDOW if "local" in form else 0


def cvta(form: Form, a: int) -> int:
    return (a - _window(form) if "to" in form else a + _window(form)) % 2**64


def isspacep(form: Form, a: int) -> int:
    if "const" in form or any(m.startswith("param") for m in form.modifiers):
        return 0
    if form.one_of("shared", "shared::cta"):
        return int(SHARED_WINDOW <= a < SHARED_WINDOW + (1 << RANK_SHIFT))
    return int(a >> 56 == _window(form) >> 56)


def _low(form: Form, address: int) -> tuple[int, int]:
    """What stands above 32 bits of an address, and the rest of it moved so that its top byte is the rank."""
    above = address >> 32 << 32 if form.type.bits == 64 else 0
    return above, (address - above + _HALF) % 2**32


def mapa(form: Form, a: int, rank: int, own: int) -> int:
    above, moved = _low(form, a)
    offset = moved % (1 << RANK_SHIFT) - _HALF
    field = 0 if rank == own else min(rank, HIGHEST_RANK) + 1
    return (above + offset + (field << RANK_SHIFT)) % (1 << form.type.bits)


def getctarank(form: Form, a: int, own: int) -> int:
    field = _low(form, a)[1] >> RANK_SHIFT
    return field - 1 if field else own
