"""The rooms of the package know only the ones below them (docs/layout.md)."""

import ast
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import gridstride

ROOT = pathlib.Path(gridstride.__file__).parent
ROOMS = [
    *("errors", "findings", "cluster", "cache", "isa", "ptx", "ir", "passes", "lower", "machine", "frontends", "events", "observers", "report", "runtime"),
    *("numba_host", "arguments", "cases", "gallery", "pipeline", "bench", "cli", "pytest_plugin", "numba", "index"),
]
# The entry of an operation with effects (memory, barriers, lanes, calls) names what lowers it, and looks it up when it is called: loading the
# instruction set loads nothing above it.
NAMED_WHEN_CALLED = {("isa", "ir"), ("isa", "lower")}
# Applications stand on the public interface: `import gridstride`, its errors, and types to annotate with.
APPLICATIONS = {"pipeline": {"errors", "findings", "runtime"}, "bench": {"errors", "findings", "runtime", "numba_host", "pipeline"}}


@dataclass(frozen=True)
class Import:
    room: str
    imported: str
    where: str
    deferred: bool
    """In a function, or only for type checkers: not done when the module is loaded."""

    def __str__(self) -> str:
        return f"{self.where}: {self.room} imports {self.imported}"


def statements(tree: ast.AST, deferred: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, deferred
        in_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for_checkers = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        yield from statements(node, deferred or in_function or for_checkers)


def imports() -> Iterator[Import]:
    """Each import of one room by another."""
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).with_suffix("").parts[0]
        if room == "__init__":
            continue
        for node, deferred in statements(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif node.module and node.level == 0:
                names = [node.module] if node.module != "gridstride" else [f"gridstride.{alias.name}" for alias in node.names]
            else:
                continue
            for name in names:
                package, _, rest = name.partition(".")
                imported = rest.partition(".")[0]
                if package == "gridstride" and imported and imported != room:
                    yield Import(room, imported, f"{path.relative_to(ROOT)}:{node.lineno}", deferred)


def test_every_room_has_a_place() -> None:
    rooms = {path.stem for path in ROOT.iterdir() if (path.suffix == ".py" or (path / "__init__.py").exists()) and not path.stem.startswith("_")}
    assert rooms <= set(ROOMS)


def test_nobody_imports_a_room_above() -> None:
    above = [one for one in imports() if one.imported in ROOMS and ROOMS.index(one.imported) > ROOMS.index(one.room)]
    wrong = [str(one) for one in above if not (one.deferred and (one.room, one.imported) in NAMED_WHEN_CALLED)]
    assert wrong == []


def test_applications_stand_on_the_public_interface() -> None:
    wrong = [
        str(one) for one in imports() if one.room in APPLICATIONS and one.imported in ROOMS and one.imported not in APPLICATIONS[one.room]
    ]
    assert wrong == []
