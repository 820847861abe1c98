"""`gridstride devices`: every device in the table, one in full, JSON."""

import json

import pytest
from rich.console import Console

from gridstride.cli import main
from gridstride.machine.devices import DEVICES


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["devices", *arguments])
    return int(ended.value.code or 0)


def test_the_table_has_every_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    rows = {line.split("│")[1].strip(): line for line in capsys.readouterr().out.splitlines() if line.startswith("│")}
    assert set(rows) == {spec.key for spec in DEVICES}
    assert [cell.strip() for cell in rows["a100"].strip("│").split("│")] == [
        "a100", "A100 SXM 80GB", "8.0", "108", "64", "32", "164 KB", "40 MB", "2,039", "19.5", "9.7",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [30, 60, 80])
def test_a_narrow_terminal_shows_fewer_columns_and_those_whole(width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridstride.cli.devices.console", lambda: Console(width=width))
    assert run() == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert [row[0] for row in rows] == [spec.key for spec in DEVICES]
    assert not any("…" in line for line in lines) and max(map(len, lines)) <= width
    if width >= 60:
        assert "A100 SXM 80GB" in {row[1] for row in rows}


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", "-") == 0
    devices = {device["key"]: device for device in json.loads(capsys.readouterr().out)["devices"]}
    assert set(devices) == {spec.key for spec in DEVICES}
    assert devices["h200"]["compute_capability"] == "9.0"
    assert devices["h200"]["shared_per_block_optin_bytes"] == 232_448


def test_one_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("t4") == 0
    out = capsys.readouterr().out
    assert "Tesla T4" in out
    assert "Turing architecture white paper" in out


def test_unknown_device_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("t5") == 2
    assert capsys.readouterr().err == "gridstride: there is no device `t5` in the table; did you mean t4? `gridstride devices` lists all\n"
