"""The thread's stack (PTX ISA 9.7.17). The selector turns these into sums on a register: passes/select_stack.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridstride.isa.registry import Effect, operation

if TYPE_CHECKING:
    from gridstride.ir.nodes import Op
    from gridstride.lower.emitter import Emitter


def _selected(e: Emitter, op: Op) -> None:
    raise AssertionError("the selector turns these into other operations")


operation("alloca", types="u64", operands="0 = 0 imm?", section="9.7.17.3", effects=Effect.VARIES)(_selected)
operation("stacksave", types="u64", operands="0 =", section="9.7.17.1", effects=Effect.VARIES)(_selected)
operation("stackrestore", types="u64", operands="= 0", section="9.7.17.2", effects=Effect.VARIES)(_selected)
