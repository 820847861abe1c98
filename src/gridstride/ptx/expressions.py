"""Constant integer expressions (PTX ISA 4.5.4, 4.5.5): 64-bit, the operators of C."""

from __future__ import annotations

from collections.abc import Callable

from gridstride.ptx.lexer import TokenStream, parse_integer

_MASK = (1 << 64) - 1


def _divided(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


# From loosest to tightest: operator -> function. Those of one tuple bind alike and go from left to right.
_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a) or bool(b))},
    {"&&": lambda a, b: int(bool(a) and bool(b))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {"<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b), "<": lambda a, b: int(a < b), ">": lambda a, b: int(a > b)},
    {"<<": lambda a, b: a << b if 0 <= b < 64 else 0, ">>": lambda a, b: a >> b if 0 <= b < 64 else -int(a < 0)},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": _divided, "%": lambda a, b: a - b * _divided(a, b)},
)
_PRODUCT = len(_LEVELS) - 1


MAX_DEPTH = 32  # of parentheses, signs and choices in each other


def constant_expression(s: TokenStream, depth: int = 0) -> int:
    """The value of an expression. Raises ParseError."""
    value = _level(s, 0, depth)
    if s.accept("?"):
        yes = constant_expression(s, depth + 1)
        s.expect(":")
        no = constant_expression(s, depth + 1)
        return yes if value else no
    return value


def constant_product(s: TokenStream) -> int:
    """The value of one term of a sum."""
    return _level(s, _PRODUCT, 0)


def _level(s: TokenStream, level: int, depth: int) -> int:
    if level > _PRODUCT:
        return _unary(s, depth)
    value = _level(s, level + 1, depth)
    while True:
        operator = _operator(s, level)
        if operator is None:
            return value
        at = s.peek()
        right = _level(s, level + 1, depth)
        if operator in ("/", "%") and right == 0:
            s.fail("division by zero in a constant expression", at)
        value = _wrapped(_LEVELS[level][operator](value, right))


def _operator(s: TokenStream, level: int) -> str | None:
    """Take an operator of this level, if one comes next and not a longer one of another level."""
    first, second = s.peek(), s.peek(1)
    pair = first + second if second.start == first.start + 1 else ""
    if pair in ("||", "&&", "==", "!=", "<=", ">=", "<<", ">>"):
        if pair not in _LEVELS[level]:
            return None
        s.next()
        s.next()
        return pair
    if first not in _LEVELS[level]:
        return None
    return str(s.next())


def _wrapped(value: int) -> int:
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def _unary(s: TokenStream, depth: int) -> int:
    if depth > MAX_DEPTH:
        s.fail("this constant expression is nested too deeply")
    if s.accept("-"):
        return -_unary(s, depth + 1)
    if s.accept("+"):
        return _unary(s, depth + 1)
    if s.accept("~"):
        return ~_unary(s, depth + 1)
    if s.accept("!"):
        return int(not _unary(s, depth + 1))
    if s.accept("("):
        if s.peek() in (".s64", ".u64"):
            s.next()
            s.expect(")")
            return _unary(s, depth + 1)
        value = constant_expression(s, depth + 1)
        s.expect(")")
        return value
    if s.peek() == "WARP_SZ":
        s.next()
        return 32
    token = s.next()
    if token.kind != "int":
        s.fail(f"expected an integer, found `{token}`", token)
    return parse_integer(token)
