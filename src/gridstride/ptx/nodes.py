"""The syntax tree of PTX (PTX ISA 4 and 5): what a program says, names resolved, nothing interpreted yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gridstride.isa.types import ScalarType


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A `.loc`: index of the file in `Module.files`, line, and where that code was inlined (innermost first)."""

    file: int
    line: int
    inlined_at: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Register:
    """A register; the name is unique in its function."""

    name: str


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as %tid.x."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """An integer constant."""

    value: int


@dataclass(frozen=True, slots=True)
class FloatImmediate:
    """A floating-point constant: its bits as f64, or as f32 where it was written as 0f…"""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, function, label or parameter, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand `[base + offset]`."""

    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class VectorOperand:
    """`{a, b, …}`; also the parameter lists of calls, written in parentheses."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`p|q`: two destinations. `_` is None."""

    first: Operand | None
    second: Operand | None


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p`."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Part:
    """An operand of a video instruction (PTX ISA 9.7.18): a register, the part of it that is meant ("b3", "h10"; ""
    for the whole), and whether a minus stands before it."""

    register: Register
    part: str
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that nobody wants."""


Operand = Register | Special | Immediate | FloatImmediate | Symbol | Address | VectorOperand | Pair | Negated | Part | Sink


@dataclass(slots=True)
class Instruction:
    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None
    guard_negated: bool
    line: int
    loc: SourceLocation | None


@dataclass(frozen=True, slots=True)
class Relocation:
    """An address inside an initialiser: `size` bytes at `offset`, starting `shift` bits into the address."""

    offset: int
    symbol: str
    addend: int
    size: int
    shift: int
    generic: bool


@dataclass(slots=True)
class Variable:
    """A variable in some state space. `size` None: an array of unspecified extent (dynamic shared memory)."""

    name: str
    space: str
    type: ScalarType
    align: int
    size: int | None
    line: int
    initial: bytes | None = None
    relocations: tuple[Relocation, ...] = ()
    extern: bool = False
    managed: bool = False
    pointer: bool = False  # a parameter that `.ptr` says to hold an address


@dataclass(slots=True)
class Function:
    name: str
    entry: bool
    line: int
    parameters: list[Variable]
    returns: list[Variable]
    has_body: bool = False
    registers: dict[str, ScalarType] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    body: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: dict[str, tuple[list[Variable], list[Variable]]] = field(default_factory=dict)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Module:
    version: tuple[int, int]
    target: str
    address_size: int
    files: dict[int, str]
    variables: dict[str, Variable]
    functions: dict[str, Function]
    aliases: dict[str, str]
    text: str

    def entries(self) -> Iterator[Function]:
        return (f for f in self.functions.values() if f.entry and f.has_body)
