"""What a Python function compiles to depends on more than its text: a description of all of it, so that a result on disk is taken only where
nothing has changed.

Code, constants, defaults, closures and the global names that the code uses, through device functions and modules. Where something is met whose
meaning cannot be described (an object of a class of the user's, say), there is no description, and the function is compiled anew.
"""

from __future__ import annotations

import enum
import hashlib
import importlib.metadata
import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype, type(Ellipsis))
_MOST_BYTES = 1 << 26  # of constant arrays: more takes longer to read than to compile
_INSTALLED = ("numba", "numpy", "math", "cmath", "operator", "builtins", "llvmlite")
"""Packages whose names mean the same as long as their version does."""


def fingerprint(function: FunctionType) -> str | None:
    """A text that changes with what the function compiles to; None where that cannot be told."""
    walk = _Walk()
    try:
        walk.function(function)
    except _Opaque:
        return None
    return walk.digest.hexdigest()


def versions() -> list[str]:
    """The compilers' versions, and Python's."""
    names = ("numba", "numba-cuda", "llvmlite", "numpy", "nvidia-nvvm", "nvidia-cuda-nvcc-cu12")
    found = [f"python {sys.version_info.major}.{sys.version_info.minor}"]
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


class _Opaque(Exception):
    """Something whose meaning cannot be described."""


class _Walk:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._bytes = 0

    def add(self, *words: object) -> None:
        for word in words:
            self.digest.update(repr(word).encode() + b"\0")

    def function(self, function: FunctionType) -> None:
        if id(function) in self._seen:
            self.add("again", self._seen[id(function)])
            return
        self._seen[id(function)] = len(self._seen)
        self.code(function.__code__)
        self.value(function.__defaults__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self.add(name)
            try:
                self.value(cell.cell_contents)
            except ValueError:
                self.add("empty")
        self.names(_all_names(function.__code__), function.__globals__)

    def code(self, code: CodeType) -> None:
        # Lines and the file are in the PTX as line information.
        self.add(code.co_filename, code.co_name, code.co_firstlineno, code.co_code, code.co_linetable, code.co_names, code.co_varnames)
        self.add(code.co_freevars, code.co_cellvars, code.co_flags, code.co_exceptiontable)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.code(constant)
            else:
                self.value(constant)

    def names(self, used: list[str], scope: Mapping[str, Any]) -> None:
        """The global names that code uses; those of modules with their attributes that it names anywhere."""
        for name in used:
            if name not in scope:
                continue
            value = scope[name]
            self.add(name)
            if isinstance(value, ModuleType) and not _installed(value.__name__):
                self.add(value.__name__)
                self.names(used, {key: attribute for key, attribute in vars(value).items() if attribute is not value})
            else:
                self.value(value)

    def value(self, value: Any) -> None:
        if isinstance(value, enum.Enum):
            self.add("enum", type(value).__qualname__, value.name)
            self.value(value.value)
        elif isinstance(value, _PLAIN):
            self.add(type(value).__name__, value)
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            self._bytes += value.nbytes
            if self._bytes > _MOST_BYTES:
                raise _Opaque
            self.add("array", value.dtype, value.shape, value.flags.c_contiguous, value.flags.f_contiguous, value.flags.writeable)
            self.digest.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, tuple | list | frozenset) and (not isinstance(value, frozenset) or all(isinstance(v, _PLAIN) for v in value)):
            self.add(type(value).__qualname__, getattr(value, "_fields", None), len(value))
            for member in sorted(value, key=repr) if isinstance(value, frozenset) else value:
                self.value(member)
        elif isinstance(value, FunctionType) and not _installed(value.__module__):
            raise _Opaque  # Numba gives it a meaning elsewhere (an overload), or refuses it
        elif _is_dispatcher(value):
            self.add("dispatcher", sorted((k, repr(v)) for k, v in value.targetoptions.items()))
            self.function(value.py_func)
        elif isinstance(value, type) and issubclass(value, enum.Enum):
            self.add("enumeration", value.__qualname__)
            for member in value:
                self.add(member.name)
                self.value(member.value)
        elif isinstance(value, type | ModuleType | BuiltinFunctionType | FunctionType | np.ufunc) or _installed(type(value).__module__):
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or type(value).__module__
            if not _installed(str(name)) and not isinstance(value, np.ufunc) and not _named_tuple(value):
                raise _Opaque
            self.add(type(value).__qualname__, str(name), getattr(value, "__qualname__", None) or _stable(value), getattr(value, "_fields", None))
        else:
            raise _Opaque


def _all_names(code: CodeType) -> list[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= set(_all_names(constant))
    return sorted(names)


def _named_tuple(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def _installed(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in _INSTALLED


def _is_dispatcher(value: object) -> bool:
    module = sys.modules.get("numba.cuda.dispatcher")
    return module is not None and isinstance(value, module.CUDADispatcher)


def _stable(value: object) -> str:
    """The text of an object of Numba's; _Opaque where it only says where the object lies."""
    text = repr(value)
    if " at 0x" in text or " object at " in text:
        raise _Opaque
    return text
