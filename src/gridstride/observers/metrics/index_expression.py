"""Index expressions as CUDA C++ writes them, computed for many threads at once: `x[i * stride + offset]`, `s[threadIdx.y][threadIdx.x]`.

Integer arithmetic with C's precedence and rounding (division cuts off, the remainder has the dividend's sign), on 64 bits. Nothing but
numbers, names, operators, `min`, `max` and `abs` is understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import UsageError

Integers = npt.NDArray[np.int64]
Node = Callable[[Mapping[str, Integers]], Integers]
_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+)[uUlL]*(?![\w.])|(?P<name>[A-Za-z_]\w*(?:\.[xyz]\b)?)|(?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>?:()\[\],]))"
)
_LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
_MOST = 2000


def _divide(a: Integers, b: Integers) -> Integers:
    if np.any(b == 0):
        raise ZeroDivisionError
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)), dtype=np.int64)


def _shift(a: Integers, b: Integers, left: bool) -> Integers:
    if np.any((b < 0) | (b > 63)):
        raise ValueError("a shift by less than 0 or more than 63")
    return a << b if left else a >> b


_BINARY: dict[str, Callable[[Integers, Integers], Any]] = {
    "||": lambda a, b: (a != 0) | (b != 0),
    "&&": lambda a, b: (a != 0) & (b != 0),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "<<": lambda a, b: _shift(a, b, True),
    ">>": lambda a, b: _shift(a, b, False),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: a - _divide(a, b) * b,
}
_UNARY: dict[str, Callable[[Integers], Any]] = {"-": lambda a: -a, "+": lambda a: a, "~": lambda a: ~a, "!": lambda a: a == 0}
_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {"min": (2, np.minimum), "max": (2, np.maximum), "abs": (1, np.abs)}


@dataclass(frozen=True)
class IndexExpression:
    """An array element: `array` its name ("" for a bare index), `indices` one to three, slowest first, `names` what they hang on."""

    text: str
    array: str
    indices: tuple[Node, ...]
    names: frozenset[str]

    def element(self, values: Mapping[str, Integers], pitch: int | None = None, rows: int | None = None) -> Integers:
        """The element's number in the array: the rows of a two-dimensional one are `pitch` elements apart, planes `rows` rows.

        Raises UsageError for a name without a value, a pitch that is missing, or a division by zero.
        """
        unknown = sorted(self.names - values.keys())
        if unknown:
            raise UsageError(f"`{self.text}` needs a value for {', '.join(unknown)}: give it with --set {unknown[0]}=…")
        if len(self.indices) > 1 and pitch is None:
            raise UsageError(f"`{self.text}` has {len(self.indices)} indices: give the length of a row with --pitch")
        if len(self.indices) > 2 and rows is None:
            raise UsageError(f"`{self.text}` has 3 indices: give the rows of a plane with --rows")
        try:
            parts = [index(values) for index in self.indices]
        except ZeroDivisionError:
            raise UsageError(f"`{self.text}` divides by zero") from None
        except ValueError as error:
            raise UsageError(f"`{self.text}` has no value: {error}") from None
        total = parts[0]
        steps = ((), (pitch,), (rows, pitch))[len(parts) - 1]
        for part, step in zip(parts[1:], steps, strict=True):
            total = total * (step or 1) + part
        return total


def parse_index(text: str) -> IndexExpression:
    """Read `array[index]`, `array[row][column]` or a bare `index`. Raises UsageError that shows what cannot be read."""
    parser = _Parser(text)
    array, indices = parser.element()
    return IndexExpression(text, array, tuple(indices), frozenset(parser.names))


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > _MOST:
            raise UsageError(f"the expression is longer than {_MOST:,} characters")
        self.text = text
        self.names: set[str] = set()
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                self.fail(text[position:].strip())
            assert match is not None and match.lastgroup is not None
            self.tokens.append((match.lastgroup, match.group(match.lastgroup)))
            position = match.end()
        self.at = 0

    def fail(self, rest: str) -> None:
        raise UsageError(f"cannot read `{self.text}`" + (f" from `{rest[:20]}` on" if rest else ": it ends too early"))

    @property
    def token(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def accept(self, *wanted: str) -> str:
        if self.at < len(self.tokens) and self.tokens[self.at][1] in wanted:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return ""

    def expect(self, wanted: str) -> None:
        if not self.accept(wanted):
            self.unexpected()

    def unexpected(self) -> None:
        self.fail(" ".join(text for _, text in self.tokens[self.at :]))

    def element(self) -> tuple[str, list[Node]]:
        array, indices = "", []
        if len(self.tokens) > 1 and self.tokens[0][0] == "name" and self.tokens[1][1] == "[":
            array = self.tokens[0][1]
            self.at = 1
            while self.accept("["):
                indices.append(self.expression())
                self.expect("]")
        else:
            indices.append(self.expression())
        if self.at < len(self.tokens):
            self.unexpected()
        if len(indices) > 3:
            raise UsageError(f"`{self.text}` has {len(indices)} indices: an array has at most 3 dimensions here")
        return array, indices

    def expression(self) -> Node:
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        then = self.expression()
        self.expect(":")
        otherwise = self.expression()
        return lambda values: np.where(condition(values) != 0, then(values), otherwise(values))

    def binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while operator := self.accept(*_LEVELS[level]):
            left = _binary_node(_BINARY[operator], left, self.binary(level + 1))
        return left

    def unary(self) -> Node:
        if operator := self.accept("-", "+", "~", "!"):
            apply, inner = _UNARY[operator], self.unary()
            return lambda values: np.asarray(apply(inner(values)), dtype=np.int64)
        if self.accept("("):
            inside = self.expression()
            self.expect(")")
            return inside
        if self.at == len(self.tokens):
            self.fail("")
        kind, text = self.tokens[self.at]
        if kind == "operator":
            self.unexpected()
        self.at += 1
        if kind == "number":
            number = self.number(text)
            return lambda values: np.asarray(number)
        if text in _FUNCTIONS and self.token == "(":
            return self.call(text)
        self.names.add(text)
        return lambda values: values[text]

    def number(self, text: str) -> np.int64:
        """A literal; as in C, one that begins with 0 is octal."""
        try:
            return np.int64(int(text, 16 if text[:2].lower() == "0x" else 8 if text[0] == "0" else 10))
        except (ValueError, OverflowError):
            raise UsageError(f"`{text}` in `{self.text}` is no integer of 64 bits") from None

    def call(self, name: str) -> Node:
        count, function = _FUNCTIONS[name]
        self.expect("(")
        arguments = [self.expression()]
        while self.accept(","):
            arguments.append(self.expression())
        self.expect(")")
        if len(arguments) != count:
            raise UsageError(f"`{name}` in `{self.text}` takes {count} argument{'s' if count > 1 else ''}, not {len(arguments)}")
        return lambda values: np.asarray(function(*(argument(values) for argument in arguments)), dtype=np.int64)


def _binary_node(apply: Callable[[Integers, Integers], Any], left: Node, right: Node) -> Node:
    return lambda values: np.asarray(apply(left(values), right(values)), dtype=np.int64)
