"""Follow undefined bytes through registers: every register that may hold some gets a companion.

A companion has a bit for each byte of its register that was copied from memory that nobody wrote, and COMPUTED where
the value was computed from such bytes. It is an ordinary register with ordinary operations, put in before the other
passes, so masks, suspensions and uniformity apply to it as to all others. Copies carry bytes one by one (padding may
be copied about); what counts is where an undefined value decides: a branch, an address, an output.
"""

from __future__ import annotations

from gridstride.ir.nodes import Arg, Block, Const, Function, Kind, Op, Reg
from gridstride.isa.registry import lookup
from gridstride.isa.types import TYPES

_SHADOW = TYPES["b32"]
_ZERO = Const(0)
_COPIES = {"mov", "cvta", "call"}


def track_definedness(function: Function, trusted: frozenset[int] = frozenset()) -> None:
    """Put companions and their operations into `function`. `trusted`: sites of loads that are known to be defined."""
    _Tracker(function, trusted).run()


class _Tracker:
    def __init__(self, function: Function, trusted: frozenset[int]) -> None:
        self.function = function
        self.trusted = trusted
        self.tainted = self._tainted()
        self.companions: dict[int, int] = {}
        self.out: list[Op] = []

    def _tainted(self) -> set[int]:
        """Registers that may hold undefined bytes: loaded, or made from such."""
        found: set[int] = set()
        changed = True
        while changed:
            changed = False
            for block in self.function.blocks:
                for op in block.ops:
                    if self._loads(op) or any(isinstance(a, Reg) and a.id in found for a in op.args):
                        new = {r for r in op.results if r is not None} - found
                        if new:
                            found |= new
                            changed = True
        return found

    def _loads(self, op: Op) -> bool:
        if op.site in self.trusted and op.kind is Kind.LOAD:
            return False
        return op.kind in (Kind.LOAD, Kind.ATOMIC) and op.access is not None and op.access.space not in ("param", "const")

    def run(self) -> None:
        for block in self.function.blocks:
            self.out = []
            for op in block.ops:
                self._visit(op)
            block.ops = self.out
        self._define_at_start()

    def _define_at_start(self) -> None:
        """Companions begin as defined: a register that is read before it is assigned is zero here."""
        start = Block(label="definedness")
        move = lookup("mov.b32")
        start.ops = [Op(Kind.MOVE, move, [s], [_ZERO]) for s in self.companions.values()]
        start.ops.append(Op(Kind.JUMP, None, [], []))
        start.targets = [self.function.blocks[0]]
        self.function.blocks.insert(0, start)

    def companion(self, register: int) -> int:
        if register not in self.companions:
            self.companions[register] = self.function.new_register(_SHADOW, f"{self.function.names[register]}'")
        return self.companions[register]

    def of(self, arg: Arg) -> Arg:
        return Reg(self.companion(arg.id)) if isinstance(arg, Reg) and arg.id in self.tainted else _ZERO

    def may(self, arg: Arg) -> bool:
        return isinstance(arg, Reg) and arg.id in self.tainted

    def emit(self, form: str, result: int, args: list[Arg], like: Op) -> None:
        self.out.append(Op(Kind.COMPUTE, lookup(form), [result], args, like.line, like.loc, guard=like.guard))

    def check(self, arg: Arg, what: str, like: Op) -> None:
        if self.may(arg):
            self.out.append(Op(Kind.EFFECT, lookup("shadow.check"), [], [self.of(arg)], like.line, like.loc, site=like.site, info=what))

    # ---- operations ------------------------------------------------------------------------------------------

    def _visit(self, op: Op) -> None:
        if op.kind is Kind.BRANCH:
            self.check(op.args[0], "branch", op)
        elif op.access is not None and op.access.space not in ("param", "const"):
            self._memory(op)
            return
        elif any(r in self.tainted for r in op.results if r is not None):
            if op.kind is Kind.MOVE:
                self._move(op)
            elif op.kind is Kind.COMPUTE:
                self._compute(op)
            elif op.kind is Kind.EFFECT:
                self._effect(op)
        self.out.append(op)

    def _memory(self, op: Op) -> None:
        access = op.access
        assert access is not None
        self.check(op.args[0], "address", op)
        if op.kind is Kind.LOAD and op.site in self.trusted:
            self.out.append(op)
            return
        if op.kind is Kind.LOAD:
            results: list[int | None] = [None if r is None else self.companion(r) for r in op.results]
            self.out.append(Op(Kind.EFFECT, lookup("shadow.load"), results, op.args[:1], op.line, op.loc, access=access, site=op.site))
            self.out.append(op)
            return
        values = op.args[1:]
        if access.space in ("global", "generic"):
            for value in values:
                self.check(value, "output" if op.kind is Kind.STORE else "update", op)
        if op.kind is Kind.ATOMIC:
            if op.results and op.results[0] is not None:
                self.out.append(Op(Kind.EFFECT, lookup("shadow.load"), [self.companion(op.results[0])], op.args[:1], op.line, op.loc, access=access, site=op.site))
            if op.info == "exch":
                self.out.append(Op(Kind.EFFECT, lookup("shadow.store"), [], [op.args[0], self.of(values[0])], op.line, op.loc, access=access, site=op.site))
        else:
            shadows = [self.of(v) for v in values]
            self.out.append(Op(Kind.EFFECT, lookup("shadow.store"), [], [op.args[0], *shadows], op.line, op.loc, access=access, site=op.site))
        self.out.append(op)

    def _move(self, op: Op) -> None:
        assert op.form is not None
        size = op.form.types[0].bits // 8
        results = [r for r in op.results if r is not None]
        if len(op.args) == 1 and len(op.results) == 1:
            self.emit("mov.b32", self.companion(results[0]), [self.of(op.args[0])], op)
            return
        if len(op.results) == 1:
            piece = size // len(op.args)
            target = self.companion(results[0])
            total: Arg = _ZERO
            for k, arg in enumerate(op.args):
                part = self.function.new_register(_SHADOW)
                self.emit("shadow.place", part, [self.of(arg), Const(k * piece), Const(piece)], op)
                joined = self.function.new_register(_SHADOW)
                self.emit("or.b32", joined, [total, Reg(part)], op)
                total = Reg(joined)
            self.emit("mov.b32", target, [total], op)
            return
        piece = size // len(op.results)
        for k, result in enumerate(op.results):
            if result is not None:
                self.emit("shadow.take", self.companion(result), [self.of(op.args[0]), Const(k * piece), Const(piece)], op)

    def _compute(self, op: Op) -> None:
        assert op.form is not None
        entry, form = op.form.operation, op.form
        opcode = entry.opcode
        result = op.results[0]
        if result is not None and result in self.tainted:
            target = self.companion(result)
            if opcode in _COPIES:
                self.emit("mov.b32", target, [self.of(op.args[0])], op)
            elif opcode == "selp":
                self._select(op, target)
            elif opcode in ("and", "or") and form.types[0].kind == "p":
                self.emit(f"shadow.{opcode}", target, [self.of(op.args[0]), self.of(op.args[1]), *op.args], op)
            elif opcode in ("or", "xor", "and", "not") and form.types[0].bits >= 16:
                self._bitwise(op, target)
            elif opcode in ("shl", "shr") and isinstance(op.args[1], Const) and op.args[1].bits % 8 == 0 and op.args[1].bits < form.types[0].bits:
                step, width = op.args[1].bits // 8, form.types[0].bits // 8
                take = ("shadow.place", [self.of(op.args[0]), Const(step), Const(width - step)])
                if opcode == "shr":
                    take = ("shadow.take", [self.of(op.args[0]), Const(step), Const(width - step)])
                self.emit(take[0], target, take[1], op)
            elif opcode == "cvt" and all(t.kind in "sub" for t in form.types):
                width = min(t.bits for t in form.types) // 8
                self.emit("shadow.take", target, [self.of(op.args[0]), _ZERO, Const(width)], op)
            elif opcode == "prmt" and isinstance(op.args[2], Const) and not form.modifiers:
                self.emit("shadow.permute", target, [self.of(op.args[0]), self.of(op.args[1]), op.args[2]], op)
            elif opcode == "bfe" and isinstance(op.args[1], Const) and isinstance(op.args[2], Const):
                first, last = op.args[1].bits // 8, (op.args[1].bits + max(op.args[2].bits, 1) - 1) // 8
                part = self.function.new_register(_SHADOW)
                self.emit("shadow.take", part, [self.of(op.args[0]), Const(first), Const(last - first + 1)], op)
                self.emit("shadow.any", target, [Reg(part), _ZERO, _ZERO], op)
            else:
                self._any(op, target)
        for other in op.results[1:]:
            if other is not None and other in self.tainted:
                self._any(op, self.companion(other))

    def _any(self, op: Op, target: int) -> None:
        """Computed from undefined bytes if any argument has some."""
        sources = [self.of(a) for a in op.args if self.may(a)]
        while len(sources) > 3:
            joined = self.function.new_register(_SHADOW)
            self.emit("or.b32", joined, sources[:2], op)
            sources[:2] = [Reg(joined)]
        sources += [_ZERO] * (3 - len(sources))
        self.emit("shadow.any", target, sources, op)

    def _select(self, op: Op, target: int) -> None:
        chosen = self.function.new_register(_SHADOW)
        self.emit("selp.b32", chosen, [self.of(op.args[0]), self.of(op.args[1]), op.args[2]], op)
        if not self.may(op.args[2]):
            self.emit("mov.b32", target, [Reg(chosen)], op)
            return
        decided = self.function.new_register(_SHADOW)
        self.emit("shadow.any", decided, [self.of(op.args[2]), _ZERO, _ZERO], op)
        self.emit("or.b32", target, [Reg(chosen), Reg(decided)], op)

    def _bitwise(self, op: Op, target: int) -> None:
        """Byte by byte; a byte that is cut off by a constant mask is defined."""
        assert op.form is not None
        constants = [a for a in op.args if isinstance(a, Const)]
        total: Arg = _ZERO
        for arg in op.args:
            joined = self.function.new_register(_SHADOW)
            self.emit("or.b32", joined, [total, self.of(arg)], op)
            total = Reg(joined)
        if op.form.operation.opcode == "and" and constants:
            value = constants[0].bits & ((1 << op.form.types[0].bits) - 1)
            kept = sum(1 << k for k in range(op.form.types[0].bits // 8) if value >> 8 * k & 0xFF)
            self.emit("shadow.keep", target, [total, Const(kept)], op)
        else:
            self.emit("mov.b32", target, [total], op)

    def _effect(self, op: Op) -> None:
        assert op.form is not None
        if op.form.operation.opcode == "shfl":
            first = op.results[0]
            if first is not None and first in self.tainted:
                copy = Op(Kind.EFFECT, op.form, [self.companion(first), None], [self.of(op.args[0]), *op.args[1:]], op.line, op.loc, site=op.site, info="shadow")
                self.out.append(copy)
            for other in op.results[1:]:
                if other is not None and other in self.tainted:
                    self._any(Op(op.kind, op.form, [], op.args[1:], op.line, op.loc), self.companion(other))
            return
        for result in op.results:
            if result is not None and result in self.tainted:
                self._any(op, self.companion(result))

