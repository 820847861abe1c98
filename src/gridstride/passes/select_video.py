"""Operands of video instructions: parts of registers and signs become constants behind the operands (isa/video.py)."""

from __future__ import annotations

import re
from collections.abc import Callable

from gridstride.errors import ParseError
from gridstride.ir.nodes import Arg, Const, Kind, Missing, Op
from gridstride.isa.registry import Form
from gridstride.isa.video import selector
from gridstride.ptx import nodes as ptx

_PART = re.compile(r"(?:b[0-3]{1,4}|b[0-7]{4}|h[01]|h[0-3]{2})$")


def select_video(
    at: ptx.Instruction,
    form: Form,
    register: Callable[[ptx.Operand | None, ptx.Instruction], int | None],
    argument: Callable[[ptx.Operand, ptx.Instruction], Arg],
) -> Op:
    """The operation of a video instruction; `register` and `argument` resolve plain operands."""
    if len(at.operands) not in (3, 4):
        raise ParseError(f"PTX line {at.line}: `{at.opcode}` takes a destination and two or three operands")
    plain: list[ptx.Operand] = []
    parts: list[Arg] = []
    minus: list[bool] = []
    for operand in at.operands:
        part = operand if isinstance(operand, ptx.Part) else None
        plain.append(part.register if part else operand)
        parts.append(_part(part.part, at) if part and part.part else Missing())
        minus.append(part is not None and part.negative)
    last = parts[0]
    if form.operation.opcode == "vmad":
        last = Const((minus[1] != minus[2]) + 2 * (len(minus) == 4 and minus[3]))
    elif any(minus):
        raise ParseError(f"PTX line {at.line}: `{at.opcode}` takes no minus before an operand")
    third = argument(plain[3], at) if len(plain) == 4 else Missing()
    arguments = [argument(plain[1], at), argument(plain[2], at), third, parts[1], parts[2], last]
    return Op(Kind.COMPUTE, form, [register(plain[0], at)], arguments, at.line, at.loc)


def _part(text: str, at: ptx.Instruction) -> Const:
    if not _PART.match(text):
        raise ParseError(f"PTX line {at.line}: `.{text}` is no part of a register: write .b0 to .b3, .h0, .h1, or one digit for each part")
    return Const(selector(text))
