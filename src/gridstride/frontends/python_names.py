"""What the source of a Python kernel knows and its compiler's PTX does not say: the names of shared arrays, and which parameters are addresses."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Sequence
from types import FunctionType

from gridstride.frontends.python_parameters import Argument, flat_parameters

_SHARED = re.compile(r"\.shared\s[^;\n]*?\b(_cudapy_smem(?:_(\d+))?)\b")


def name_shared_arrays(ptx: str, function: FunctionType) -> str:
    """The text with the arrays of the function called as its variables are, which Numba calls `_cudapy_smem_1` and so on; as it is where it
    cannot be told which is which.

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


def mark_pointers(ptx: str, entry: str, arguments: Sequence[Argument]) -> str:
    """The text with `.ptr` at the parameters that hold addresses (PTX ISA, "Kernel Function Parameter Attributes"): 64-bit numbers beside them,
    the extents and strides of arrays, are then known to be none."""
    for number, parameter in enumerate(flat_parameters(arguments)):
        if parameter.type.endswith("*"):
            ptx = re.sub(rf"(\.param\s+\.[ub]64)(\s+{re.escape(entry)}_param_{number}\b)(?=\s*[,)\n])", r"\1 .ptr .align 1\2", ptx, count=1)
    return ptx


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
