"""Runs instruction forms of the registry by themselves, on arrays of raw bits, outside any kernel.

A `Case` is a few straight-line PTX statements on named registers. `Batch` compiles many of them into one
module, in both shapes (a warp of 32 lanes, and one uniform value), runs them, and insists that the shapes agree.
`meaning_of` runs the same statements on the Python meanings of the registry. Registers are untyped bit
containers as in PTX: an operand narrower than its register takes the low bits, a result narrower than its register is
sign- or zero-extended by its type.

    case = form_case("add.sat.s32")                   # registers made from the form's signature
    (sums,) = Batch([case]).run(case, a, b)           # arrays of unsigned integers in and out
    (also,) = meaning_of(case, a, b)
"""

from __future__ import annotations

import ctypes
import itertools
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

import gridstride.isa.families  # noqa: F401  (fills the registry)
from gridstride.isa.lanes import WARP, Lanes
from gridstride.isa.registry import Form, lookup
from gridstride.isa.types import TYPES, ScalarType
from gridstride.isa.video import selector
from gridstride.lower.host import compile_object, load_object

Bits = npt.NDArray[Any]

# Names of register kinds beyond the PTX types: those of the truth set's operand generator.
_KIND_BITS = {"h16": 16, "g16": 16, "h32": 32, "g32": 32, "sh": 32}
_LANE_INDEX = "%l"  # the truth set's kernels keep `thread & 63` in this register
_CANONICAL_NAN = 0x7FFFFFFF
_serial = itertools.count()


def kind_bits(kind: str) -> int:
    """Width of a register of this kind: a PTX type's name, or a kind of the truth set. Predicates have 1 bit."""
    return _KIND_BITS[kind] if kind in _KIND_BITS else TYPES[kind].bits


