"""What a kernel is between parsing and lowering: a control-flow graph of operations on typed registers.

Registers are plain integers; `Function.types` gives their PTX types. Device functions are already inlined,
guards stand only on operations without effects, and every block ends with exactly one terminator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from gridstride.isa.registry import Form
from gridstride.isa.types import ScalarType
from gridstride.ptx.nodes import SourceLocation, Variable


@dataclass(frozen=True, slots=True)
class Reg:
    """A use of register `id`; `negated` for predicates."""

    id: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Const:
    """Raw bits, to be read in the type of the operand it stands for; `float_width` 32 or 64 if written as a float."""

    bits: int
    float_width: int = 0


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    name: str


@dataclass(frozen=True, slots=True)
class AddressOf:
    """The address of a variable or function in its own state space, plus an offset."""

    space: str
    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Missing:
    """In the place of an optional operand that was not given, where others follow."""


Arg = Reg | Const | SpecialRegister | AddressOf | Missing


class Kind(Enum):
    COMPUTE = auto()  # a registry operation without effects
    MOVE = auto()  # results from arguments: copy, pack, unpack
    LOAD = auto()
    STORE = auto()
    ATOMIC = auto()
    EFFECT = auto()  # everything else that is not a terminator; its registry entry lowers it
    JUMP = auto()
    BRANCH = auto()  # arguments[0] is the predicate; targets (taken, not taken)
    EXIT = auto()  # the active lanes end (or return from a called function)


TERMINATORS = frozenset({Kind.JUMP, Kind.BRANCH, Kind.EXIT})


@dataclass(frozen=True, slots=True)
class Access:
    """A memory access: `element` is what one register holds, `count` how many of them side by side."""

    space: str
    element: ScalarType
    count: int
    offset: int
    ordering: str = "weak"  # weak, volatile, relaxed, acquire, release, acq_rel
    scope: str = "gpu"
    cluster: bool = False  # to shared memory of any block of the cluster

    @property
    def bytes(self) -> int:
        return self.element.bytes * self.count


@dataclass(slots=True, eq=False)
class Op:
    kind: Kind
    form: Form | None
    results: list[int | None]
    args: list[Arg]
    line: int = 0
    loc: SourceLocation | None = None
    guard: Reg | None = None
    access: Access | None = None
    site: int = -1  # index into Function.sites
    info: object = None
    added: bool = False  # by a pass for purposes of its own: the program does not have it, and nobody counts it

    def uses(self) -> list[int]:
        found = [a.id for a in self.args if isinstance(a, Reg)]
        if self.guard is not None:
            found.append(self.guard.id)
            found += [r for r in self.results if r is not None]
        return found


@dataclass(slots=True, eq=False)
class Block:
    ops: list[Op] = field(default_factory=list)
    targets: list[Block] = field(default_factory=list)
    index: int = -1
    label: str = ""

    @property
    def terminator(self) -> Op:
        return self.ops[-1]


@dataclass(frozen=True, slots=True)
class Site:
    """Where an operation came from, for messages."""

    line: int
    loc: SourceLocation | None
    text: str
    space: str
    bytes: int


@dataclass(eq=False)
class Function:
    """One kernel (or one device function that is called for real).

    local_bytes  per-thread bytes of local memory; local_offsets: where each depot starts
    shared       static shared variables, offsets given when the module is laid out
    """

    name: str
    parameters: list[Variable]
    returns: list[Variable]
    entry: bool
    types: dict[int, ScalarType] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    local_bytes: int = 0
    local_offsets: dict[str, int] = field(default_factory=dict)
    shared: dict[str, Variable] = field(default_factory=dict)
    calls: frozenset[str] = frozenset()  # functions that are called for real

    def new_register(self, kind: ScalarType, name: str = "") -> int:
        register = len(self.types)
        self.types[register] = kind
        self.names[register] = name
        return register
