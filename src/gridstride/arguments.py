"""The language of `--arg`: `n=1000`, `a=2.0`, `k=u64:5`, `p=ptr:0`, `x=f32[n]:uniform:-1:1:7`, `y=f32[n]:zeros:out`, `img=@photo.npy`.

    NAME = EXPRESSION                                a scalar of the kernel parameter's type
    NAME = TYPE:EXPRESSION                           a scalar of exactly this type (i8 … u64, f16, f32, f64)
    NAME = ptr:EXPRESSION                            a raw device address (0 is null)
    NAME = TYPE[SIZE{,SIZE}]{:INITIALISER}{:out}     a buffer; sizes are expressions over earlier scalars
    NAME = @FILE{#MEMBER}{:out}                      a buffer with a file's type, shape and content (.npy, .npz)

NAME is a parameter's name in the source, its PTX name, or its position as `p0`, `p1` …
An INITIALISER is zeros (also the default), ones, poison, none, arange, const=V, uniform{:LOW:HIGH{:SEED}},
randint{:LOW:HIGH{:SEED}} or @FILE{#MEMBER}. Ranges are 0 to 1 for uniform and 0 to 256 for randint; the seed is the
argument's position + 1, so that two buffers differ.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gridstride.errors import UsageError
from gridstride.runtime.expressions import Number, evaluate, evaluate_count, split_at_commas
from gridstride.runtime.initial import DTYPES, Initial, Kind, read_array, typed
from gridstride.runtime.request import Argument, Buffer, RawPointer, Scalar

_BUFFER = re.compile(r"(?P<dtype>[A-Za-z]\w*)\[(?P<sizes>[^\]]*)\](?P<rest>.*)", re.DOTALL)
_TYPED = re.compile(r"(?P<dtype>[A-Za-z]\w*):(?P<value>.*)", re.DOTALL)
_PLAIN_FILLS = ("zeros", "ones", "poison", "none", "arange")
_DEFAULT_RANGE: dict[str, tuple[float, float]] = {"uniform": (0.0, 1.0), "randint": (0, 256)}


@dataclass(frozen=True)
class ParsedArguments:
    """`arguments` in the kernel's order; `scalars` are the values that sizes, `--grid` and `--block` may use."""

    arguments: tuple[Argument, ...]
    scalars: Mapping[str, Number]


def parse_arguments(texts: Sequence[str], kernel: str, parameter_names: Sequence[Sequence[str]]) -> ParsedArguments:
    """The `--arg` texts of one launch, in the order given, put in the kernel's order.

    `parameter_names[i]` are all names of parameter i (source name, PTX name); `p0`, `p1` … are added here.
    Raises UsageError with the text that is wrong, or the names of the parameters that got no argument.
    """
    positions = {name: i for i in reversed(range(len(parameter_names))) for name in (f"p{i}", *parameter_names[i])}
    shown = [names[0] if names else f"p{i}" for i, names in enumerate(parameter_names)]
    found: dict[int, Argument] = {}
    scalars: dict[str, Number] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise UsageError(f"--arg {text}: write NAME=VALUE, as in n=1000 or x=f32[n]:uniform")
        if name not in positions:
            near = difflib.get_close_matches(name, positions, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"--arg {text}: {kernel} has no parameter {name!r} (it has {', '.join(shown) or 'none'}){hint}")
        position = positions[name]
        if position in found:
            raise UsageError(f"--arg {text}: the parameter {shown[position]!r} already has an argument")
        try:
            argument = parse_value(value.strip(), position, scalars)
        except UsageError as error:
            raise UsageError(f"--arg {text}: {error}") from None
        found[position] = argument
        if isinstance(argument, Scalar):
            number: Number = argument.value.item() if isinstance(argument.value, np.generic) else argument.value
            scalars |= {name: number, shown[position]: number}
    missing = [shown[i] for i in range(len(parameter_names)) if i not in found]
    if missing:
        plural = "" if len(parameter_names) == 1 else "s"
        raise UsageError(f"{kernel} has {len(parameter_names)} parameter{plural}; no --arg for {', '.join(missing)}")
    return ParsedArguments(tuple(found[i] for i in range(len(parameter_names))), scalars)


