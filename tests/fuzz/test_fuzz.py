"""Two hundred corrupted kernels and launches: none may crash, hang, or end in anything but Gridstride's own errors. More: `run.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from gridstride.errors import GridstrideError, KernelFault, ParseError, UnsupportedError
from gridstride.findings import Finding
from gridstride.machine.devices import find_device
from gridstride.runtime.simulator import Simulator

from .mutate import kernels, make_case
from .run import Worker, fuzz
from .run_case import Verdict, Watch, must_be_told_well

SEED, COUNT = 1_000_000, 200


def test_corruptions_crash_and_hang_nothing(tmp_path: Path) -> None:
    summary = fuzz(range(SEED, SEED + COUNT), limit=100, cache=tmp_path)
    assert summary.failures == [], "\n".join(f"seed {seed}: {kind}\n{detail}" for seed, kind, detail in summary.failures)
    assert summary.cases == COUNT
    # corruptions that only ever meet the parser would prove little
    assert summary.ended["ok"] + summary.ended["out-of-bounds"] >= COUNT // 5


def test_a_seed_always_gives_the_same_case() -> None:
    assert [make_case(seed) for seed in range(50)] == [make_case(seed) for seed in range(50)]


def test_every_kernel_of_the_truth_set_is_corrupted() -> None:
    assert len(kernels()) == 53 + 36 + 14
    assert {make_case(seed).kernel for seed in range(2000)} == {kernel.name for kernel in kernels()}


# ---- what watches must see -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "failure"), [("import os, sys; sys.stdin.readline(); os.abort()", "crash"), ("import time; time.sleep(99)", "hang")])
def test_a_workers_death_and_its_silence_are_failures(script: str, failure: str, tmp_path: Path) -> None:
    with Worker(tmp_path, limit=2) as worker:
        worker.command = [sys.executable, "-c", script]
        answers = [worker.run(seed) for seed in (1, 2)]
    assert [(a["seed"], a["ended"], a["failure"]) for a in answers] == [(1, "failure", failure), (2, "failure", failure)]


@pytest.mark.parametrize(("offset", "kind"), [(-1, "red zone overwritten"), (400, "red zone overwritten"), (0, None), (399, None)])
def test_a_write_beside_a_buffer_is_seen(offset: int, kind: str | None) -> None:
    device = Simulator(find_device("h200"), blocking=True)
    watch = Watch(device)
    watch.canary()
    array = watch.buffer(np.zeros(100, np.float32))
    watch.canary()
    device.memory._bytes[array.address + offset - device.memory.base] = 1
    if kind is None:
        watch.look()
        return
    with pytest.raises(Verdict) as caught:
        watch.look()
    assert caught.value.kind == kind


def test_a_write_into_a_neighbour_is_seen() -> None:
    device = Simulator(find_device("h200"), blocking=True)
    watch = Watch(device)
    watch.canary()
    device.memory._bytes[watch.canaries[0].address + 63 - device.memory.base] = 1
    with pytest.raises(Verdict, match="neighbour overwritten"):
        watch.look()


@pytest.mark.parametrize(
    "error",
    [ParseError("something is wrong"), UnsupportedError("no"), KernelFault("kernel `k`: an internal thing", "trap", Finding("GS103", "trap", "error", "it", "", "k"))],
)
def test_an_error_that_tells_too_little_is_a_failure(error: GridstrideError) -> None:
    with pytest.raises(Verdict):
        must_be_told_well(error)


def test_an_error_of_anothers_is_a_failure() -> None:
    with pytest.raises(Verdict, match="internal RuntimeError"):
        try:
            raise UnsupportedError("PTX line 3: no") from RuntimeError("LLVM")
        except UnsupportedError as error:
            must_be_told_well(error)
    must_be_told_well(ParseError("PTX line 3: wrong"))
