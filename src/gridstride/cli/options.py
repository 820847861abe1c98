"""What several commands have in common: reading sizes and devices, printing tables, writing JSON."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridstride.errors import UnsupportedError, UsageError
from gridstride.findings import Dim3
from gridstride.machine.devices import DEFAULT_DEVICE, DeviceSpec, find_device

if TYPE_CHECKING:
    from rich.console import Console

# Wide enough for the widest table, for where there is no terminal to fit it to.
WIDTH_IN_A_PIPE = 200
_WHOLE = r"\d+(?:_\d+)*(?:e\d\d?)?"


def parse_dim3(text: str, what: str) -> Dim3:
    """`256`, `16x16`, `8,8,4`, `1_000_000`, `1e6`: one to three sizes as (x, y, z), what is missing being 1.

    Raises UsageError that names `what` for anything else; zeros are taken (their meaning is the caller's to judge).
    """
    parts = re.split(r"\s*[x×,]\s*", text.strip().lower())
    if len(parts) > 3 or not all(re.fullmatch(_WHOLE, part) for part in parts):
        raise UsageError(f"cannot read {what} `{text}`: give one to three whole numbers, such as 256, 16x16 or 8,8,4")
    x, y, z = ([_whole(part) for part in parts] + [1, 1])[:3]
    return x, y, z


def parse_bytes(text: str, what: str) -> int:
    """`16384`, `16_384`, `16K`, `16KB`, `16 KiB`, `1GB`; K is 1,024, M and G its powers. Raises UsageError that names `what` for anything else."""
    match = re.fullmatch(rf"({_WHOLE})\s*(?:([kmg])i?b?|b|bytes)?", text.strip().lower())
    if match is None:
        raise UsageError(f"cannot read {what} `{text}`: give bytes, such as 16384 or 16KB")
    return _whole(match.group(1)) * (1 << 10 * (" kmg".index(match.group(2) or " ")))


def _whole(text: str) -> int:
    digits, _, zeros = text.partition("e")
    return int(digits + "0" * int(zeros or 0))


def simulated_device(option: str) -> DeviceSpec:
    """The device that `--device` names, for commands that calculate from the device table: `NAME`, `sim:NAME`, `sim` or `auto`."""
    name = option.removeprefix("sim:")
    if name in ("auto", "sim"):
        return find_device(DEFAULT_DEVICE)
    if name == "gpu" or name.startswith("gpu:"):
        raise UnsupportedError(f"`{option}`: this command calculates from the device table; name a device of `gridstride devices`")
    return find_device(name)


def console() -> Console:
    """Where tables go: standard output, coloured on a terminal unless NO_COLOR is set."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=WIDTH_IN_A_PIPE)


def write_json(target: str, document: Any) -> None:
    """Write `document` to the file `target`, or to standard output for `-`. Infinities and NaN become null: JSON has none."""
    text = json.dumps(_without_nonfinite(document), indent=1, ensure_ascii=False)
    if target == "-":
        print_json(text)
        return
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write `{target}`: {error.strerror}") from None


def print_json(text: str) -> None:
    """Print a JSON document, with its escapes for what the encoding of standard output may lack."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(text if unicode else json.dumps(json.loads(text), indent=1))


def _without_nonfinite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nonfinite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nonfinite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