def array_type(kind: str) -> Any:
    """The NumPy type that holds a register of this kind; a predicate is one byte, 0 or 1."""
    return {1: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[kind_bits(kind)]


@dataclass(frozen=True)
class Case:
    """PTX statements (braces around register names are ignored) with the kinds of the registers that come in and
    go out, in order."""

    ptx: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Statement:
    form: Form
    results: tuple[str, ...]
    arguments: tuple[str | None, ...]  # one for each argument of the operation; None: left out
    carry_in: bool

    @property
    def carry_out(self) -> bool:
        return "cc" in self.form


def truth_case(form: dict[str, Any]) -> Case:
    """The case of one entry of the truth set's forms.json."""
    return Case(form["ptx"], tuple(zip("abc", form["args"], strict=False)), (("d", form["d"]),))


def form_case(text: str, *, immediates: Sequence[int] = (), leave_out: int = 0) -> Case:
    """A case of the one opcode `text`, its registers made from its signature: inputs a0, a1 …, outputs d0, d1 ….

    `immediates` for its `imm` operands, in order; `leave_out` trailing optional arguments are not given, nor are
    optional immediates. Carries go through predicate registers like other operands.
    """
    form = lookup(text)
    tokens = [token for token in form.operation.arguments if token != "imm?"]
    for _ in range(leave_out):
        assert tokens.pop().endswith("?"), f"{text}: not optional"
    constants, inputs, operands = iter(immediates), [], []
    for k, token in enumerate(tokens):
        operand_type = form.operand_type(token)
        if operand_type is None:
            operands.append(str(next(constants)))
        else:
            inputs.append((f"a{k}", operand_type.name))
            operands.append(f"a{k}")
    outputs = [(f"d{k}", _typed(form, token).name) for k, token in enumerate(form.operation.results)]
    return Case(f"{text} {'|'.join(n for n, _ in outputs)}, {', '.join(operands)};", tuple(inputs), tuple(outputs))


def _typed(form: Form, token: str) -> ScalarType:
    operand_type = form.operand_type(token)
    assert operand_type is not None
    return operand_type


def parse(ptx: str) -> list[Statement]:
    """The statements of straight-line PTX text."""
    statements = []
    for line in filter(None, (part.strip() for part in ptx.replace("{", "").replace("}", "").split(";"))):
        text, _, rest = line.partition(" ")
        places = [place.strip() for place in rest.split(",")]
        form = lookup(text)
        if form.operation.module == "gridstride.isa.video":
            statements.append(_video_statement(form, places))
            continue
        results, operands = tuple(r.strip() for r in places[0].split("|")), places[1:]
        names = form.operation.arguments
        carry_in = form.operation.opcode in ("addc", "subc", "madc") and len(operands) == len(names) - 1
        if carry_in:
            operands.append("CC")
        missing = len(names) - len(operands)
        assert 0 <= missing <= sum(n.endswith("?") for n in names), f"{line}: wrong number of operands"
        given = iter(operands)
        arguments: list[str | None] = []
        for name in names:  # optional ones are left out from the first on while too few are given
            if name.endswith("?") and missing > 0:
                missing -= 1
                arguments.append(None)
            else:
                arguments.append(next(given))
        statements.append(Statement(form, results, tuple(arguments), carry_in))
    return statements


_VIDEO_OPERAND = re.compile(r"(-?)([%\w]+)(?:\.([bh]\d+))?$")


def _video_statement(form: Form, places: list[str]) -> Statement:
    """Selectors and signs of video operands become the constants that the operation takes behind its operands."""
    matches = [match for place in places if (match := _VIDEO_OPERAND.match(place))]
    assert len(matches) == len(places), f"{form.text}: cannot read {places}"
    names = [match[2] for match in matches]
    parts = [None if match[3] is None else str(selector(match[3])) for match in matches]
    last = parts[0]
    if form.operation.opcode == "vmad":
        minus = [match[1] == "-" for match in matches]
        last = str((minus[1] != minus[2]) + 2 * minus[3])
    third = names[3] if len(names) == 4 else None
    return Statement(form, (names[0],), (names[1], names[2], third, parts[1], parts[2], last), False)


def _literal(text: str) -> int | None:
    """An immediate's bits (f32 and f64 hexadecimal constants included), None for a register."""
    if text[:2].lower() in ("0f", "0d"):
        return int(f"0x{text[2:]}", 0)
    try:
        return int(text.rstrip("U"), 0)
    except ValueError:
        return None


class Batch:
    """Native code of many cases, in both shapes."""

    def __init__(self, cases: Iterable[Case], *, level: int = 1) -> None:
        self._index = {case: k for k, case in enumerate(dict.fromkeys(cases))}
        module = ir.Module("opcodes")
        names = []
        for case, k in self._index.items():
            for width in (WARP, 1):
                names.append(f"case{k}_{width}")
                _emit_loop(module, names[-1], case, width)
        image = compile_object(str(module), level)
        self._tracker, self._addresses = load_object(f"opcodes{next(_serial)}", image, names)

    def run(self, case: Case, *arrays: Bits) -> list[Bits]:
        """Raw bits of each output over all elements; the two shapes must agree on every bit."""
        vector = self._run(case, WARP, arrays)
        scalar = self._run(case, 1, arrays)
        for (name, _), one, other in zip(case.outputs, vector, scalar, strict=True):
            differing = np.flatnonzero(one != other)
            assert not differing.size, (
                f"{case.ptx}: {name} differs between lanes and scalar at {differing[:5]}: {one[differing[:5]]} {other[differing[:5]]}"
            )
        return vector

    def _run(self, case: Case, width: int, arrays: Sequence[Bits]) -> list[Bits]:
        count = len(arrays[0])
        padded = -(-count // WARP) * WARP
        buffers = []
        for (_, kind), values in zip(case.inputs, arrays, strict=True):
            buffer = np.zeros(padded, array_type(kind))
            buffer[:count] = values
            buffers.append(buffer)
        outputs = [np.full(padded, 0xA5, array_type(kind)) for _, kind in case.outputs]
        pointers = [buffer.ctypes.data for buffer in (*buffers, *outputs)]
        address = self._addresses[f"case{self._index[case]}_{width}"]
        ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * len(pointers))(address)(padded, *pointers)
        return [output[:count] for output in outputs]


def _emit_loop(module: ir.Module, name: str, case: Case, width: int) -> None:
    """A function (count, inputs…, outputs…) that applies the case to every `width` elements."""
    i64, pointer = ir.IntType(64), ir.PointerType()
    registers = [*case.inputs, *case.outputs]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64, *[pointer] * len(registers)]), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    entry, loop, end = builder.block, function.append_basic_block("loop"), function.append_basic_block("end")
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(i64)
    index.add_incoming(ir.Constant(i64, 0), entry)
    cx = Lanes(builder, width)

    def place(argument: ir.Value, kind: str) -> ir.Value:
        return builder.gep(argument, [index], source_etype=ir.IntType(array_type(kind)().itemsize * 8))

    values: dict[str, _Held] = {}
    for (register, kind), argument in zip(case.inputs, function.args[1:], strict=False):
        stored = cx.type(f"i{max(8, kind_bits(kind))}")
        value = builder.load(place(argument, kind), typ=stored, align=1)
        values[register] = _Held(builder.trunc(value, cx.type("i1")) if kind_bits(kind) == 1 else value)
    values[_LANE_INDEX] = _Held(_lane_indices(cx, index))
    for statement in parse(case.ptx):
        _emit_statement(cx, statement, values)
    for (register, kind), argument in zip(case.outputs, function.args[1 + len(case.inputs) :], strict=True):
        builder.store(values[register].as_bits(cx, max(8, kind_bits(kind))), place(argument, kind), align=1)
    following = builder.add(index, ir.Constant(i64, width))
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", following, function.args[0]), loop, end)
    builder.position_at_end(end)
    builder.ret_void()


@dataclass(frozen=True)
class _Held:
    """A register's content: integer lanes, and whether a wider register would repeat their sign."""

    value: ir.Value
    signed: bool = False

    def as_bits(self, cx: Lanes, bits: int) -> ir.Value:
        element = self.value.type.element if isinstance(self.value.type, ir.VectorType) else self.value.type
        target = cx.type(f"i{bits}")
        assert isinstance(element, ir.IntType)
        if element.width == bits:
            return self.value
        if element.width > bits:
            return cx.b.trunc(self.value, target)
        return cx.b.sext(self.value, target) if self.signed else cx.b.zext(self.value, target)


