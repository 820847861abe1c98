"""A small language for writing native functions in Python: values with operators, structured control flow.

    f = NativeFunction(module, "count", "i64", ["ptr", "i64"])
    total = f.variable("i64", 0)
    with f.count_to(f.args[1]) as k:
        total.set(total.get() + f.load("i64", f.args[0], k * 8))
    f.ret(total.get())

Integers are unsigned unless a method says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from llvmlite import ir

from gridstride.isa.lanes import scalar_type, vector_type
from gridstride.lower.records import Record

POINTER = ir.PointerType()
_I8 = ir.IntType(8)


def native_type(name: str) -> ir.Type:
    """"i32", "ptr", "void", or "32xi64" for a vector."""
    if name == "ptr":
        return POINTER
    if name == "void":
        return ir.VoidType()
    count, x, element = name.partition("x")
    if x and count.isdigit():
        return vector_type(element, int(count))
    return scalar_type(name)


class Native:
    """A value with operators; the other operand may be a Python int."""

    __slots__ = ("f", "v")

    def __init__(self, f: NativeFunction, v: ir.Value) -> None:
        self.f, self.v = f, v

    def _other(self, other: Native | int) -> ir.Value:
        if isinstance(other, Native):
            return other.v
        if isinstance(self.v.type, ir.VectorType):
            return ir.Constant(self.v.type, [ir.Constant(self.v.type.element, other)] * self.v.type.count)
        return ir.Constant(self.v.type, other)

    def _make(self, v: ir.Value) -> Native:
        return Native(self.f, v)

    def __add__(self, o: Native | int) -> Native:
        if isinstance(self.v.type, ir.PointerType):
            offset = o.v if isinstance(o, Native) else ir.Constant(ir.IntType(64), o)
            return self._make(self.f.b.gep(self.v, [offset], source_etype=_I8))
        return self._make(self.f.b.add(self.v, self._other(o)))

    def __sub__(self, o: Native | int) -> Native:
        return self._make(self.f.b.sub(self.v, self._other(o)))

    def __mul__(self, o: Native | int) -> Native:
        return self._make(self.f.b.mul(self.v, self._other(o)))

    def __floordiv__(self, o: Native | int) -> Native:
        return self._make(self.f.b.udiv(self.v, self._other(o)))

    def __mod__(self, o: Native | int) -> Native:
        return self._make(self.f.b.urem(self.v, self._other(o)))

    def __and__(self, o: Native | int) -> Native:
        return self._make(self.f.b.and_(self.v, self._other(o)))

    def __or__(self, o: Native | int) -> Native:
        return self._make(self.f.b.or_(self.v, self._other(o)))

    def __xor__(self, o: Native | int) -> Native:
        return self._make(self.f.b.xor(self.v, self._other(o)))

    def __lshift__(self, o: Native | int) -> Native:
        return self._make(self.f.b.shl(self.v, self._other(o)))

    def __rshift__(self, o: Native | int) -> Native:
        return self._make(self.f.b.lshr(self.v, self._other(o)))

    def __invert__(self) -> Native:
        return self._make(self.f.b.not_(self.v))

    def __lt__(self, o: Native | int) -> Native:
        return self._make(self.f.b.icmp_unsigned("<", self.v, self._other(o)))

    def __le__(self, o: Native | int) -> Native:
        return self._make(self.f.b.icmp_unsigned("<=", self.v, self._other(o)))

    def __gt__(self, o: Native | int) -> Native:
        return self._make(self.f.b.icmp_unsigned(">", self.v, self._other(o)))

    def __ge__(self, o: Native | int) -> Native:
        return self._make(self.f.b.icmp_unsigned(">=", self.v, self._other(o)))

    def eq(self, o: Native | int) -> Native:
        return self._make(self.f.b.icmp_unsigned("==", self.v, self._other(o)))

    def ne(self, o: Native | int) -> Native:
        return self._make(self.f.b.icmp_unsigned("!=", self.v, self._other(o)))

    def select(self, yes: Native | int, no: Native | int) -> Native:
        """`yes` where this condition holds, else `no` (at least one of them a value)."""
        shape = yes if isinstance(yes, Native) else no
        assert isinstance(shape, Native)
        return self._make(self.f.b.select(self.v, shape._other(yes), shape._other(no)))

    def to(self, name: str) -> Native:
        """Convert an integer (zero-extended or truncated), pointer or mask to another type."""
        target, b = native_type(name), self.f.b
        source = self.v.type
        if source == target:
            return self
        if isinstance(target, ir.PointerType):
            return self._make(b.inttoptr(self.v, target))
        if isinstance(source, ir.PointerType):
            return self._make(b.ptrtoint(self.v, target))
        if isinstance(source, ir.VectorType) != isinstance(target, ir.VectorType):
            return self._make(b.bitcast(self.v, target))
        return self._make(b.zext(self.v, target) if _bits(target) > _bits(source) else b.trunc(self.v, target))


class Variable:
    """A mutable local variable."""

    def __init__(self, f: NativeFunction, slot: ir.Value, type_: ir.Type) -> None:
        self.f, self.slot, self.type = f, slot, type_

    def get(self) -> Native:
        return Native(self.f, self.f.b.load(self.slot, typ=self.type))

    def set(self, value: Native | int) -> None:
        v = value.v if isinstance(value, Native) else ir.Constant(self.type, value)
        self.f.b.store(v, self.slot)


class NativeFunction:
    """A function under construction in an LLVM module."""

    def __init__(self, module: ir.Module, name: str, result: str, arguments: list[str], *, attributes: tuple[str, ...] = ()) -> None:
        signature = ir.FunctionType(native_type(result), [native_type(a) for a in arguments])
        self.function = ir.Function(module, signature, name)
        for attribute in attributes:
            self.function.attributes.add(attribute)
        self.entry = self.function.append_basic_block("entry")
        self.b = ir.IRBuilder(self.entry)
        self.args = [Native(self, a) for a in self.function.args]
        self._breaks: list[ir.Block] = []

    # ---- values ----------------------------------------------------------------------------------------------

    def const(self, type_: str, value: int) -> Native:
        target = native_type(type_)
        if isinstance(target, ir.VectorType):
            return Native(self, ir.Constant(target, [ir.Constant(target.element, value)] * target.count))
        return Native(self, ir.Constant(target, value))

    def lanes(self, element: str = "i32", count: int = 32) -> Native:
        """The vector 0, 1, 2…"""
        target = vector_type(element, count)
        return Native(self, ir.Constant(target, [ir.Constant(target.element, k) for k in range(count)]))

    def splat(self, value: Native, count: int = 32) -> Native:
        return Native(self, splat(self.b, value.v, count))

    def element(self, vector: Native, index: Native | int) -> Native:
        at = index.v if isinstance(index, Native) else ir.Constant(ir.IntType(32), index)
        return Native(self, self.b.extract_element(vector.v, at))

    def with_element(self, vector: Native, value: Native, index: Native | int) -> Native:
        at = index.v if isinstance(index, Native) else ir.Constant(ir.IntType(32), index)
        return Native(self, self.b.insert_element(vector.v, value.v, at))

    def variable(self, type_: str, initial: Native | int | None = None) -> Variable:
        target = native_type(type_)
        with self.b.goto_entry_block():
            slot = stack_slot(self.b, target)
        variable = Variable(self, slot, target)
        if initial is not None:
            variable.set(initial)
        return variable

    def load(self, type_: str, pointer: Native, offset: Native | int = 0, align: int | None = None) -> Native:
        return Native(self, self.b.load((pointer + offset).v, typ=native_type(type_), align=align))

    def store(self, value: Native, pointer: Native, offset: Native | int = 0, align: int | None = None) -> None:
        self.b.store(value.v, (pointer + offset).v, align=align)

    def get(self, record: Record, pointer: Native, field: str, index: Native | int = 0) -> Native:
        entry = record.fields[field]
        size = 8 if entry.type in ("ptr", "i64") else 4
        offset = index * size + entry.offset if isinstance(index, Native) else entry.offset + index * size
        return self.load(entry.type, pointer, offset)

    def put(self, record: Record, pointer: Native, field: str, value: Native | int, index: Native | int = 0) -> None:
        entry = record.fields[field]
        size = 8 if entry.type in ("ptr", "i64") else 4
        offset = index * size + entry.offset if isinstance(index, Native) else entry.offset + index * size
        value = value if isinstance(value, Native) else self.const(entry.type, value)
        self.store(value, pointer, offset)

    def add_to(self, record: Record, pointer: Native, field: str, value: Native | int, index: Native | int = 0) -> Native:
        new = self.get(record, pointer, field, index) + value
        self.put(record, pointer, field, new, index)
        return new

    def call(self, callee: ir.Value, *arguments: Native) -> Native:
        return Native(self, self.b.call(callee, [a.v for a in arguments]))

    def call_pointer(self, pointer: Native, result: str, *arguments: Native) -> Native:
        signature = ir.FunctionType(native_type(result), [a.v.type for a in arguments])
        return Native(self, call_pointer(self.b, pointer.v, signature, [a.v for a in arguments]))

    def intrinsic(self, name: str, result: str, *arguments: Native) -> Native:
        """Call an LLVM intrinsic by its full name."""
        function = self.function.module.globals.get(name)
        if function is None:
            function = ir.Function(self.function.module, ir.FunctionType(native_type(result), [a.v.type for a in arguments]), name)
        return self.call(function, *arguments)

    def first_lane(self, mask: Native) -> Native:
        """Index of the lowest set bit of an i32 that is not zero."""
        return self.intrinsic("llvm.cttz.i32", "i32", mask, self.const("i1", 1))

    def count_bits(self, mask: Native) -> Native:
        return self.intrinsic("llvm.ctpop.i32", "i32", mask)

    # ---- control flow ----------------------------------------------------------------------------------------

    def block(self, name: str) -> ir.Block:
        return self.function.append_basic_block(name)

    def goto(self, block: ir.Block) -> None:
        if not self.b.block.is_terminated:
            self.b.branch(block)

    @contextmanager
    def if_(self, condition: Native) -> Iterator[None]:
        then, after = self.block("then"), self.block("endif")
        self.b.cbranch(condition.v, then, after)
        self.b.position_at_end(then)
        yield
        self.goto(after)
        self.b.position_at_end(after)

    @contextmanager
    def if_else(self, condition: Native) -> Iterator[tuple[AbstractContextManager[ir.Block], AbstractContextManager[ir.Block]]]:
        with self.b.if_else(condition.v) as (then, otherwise):
            yield then, otherwise

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Repeat until `break_if`."""
        body, after = self.block("loop"), self.block("endloop")
        self.goto(body)
        self.b.position_at_end(body)
        self._breaks.append(after)
        yield
        self._breaks.pop()
        self.goto(body)
        self.b.position_at_end(after)

    def break_if(self, condition: Native) -> None:
        stay = self.block("stay")
        self.b.cbranch(condition.v, self._breaks[-1], stay)
        self.b.position_at_end(stay)

    @contextmanager
    def count_to(self, limit: Native, start: int = 0) -> Iterator[Native]:
        """for k in range(start, limit)"""
        k = Variable(self, self._entry_slot(limit.v.type), limit.v.type)
        k.set(start)
        with self.loop():
            now = k.get()
            self.break_if(now >= limit)
            yield now
            k.set(k.get() + 1)

    def _entry_slot(self, type_: ir.Type) -> ir.Value:
        with self.b.goto_entry_block():
            return stack_slot(self.b, type_)

    @contextmanager
    def each_lane(self, mask: Native) -> Iterator[Native]:
        """for each set bit of an i32, from the lowest"""
        rest = Variable(self, self._entry_slot(mask.v.type), mask.v.type)
        rest.set(mask)
        with self.loop():
            now = rest.get()
            self.break_if(now.eq(0))
            rest.set(now & (now - 1))
            yield self.first_lane(now)

    def ret(self, value: Native | int | None = None) -> None:
        if value is None:
            self.b.ret_void()
        elif isinstance(value, int):
            self.b.ret(ir.Constant(self.function.function_type.return_type, value))
        else:
            self.b.ret(value.v)

    def ret_if(self, condition: Native, value: Native | int | None = None) -> None:
        out, stay = self.block("out"), self.block("stay")
        self.b.cbranch(condition.v, out, stay)
        self.b.position_at_end(out)
        self.ret(value)
        self.b.position_at_end(stay)


