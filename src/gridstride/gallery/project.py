"""`gridstride gallery open`: a ladder or a laboratory as a folder of files to edit and to check."""

from __future__ import annotations

import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gridstride.errors import GridstrideError, UsageError
from gridstride.gallery.catalogue import find, ladder
from gridstride.gallery.comparing import climb
from gridstride.gallery.grading import Lab
from gridstride.gallery.model import Data, Ladder, Launch, Step
from gridstride.gallery.running import Workshop
from gridstride.runtime.initial import Initial

_CHECK = '''"""Tries the kernels in this folder: on awkward sizes, against NumPy, under all checks; then shows their counters.

    python check.py [STEP …]
"""

import sys
from pathlib import Path

from gridstride import gallery

sys.exit(gallery.check_project({name!r}, Path(__file__).parent, sys.argv[1:]))
'''
_README = """# {title}

{about}

- `python check.py [STEP …]` tries the steps on awkward sizes against NumPy, under all checks, and shows their counters.
- `gridstride launch {source} --cases cases.json`, and `gridstride profile` and `gridstride check` with the same words, run single launches{but}.

| step | claim |
|---|---|
{steps}
"""


def open_ladder(ladder: Ladder, steps: tuple[Step, ...], folder: Path) -> list[Path]:
    """Write the sources, a case file, a check script and a README into a new folder. Raises UsageError where it exists or cannot be made."""
    cases, left_out = [], []
    for step in steps:
        made = list(_cases(ladder, step))
        cases += made
        if not made:
            left_out.append(step.name)
    but = f" (not of {', '.join(left_out)}: these take several launches on the same arrays, or have a source of their own)" if left_out else ""
    rows = "\n".join(f"| {step.name} | {step.claim} |" for step in steps)
    files = {
        "cases.json": json.dumps(cases, indent=1) + "\n",
        "check.py": _CHECK.format(name=ladder.name),
        "README.md": _README.format(title=ladder.title, about=ladder.about.strip(), source=ladder.source, but=but, steps=rows),
    }
    for source in sorted({ladder.source_of(step) for step in steps}):
        files[source.name] = source.read_text(encoding="utf-8")
    for header in sorted(ladder.folder.glob("*.cuh")):
        files[header.name] = header.read_text(encoding="utf-8")
    return _write(folder, files)


def open_lab(lab: Lab, folder: Path) -> list[Path]:
    """Write the starting kernel and the task into a new folder. Raises UsageError where it exists or cannot be made."""
    goals = "\n".join(f"- {goal.text}" for goal in lab.goals)
    task = f"# {lab.title}\n\n{lab.task.strip()}\n\nGoals:\n- outputs as NumPy's, no findings of any check\n{goals}\n\n"
    task += f"`gridstride gallery check {lab.name} {lab.start}` grades it.\n"
    return _write(folder, {lab.start: (lab.folder / lab.start).read_text(encoding="utf-8"), "README.md": task})


def _write(folder: Path, files: dict[str, str]) -> list[Path]:
    """All files in a new folder, which appears when all are written."""
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} exists already: name a folder that does not, nothing is overwritten")
    working = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        for name, text in files.items():
            (working / name).write_text(text, encoding="utf-8")
        working.chmod(0o755)
        working.rename(folder)
    except OSError as error:
        if working is not None:
            shutil.rmtree(working, ignore_errors=True)
        raise UsageError(f"cannot make {folder}: {error.strerror or error}") from None
    return [folder / name for name in files]


def _cases(ladder: Ladder, step: Step) -> Iterator[dict[str, Any]]:
    """The step as a case of a case file at its largest awkward size: what a case file can say, a single launch on new arrays."""
    if step.source not in (None, ladder.source):
        return
    size = max(ladder.sizes(step))
    actions = step.launches(size)
    launches = [action for action in actions if isinstance(action, Launch)]
    if len(launches) != 1 or ladder.defines:
        return
    problem = ladder.problem_of(step, size)
    filled = {action.array: action.value for action in actions if not isinstance(action, Launch)}
    outputs = set(problem.reference({name: values for name, data in problem.arrays.items() if (values := data.host()) is not None}))
    launch = launches[0]
    arguments: list[Any] = []
    for argument in launch.arguments:
        if not isinstance(argument, str):
            arguments.append([_scalar_type(argument), argument.item() if hasattr(argument, "item") else argument])
            continue
        data = problem.arrays[argument]
        initial = ["const", filled[argument]] if argument in filled else _initial(data)
        arguments.append(["buf", data.dtype, math.prod(data.shape), initial, {"out": argument in outputs}])
    case: dict[str, Any] = {"name": f"{step.name}-{'x'.join(map(str, size))}", "kernel": launch.kernel, "grid": _three(launch.grid), "block": _three(launch.block)}
    case |= {"smem": launch.shared, "args": arguments}
    if launch.cooperative:
        case["cooperative"] = True
    if launch.cluster is not None:
        case["cluster"] = _three(launch.cluster)
    yield case


def _initial(data: Data) -> Any:
    if isinstance(data.initial, Initial):
        return [data.initial.kind, *data.initial.numbers] if data.initial.numbers else data.initial.kind
    return ["literal", data.initial.reshape(-1).tolist()]


def _three(dim: int | tuple[int, ...]) -> list[int]:
    parts = [dim] if isinstance(dim, int) else list(dim)
    return (parts + [1, 1])[:3]


def _scalar_type(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"{value.dtype.kind}{8 * value.dtype.itemsize}"
    return "f32" if isinstance(value, float) else "i32"


def check(name: str, folder: Path, wanted: Sequence[str]) -> int:
    """Try the steps of a ladder with the sources of a project, and print the comparison. Returns the exit status: 1 where a step is wrong."""
    from rich.console import Console

    from gridstride.gallery import text

    try:
        found = ladder(name)
        steps = [step for step_name in wanted for step in find(f"{name}/{step_name}")[1]] or [
            step for step in found.steps if (folder / found.source_of(step).name).exists()
        ]
        here = replace(found, folder=folder)
        climbed = climb(here, steps, Workshop())
    except GridstrideError as error:
        print(f"gridstride: {error}", file=sys.stderr)
        return error.exit_status
    Console(highlight=False).print(text.comparison(here, climbed))
    return int(not all(one.passed for one in climbed))