def parse_value(text: str, position: int, scalars: Mapping[str, Number]) -> Argument:
    """What stands right of the `=`; `position` is the parameter's, from which a default seed comes."""
    if not text:
        raise UsageError("there is no value")
    if text.startswith("@"):
        return _file_buffer(text)
    if match := _BUFFER.fullmatch(text):
        return _buffer(match, position, scalars)
    if (match := _TYPED.fullmatch(text)) and (match["dtype"] == "ptr" or match["dtype"] in DTYPES):
        if re.split("[:=]", match["value"])[0] in (*_PLAIN_FILLS, "const", *_DEFAULT_RANGE):
            raise UsageError(f"a buffer needs its size, as in {match['dtype']}[1000]:{match['value']}")
        if match["dtype"] == "ptr":
            return RawPointer(evaluate_count(match["value"], scalars, "an address"))
        return Scalar(typed(DTYPES[match["dtype"]], evaluate(match["value"], scalars)))
    if text.partition(":")[0] in DTYPES:
        raise UsageError(f"a buffer needs its size, as in {text.partition(':')[0]}[1000]")
    if match:
        raise UsageError(f"unknown type {match['dtype']!r}; the types are {', '.join(DTYPES)} and ptr")
    return Scalar(evaluate(text, scalars))


def _file(text: str) -> tuple[Path, str | None]:
    path, hash_sign, member = text.removeprefix("@").partition("#")
    if not path:
        raise UsageError("there is no file name after @")
    return Path(path).expanduser(), member if hash_sign else None


def _file_buffer(text: str) -> Buffer:
    out = text.endswith(":out")
    path, member = _file(text.removesuffix(":out"))
    values = read_array(path, member)
    if values.dtype not in DTYPES.values():
        raise UsageError(f"{path} holds {values.dtype}; the types are {', '.join(DTYPES)}")
    return Buffer(values.dtype, values.shape, Initial("file", path=path, member=member), out)


def _buffer(match: re.Match[str], position: int, scalars: Mapping[str, Number]) -> Buffer:
    name, rest = match["dtype"], match["rest"]
    if name not in DTYPES:
        near = difflib.get_close_matches(name, DTYPES, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"unknown type {name!r}; the types are {', '.join(DTYPES)}{hint}")
    if rest and not rest.startswith(":"):
        raise UsageError(f"expected ':' after the size, found {rest!r}")
    out = rest.endswith(":out")
    initial = _initial(rest.removesuffix(":out").removeprefix(":"), position, scalars)
    sizes = match["sizes"].strip()
    if not sizes:
        if initial.kind != "file" or initial.path is None:
            raise UsageError(f"a buffer needs its size, as in {name}[1000]")
        return Buffer(DTYPES[name], read_array(initial.path, initial.member, DTYPES[name]).shape, initial, out)
    shape = tuple(evaluate_count(size, scalars, "a size") for size in split_at_commas(sizes))
    return Buffer(DTYPES[name], shape, initial, out)


def parse_dimensions(text: str, scalars: Mapping[str, Number], what: str) -> tuple[int, ...]:
    """`--grid` and `--block`: one to three expressions separated by commas, or plain numbers as in 16x16."""
    parts = text.split("x") if re.fullmatch(r"\s*\d+(\s*x\s*\d+)+\s*", text) else split_at_commas(text)
    if len(parts) > 3:
        raise UsageError(f"{what} {text} has {len(parts)} dimensions; there are at most 3")
    try:
        return tuple(evaluate_count(part, scalars, "a dimension") for part in parts)
    except UsageError as error:
        raise UsageError(f"{what} {text}: {error}") from None


def _initial(text: str, position: int, scalars: Mapping[str, Number]) -> Initial:
    if text.startswith("@"):
        path, member = _file(text)
        return Initial("file", path=path, member=member)
    kind, *rest = text.split(":") if text else ["zeros"]
    for plain in _PLAIN_FILLS:
        if kind == plain:
            if rest:
                raise UsageError(f"{kind} takes nothing after it, found {':'.join(rest)!r}")
            return Initial(_kind(kind))
    if kind.startswith("const="):
        return Initial("const", (evaluate(kind.removeprefix("const="), scalars),))
    if kind in _DEFAULT_RANGE:
        if len(rest) not in (0, 2, 3):
            raise UsageError(f"write {kind}, {kind}:LOW:HIGH or {kind}:LOW:HIGH:SEED")
        low, high = (evaluate(rest[0], scalars), evaluate(rest[1], scalars)) if rest else _DEFAULT_RANGE[kind]
        seed = evaluate_count(rest[2], scalars, "a seed") if len(rest) == 3 else position + 1
        return Initial(_kind(kind), (low, high, seed))
    known = (*_PLAIN_FILLS, "const=V", *_DEFAULT_RANGE, "@FILE")
    near = difflib.get_close_matches(kind, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"unknown initialiser {kind!r}; there are {', '.join(known)}{hint}")


def _kind(text: str) -> Kind:
    for kind in ("zeros", "ones", "poison", "none", "arange", "uniform", "randint"):
        if text == kind:
            return kind
    raise AssertionError(text)
