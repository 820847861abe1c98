"""How many low bits of each integer register are known to be zero: saves alignment tests."""

from __future__ import annotations

from gridstride.ir.nodes import AddressOf, Arg, Const, Function, Kind, Op, Reg

_ANY = 64


def find_alignments(function: Function, symbol_alignment: dict[str, int]) -> dict[int, int]:
    """Trailing zero bits of every register (0: nothing known). `symbol_alignment` in bytes, of shared variables."""
    known: dict[int, int] = {}

    def zeros(arg: Arg) -> int:
        if isinstance(arg, Const):
            return _trailing_zeros(arg.bits)
        if isinstance(arg, Reg):
            return known.get(arg.id, _ANY)
        if isinstance(arg, AddressOf) and arg.space == "shared":
            return min(_trailing_zeros(symbol_alignment.get(arg.name, 1)), _trailing_zeros(arg.offset))
        return 0

    changed = True
    while changed:
        changed = False
        for block in function.blocks:
            for op in block.ops:
                for k, result in enumerate(op.results):
                    if result is None:
                        continue
                    new = _of(op, k, zeros) if op.guard is None else min(_of(op, k, zeros), known.get(result, _ANY))
                    if new < known.get(result, _ANY):
                        known[result] = new
                        changed = True
    return {register: count for register, count in known.items() if count < _ANY}


def _trailing_zeros(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else _ANY


def _of(op: Op, index: int, zeros: object) -> int:
    assert callable(zeros)
    if index or op.form is None or not op.args:
        return 0
    count = [int(zeros(a)) for a in op.args]
    opcode, form = op.form.operation.opcode, op.form
    if op.kind is Kind.MOVE:
        return count[0] if len(op.args) == 1 and len(op.results) == 1 else 0
    if op.kind is not Kind.COMPUTE or not form.types or form.types[0].kind not in "sub" or "sat" in form or "hi" in form:
        return 0
    if opcode in ("add", "sub", "or", "xor", "min", "max"):
        return min(count[0], count[1])
    if opcode == "and":
        return max(count[0], count[1])
    if opcode == "mul":
        return min(count[0] + count[1], form.types[0].bits * (2 if "wide" in form else 1))
    if opcode == "mad":
        return min(count[0] + count[1], count[2])
    if opcode == "shl":
        amount = op.args[1]
        return count[0] + amount.bits if isinstance(amount, Const) and 0 <= amount.bits < 64 else count[0]
    if opcode in ("cvt", "neg", "cvta", "call"):
        return count[0] if form.types[-1].kind in "sub" else 0
    if opcode == "selp":
        return min(count[0], count[1])
    return 0
