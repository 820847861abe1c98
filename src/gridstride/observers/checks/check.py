"""What every check has in common: a stable code, a kind, a documentation that is also what `--explain` prints.

A check is a module of this package. Its docstring begins with one sentence that says what is wrong; then come paragraphs, the
sections `Bad:` and `Good:`, each with CUDA C++ indented under it, and `What to do:`. A check whose facts native code
collects has a function `tell` too, which makes sentences of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass

from gridstride.findings import Severity
from gridstride.machine.raw_findings import RawFinding
from gridstride.observers.checks.scene import Scene

_SECTION = re.compile(r"^(Bad|Good|What to do):[ \t]*\n?", re.MULTILINE)


@dataclass(frozen=True)
class Told:
    """A raw finding in words: what happened (both sides of it), and what to do about it."""

    severity: Severity
    message: str
    advice: str


@dataclass(frozen=True)
class Check:
    """severities: the usual one, and after it others that the text explains.

    native: only a launch that was asked to look for it finds it. declared: and only one of a kernel whose contract speaks of it. optional: `--checks all` leaves it out.
    always: every run looks for it, whatever was asked. stops: it stops the kernel. event: nobody looks for it, it happens.
    """

    code: str
    kind: str
    severities: tuple[Severity, ...]
    text: str
    native: bool = False
    declared: bool = False
    optional: bool = False
    always: bool = False
    stops: bool = False
    event: bool = False
    tell: Callable[[RawFinding, Scene], Told] | None = None

    @property
    def severity(self) -> Severity:
        """The usual severity."""
        return self.severities[0]

    @property
    def title(self) -> str:
        return inspect.cleandoc(self.text).partition("\n\n")[0].replace("\n", " ")

    @property
    def explanation(self) -> str:
        """The paragraphs between the title and the first section."""
        return _SECTION.split(inspect.cleandoc(self.text).partition("\n\n")[2])[0].strip()

    def section(self, name: str) -> str:
        """The text of `Bad`, `Good` or `What to do`, without its indentation; empty where there is none."""
        parts = _SECTION.split(inspect.cleandoc(self.text))
        found = dict(zip(parts[1::2], parts[2::2], strict=True)).get(name, "")
        return inspect.cleandoc("\n" + found)
