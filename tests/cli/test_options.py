"""What commands share: sizes, devices, JSON."""

import json
import math
from pathlib import Path

import pytest

from gridstride.cli.options import parse_dim3, simulated_device, write_json
from gridstride.errors import UnsupportedError, UsageError


@pytest.mark.parametrize(
    ("text", "dim3"),
    [("256", (256, 1, 1)), ("16x16", (16, 16, 1)), ("1920×1080", (1920, 1080, 1)), ("8,8,4", (8, 8, 4)), ("1_000_000", (1_000_000, 1, 1)), ("1e6", (1_000_000, 1, 1)), (" 4 X 2 ", (4, 2, 1))],
)  # fmt: skip
def test_sizes(text: str, dim3: tuple[int, int, int]) -> None:
    assert parse_dim3(text, "the size") == dim3


@pytest.mark.parametrize("text", ["", "x", "16x", "-4", "1.5", "1e-6", "1e600", "1x2x3x4", "ten"])
def test_sizes_wrong(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_dim3(text, "the size")
    assert str(caught.value) == f"cannot read the size `{text}`: give one to three whole numbers, such as 256, 16x16 or 8,8,4"


@pytest.mark.parametrize(("option", "key"), [("auto", "h200"), ("sim", "h200"), ("sim:a100", "a100"), ("RTX 4090", "rtx4090")])
def test_devices(option: str, key: str) -> None:
    assert simulated_device(option).key == key


@pytest.mark.parametrize("option", ["gpu", "gpu:1"])
def test_devices_wrong(option: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        simulated_device(option)
    assert str(caught.value) == f"`{option}`: this command calculates from the device table; name a device of `gridstride devices`"


def test_json_has_no_infinities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {"a": math.inf, "b": [math.nan, 1.5], "c": (1, {"d": -math.inf})}
    write_json(str(tmp_path / "x.json"), document)
    write_json("-", document)
    for text in ((tmp_path / "x.json").read_text(), capsys.readouterr().out):
        assert json.loads(text) == {"a": None, "b": [None, 1.5], "c": [1, {"d": None}]}


def test_json_that_cannot_be_written_wrong(tmp_path: Path) -> None:
    target = tmp_path / "missing" / "x.json"
    with pytest.raises(UsageError) as caught:
        write_json(str(target), {})
    assert str(caught.value) == f"cannot write `{target}`: No such file or directory"
