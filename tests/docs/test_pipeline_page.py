"""The commands at the head of docs/pipeline.md run, and make the files they speak of."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gridstride.cli import main
from gridstride.pipeline import images, measure
from pipeline import cases, encode

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
LINES = re.search(r"^```\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[1].splitlines()  # type: ignore[index]
COMMANDS = [re.split(r" {2,}|(?<=> edges\.png) ", line)[0].strip() for line in LINES]
MADE = {"-o edges.png": "edges.png", "--report": "card.html", "--json": "out/result.json", "> edges.png": "edges.png"}
"""What a command makes, by a part of it, where that is not a folder `out` with edges."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the commands name, small."""
    pillow = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measure, "SECONDS", 0.0)
    pillow.fromarray(cases.image(40, 70, 3, 8)).save("photo.jpg")
    pillow.fromarray(cases.image(20, 30, 3, 8)).save("scan.tif")
    for name in ("holiday/a.png", "holiday/b.png", "shots/day/c.png", "frame_0001.png", "frame_0002.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(encode.png(cases.image(17, 33, 3, 8)))
    return tmp_path


def test_the_page_has_its_commands() -> None:
    assert len(COMMANDS) >= 12 and all("gridstride pipeline" in command for command in COMMANDS)


@pytest.mark.parametrize("command", [command for command in COMMANDS if not re.search(r"--cluster|--demo|\.mp4|\.mkv|--video|\.mov", command)])
def test_command(command: str, files: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    piped = re.fullmatch(r"cat (\S+) \| (.*?) > (\S+)", command)
    words = shlex.split(piped[2] if piped else command)[2:]
    if "--workers" in words:
        pytest.importorskip("distributed")
        words[words.index("--workers") + 1] = "2"
    if "--device" not in words:
        words += ["--device", "sim"]
    with Path(piped[1] if piped else "photo.jpg").open() as standard_input, pytest.raises(SystemExit) as ended:
        monkeypatch.setattr("sys.stdin", standard_input)
        main(["pipeline", *words])
    printed = capfdbinary.readouterr()
    assert (ended.value.code, printed.err) == (0, b"")
    if piped:
        Path(piped[3]).write_bytes(printed.out)
    made = next((name for part, name in MADE.items() if part in command), None)
    if made is None or made.endswith(".png"):
        written = [Path(made)] if made else list(Path("out").glob("*-edges.png"))
        assert written and all(images.read_image(path).ndim == 2 for path in written)
    else:
        assert Path(made).stat().st_size > 1000
