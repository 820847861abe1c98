"""Arithmetic in command-line arguments: `n*4`, `cdiv(n, 256)`, `2**20`. A small language of numbers; nothing else of Python is reachable."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache

from gridstride.errors import UsageError

Number = int | float
_MAX_TEXT = 500
_MAX_BITS = 256
"""No intermediate integer gets wider: it keeps `9**9**9` from taking all memory."""

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_FUNCTIONS: dict[str, tuple[int | None, Callable[..., Number]]] = {
    "min": (None, min),
    "max": (None, max),
    "ceil": (1, math.ceil),
    "floor": (1, math.floor),
    "sqrt": (1, math.sqrt),
    "cdiv": (2, lambda a, b: -(-a // b)),
}
_CONSTANTS: dict[str, Number] = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "true": 1, "false": 0}


@lru_cache(maxsize=512)
def _parsed(text: str) -> ast.Expression:
    """Contracts are evaluated again with each launch."""
    return ast.parse(text.strip(), mode="eval")


def evaluate(text: str, names: Mapping[str, Number]) -> Number:
    """The value of an arithmetic expression over numbers, `names`, min, max, ceil, floor, sqrt and cdiv.

    Raises UsageError that says which part of `text` is wrong.
    """
    if len(text) > _MAX_TEXT:
        raise UsageError(f"the expression is longer than {_MAX_TEXT} characters: {text[:40]}…")
    try:
        return _value(_parsed(text).body, names, text)
    except (SyntaxError, RecursionError, MemoryError):
        raise UsageError(f"{text!r} is not an arithmetic expression") from None
    except ZeroDivisionError:
        raise UsageError(f"{text!r} divides by zero") from None
    except (OverflowError, ValueError) as error:
        raise UsageError(f"{text!r} has no value: {error}") from None


def evaluate_count(text: str, names: Mapping[str, Number], what: str) -> int:
    """The expression's value where only a whole number of at least 0 makes sense (a size, a grid); `what` says it in the error."""
    value = evaluate(text, names)
    if not math.isfinite(value) or value != int(value):
        raise UsageError(f"{what} must be a whole number, but {text!r} is {value}")
    if value < 0:
        raise UsageError(f"{what} must not be negative, but {text!r} is {int(value)}")
    return int(value)


def split_at_commas(text: str) -> list[str]:
    """Expressions with commas between; those inside parentheses (`cdiv(n, 2)`) do not separate."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def names_in(text: str) -> tuple[str, ...]:
    """The names that an expression takes from outside, in order. Raises UsageError where it is none."""
    try:
        tree = _parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"{text!r} is not an arithmetic expression") from None
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called)
    return tuple(dict.fromkeys(name for name in names if name not in _CONSTANTS))


def _value(node: ast.expr, names: Mapping[str, Number], text: str) -> Number:
    result = _apply(node, names, text)
    if isinstance(result, int) and result.bit_length() > _MAX_BITS:
        raise UsageError(f"{text!r} gets too large")
    if isinstance(result, complex):
        raise UsageError(f"{text!r} has no real value")
    return result


def _apply(node: ast.expr, names: Mapping[str, Number], text: str) -> Number:
    match node:
        case ast.Constant(value=bool(value)):
            return int(value)
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            if name in names:
                return names[name]
            if name in _CONSTANTS:
                return _CONSTANTS[name]
            known = ", ".join(names) or "none"
            raise UsageError(f"{text!r} uses {name!r}, which no earlier scalar argument defines (defined so far: {known})")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            a, b = _value(left, names, text), _value(right, names, text)
            if (
                isinstance(op, ast.Pow | ast.LShift)
                and isinstance(b, int)
                and isinstance(a, int)
                and abs(b) * max(1, a.bit_length()) > 16 * _MAX_BITS
            ):
                raise UsageError(f"{text!r} gets too large")
            try:
                return _BINARY[type(op)](a, b)
            except TypeError:
                raise UsageError(f"{text!r} shifts a number that is not whole") from None
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, names, text))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            arity, function = _FUNCTIONS[name]
            if not arguments or arity not in (None, len(arguments)):
                raise UsageError(
                    f"{text!r}: {name} takes {arity or 'one or more'} argument{'s' if arity != 1 else ''}, not {len(arguments)}"
                )
            values = [_value(argument, names, text) for argument in arguments]
            return function(*values) if len(values) > 1 or arity == 1 else values[0]
        case ast.Call(func=ast.Name(id=name)):
            raise UsageError(f"{text!r} calls {name!r}; the functions are {', '.join(_FUNCTIONS)}")
        case _:
            raise UsageError(f"{text!r} is not an arithmetic expression")
