"""alloca, stacksave, stackrestore: a register that says where the free part of the thread's stack begins (PTX ISA 9.7.17).

The stack lies in local memory after the depots, grows upwards, and a function gives back at its end what it took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridstride.errors import ParseError
from gridstride.ir.nodes import AddressOf, Arg, Const, Kind, Op, Reg
from gridstride.isa.registry import lookup
from gridstride.isa.types import TYPES
from gridstride.ptx import nodes as ptx

if TYPE_CHECKING:
    from gridstride.passes.select_operations import Selector

STACK_BYTES = 4096  # of one thread, for all its alloca
_NAME = "%stack"
_ALIGN = 16


def takes_stack(function: ptx.Function) -> bool:
    return any(i.opcode.startswith("alloca") for i in function.body)


def stack_pointer(s: Selector) -> int:
    """The register with the local address of the first free byte; made, and set at the kernel's start, on first use."""
    if s.stack is None:
        s.stack = s.function.new_register(TYPES["b64"], _NAME)
        s.place_local(_NAME, ptx.Variable(_NAME, "local", TYPES["b8"], _ALIGN, STACK_BYTES, 0))
        first = Op(Kind.MOVE, lookup("mov.u64"), [s.stack], [AddressOf("local", _NAME)])
        s.function.blocks[0].ops.insert(0, first)
    return s.stack


def select_stack(s: Selector, at: ptx.Instruction, head: str) -> None:
    top = stack_pointer(s)

    def compute(opcode: str, result: int | None, *arguments: Arg) -> None:
        s.emit(Op(Kind.COMPUTE, lookup(opcode), [result], list(arguments), at.line, at.loc))

    def move(result: int | None, argument: Arg) -> None:
        s.emit(Op(Kind.MOVE, lookup("mov.u64"), [result], [argument], at.line, at.loc))

    if head == "stacksave":
        move(s.register(at.operands[0], at), Reg(top))
        return
    if head == "stackrestore":
        move(top, s.argument(at.operands[0], at))
        return
    if not 2 <= len(at.operands) <= 3:
        raise ParseError(f"PTX line {at.line}: `{at.opcode}` takes a destination, a size and an alignment")
    align = at.operands[2].value if len(at.operands) == 3 and isinstance(at.operands[2], ptx.Immediate) else 8
    if align <= 0 or align & (align - 1):
        raise ParseError(f"PTX line {at.line}: `{at.opcode}`: {align} is no alignment")
    size, place = s.argument(at.operands[1], at), s.function.new_register(TYPES["b64"])
    compute("add.u64", place, Reg(top), Const(align - 1))
    compute("and.b64", place, Reg(place), Const(-align))
    compute("add.u64", top, Reg(place), size)
    move(s.register(at.operands[0], at), Reg(place))
