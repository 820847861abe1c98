"""`gridstride check`: `gridstride launch`, or `gridstride run`, with all checks on."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

from gridstride.cli import launch, run


def command(**given: Any) -> None:
    """Run one kernel once, every launch of a case file, or a numba.cuda script, with all checks on, and show what is wrong with it.

    Exit status: 0 clean, 1 errors were found (with --strict warnings too), 2 bad input, 3 something unsupported, 130 interrupted.
    """
    more = given.pop("more", None)
    if not run.run_instead(given, more):
        launch.command(**given)


def _with_all_checks() -> inspect.Signature:
    """The options of `launch`, with another default for --checks; and what a script is given."""
    hints = get_type_hints(launch.command, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[name], default="all" if name == "checks" else parameter.default)
        for name, parameter in inspect.signature(launch.command).parameters.items()
    ]
    parameters.append(inspect.Parameter("more", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=run.MoreArguments))
    return inspect.Signature(parameters, return_annotation=None)


command.__signature__ = _with_all_checks()  # type: ignore[attr-defined]
command.__annotations__ = {name: parameter.annotation for name, parameter in _with_all_checks().parameters.items()}
