"""The names that a Python kernel gives its shared arrays, put into its PTX: Numba calls them `_cudapy_smem_1` and so on."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from types import FunctionType

_SHARED = re.compile(r"\.shared\s[^;\n]*?\b(_cudapy_smem(?:_(\d+))?)\b")


def name_shared_arrays(ptx: str, function: FunctionType) -> str:
    """The text with the arrays of the function called as its variables are; as it is where it cannot be told which is which.

    Numba numbers the arrays in the order in which it meets them, which is that of the source; device functions may have some of their own.
    """
    symbols = {symbol: int(number or 0) for symbol, number in _SHARED.findall(ptx)}
    names = _shared_arrays(function)
    if not names or len(names) != len(symbols):
        return ptx
    wanted = dict(zip(sorted(symbols, key=symbols.__getitem__), names, strict=True))
    taken = set(re.findall(r"[A-Za-z_$%][\w$]*", ptx))
    if len(set(names)) < len(names) or any(name in taken or not name.isascii() for name in names):
        return ptx
    return re.sub(r"\b_cudapy_smem(?:_\d+)?\b", lambda match: wanted[match[0]], ptx)


def _shared_arrays(function: FunctionType) -> list[str]:
    """The variables that `cuda.shared.array` is assigned to, in the order of the source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and _makes_shared(node.value):
            found.append((node.lineno, node.col_offset, node.targets[0].id))
    return [name for *_, name in sorted(found)]


def _makes_shared(value: ast.expr) -> bool:
    while isinstance(value, ast.Subscript):
        value = value.value
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr != "array":
        return False
    owner = value.func.value
    return (owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else "") == "shared"
