"""A kernel written in Python before it is compiled: the function, how it wants to be compiled, and what a compiler made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import Any

from gridstride.errors import LaunchError
from gridstride.frontends.python_parameters import Argument


@dataclass(frozen=True)
class PythonOptions:
    """What `@cuda.jit` was told. launch_bounds: threads of a block at most, and if known blocks of a multiprocessor and of a cluster."""

    debug: bool = False
    opt: bool = True
    fastmath: bool = False
    max_registers: int | None = None
    launch_bounds: tuple[int, ...] | int | None = None
    link: tuple[Any, ...] = ()
    extensions: tuple[Any, ...] = ()


@dataclass(frozen=True)
class PythonFunction:
    """signatures: of explicitly given argument types, as the compiler has them; empty: by the arguments of each launch."""

    function: FunctionType
    parameters: tuple[str, ...]
    options: PythonOptions = PythonOptions()
    signatures: tuple[tuple[Any, ...], ...] = ()

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def file(self) -> str:
        return self.function.__code__.co_filename

    @property
    def line(self) -> int:
        return self.function.__code__.co_firstlineno

    def require_count(self, given: int) -> None:
        """Raise LaunchError for a number of arguments that it does not take."""
        if given != len(self.parameters):
            plural = "" if len(self.parameters) == 1 else "s"
            wanted = f" ({', '.join(self.parameters)})" if self.parameters else ""
            raise LaunchError(f"{self.name} takes {len(self.parameters)} argument{plural}{wanted}, but {given} {'was' if given == 1 else 'were'} given")

    @cached_property
    def text(self) -> str:
        """The source file; empty where there is none (typed in at a prompt)."""
        try:
            return Path(self.file).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


@dataclass(frozen=True)
class RaisedException:
    """What a `raise` or `assert` of the kernel stands for: the exception's class, its arguments, and the place where the source says it.

    kind: the class with its module, as in `builtins.ValueError`.
    """

    kind: str
    arguments: tuple[Any, ...]
    function: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class CompiledPython:
    """A function compiled for one list of argument types.

    entry: the name in the PTX. cooperative: it synchronises the grid. exceptions: by the code that the kernel leaves in `ENTRY__errcode__`.
    """

    function: PythonFunction
    ptx: str
    entry: str
    arguments: tuple[Argument, ...]
    cooperative: bool = False
    exceptions: Mapping[int, RaisedException] = field(default_factory=dict)

    @property
    def owners(self) -> tuple[int, ...]:
        """Of each parameter of the entry the position of the argument that it belongs to."""
        return tuple(position for position, argument in enumerate(self.arguments) for _ in argument.parameters())
