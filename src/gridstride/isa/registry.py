"""The registry of PTX operations: everything about one opcode stands in one entry of a family file.

An entry is made by the decorator `operation` on the function that lowers it:

    @operation("add", types="f32", modifiers="rn|rz|rm|rp? ftz? sat?", operands="0 = 0 0",
               section="9.7.3.5", dirty_nan=True, meaning=reference.add_f32)
    def add_f32(cx: Lanes, form: Form, a: Value, b: Value) -> Value: ...

`types`     alternatives separated by spaces, each a dotted tuple of PTX types as they stand in the opcode
            ("f32", "s32.f32").
`modifiers` groups separated by spaces; alternatives of a group by `|`; a trailing `?` makes it optional.
            Modifiers may stand in any order in the opcode (old and new PTX spell them differently).
`operands`  "results = arguments": `0`, `1`… is the type at that place of the opcode's types, `w0` the type of
            twice its width, a PTX type name is itself, a trailing `?` marks what may be missing, `imm` an
            integer constant, `=` alone on the left side means no result.

The lowering function is shape-polymorphic: every value is either one scalar (uniform across the warp) or one
LLVM vector of the warp's lanes, and `cx` knows which. It gets one value for each argument, in the LLVM type
named by `ScalarType.storage` (None where an optional one is missing, a Python int for `imm`), and returns one
value, or a tuple of them, in the storage types of the results.

`meaning` is the plain Python reference of one lane: it takes `form` and the raw bits of each argument as
unsigned integers (predicates as 0/1) and returns the raw bits of the result(s). Slow, short, obviously right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any

from gridstride.errors import UnsupportedError
from gridstride.isa.types import TYPES, ScalarType


class Effect(Flag):
    """What an operation does beyond computing its results from its arguments."""

    NONE = 0
    READS_MEMORY = auto()
    WRITES_MEMORY = auto()
    SYNCHRONISES = auto()
    READS_LANES = auto()  # its result depends on other lanes of the warp
    CONTROL = auto()  # ends or redirects the thread
    VARIES = auto()  # differs between lanes, or from one execution to the next, whatever its arguments


@dataclass(frozen=True)
class ModifierGroup:
    alternatives: frozenset[str]
    optional: bool


@dataclass(frozen=True)
class Operation:
    opcode: str
    types: tuple[tuple[ScalarType, ...], ...]
    modifiers: tuple[ModifierGroup, ...]
    results: tuple[str, ...]
    arguments: tuple[str, ...]
    section: str
    effects: Effect
    dirty_nan: bool
    lower: Callable[..., Any] | None
    meaning: Callable[..., Any] | None
    syntax: str
    module: str = field(compare=False, default="")

    def accepts(self, modifiers: tuple[str, ...], types: tuple[ScalarType, ...]) -> bool:
        if types not in self.types:
            return False
        unused = list(self.modifiers)
        for word in modifiers:
            for group in unused:
                if word in group.alternatives:
                    unused.remove(group)
                    break
            else:
                return False
        return all(group.optional for group in unused)


@dataclass(frozen=True)
class Form:
    """One opcode with its modifiers and types, as written in a program."""

    text: str
    operation: Operation
    modifiers: frozenset[str]
    types: tuple[ScalarType, ...]

    def __contains__(self, modifier: str) -> bool:
        return modifier in self.modifiers

    def one_of(self, *modifiers: str, default: str = "") -> str:
        """The one of `modifiers` that the form carries, else `default`."""
        return next((m for m in modifiers if m in self.modifiers), default)

    @property
    def type(self) -> ScalarType:
        return self.types[0]

    def operand_type(self, token: str) -> ScalarType | None:
        """The PTX type that an operand token of `Operation.results`/`arguments` stands for (None: `imm`)."""
        token = token.rstrip("?")
        if token == "imm":
            return None
        if token.isdigit():
            return self.types[int(token)]
        if token[0] == "w" and token[1:].isdigit():
            narrow = self.types[int(token[1:])]
            return TYPES[f"{narrow.kind}{narrow.bits * 2}"]
        return TYPES[token]


_OPERATIONS: dict[str, list[Operation]] = {}
_REFUSED: dict[str, tuple[str, str]] = {}  # an opcode's first words -> (what it belongs to, PTX section)
_FORMS: dict[str, Form] = {}


def operation(
    opcode: str,
    *,
    types: str = "",
    modifiers: str = "",
    operands: str,
    section: str,
    effects: Effect = Effect.NONE,
    dirty_nan: bool = False,
    meaning: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated lowering as (one of) the meaning(s) of `opcode`; see the module's docstring.

    `dirty_nan`: a NaN result (f32 only) may carry any payload; the emitter makes it the canonical 0x7fffffff
    before anybody can see its bits.
    """
    results, _, arguments = operands.partition("=")
    groups = tuple(ModifierGroup(frozenset(g.rstrip("?").split("|")), g.endswith("?")) for g in modifiers.split())
    type_tuples = tuple(tuple(TYPES[t] for t in alternative.split(".")) for alternative in types.split()) or ((),)

    def register(lower: Callable[..., Any]) -> Callable[..., Any]:
        entry = Operation(
            opcode,
            type_tuples,
            groups,
            tuple(results.split()),
            tuple(arguments.split()),
            section,
            effects,
            dirty_nan,
            lower,
            meaning,
            syntax=f"{opcode} [{modifiers}] {types}",
            module=lower.__module__,
        )
        _OPERATIONS.setdefault(opcode, []).append(entry)
        return lower

    return register


def refuse(name: str, feature: str, section: str) -> None:
    """Let every form whose opcode begins with the words of `name` (such as "barrier.cluster") be refused as part of `feature`."""
    _REFUSED[name] = (feature, section)


def refused() -> Iterator[tuple[str, str, str]]:
    """Name, feature and PTX section of all that is refused by name."""
    for name in sorted(_REFUSED):
        yield name, *_REFUSED[name]


def _refusal(text: str) -> str:
    """Why no entry accepts an opcode."""
    opcode, *words = text.split(".")
    for count in range(len(words), -1, -1):
        known = _REFUSED.get(".".join((opcode, *words[:count])))
        if known is not None:
            return f"it belongs to {known[0]}, which are not supported yet; PTX ISA {known[1]}"
    return f"PTX ISA {_OPERATIONS[opcode][0].section}" if opcode in _OPERATIONS else "no such opcode is known here"


def lookup(text: str) -> Form:
    """The form that the opcode text (such as "add.rn.ftz.f32") names.

    Raises UnsupportedError, naming the text, where no entry accepts it.
    """
    known = _FORMS.get(text)
    if known is not None:
        return known
    opcode, *words = text.split(".")
    types = tuple(TYPES[w] for w in words if w in TYPES)
    modifiers = tuple(w for w in words if w not in TYPES)
    for entry in _OPERATIONS.get(opcode, ()):
        if entry.accepts(modifiers, types):
            form = _FORMS[text] = Form(text, entry, frozenset(modifiers), types)
            return form
    raise UnsupportedError(f"instruction form `{text}` is not supported ({_refusal(text)})")


def operations() -> Iterator[Operation]:
    """Every registered operation, by opcode."""
    for opcode in sorted(_OPERATIONS):
        yield from _OPERATIONS[opcode]
