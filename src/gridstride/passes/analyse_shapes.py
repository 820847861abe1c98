"""How each register varies over the lanes of a warp, and where lanes part.

Shapes, from cheap to dear:
  uniform   one scalar
  affine    base + step * (lane % w) + row * (lane // w), where w is the warp's row width (32: one row); `step` is
            known now, `row` is a scalar of the run
  wide      a 64-bit address: start + scale * extend(32-bit affine or varying value). Kept apart because the
            extension is exact only while the 32-bit sum does not wrap, which is tested where it is used
  varying   one value a lane

Divergence follows the usual rule (sync dependence): where the paths from a branch whose predicate is not uniform
meet again, registers that were assigned on the way differ between lanes; what is assigned in a loop that lanes
leave at different times differs after it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstride.ir.graph import Loop, immediate_postdominators
from gridstride.ir.nodes import AddressOf, Arg, Block, Const, Function, Kind, Op, Reg, SpecialRegister
from gridstride.isa.special_registers import SPECIAL_REGISTERS
from gridstride.isa.types import ScalarType
from gridstride.passes.split_webs import Liveness, Webs

MAX_SCALE = 1 << 20
MAX_STEP = 1 << 40  # the step of an affine value: 32 of them stay far from wrapping 64 bits


@dataclass(frozen=True, slots=True)
class Shape:
    kind: str  # "uniform", "affine", "wide", "varying"
    step: int = 0
    row: bool = False
    scale: int = 1
    signed: bool = True
    inner: Shape | None = None


UNIFORM = Shape("uniform")
VARYING = Shape("varying")


def affine(step: int, row: bool) -> Shape:
    if abs(step) > MAX_STEP:
        return VARYING
    return UNIFORM if step == 0 and not row else Shape("affine", step, row)


def join(a: Shape | None, b: Shape | None) -> Shape | None:
    """The shape that holds both; None is bottom."""
    if a is None or a == b:
        return b
    if b is None:
        return a
    if a.kind == b.kind == "affine" and a.step == b.step:
        return Shape("affine", a.step, True)
    if a.kind == b.kind == "wide" and (a.scale, a.signed) == (b.scale, b.signed):
        inner = join(a.inner, b.inner)
        if inner is not None and inner.kind != "uniform":
            return Shape("wide", scale=a.scale, signed=a.signed, inner=inner)
    return VARYING


@dataclass(frozen=True)
class LaneLayout:
    """How a warp's lanes lie in the block: rows of `width` lanes; `regular` if thread indices are affine in that."""

    width: int
    regular: bool

    @property
    def name(self) -> str:
        return f"w{self.width}" if self.regular else "any"

    @staticmethod
    def of(block: tuple[int, int, int]) -> LaneLayout:
        x, y, z = block
        if x % 32 == 0 or y == z == 1:
            return LaneLayout(32, True)
        if x in (1, 2, 4, 8, 16) and (z == 1 or y % (32 // x) == 0):
            return LaneLayout(x, True)
        return LaneLayout(32, False)


@dataclass
class Shapes:
    of: dict[int, Shape]
    blended: set[int]  # registers whose inactive lanes must keep their value
    divergent: set[int]  # blocks that end in a branch which may part the lanes
    regions: dict[int, set[int]]  # for each of them the blocks before its lanes are together again


_KEEPS = {"mov", "cvta", "call"}


class ShapeAnalysis:
    def __init__(self, function: Function, webs: Webs, live: Liveness, loops: list[Loop], layout: LaneLayout, independent: bool) -> None:
        self.function = function
        self.webs = webs
        self.live = live
        self.loops = loops
        self.layout = layout
        self.independent = independent
        self.shapes: dict[int, Shape] = {}
        self.forced: set[int] = set()

    def run(self) -> Shapes:
        """`independent`: lanes may be split into groups that run apart, so only what is constant over the whole
        launch counts as uniform."""
        blocks = self.function.blocks
        postdominator = immediate_postdominators(blocks)
        if self.independent:
            counts = self.webs.definitions
            self.forced = {r for r, where in counts.items() if len(where) > 1}
        while True:
            self.fixpoint()
            divergent = {b.index for b in blocks if b.ops[-1].kind is Kind.BRANCH and self.shape(b.ops[-1].args[0]) != UNIFORM}
            regions = {b: self.region(b, postdominator[b]) for b in divergent}
            forced = self.forced | self.divergent_registers(divergent, postdominator, regions)
            if forced == self.forced:
                return Shapes(self.shapes, self.forced, divergent, regions)
            self.forced = forced

    # ---- divergence ------------------------------------------------------------------------------------------

    def region(self, branch: int, end: int) -> set[int]:
        blocks = self.function.blocks
        seen: set[int] = set()
        stack = [t.index for t in blocks[branch].targets]
        while stack:
            b = stack.pop()
            if b in seen or b == end:
                continue
            seen.add(b)
            stack += [t.index for t in blocks[b].targets]
        return seen

    def reached(self, start: int, end: int) -> set[int]:
        blocks = self.function.blocks
        seen: set[int] = set()
        stack = [start]
        while stack:
            b = stack.pop()
            if b in seen:
                continue
            seen.add(b)
            if b != end:
                stack += [t.index for t in blocks[b].targets]
        return seen

    def divergent_registers(self, divergent: set[int], postdominator: list[int], regions: dict[int, set[int]]) -> set[int]:
        blocks = self.function.blocks
        joins: set[int] = set()
        for b in divergent:
            first, second = (t.index for t in blocks[b].targets)
            joins |= self.reached(first, postdominator[b]) & self.reached(second, postdominator[b])
        forced = {r for r, where in self.webs.joins.items() if where & joins}
        for loop in self.loops:
            inside = {b.index for b in blocks if id(b) in loop.body}
            if any(b in inside and (postdominator[b] not in inside) for b in divergent):
                after = 0
                for b in inside:
                    for target in blocks[b].targets:
                        if target.index not in inside:
                            after |= self.live.live_in[target.index]
                for r, where in self.webs.definitions.items():
                    if after >> r & 1 and not inside.isdisjoint(where):
                        forced.add(r)
        return forced

    # ---- shapes ----------------------------------------------------------------------------------------------

    def fixpoint(self) -> None:
        self.shapes = {}
        self.propagate()
        # What is left depends on registers that nobody assigned: they are zero, so uniform. Those without any definition
        # first, then those that only assign each other around a loop.
        used = {r for b in self.function.blocks for op in b.ops for r in (*op.uses(), *op.results) if r is not None}
        while unknown := [r for r in used if r not in self.shapes]:
            undefined = [r for r in unknown if r not in self.webs.definitions]
            for register in undefined or unknown:
                self.shapes[register] = VARYING if register in self.forced else UNIFORM
            self.propagate()
        for register in self.function.types:
            self.shapes.setdefault(register, VARYING if register in self.forced else UNIFORM)

    def propagate(self) -> None:
        """Results from arguments until nothing changes."""
        changed = True
        while changed:
            changed = False
            for block in self.function.blocks:
                for op in block.ops:
                    for k, result in enumerate(op.results):
                        if result is None:
                            continue
                        new = VARYING if result in self.forced else join(self.shapes.get(result), self.result(op, k))
                        if new is not None and new != self.shapes.get(result):
                            self.shapes[result] = new
                            changed = True

    def shape(self, arg: Arg) -> Shape | None:
        if isinstance(arg, Reg):
            return self.shapes.get(arg.id)
        if isinstance(arg, SpecialRegister):
            return self.special(arg.name)
        return UNIFORM

    def special(self, name: str) -> Shape:
        layout = self.layout
        if name in ("%tid.x", "%tid.y", "%tid.z"):
            if not layout.regular:
                return VARYING
            if layout.width == 32:
                return affine(1, False) if name == "%tid.x" else UNIFORM
            return {"%tid.x": affine(1, False), "%tid.y": affine(0, True), "%tid.z": UNIFORM}[name]
        if name == "%laneid":
            return affine(1, layout.width < 32)
        if name.startswith("%lanemask"):
            return VARYING
        return VARYING if self.independent and name.startswith(("%clock", "%globaltimer")) else UNIFORM

    def result(self, op: Op, index: int) -> Shape | None:
        shapes = [self.shape(a) for a in op.args]
        if op.guard is not None:
            shapes.append(self.shape(op.guard))
        if any(s is None for s in shapes):
            return None
        if op.guard is not None:
            if shapes[-1] != UNIFORM:
                return VARYING
            shapes.pop()
        known = [s for s in shapes if s is not None]
        if op.kind is Kind.COMPUTE:
            return self.computed(op, known)
        if op.kind is Kind.MOVE:
            if len(op.args) == 1 and len(op.results) == 1:
                assert op.form is not None
                return self.held(op.results[0], op.form.types[0], self.read_as(op.args[0], op.form.types[0], known[0]))
            return UNIFORM if all(s == UNIFORM for s in known) else VARYING
        if op.kind is Kind.LOAD and op.access is not None:
            if known[0] != UNIFORM or op.access.space == "local":
                return VARYING
            if op.access.space == "generic" and self.function.local_bytes:
                return VARYING
            return VARYING if self.independent and op.access.space not in ("param", "const") else UNIFORM
        if op.kind is Kind.EFFECT and op.form is not None and op.form.operation.opcode in ("vote", "activemask", "redux", "barrier_result"):
            return UNIFORM if not self.independent and all(s == UNIFORM for s in known[-1:]) else VARYING
        return VARYING

    def computed(self, op: Op, shapes: list[Shape]) -> Shape:
        if all(s == UNIFORM for s in shapes):
            return UNIFORM
        form = op.form
        assert form is not None
        wanted = [form.operand_type(token) for token in form.operation.arguments]
        read = [self.read_as(a, t, s) for a, t, s in zip(op.args, wanted, shapes, strict=False)]
        found = combine(form.operation.opcode, form.modifiers, [t.name for t in form.types], op.args, read)
        return self.held(op.results[0], form.operand_type(form.operation.results[0]), found)

    def read_as(self, arg: Arg, kind: ScalarType | None, shape: Shape) -> Shape:
        """The shape of an argument that is read in another type than its register has: sums are kept only by cutting off."""
        if shape.kind not in ("affine", "wide") or kind is None:
            return shape
        own = self.function.types[arg.id].bits if isinstance(arg, Reg) else SPECIAL_REGISTERS.get(getattr(arg, "name", ""), 32)
        cut_off = shape.kind == "affine" and kind.bits < own
        return shape if kind.kind not in "fp" and (kind.bits == own or cut_off) else VARYING

    def held(self, register: int | None, kind: ScalarType | None, shape: Shape) -> Shape:
        """The shape of a result in its register: a sum only where it is held as the integer that it is."""
        if register is None or kind is None or shape.kind not in ("affine", "wide"):
            return shape
        return shape if self.function.types[register].storage == kind.storage in ("i32", "i64") else VARYING


def combine(opcode: str, modifiers: frozenset[str], types: list[str], args: list[Arg], shapes: list[Shape]) -> Shape:
    """The shape of a computed value of which some argument is not uniform."""
    if modifiers & {"cc", "sat", "hi", "relu"} or not types:
        return VARYING
    kind = types[0]
    integer = kind in ("s32", "u32", "b32", "s64", "u64", "b64")
    if opcode in _KEEPS and (integer or opcode == "cvta"):
        return shapes[0]
    if opcode == "cvt":
        pair = tuple(types)
        if pair in (("s64", "s32"), ("u64", "u32")):
            return wide(shapes[0], 1, pair[1] == "s32")
        if pair in (("u64", "s32"),):
            return wide(shapes[0], 1, True)
        if pair in (("s64", "u32"),):
            return wide(shapes[0], 1, False)
        if kind in ("s32", "u32") and types[1] in ("s32", "u32"):
            return shapes[0]
        if kind in ("s32", "u32") and types[1] in ("s64", "u64") and shapes[0].kind == "affine":
            return shapes[0]
        return VARYING
    if not integer:
        return VARYING
    if opcode == "add":
        return added(shapes[0], shapes[1], 1)
    if opcode == "sub":
        return added(shapes[0], shapes[1], -1)
    if opcode == "neg":
        return affine(-shapes[0].step, shapes[0].row) if shapes[0].kind == "affine" else VARYING
    if opcode == "shl":
        amount = args[1]
        return scaled(shapes[0], Const(1 << amount.bits), UNIFORM) if isinstance(amount, Const) and 0 <= amount.bits < 20 else VARYING
    if opcode in ("mul", "mad"):
        if "wide" in modifiers:
            product = VARYING
            for a, b in ((0, 1), (1, 0)):
                factor = args[b]
                if isinstance(factor, Const) and 0 < factor.bits <= MAX_SCALE and kind in ("s32", "u32"):
                    product = wide(shapes[a], factor.bits, kind == "s32")
                    break
            else:
                product = UNIFORM if shapes[0] == shapes[1] == UNIFORM else VARYING
        else:
            product = scaled(shapes[0], args[1], shapes[1])
            if product == VARYING:
                product = scaled(shapes[1], args[0], shapes[0])
        return product if opcode == "mul" else added(product, shapes[2], 1)
    return VARYING


def wide(inner: Shape, scale: int, signed: bool) -> Shape:
    return UNIFORM if inner == UNIFORM else Shape("wide", scale=scale, signed=signed, inner=inner)


def added(a: Shape, b: Shape, sign: int) -> Shape:
    if a.kind in ("uniform", "affine") and b.kind in ("uniform", "affine"):
        return affine(a.step + sign * b.step, a.row or b.row)
    if a.kind == "wide" and b == UNIFORM:
        return a
    if b.kind == "wide" and a == UNIFORM and sign == 1:
        return b
    return VARYING


def scaled(value: Shape, factor: Arg, factor_shape: Shape) -> Shape:
    if isinstance(factor, Const) and not factor.float_width and -MAX_SCALE <= factor.bits <= MAX_SCALE:
        if value.kind in ("uniform", "affine"):
            return affine(value.step * factor.bits, value.row)
        if value.kind == "wide" and 0 < value.scale * factor.bits <= MAX_SCALE:
            return Shape("wide", scale=value.scale * factor.bits, signed=value.signed, inner=value.inner)
        return VARYING
    if factor_shape == UNIFORM and value.kind in ("uniform", "affine") and value.step == 0:
        return affine(0, value.row)
    return VARYING


def address_of_shape(arg: AddressOf) -> Shape:
    return UNIFORM


def block_indices(blocks: list[Block]) -> set[int]:
    return {b.index for b in blocks}
