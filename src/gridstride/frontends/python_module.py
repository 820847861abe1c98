"""Kernels in a Python file, as the command line names them: `module.py:function`."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from gridstride.errors import GridstrideError, UsageError
from gridstride.frontends.numba_cuda import defer_signatures, is_kernel_declaration, is_python_kernel

_REFERENCE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[A-Za-z_][\w.]*))?", re.DOTALL)


def python_reference(source: str | Path) -> tuple[Path, str | None] | None:
    """The file and the function that `module.py:function` or `module.py` names; None for anything else."""
    match = _REFERENCE.fullmatch(str(source))
    if match is None or "\n" in match["file"]:
        return None
    return Path(match["file"]).expanduser(), match["name"]


def load_functions(file: Path) -> Mapping[str, Any]:
    """What a Python file defines, by name, once it has run as an imported module (`__name__` is no `__main__`).

    Raises UsageError with the line where it cannot be run.
    """
    if not file.is_file():
        raise UsageError(f"{file} does not exist")
    defer_signatures()
    path = file.absolute()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(path.parent)
    sys.path.insert(0, folder)  # as for a script: what lies beside it can be imported
    earlier = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except GridstrideError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the file does wrong
        raise UsageError(f"{file} cannot be imported: {_told(error, path)}") from None
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
        if earlier is not None:
            sys.modules[path.stem] = earlier
    return vars(module)


def find_function(names: Mapping[str, Any], name: str, file: Path) -> Any:
    """The kernel called `name`, with dots into classes and modules. Raises UsageError where there is none, with the kernels there are."""
    found: Any = None
    scope: Any = names
    for part in name.split("."):
        found = scope.get(part) if isinstance(scope, Mapping) else getattr(scope, part, None)
        if found is None:
            break
        scope = found
    if is_python_kernel(found):
        return found
    known = kernel_names(names)
    if found is not None:
        raise UsageError(f"{name} in {file} is a {type(found).__name__}, no function" + (f" (kernels: {', '.join(known)})" if known else ""))
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; its kernels are {', '.join(known)}" if known else "; it has no kernels"
    raise UsageError(f"{file} has no function {name!r}{hint}")


def kernel_names(names: Mapping[str, Any]) -> list[str]:
    """What `@cuda.jit` has decorated, device functions left out."""
    return [name for name, value in names.items() if is_kernel_declaration(value) and not isinstance(value, FunctionType | ModuleType)]


def _told(error: BaseException, file: Path) -> str:
    """An error with the line of the file that led to it."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{f'line {lines[-1]}: ' if lines else ''}{type(error).__name__}{f': {text}' if text else ''}"