def _lane_indices(cx: Lanes, index: ir.Value) -> ir.Value:
    number: ir.Value = cx.b.trunc(index, ir.IntType(32))
    if cx.width > 1:
        undefined = ir.Constant(cx.type("i32"), ir.Undefined)
        first = cx.b.insert_element(undefined, number, ir.IntType(32)(0))
        spread = cx.b.shuffle_vector(first, undefined, ir.Constant(cx.type("i32"), [0] * cx.width))
        number = cx.b.add(spread, ir.Constant(cx.type("i32"), list(range(cx.width))))
    return cx.b.and_(number, cx.const("i32", 63))


def _emit_statement(cx: Lanes, statement: Statement, values: dict[str, _Held]) -> None:
    form = statement.form
    entry = form.operation
    assert entry.lower is not None
    arguments = []
    for token, text in zip(entry.arguments, statement.arguments, strict=True):
        arguments.append(None if text is None else _read(cx, values, text, form.operand_type(token)))
    results = entry.lower(cx, form, *arguments)
    results = results if isinstance(results, tuple) else (results,)
    names = _result_names(statement, len(results))
    for name, token, value in zip(names, entry.results, results, strict=True):
        result_type = _typed(form, token)
        assert value.type == cx.type(result_type.storage), f"{form.text}: {name} is {value.type}, not {result_type.storage}"
        if entry.dirty_nan and result_type.name == "f32":
            bits = cx.const("i32", _CANONICAL_NAN)
            value = cx.select(cx.b.fcmp_unordered("uno", value, value), bits, cx.cast(value, "i32"))
        if result_type.storage[0] == "f":
            value = cx.cast(value, f"i{result_type.bits}")
        values[name] = _Held(value, result_type.signed)


def _result_names(statement: Statement, count: int) -> list[str]:
    """Where each result goes: those the statement names; a carry to the flag unless named; the rest nowhere."""
    names = list(statement.results)
    if statement.carry_out and len(names) < count:
        names.append("CC")
    return names + ["_"] * (count - len(names))


def _read(cx: Lanes, values: dict[str, _Held], text: str, operand_type: ScalarType | None) -> Any:
    name = text.removeprefix("!")
    literal = _literal(name)
    if operand_type is None:
        assert literal is not None, f"{text}: an integer constant is needed"
        return literal
    if literal is not None and operand_type.kind == "f":
        raw = (literal & ((1 << operand_type.bits) - 1)).to_bytes(operand_type.bytes, "little")
        return cx.const(operand_type.storage, struct.unpack("<f" if operand_type.bits == 32 else "<d", raw)[0])
    if literal is not None:
        value: ir.Value = cx.const(f"i{operand_type.bits}", literal)
    else:
        value = values[name].as_bits(cx, operand_type.bits)
    if text.startswith("!"):
        value = cx.b.not_(value)
    return cx.cast(value, operand_type.storage)


def meaning_of(case: Case, *arrays: Bits) -> list[Bits]:
    """What the Python meanings of the registry give for the case, element by element."""
    statements = parse(case.ptx)
    columns: list[list[int]] = [[] for _ in case.outputs]
    kinds = dict((*case.inputs, *case.outputs))
    for position, row in enumerate(zip(*(array.tolist() for array in arrays), strict=True)):
        values: dict[str, int] = {_LANE_INDEX: position & 63}
        values.update(zip((name for name, _ in case.inputs), row, strict=True))
        for statement in statements:
            _evaluate(statement, values, kinds)
        for column, (name, _) in zip(columns, case.outputs, strict=True):
            column.append(values[name])
    return [np.array(column, array_type(kind)) for column, (_, kind) in zip(columns, case.outputs, strict=True)]


def _evaluate(statement: Statement, values: dict[str, int], kinds: dict[str, str]) -> None:
    form = statement.form
    meaning: Callable[..., Any] | None = form.operation.meaning
    assert meaning is not None, f"{form.text} has no meaning"
    arguments: list[int | None] = []
    for token, text in zip(form.operation.arguments, statement.arguments, strict=True):
        if text is None:
            arguments.append(None)
            continue
        literal = _literal(text.removeprefix("!"))
        value = literal if literal is not None else values[text.removeprefix("!")]
        if text.startswith("!"):
            value ^= 1
        operand_type = form.operand_type(token)
        arguments.append(value if operand_type is None else value & ((1 << operand_type.bits) - 1))
    results = meaning(form, *arguments)
    results = results if isinstance(results, tuple) else (results,)
    for name, token, value in zip(_result_names(statement, len(results)), form.operation.results, results, strict=True):
        result_type = _typed(form, token)
        assert isinstance(value, int) and 0 <= value < 1 << result_type.bits, f"{form.text}: meaning gave {value!r}"
        wide = kind_bits(kinds[name]) if name in kinds else result_type.bits
        if result_type.signed and value >> (result_type.bits - 1):
            value |= (1 << max(wide, result_type.bits)) - (1 << result_type.bits)
        values[name] = value
