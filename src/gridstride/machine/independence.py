"""Whether the blocks of a launch can run at the same time without anybody being able to tell.

Addresses are worked out as linear forms over the block's and the thread's indices, with the launch's own parameters
put in. If all stores of a buffer go to places that differ for every two threads, and nothing else reads or writes it,
then no order of blocks can be seen. What cannot be proved runs in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gridstride.findings import Dim3
from gridstride.ir.nodes import AddressOf, Arg, Const, Function, Kind, Op, Reg, SpecialRegister

_INDICES = ("%ctaid.x", "%ctaid.y", "%ctaid.z", "%tid.x", "%tid.y", "%tid.z")
_LIMIT_32 = 1 << 31


@dataclass(frozen=True)
class Linear:
    """constant + sum of coefficient * index; `coefficients` in the order of ctaid.x … tid.z."""

    constant: int
    coefficients: tuple[int, ...] = (0,) * 6

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return Linear(self.constant + sign * other.constant, tuple(a + sign * b for a, b in pairs))

    def times(self, factor: int) -> Linear:
        return Linear(self.constant * factor, tuple(c * factor for c in self.coefficients))

    @property
    def fixed(self) -> bool:
        return not any(self.coefficients)


def blocks_are_independent(
    function: Function,
    traits: Mapping[str, bool],
    offsets: Mapping[str, int],
    parameters: bytes,
    buffers: Mapping[int, tuple[int, int]],
    grid: Dim3,
    block: Dim3,
) -> bool:
    """True only where it is proved. offsets: of the kernel's parameters by name. buffers: for accesses (by site) whose
    pointer is known, where the allocation begins and ends that it was given for."""
    if any(traits[t] for t in ("spins", "ordered", "atomics_used", "float_atomics", "fences")):
        return False
    return _Proof(function, offsets, parameters, buffers, grid, block).holds()


class _Proof:
    def __init__(
        self,
        function: Function,
        offsets: Mapping[str, int],
        parameters: bytes,
        buffers: Mapping[int, tuple[int, int]],
        grid: Dim3,
        block: Dim3,
    ) -> None:
        self.function, self.offsets, self.parameters, self.buffers = function, offsets, parameters, buffers
        self.extents = (*grid, *block)
        self.special = {
            f"%{base}.{axis}": n for base, dims in (("ntid", block), ("nctaid", grid)) for axis, n in zip("xyz", dims, strict=True)
        }
        self.definitions: dict[int, Op | None] = {}
        for b in function.blocks:
            for op in b.ops:
                for result in op.results:
                    if result is not None:  # None: several definitions
                        self.definitions[result] = None if result in self.definitions else op
        self.known: dict[int, Linear | None] = {}

    def holds(self) -> bool:
        stores: list[tuple[Linear, int]] = []
        loads: list[tuple[Linear | None, int]] = []
        reductions: list[Linear | None] = []
        places: list[tuple[int, int] | None] = []  # of loads: the buffer that the pointer was given for
        for b in self.function.blocks:
            for op in b.ops:
                if op.kind is Kind.EFFECT and op.form is not None and op.form.operation.opcode == "call":
                    return False  # the host is asked for something
                if op.access is None or op.access.space in ("shared", "local", "param", "const"):
                    continue
                address = self.value(op.args[0])
                address = address.plus(Linear(op.access.offset)) if address is not None else None
                if op.kind is Kind.LOAD:
                    loads.append((address, op.access.bytes))
                    places.append(self.buffers.get(op.site))
                elif op.kind is Kind.ATOMIC:
                    reductions.append(address)
                elif address is None or not self.differs_between_blocks(address, op.access.bytes):
                    return False
                else:
                    stores.append((address, op.access.bytes))
        if reductions and (None in reductions or stores):
            return False
        written = [self.reach(a, size) for a, size in stores] + [self.reach(a, 16) for a in reductions if a is not None]
        for one, reached in zip(stores, written, strict=False):
            if any(one != other and self.overlap(reached, self.reach(*other)) for other in stores):
                return False
        for (load, size), place in zip(loads, places, strict=True):
            if load is None:
                if place is None or any(self.overlap(place, w) for w in written):
                    return False
            elif any(self.overlap(self.reach(load, size), w) for w in written) and (load, size) not in stores:
                return False
        return True

    def reach(self, address: Linear, size: int) -> tuple[int, int]:
        """Lowest byte and end of all accesses of the launch."""
        low = address.constant + sum(min(0, c * (n - 1)) for c, n in zip(address.coefficients, self.extents, strict=True))
        return low, low + sum(abs(c) * (n - 1) for c, n in zip(address.coefficients, self.extents, strict=True)) + size

    @staticmethod
    def overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
        return a[0] < b[1] and b[0] < a[1]

    def differs_between_blocks(self, address: Linear, size: int) -> bool:
        """Whether every two blocks access other bytes."""
        digits = list(zip(map(abs, address.coefficients), self.extents, strict=True))
        reach = size + sum(c * (n - 1) for c, n in digits[3:])
        return self.are_digits(digits, size) or self.are_digits(digits[:3], reach)

    @staticmethod
    def are_digits(digits: list[tuple[int, int]], span: int) -> bool:
        """Whether indices (value of one step, extent) are the digits of a number: each step worth at least `span`, and
        more than all lower digits together."""
        for coefficient, extent in sorted(digits):
            if extent > 1:
                if coefficient < span:
                    return False
                span += coefficient * (extent - 1)
        return True

    # ---- values ----------------------------------------------------------------------------------------------

    def value(self, arg: Arg) -> Linear | None:
        if isinstance(arg, Const):
            return None if arg.float_width else Linear(arg.bits)
        if isinstance(arg, SpecialRegister):
            if arg.name in _INDICES:
                return Linear(0, tuple(int(name == arg.name) for name in _INDICES))
            return Linear(self.special[arg.name]) if arg.name in self.special else None
        if not isinstance(arg, Reg) or arg.negated:
            return None
        if arg.id not in self.known:
            self.known[arg.id] = None  # until it is worked out; a cycle stays unknown
            op = self.definitions.get(arg.id)
            if op is not None and op.guard is None and len(op.results) == 1:
                self.known[arg.id] = self.made_by(op)
        return self.known[arg.id]

    def made_by(self, op: Op) -> Linear | None:
        if op.kind is Kind.LOAD:
            return self.parameter(op)
        if op.kind is Kind.MOVE:
            return self.value(op.args[0]) if len(op.args) == 1 else None
        if op.kind is not Kind.COMPUTE or op.form is None or not op.form.types:
            return None
        kind = op.form.types[0]
        if kind.kind not in "sub" or {"cc", "sat", "hi"} & op.form.modifiers:
            return None
        args = [self.value(a) for a in op.args]
        if None in args:
            return None
        made = self.combined(op.form.operation.opcode, "wide" in op.form, [a for a in args if a is not None], op)
        narrow = kind.bits == 32 and "wide" not in op.form
        return made if made is not None and (not narrow or self.fits(made)) else None

    def combined(self, opcode: str, wide: bool, args: list[Linear], op: Op) -> Linear | None:
        if opcode in ("cvta", "call", "mov"):
            return args[0]
        if opcode == "cvt":
            assert op.form is not None
            whole = all(t.kind in "sub" and t.bits >= 32 for t in op.form.types)
            return args[0] if whole and self.fits(args[0]) else None
        if opcode in ("add", "sub"):
            return args[0].plus(args[1], 1 if opcode == "add" else -1)
        if opcode == "shl":
            return args[0].times(1 << args[1].constant) if args[1].fixed and 0 <= args[1].constant < 32 else None
        if opcode in ("mul", "mad"):
            if wide and not (self.fits(args[0]) and self.fits(args[1])):
                return None
            product = args[0].times(args[1].constant) if args[1].fixed else args[1].times(args[0].constant) if args[0].fixed else None
            return product if opcode == "mul" or product is None else product.plus(args[2])
        return None

    def fits(self, value: Linear) -> bool:
        """Whether all values are non-negative and below 2^31, so that signs and widths do not matter."""
        low, end = self.reach(value, 1)
        return low >= 0 and end <= _LIMIT_32

    def parameter(self, op: Op) -> Linear | None:
        base, access = op.args[0], op.access
        if access is None or access.space != "param" or access.count != 1 or not isinstance(base, AddressOf) or base.space != "param":
            return None
        start = self.offsets[base.name] + base.offset
        raw = self.parameters[start : start + access.element.bytes]
        if len(raw) != access.element.bytes or access.element.kind not in "sub":
            return None
        return Linear(int.from_bytes(raw, "little", signed=access.element.kind == "s"))
