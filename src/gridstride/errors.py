"""The errors Gridstride raises. Each is one sentence for a person and a code for a program."""

from __future__ import annotations


class GridstrideError(Exception):
    """Base of every error raised on purpose.

    `code` is the machine-readable name (the `error.code` of the JSON result);
    `exit_status` what the command line ends with when the error stops it.
    """

    code = "error"
    exit_status = 2


class UsageError(GridstrideError):
    """The caller asked for something that makes no sense: a wrong argument, file or option."""

    code = "usage"


class ParseError(GridstrideError):
    """PTX text that does not follow the PTX grammar. The message shows the line and a caret."""

    code = "parse"


class CompileError(GridstrideError):
    """The CUDA C++ compiler refused the source. The message is the compiler's, with line and caret."""

    code = "compile"


class UnsupportedError(GridstrideError):
    """Valid input that Gridstride does not run (yet): an instruction, a form, a feature."""

    code = "unsupported"
    exit_status = 3


class LaunchError(GridstrideError):
    """A launch that the device would refuse: limits exceeded, arguments that do not fit."""

    code = "launch"


class ContractError(LaunchError):
    """A launch that breaks the contract of its kernel; nothing has run.

    `clause` is the part of the contract, `has` what the launch has, `do` what to do about it.
    """

    def __init__(self, kernel: str, clause: str, has: str, do: str) -> None:
        super().__init__(f"{kernel} breaks its contract ({clause}): {has}; {do}")
        self.kernel = kernel
        self.clause = clause
        self.has = has
        self.do = do


class KernelFault(GridstrideError):
    """A kernel was stopped while it ran: a bad access, a trap, a deadlock, a budget, an interrupt.

    `fault` is the `gridstride.findings.Finding` with the exact place. `raised` is set where a kernel written in Python raised an exception,
    after which the device goes on: the exception's class and arguments (`gridstride.frontends.python_function.RaisedException`).
    """

    exit_status = 1

    def __init__(self, message: str, code: str, fault: object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.fault = fault
        self.raised: object | None = None
        self.raw_findings: tuple[object, ...] = ()  # what a checked launch had found before it was stopped

    def __reduce__(self) -> tuple[type[KernelFault], tuple[str, str, object | None]]:
        """For the way to another process: what is told about it, without what its device alone can read."""
        return type(self), (str(self), self.code, self.fault)
