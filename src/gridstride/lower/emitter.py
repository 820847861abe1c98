"""One kernel to one LLVM function that runs a warp from one suspension to the next.

    i32 kernel(worker*, block*, warp*)

It returns a state of `records` (DONE, BARRIER…). Registers live in allocas, which LLVM turns into values; at a
suspension the live ones are saved in the warp's frame, and the function is entered again at the resume point.
Control flow is in `flow.py`, memory in `access.py`, atomics in `atomics.py`.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from llvmlite import ir

from gridstride.ir.nodes import AddressOf, Arg, Const, Function, Kind, Missing, Op, Reg, SpecialRegister
from gridstride.isa.lanes import Lanes, float_constant, scalar_type, vector_type
from gridstride.isa.types import ScalarType
from gridstride.lower.algebra import shaped_result
from gridstride.lower.native import POINTER, splat, stack_slot
from gridstride.lower.records import FRAME, FUNCTION_STEP, FUNCTION_WINDOW, WARP, WORKER, Record
from gridstride.lower.special_registers import clock, special_register
from gridstride.lower.values import Value, ValueBuilder, part_types, uniform, varying
from gridstride.passes.analyse_shapes import UNIFORM, LaneLayout, Shape, Shapes, combine
from gridstride.passes.find_alignments import find_alignments
from gridstride.passes.split_webs import Liveness

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
MASK_TYPE = vector_type("i1")

# Operations that look at an f32's value and never at the payload of a NaN.
_VALUE_ONLY = {"setp", "set", "testp"}


@dataclass(frozen=True)
class SymbolTable:
    """Where the kernel's symbols are: global ones by index into the worker's table, shared ones by offset."""

    indices: dict[str, int]
    shared_offsets: dict[str, int]
    parameter_offsets: dict[str, int]
    parameter_bytes: int
    function_ids: dict[str, int]


class Emitter:
    """State of the lowering of one kernel."""

    def __init__(self, function: Function, shapes: Shapes, live: Liveness, layout: LaneLayout, symbols: SymbolTable, module: ir.Module, name: str, stack: bool = False, counting: bool = False, checks: frozenset[str] = frozenset()) -> None:
        self.function = function
        self.shapes = shapes
        self.live = live
        self.layout = layout
        self.symbols = symbols
        self.module = module
        self.native = ir.Function(module, ir.FunctionType(I32, [POINTER] * 3), name)
        self.native.args[0].name, self.native.args[1].name, self.native.args[2].name = "worker", "block", "warp"
        self.worker, self.block = self.native.args[:2]
        # `allocas` runs once; `initial` and `prologue` at every entry, and again for the next warp of the block
        self.allocation_block = self.native.append_basic_block("allocas")
        self.initial_block = self.native.append_basic_block("initial")
        self.prologue_block = self.native.append_basic_block("prologue")
        self.initial = ir.IRBuilder(self.initial_block)
        allocations = ir.IRBuilder(self.allocation_block)
        self.warp_slot = stack_slot(allocations, POINTER)
        allocations.store(self.native.args[2], self.warp_slot)
        self.warp = self.initial.load(self.warp_slot, typ=POINTER)
        self.b = ir.IRBuilder(self.prologue_block)
        self.prologue = ir.IRBuilder(self.prologue_block)
        self.values = ValueBuilder(self.b, layout)
        self.prologue_values: dict[str, Value] = {}
        self.slots: dict[int, list[ir.Value]] = {}
        self.cache: dict[int, Value] = {}
        self.fixed: dict[int, Value] = {}  # registers computed once in the prologue
        self.active: ir.Value = ir.Constant(I32, 0)
        self.active_lanes: ir.Value = ir.Constant(MASK_TYPE, ir.Undefined)
        self.stack = stack
        self.counting = counting
        self.counted_block = 0  # number of the block being lowered among all of the kernel's
        self.steady: list[tuple[int, int, int, int, int]] = []  # see `KernelCode.steady`
        self.checks = checks
        self.splits = False  # lanes of a warp may become groups that run apart
        self.orders = False  # fences and what they order are told to the host
        self.alive_slot: ir.Value | None = None  # set by the flow: lanes that have not ended
        self.frame: ir.Value = self.warp  # where saved registers are relative to
        if stack:
            start = self.field(self.initial, WARP, self.warp, "frame")
            self.frame = self.initial.gep(self.warp, [start], source_etype=I8)
        self.stopped = self.native.append_basic_block("stopped")
        self.dirty = self._dirty_registers()
        self.homes: dict[int, list[int]] = {}  # registers that live in the warp's frame: places of their parts
        self.alignments = find_alignments(function, {n: v.align for n, v in function.shared.items()})

    # ---- prologue --------------------------------------------------------------------------------------------

    def field(self, builder: ir.IRBuilder, record: Record, pointer: ir.Value, name: str) -> ir.Value:
        entry = record.fields[name]
        place = builder.gep(pointer, [ir.Constant(I64, entry.offset)], source_etype=I8)
        if entry.count == 32:
            return builder.load(place, typ=vector_type(entry.type), align=64)
        return builder.load(place, typ=POINTER if entry.type == "ptr" else scalar_type(entry.type))

    def put_field(self, record: Record, pointer: ir.Value, name: str, value: ir.Value) -> None:
        place = self.b.gep(pointer, [ir.Constant(I64, record.offset(name))], source_etype=I8)
        self.b.store(value, place)

    def once(self, key: str, record: Record, pointer: ir.Value, name: str) -> ir.Value:
        """A field that does not change while the function runs, loaded in the prologue."""
        if key not in self.prologue_values:
            self.prologue_values[key] = uniform("i64", self.field(self.prologue, record, pointer, name))
        return self.prologue_values[key].parts[0]

    def special(self, name: str) -> Value:
        """The value of a special register (PTX ISA 10)."""
        if name not in self.prologue_values:
            self.prologue_values[name] = special_register(self, name)
        return self.prologue_values[name]

    def symbol(self, arg: AddressOf) -> ir.Value:
        """An address in its own state space as an i64 (PTX ISA 7.1)."""
        if arg.space == "shared":
            return ir.Constant(I64, self.symbols.shared_offsets[arg.name] + arg.offset)
        if arg.space == "local":
            return self._local_symbol(arg)
        if arg.space == "param":
            start = self.once("parameters", WORKER, self.worker, "parameters")
            offset = self.symbols.parameter_offsets[arg.name] + arg.offset
            return self.prologue.add(self.prologue.ptrtoint(start, I64), ir.Constant(I64, offset))
        if arg.space == "function":
            return ir.Constant(I64, FUNCTION_WINDOW + FUNCTION_STEP * self.symbols.function_ids[arg.name] + arg.offset)
        key = f"symbol {arg.name}"
        if key not in self.prologue_values:
            table = self.once("symbols", WORKER, self.worker, "symbols")
            place = self.prologue.gep(table, [ir.Constant(I64, 8 * self.symbols.indices[arg.name])], source_etype=I8)
            self.prologue_values[key] = uniform("i64", self.prologue.load(place, typ=I64))
        address = self.prologue_values[key].parts[0]
        return self.b.add(address, ir.Constant(I64, arg.offset)) if arg.offset else address

    def _local_symbol(self, arg: AddressOf) -> ir.Value:
        """An offset into the thread's local memory; where functions are called, from the function's own part."""
        start = -(-self.function.local_bytes // 16) * 16 if arg.name == "@callee" else self.function.local_offsets[arg.name]
        offset = ir.Constant(I64, start + arg.offset)
        if not self.stack:
            return offset
        if "local_base" not in self.prologue_values:
            self.prologue_values["local_base"] = uniform("i64", self.field(self.prologue, FRAME, self.frame, "local_base"))
        return self.b.add(self.prologue_values["local_base"].parts[0], offset)

    # ---- registers -------------------------------------------------------------------------------------------

    def shape(self, register: int) -> Shape:
        return self.shapes.of[register]

    def storage(self, register: int) -> str:
        return self.function.types[register].storage

    def slots_of(self, register: int) -> list[ir.Value]:
        """Where a register's parts are kept: allocas, or places in the warp's frame."""
        if register in self.homes:
            return [self.b.gep(self.frame, [ir.Constant(I64, place)], source_etype=I8) for place in self.homes[register]]
        if register not in self.slots:
            builder = ir.IRBuilder(self.allocation_block)
            made = []
            for kind in part_types(self.shape(register), self.storage(register)):
                slot = stack_slot(builder, kind, 64 if isinstance(kind, ir.VectorType) else 8)
                self.initial.store(ir.Constant(kind, None), slot)
                made.append(slot)
            self.slots[register] = made
        return self.slots[register]

    def get(self, register: int) -> Value:
        """The current value of a register."""
        if register in self.cache:
            return self.cache[register]
        if register in self.fixed:
            return self.fixed[register]
        shape, storage = self.shape(register), self.storage(register)
        types = part_types(shape, storage)
        parts = tuple(self.b.load(s, typ=t) for s, t in zip(self.slots_of(register), types, strict=True))
        value = self.cache[register] = Value(shape, storage, parts)
        return value

    def set(self, register: int, value: Value, op: Op | None = None) -> None:
        """Assign a register: its type and shape are taken on, guard and inactive lanes keep the old value."""
        shape, storage = self.shape(register), self.storage(register)
        if value.type != storage:
            value = self.values.convert(value, storage)
        if op is not None and op.guard is not None:
            value = self._guarded(register, value, op.guard)
        value = self.values.coerce(value, shape)
        if register in self.shapes.blended and shape.kind == "varying":
            old = self.get(register).parts[0]
            value = varying(storage, self.b.select(self.active_lanes, value.parts[0], old))
        self.cache[register] = value
        if self.current_live_out >> register & 1:
            for slot, part in zip(self.slots_of(register), value.parts, strict=True):
                self.b.store(part, slot)

    current_live_out = 0

    def _guarded(self, register: int, new: Value, guard: Reg) -> Value:
        old, predicate = self.get(register), self.predicate(guard)
        if predicate.shape == UNIFORM:
            new = self.values.coerce(new, self.shape(register))
        if predicate.shape == UNIFORM and new.shape == old.shape:
            return Value(new.shape, new.type, tuple(self.b.select(predicate.parts[0], n, o) for n, o in zip(new.parts, old.parts, strict=True)))
        lanes = self.values.vector(predicate)
        return varying(new.type, self.b.select(lanes, self.values.vector(new), self.values.vector(old)))

    def predicate(self, arg: Arg) -> Value:
        value = self.read(arg, "i1")
        return value

    def read(self, arg: Arg, type_: str) -> Value:
        """An argument in storage type `type_`."""
        if isinstance(arg, Reg):
            value = self.values.convert(self.get(arg.id), type_)
            if arg.negated:
                lanes = self.lanes(value)
                value = Value(value.shape, type_, (self.b.xor(value.parts[0], lanes.const("i1", 1)),))
            return value
        if isinstance(arg, Const):
            return uniform(type_, self.constant(arg, type_))
        if isinstance(arg, SpecialRegister):
            is_clock = arg.name.startswith(("%clock", "%globaltimer")) and not arg.name.startswith("%cluster")
            return self.values.convert(clock(self, arg.name) if is_clock else self.special(arg.name), type_)
        assert isinstance(arg, AddressOf)
        return self.values.convert(uniform("i64", self.symbol(arg)), type_)

    @staticmethod
    def constant(arg: Const, type_: str) -> ir.Constant:
        if type_[0] == "f":
            width = arg.float_width or int(type_[1:])
            raw = (arg.bits & ((1 << width) - 1)).to_bytes(width // 8, "little")
            real = struct.unpack("<f" if width == 32 else "<d", raw)[0]
            if math.isnan(real):  # keep a NaN's bits
                bits = arg.bits if width == int(type_[1:]) else 0x7FFFFFFF
                return ir.Constant(scalar_type(f"i{type_[1:]}"), bits & ((1 << int(type_[1:])) - 1)).bitcast(scalar_type(type_))
            return float_constant(type_, real)
        bits = arg.bits
        width = int(type_[1:])
        if arg.float_width == 64 and width == 32:  # a decimal constant where f32 bits are wanted
            real = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
            bits = struct.unpack("<I", struct.pack("<f", real))[0]
        return ir.Constant(scalar_type(type_), bits & ((1 << width) - 1))

    def lanes(self, value: Value) -> Lanes:
        return self.values.scalar if value.shape.kind == "uniform" else self.values.warp

    def lane_vector(self, arg: Arg, type_: str) -> ir.Value:
        return self.values.vector(self.read(arg, type_))

    # ---- NaN payloads ----------------------------------------------------------------------------------------

    def _dirty_registers(self) -> frozenset[int]:
        """f32 registers that only f32 arithmetic assigns: their NaNs are made canonical where bits can be seen."""
        clean: set[int] = set()
        dirty: set[int] = set()
        for block in self.function.blocks:
            for op in block.ops:
                for k, result in enumerate(op.results):
                    if result is None:
                        continue
                    if op.kind is Kind.COMPUTE and op.form is not None and op.form.operation.dirty_nan and k == 0:
                        dirty.add(result)
                    elif not (op.kind is Kind.MOVE and len(op.args) == 1 and isinstance(op.args[0], Const)):
                        clean.add(result)
        return frozenset(r for r in dirty - clean if self.function.types[r].bits == 32)

    def observed(self, arg: Arg, type_: str) -> Value:
        """`read`, for whoever can see the bits of a NaN."""
        if isinstance(arg, Reg) and arg.id in self.dirty:
            value = self.values.canonical_nan(self.values.convert(self.get(arg.id), "f32"))
            return self.values.convert(value, type_)
        return self.read(arg, type_)

    # ---- computing -------------------------------------------------------------------------------------------

    def compute(self, op: Op) -> None:
        """Lower a registry operation without effects."""
        form = op.form
        assert form is not None and form.operation.lower is not None
        entry = form.operation
        sees_bits = not (entry.dirty_nan or entry.opcode in _VALUE_ONLY)
        args: list[Value | int | None] = []
        for token, arg in zip(entry.arguments, op.args, strict=False):
            kind = form.operand_type(token)
            if isinstance(arg, Missing):
                args.append(None)
            elif kind is None:
                assert isinstance(arg, Const)
                args.append(arg.bits)
            else:
                args.append(self.observed(arg, kind.storage) if sees_bits else self.read(arg, kind.storage))
        shaped = [a for a in args if isinstance(a, Value)]
        if len(op.results) == 1 and shaped and any(a.shape != UNIFORM for a in shaped):
            shape = combine(entry.opcode, form.modifiers, [t.name for t in form.types], op.args, [a.shape for a in shaped])
            # uniform as well: affine operands may cancel out (t - t, t * 0)
            wanted = op.results[0] is not None and self.shape(op.results[0]).kind != "varying"
            if shape.kind != "varying" and wanted:
                assert op.results[0] is not None
                self.set(op.results[0], shaped_result(self.values, op, shaped, shape), op)
                return
        is_uniform = all(a.shape == UNIFORM for a in shaped)
        lanes = self.values.scalar if is_uniform else self.values.warp
        inputs = [
            (a.parts[0] if is_uniform else self.values.vector(a)) if isinstance(a, Value) else a
            for a in (*args, *[None] * (len(entry.arguments) - len(args)))
        ]
        assert entry.lower is not None  # what computes has a lowering; only effects have an entry of their own
        produced = entry.lower(lanes, form, *inputs)
        outputs = produced if isinstance(produced, tuple) else (produced,)
        for result, output, token in zip(op.results, outputs, entry.results, strict=False):
            if result is None:
                continue
            kind = form.operand_type(token)
            assert kind is not None
            value = Value(UNIFORM if is_uniform else varying("i1", output).shape, kind.storage, (output,))
            if entry.dirty_nan and kind.storage == "f32" and result not in self.dirty:
                value = self.values.canonical_nan(value)
            self.set(result, self.widened(value, kind, result), op)

    def widened(self, value: Value, kind: ScalarType, register: int) -> Value:
        """A result in the type of its register, extended as the operation's type says (PTX ISA 9.4.1)."""
        return self.values.convert(value, self.storage(register), kind.signed)

    def move(self, op: Op) -> None:
        """mov: copy, pack or unpack."""
        assert op.form is not None
        kind = op.form.types[0]
        if len(op.results) == 1 and len(op.args) == 1:
            result, arg = op.results[0], op.args[0]
            if result is None:
                return
            raw = isinstance(arg, Reg) and arg.id in self.dirty and result in self.dirty
            if isinstance(arg, AddressOf) and arg.space == "local":
                self.set(result, self.values.convert(uniform("i64", self.symbol(arg)), self.storage(result)), op)
                return
            value = self.read(arg, kind.storage) if raw or not isinstance(arg, Reg) else self.observed(arg, kind.storage)
            self.set(result, self.values.convert(value, self.storage(result)), op)
            return
        if len(op.args) > 1:
            piece = kind.bits // len(op.args)
            items = [self.observed(a, f"i{piece}") for a in op.args]
            total = self._packed(items, kind.bits, piece)
            assert op.results[0] is not None
            self.set(op.results[0], total, op)
            return
        piece = kind.bits // len(op.results)
        whole = self.observed(op.args[0], f"i{kind.bits}")
        if whole.shape.kind in ("affine", "wide"):
            whole = varying(whole.type, self.values.vector(whole))
        lanes = self.lanes(whole)
        for k, result in enumerate(op.results):
            if result is not None:
                shifted = self.b.lshr(whole.parts[0], lanes.const(whole.type, k * piece)) if k else whole.parts[0]
                self.set(result, Value(whole.shape, f"i{piece}", (self.b.trunc(shifted, lanes.type(f"i{piece}")),)), op)

    def _packed(self, items: list[Value], bits: int, piece: int) -> Value:
        is_uniform = all(i.shape == UNIFORM for i in items)
        lanes = self.values.scalar if is_uniform else self.values.warp
        total: ir.Value | None = None
        for k, item in enumerate(items):
            part = item.parts[0] if is_uniform else self.values.vector(item)
            part = self.b.zext(part, lanes.type(f"i{bits}"))
            if k:
                part = self.b.shl(part, lanes.const(f"i{bits}", k * piece))
            total = part if total is None else self.b.or_(total, part)
        assert total is not None
        return uniform(f"i{bits}", total) if is_uniform else varying(f"i{bits}", total)

    def present_lanes(self) -> ir.Value:
        """The lanes that have come to the exchange at hand, those of other groups included."""
        return self.field(self.b, WARP, self.warp, "present") if self.splits else self.active

    def exchanged(self, own: ir.Value, kind: str) -> ir.Value:
        """What every lane has brought to the exchange at hand: `own` for the lanes that are here."""
        if not self.splits:
            return own
        received = self.field(self.b, WARP, self.warp, "received")
        lanes = self.values.convert(varying("i64", received), kind).parts[0]
        return self.b.select(self.active_lanes, own, lanes)

    def live_lanes(self) -> ir.Value:
        """The lanes of this group that have not ended."""
        assert self.alive_slot is not None
        return self.b.load(self.alive_slot, typ=I32)

    # ---- stopping --------------------------------------------------------------------------------------------

    def stop_if_faulted(self) -> None:
        """After an out-of-line function that may have found a fault."""
        code = self.b.load(self.b.gep(self.worker, [ir.Constant(I64, WORKER.offset("fault_code"))], source_etype=I8), typ=I32)
        go_on = self.native.append_basic_block("ok")
        self.b.cbranch(self.b.icmp_unsigned("==", code, ir.Constant(I32, 0)), go_on, self.stopped)
        self.b.position_at_end(go_on)

    def splat(self, scalar: ir.Value) -> ir.Value:
        return splat(self.b, scalar)

