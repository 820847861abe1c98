"""The rooms of the package know only the ones below them (docs/layout.md)."""

import ast
import pathlib
from collections.abc import Iterator

import gridstride

ROOT = pathlib.Path(gridstride.__file__).parent
ROOMS = [
    *("errors", "findings", "cache", "isa", "ptx", "ir", "passes", "lower", "machine", "frontends", "events", "observers", "report", "runtime"),
    *("arguments", "cases", "gallery", "pipeline", "bench", "cli", "pytest_plugin"),
]
# The builder of lane vectors is what operations are lowered with; the lowering has to know how memory is laid out.
EXCEPTIONS = {("isa", "lower"), ("lower", "machine")}
# Applications stand on the public interface: `import gridstride`, its errors, and types to annotate with.
APPLICATIONS = {"pipeline": {"errors", "findings", "runtime"}, "bench": {"errors", "findings", "runtime"}}


def imports() -> Iterator[tuple[str, str, str]]:
    """Each import of one room by another: (importing room, imported room, where)."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        room = parts[0]
        if room == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                names = [node.module] if node.module != "gridstride" else [f"gridstride.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                package, _, rest = name.partition(".")
                imported = rest.partition(".")[0]
                if package == "gridstride" and imported and imported != room:
                    yield room, imported, f"{path.relative_to(ROOT)}:{node.lineno}"


def test_every_room_has_a_place() -> None:
    rooms = {path.stem for path in ROOT.iterdir() if (path.suffix == ".py" or (path / "__init__.py").exists()) and not path.stem.startswith("_")}
    assert rooms <= set(ROOMS)


def test_nobody_imports_a_room_above() -> None:
    wrong = [
        f"{where}: {room} imports {imported}"
        for room, imported, where in imports()
        if imported in ROOMS and ROOMS.index(imported) > ROOMS.index(room) and (room, imported) not in EXCEPTIONS
    ]
    assert wrong == []


def test_applications_stand_on_the_public_interface() -> None:
    wrong = [
        f"{where}: {room} imports {imported}"
        for room, imported, where in imports()
        if room in APPLICATIONS and imported in ROOMS and imported not in APPLICATIONS[room]
    ]
    assert wrong == []
