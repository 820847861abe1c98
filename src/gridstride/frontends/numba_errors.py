"""What Numba says about a program that it does not compile, as one sentence with its place."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from gridstride.errors import CompileError
from gridstride.frontends.python_function import PythonFunction

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PLACES = re.compile(r'File "([^"\n]+)", line (\d+)|\bat (/[^\n()]+\.py) \((\d+)\)')
_NO_SUCH = re.compile(r"No implementation of function (.+?) found for signature:\s*>>> ([^\n]+)", re.DOTALL)
_RETURNS = re.compile(r"No conversion from (.+?) to none for '[^']*return_value")


def compile_error(error: Exception, function: PythonFunction) -> CompileError:
    """The error to raise for one of Numba's."""
    text = _COLOURS.sub("", str(error))
    file, line = _place(text, error, function)
    return CompileError(f"{file}:{line}: {function.name}: {_sentence(text) or type(error).__name__}")


def inner_error(error: Exception, function: PythonFunction) -> CompileError:
    """The error to raise where the compiler failed in itself."""
    file, line = _place("", error, function)
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], np.ufunc):
        return CompileError(f"{file}:{line}: {function.name}: there is no NumPy function `{error.args[0].__name__}` in kernels; `math` has most of them")
    what = first_sentence(str(error)) or "no reason given"
    return CompileError(f"{file}:{line}: {function.name}: Numba could not compile it ({type(error).__name__}: {what})")


def require_kernel(function: PythonFunction) -> None:
    """Raise CompileError for what can be no kernel whatever its arguments are."""
    where = f"{function.file}:{function.line}: {function.name}"
    if inspect.isgeneratorfunction(function.function) or inspect.iscoroutinefunction(function.function):
        raise CompileError(f"{where}: a kernel is a plain function, no generator and no coroutine")
    for parameter in inspect.signature(function.function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise CompileError(f"{where}: the arguments of a kernel are given by position; `{parameter}` is no parameter of that kind")


def first_sentence(text: str) -> str:
    """The first line that says something."""
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith(("Failed in", "Traceback")):
            return line.rstrip(":.")
    return text.strip()


def _sentence(text: str) -> str:
    if "_pytest.assertion.rewrite" in text:
        return "pytest rewrites the assertions of test files, which no kernel can do; put the kernel into a module of its own"
    if match := _NO_SUCH.search(text):
        if re.search(r"\b(shared|local)\.array\b", match[1]):
            return "the shape of a shared or local array is a constant, and its type one that Numba knows"
        return f"there is no `{match[2].strip()}` in kernels"
    if match := _RETURNS.search(text):
        return f"a kernel returns nothing; this one returns {match[1]}"
    return first_sentence(text).removesuffix(", defined at None")


def _place(text: str, error: Exception, function: PythonFunction) -> tuple[str, int]:
    """The innermost line of the user's that the text names (which it does from there outwards), or that Numba was at, or where the function
    begins."""
    own = os.path.abspath(function.file)
    found = [(os.path.abspath(first or second), int(number or other)) for first, number, second, other in _PLACES.findall(text)]
    found = found or _where_numba_was(error)[::-1]
    outside = [(file, line) for file, line in found if "site-packages" not in Path(file).parts or file == own]
    file, line = outside[0] if outside else (own, function.line)
    return (function.file if file == own else file), line


def _where_numba_was(error: Exception) -> list[tuple[str, int]]:
    """The lines of the statements that Numba was at, outermost first: errors of `numba.core` do not say them in numba-cuda."""
    found = []
    trace = error.__traceback__
    while trace is not None:
        for name in ("self", "inst"):
            place: Any = getattr(trace.tb_frame.f_locals.get(name), "loc", None)
            if getattr(place, "filename", None) and getattr(place, "line", None):
                found.append((os.path.abspath(place.filename), int(place.line)))
        trace = trace.tb_next
    return found