def _bits(type_: ir.Type) -> int:
    """Of an integer, or of each in a vector of them."""
    element = type_.element if isinstance(type_, ir.VectorType) else type_
    assert isinstance(element, ir.IntType)
    return element.width


def stack_slot(b: ir.IRBuilder, type_: ir.Type, align: int | None = None) -> ir.Value:
    """A stack slot, as an opaque pointer (llvmlite's own `alloca` gives a typed one)."""
    slot = b.alloca(type_)
    slot.type = POINTER
    slot.align = align
    return slot


def splat(b: ir.IRBuilder, value: ir.Value, count: int = 32) -> ir.Value:
    """`value` in every element of a vector."""
    target = ir.VectorType(value.type, count)
    if isinstance(value, ir.Constant):
        return ir.Constant(target, [value] * count)
    one = b.insert_element(ir.Constant(target, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return b.shuffle_vector(one, ir.Constant(target, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), count), [ir.Constant(ir.IntType(32), 0)] * count))


def call_pointer(b: ir.IRBuilder, pointer: ir.Value, signature: ir.FunctionType, arguments: list[ir.Value]) -> ir.Value:
    """Call through a pointer (llvmlite's builder only calls named functions)."""
    instruction = _PointerCall(b.block, pointer, signature, arguments)
    b._insert(instruction)
    return instruction


class _PointerCall(ir.Instruction):
    def __init__(self, parent: ir.Block, pointer: ir.Value, signature: ir.FunctionType, arguments: list[ir.Value]) -> None:
        super().__init__(parent, signature.return_type, "call", [pointer, *arguments])
        self.signature = signature

    def descr(self, buffer: list[str]) -> None:
        pointer, *arguments = self.operands
        given = ", ".join(f"{a.type} {a.get_reference()}" for a in arguments)
        buffer.append(f"call {self.signature.return_type} {pointer.get_reference()}({given})\n")
