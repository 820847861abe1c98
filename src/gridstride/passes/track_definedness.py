"""Follow undefined bytes through registers: every register that may hold some gets a companion.

A companion has a bit for each byte of its register that nobody wrote (that was copied from memory that nobody wrote, or of a register
that was never assigned), and COMPUTED where
the value was computed from such bytes. It is an ordinary register with ordinary operations, put in before the other
passes, so masks, suspensions and uniformity apply to it as to all others. Copies carry bytes one by one (padding may
be copied about); what counts is where an undefined value decides: a branch, an address, an output.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass

from gridstride.ir.nodes import Arg, Block, Const, Function, Kind, Op, Reg
from gridstride.isa.registry import lookup
from gridstride.isa.types import TYPES
from gridstride.passes.select_mbarrier import MBARRIER
from gridstride.passes.split_webs import liveness

_SHADOW = TYPES["b32"]
_ZERO = Const(0)
_COPIES = {"mov", "cvta", "call"}


def track_definedness(function: Function, trusted: frozenset[int] = frozenset()) -> None:
    """Put companions and their operations into `function`. `trusted`: sites of loads that are known to be defined."""
    _Tracker(function, trusted).run()


@dataclass(frozen=True)
class Use:
    """What depends on a value, and the loads (bits of their sites) that undefined bytes of it may come from; 0: a register."""

    what: str
    origins: int

    @property
    def sites(self) -> list[int]:
        return [k for k in range(self.origins.bit_length()) if self.origins >> k & 1]


class _Tracker:
    def __init__(self, function: Function, trusted: frozenset[int]) -> None:
        self.function = function
        self.trusted = trusted
        self.never = self._never_assigned()
        self.tainted = self._tainted()  # with the loads (bits of their sites) that the bytes may come from
        self.companions: dict[int, int] = {}
        self.out: list[Op] = []

    def _never_assigned(self) -> set[int]:
        """Registers that may be read before anything is assigned to them."""
        for number, block in enumerate(self.function.blocks):
            block.index = number
        alive = liveness(self.function).live_in[0]
        return {register for register in self.function.types if alive >> register & 1}

    def _tainted(self) -> dict[int, int]:
        """Registers that may hold undefined bytes: never assigned, loaded, or made from such."""
        found = dict.fromkeys(self.never, 0)
        changed = True
        while changed:
            changed = False
            for block in self.function.blocks:
                for op in block.ops:
                    sources = [found[a.id] for a in op.args if isinstance(a, Reg) and a.id in found]
                    if self._loads(op):
                        sources.append(1 << op.site)
                    if not sources:
                        continue
                    for r in op.results:
                        if r is not None and found.get(r) != (total := found.get(r, 0) | functools.reduce(operator.or_, sources)):
                            found[r] = total
                            changed = True
        return found

    def _loads(self, op: Op) -> bool:
        if op.info == MBARRIER or (op.site in self.trusted and op.kind is Kind.LOAD):
            return False
        return op.kind in (Kind.LOAD, Kind.ATOMIC) and op.access is not None and op.access.space not in ("param", "const")

    def run(self) -> None:
        for block in self.function.blocks:
            self.out = []
            for op in block.ops:
                before = len(self.out)
                self._visit(op)
                for companion in self.out[before:]:
                    companion.added = companion is not op
            block.ops = self.out
        self._define_at_start()

    def _define_at_start(self) -> None:
        """What is assigned before it is read begins as defined: no path leads from here to a use of it."""
        start = Block(label="definedness")
        move = lookup("mov.b32")
        for register, companion in self.companions.items():
            undefined = (1 << max(1, self.function.types[register].bits // 8)) - 1 if register in self.never else 0
            start.ops.append(Op(Kind.MOVE, move, [companion], [Const(undefined)]))
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
        if isinstance(arg, Reg) and arg.id in self.tainted:
            self._look_at(self.of(arg), Use(what, self.tainted[arg.id]), like)

    def _look_at(self, companion: Arg, use: Use, like: Op) -> None:
        self.out.append(Op(Kind.EFFECT, lookup("shadow.check"), [], [companion], like.line, like.loc, site=like.site, info=use))

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
            elif op.kind is Kind.LOAD:
                self._defined(op)
        self.out.append(op)

    def _defined(self, op: Op) -> None:
        """A load from where everything is defined: its registers may have held something else before."""
        for r in op.results:
            if r is not None and r in self.tainted:
                self.emit("mov.b32", self.companion(r), [_ZERO], op)

    def _memory(self, op: Op) -> None:
        access = op.access
        assert access is not None
        self.check(op.args[0], "address", op)
        if op.info == MBARRIER:  # one that was not initialised stops the kernel by itself
            for value in op.args[1:]:
                self.check(value, "decision", op)
            self.out.append(Op(Kind.EFFECT, lookup("shadow.store"), [], [op.args[0], _ZERO], op.line, op.loc, access=access, site=op.site))
            self._defined(op)
            self.out.append(op)
            return
        if op.kind is Kind.LOAD and op.site in self.trusted:
            self._defined(op)
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
                self.check(value, "output" if op.kind is Kind.STORE else "operand", op)
        if op.kind is Kind.ATOMIC:
            self._update(op, values)
        else:
            shadows = [self.of(v) for v in values]
            self.out.append(Op(Kind.EFFECT, lookup("shadow.store"), [], [op.args[0], *shadows], op.line, op.loc, access=access, site=op.site))
        self.out.append(op)

    def _update(self, op: Op, values: list[Arg]) -> None:
        """An atomic: what it gives is what was there; what it leaves is made from that and its operand."""
        access = op.access
        assert access is not None

        def shadow(form: str, results: list[int | None], args: list[Arg]) -> None:
            self.out.append(Op(Kind.EFFECT, lookup(form), results, args, op.line, op.loc, access=access, site=op.site))

        result = op.results[0] if op.results else None
        only_reads = op.info in ("add", "or", "xor") and values[0] == _ZERO
        overwrites = op.info == "exch" or (op.info == "and" and values[0] == _ZERO)
        changes = not only_reads and not overwrites and op.info != "cas"
        if result is not None or changes:
            old = self.companion(result) if result is not None else self.function.new_register(_SHADOW)
            shadow("shadow.load", [old], op.args[:1])
        if overwrites:
            shadow("shadow.store", [], [op.args[0], self.of(values[0])])
        elif changes:
            if access.space in ("global", "generic"):
                self._look_at(Reg(old), Use("update", 1 << op.site), op)
            left = self.function.new_register(_SHADOW)
            self.emit("shadow.any", left, [Reg(old), self.of(values[0]), _ZERO], op)
            shadow("shadow.update", [], [op.args[0], Reg(left)])

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

