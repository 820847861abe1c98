"""Plain meanings of the address instructions on raw bits."""

from __future__ import annotations

from gridstride.isa.registry import Form
from gridstride.isa.windows import LOCAL_WINDOW, SHARED_WINDOW


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
    return int(a >> 56 == _window(form) >> 56)
