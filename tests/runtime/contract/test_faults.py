"""When a kernel is stopped: the class of the error, its code, and the call it comes with. Each in a process of its own, which a GPU's fault ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gridstride as gs

from .conftest import SOURCE, open_device

PROGRAM = """
import json, sys
import numpy as np
import gridstride as gs

name, how, blocking = sys.argv[1:4]
device = gs.device(name, blocking=blocking == "blocking")
module = device.compile(open(sys.argv[4]).read())
x = device.zeros(4, np.int32)
stream = device.stream()
event = device.event()
told = []


def step(what, call):
    try:
        call()
        told.append([what, "", "", ""])
    except Exception as error:
        told.append([what, type(error).__name__, getattr(error, "code", ""), str(error)])


launches = {
    "out-of-bounds": lambda: module["store"][1, 1](gs.pointer(0), stream=stream),
    "misaligned": lambda: module["misaligned"][1, 1](x.view(np.uint8), stream=stream),
    "trap": lambda: module["trapped"][1, 1](stream=stream),
    "assert": lambda: module["asserted"][1, 1](1, stream=stream),
}
step("launch", launches[how])
step("more", lambda: module["add"][1, 4](4, 1, x, stream=stream))
step("record", lambda: stream.record(event))
step("fill", lambda: x.fill(2, stream=stream))
step("synchronize", stream.synchronize)
step("device", device.synchronize)
step("read", x.numpy)
step("launch again", lambda: module["add"][1, 4](4, 1, x))
step("allocate", lambda: device.zeros(3))
step("stream", device.stream)
step("query", lambda: event.done)
print(json.dumps(told))
"""


def outcomes(device_name: str, how: str, tmp_path: Path, blocking: str = "later") -> list[list[str]]:
    open_device(device_name)  # skips where there is none
    (tmp_path / "kernels.cu").write_text(SOURCE)
    environment = {key: value for key, value in os.environ.items() if key != "CUDA_LAUNCH_BLOCKING"}
    package = str(Path(gs.__file__).parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, environment.get("PYTHONPATH", ""))))
    command = [sys.executable, "-c", PROGRAM, device_name, how, blocking, str(tmp_path / "kernels.cu")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("how", ["out-of-bounds", "misaligned", "trap", "assert"])
def test_a_fault_comes_with_the_first_wait_and_from_then_on_with_every_call(device_name: str, how: str, tmp_path: Path) -> None:
    told = outcomes(device_name, how, tmp_path)
    quiet = [what for what, error, _, _ in told if not error]
    assert quiet == ["launch", "more", "record", "fill"], told
    assert {(error, code) for _, error, code, _ in told if error} == {("KernelFault", how)}, told
    assert len({message for _, error, _, message in told if error}) == 1, told
    if device_name == "gpu":
        assert "CUDA reports CUDA_ERROR_" in told[-1][3] and "the simulator with checks names the line and the thread" in told[-1][3]


def test_a_blocking_device_tells_at_the_launch(device_name: str, tmp_path: Path) -> None:
    told = outcomes(device_name, "out-of-bounds", tmp_path, "blocking")
    assert told[0][1:3] == ["KernelFault", "out-of-bounds"]
    assert "`store`" in told[0][3]


def test_a_fault_that_nobody_waits_for_is_told_when_the_program_ends(device_name: str, tmp_path: Path) -> None:
    open_device(device_name)
    (tmp_path / "kernels.cu").write_text(SOURCE)
    program = (
        "import sys, gridstride as gs\ndevice = gs.device(sys.argv[1], blocking=False)\n"
        "device.compile(open(sys.argv[2]).read())['store'][1, 1](gs.pointer(0))\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "CUDA_LAUNCH_BLOCKING"}
    package = str(Path(gs.__file__).parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, environment.get("PYTHONPATH", ""))))
    command = [sys.executable, "-c", program, device_name, str(tmp_path / "kernels.cu")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "a kernel was stopped, and the program never waited for it" in done.stderr and "`store`" in done.stderr
