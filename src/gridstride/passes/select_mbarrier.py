"""mbarrier instructions as accesses of eight bytes of shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridstride.errors import ParseError
from gridstride.ir.nodes import Access, AddressOf, Arg, Kind, Op
from gridstride.isa.registry import Form
from gridstride.isa.types import TYPES
from gridstride.ptx import nodes as ptx

if TYPE_CHECKING:
    from gridstride.passes.select_operations import Selector

MBARRIER = "mbarrier"  # `Op.info` of these operations


def select_mbarrier(s: Selector, at: ptx.Instruction, form: Form) -> None:
    """`scope`: at which arriving releases and waiting acquires; the block's by default."""
    operands = list(at.operands)
    results = [s.register(operands.pop(0), at)] if form.operation.results else []
    address = operands.pop(0)
    assert isinstance(address, ptx.Address)  # check_operands has seen to it
    space = "shared" if form.one_of("shared", "shared::cta", "shared::cluster") else "generic"
    cluster = "shared::cluster" in form
    if cluster and results and results[0] is not None:
        raise ParseError(f"PTX line {at.line}: `{at.opcode}`: an arrival at another block's mbarrier gives no state; write `_`")
    offset = address.offset
    base: Arg
    if isinstance(address.base, ptx.Symbol):
        found = s.address_of(address.base.name, address.base.offset, at)
        if found.space != "shared":
            raise ParseError(f"PTX line {at.line}: `{at.opcode}` cannot reach `{found.name}`, which is in .{found.space}")
        base, space, offset = AddressOf(found.space, found.name, found.offset + offset), "shared", 0
    else:
        base = s.argument(address.base, at)
    access = Access(space, TYPES["b64"], 1, offset, "weak", form.one_of("cta", "cluster", default="cta"), cluster)
    values = [s.argument(o, at) for o in operands]
    s.emit(Op(Kind.ATOMIC, form, results, [base, *values], at.line, at.loc, access=access, site=s.site(at, space, access.bytes), info=MBARRIER))
