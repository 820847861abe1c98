"""Clusters, distributed shared memory and mbarriers: the launches of tests/truth/clusters against NumPy, under several schedules and under all checks."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gridstride as gs
from engine.kernels import Kernels
from gridstride.cases import CheckRequest, parse_case, run_case
from gridstride.observers.checks import parse_kinds
from gridstride.runtime.request import Buffer, LaunchRequest, Scalar

pytest.importorskip("cuda.bindings.nvrtc")

Ints = npt.NDArray[np.int64]
FOLDER = Path(__file__).parents[1] / "truth" / "clusters"
CASES = {entry["name"]: parse_case(entry, "cases.json") for entry in json.loads((FOLDER / "cases.json").read_text())}
PROGRAM = Kernels((FOLDER / "kernels.cu").read_text(), arch="sm_90")


def shaped(values: Ints, cluster: int, threads: int = 64) -> Ints:
    """By cluster, block and thread."""
    return values.reshape(-1, cluster, threads).astype(np.int64)


def places(case: LaunchRequest) -> Ints:
    (nx, ny, nz), (cx, cy, cz) = case.grid, (2, 3, 1)
    rows = []
    for z in range(nz):
        for y in range(ny):
            for x in range(nx):
                inside = (x % cx, y % cy, z % cz)
                rank = inside[0] + cx * (inside[1] + cy * inside[2])
                rows.append([x // cx, y // cy, z // cz, nx // cx, ny // cy, nz // cz, *inside, cx, cy, cz, rank, 6, 1])
    return np.array(rows)


def ring(case: LaunchRequest, given: Ints, rounds: int) -> Ints:
    v = shaped(given, 4)
    for k in range(rounds):
        v = np.roll(v, -1, 1)[:, :, ::-1] + k
    return v


def histogram(case: LaunchRequest, given: Ints, count: int) -> Ints:
    return np.bincount(given[:count], minlength=128)


def sums(case: LaunchRequest, given: Ints) -> Ints:
    return given.reshape(-1, 64).sum(1)


def smooth(case: LaunchRequest, given: Ints) -> Ints:
    line = np.pad(given.reshape(-1, 256).astype(np.int64), ((0, 0), (1, 1)))
    return 2 * line[:, 1:-1] + line[:, :-2] + line[:, 2:]


def some_end(case: LaunchRequest) -> Ints:
    out = np.zeros((8, 32), np.int64)
    for block in (0, 2, 4, 6):
        out[block] = (block ^ 2) + 1
    return out


def reach(case: LaunchRequest, given: Ints) -> Ints:
    own = given.reshape(-1, 64).astype(np.int64)
    other = own.reshape(-1, 2, 64)[:, ::-1].reshape(-1, 64)
    t = np.arange(64)
    counts = np.where(t < 32, 22, np.where(t < 48, t + 16, np.where(t < 56, 7, np.where(t == 63, 1, 0))))
    out = np.empty((*own.shape, 10), np.int64)
    for block in range(len(own)):
        columns = (other[block], t, 1 - block % 2, block ^ 1, other[block, ::-1], other[block], counts, 64, own[block], 1)
        for k, column in enumerate(columns):
            out[block, :, k] = column
    return out


def addresses(case: LaunchRequest) -> Ints:
    rows = []
    for block in range(8):
        own, other = block % 4, (block + 1) % 4
        rows.append([own, other, own, other, 1, 0, 1, 1, 0, 0, 0, 0, 100 + other, 100 + own, 100 + other, 100 + own])
    return np.array(rows)


def pipeline(case: LaunchRequest, given: Ints, rounds: int) -> Ints:
    return given.reshape(-1, rounds, 32)[:, :, ::-1].astype(np.int64) * 3 + np.arange(rounds)[:, None]


def relay(case: LaunchRequest, given: Ints, rounds: int) -> Ints:
    v = shaped(given, 4)
    for _ in range(rounds):
        v = np.roll(np.roll(v, 1, 1), -1, 2) + 1
    return v


def counts(case: LaunchRequest) -> Ints:
    """PTX ISA 9.7.13.15: what is pending before each arrival, and which phases are complete."""
    return np.array([0, 1, 8, 5, 0, 1, 1, 1, 0, 0, 1, 3, 0, 0, 1, 1, 0, 2, 2**20 - 1, *[0] * 5])


def barrier_objects(case: LaunchRequest, given: Ints) -> Ints:
    v = np.roll(given.reshape(-1, 64).astype(np.int64), -35, 1) + 10
    for _ in range(3):
        v[:, :32] = v[:, 31::-1] + 1
    return v


def flags(case: LaunchRequest) -> Ints:
    values = [1]
    for rank in range(7):
        values.append(values[-1] * 2 + rank)
    return np.tile(values, 2)


def parted(case: LaunchRequest, given: Ints) -> Ints:
    own = np.where(given & 1, given * 5, -given)
    return shaped(own, 2)[:, ::-1]


EXPECTED: dict[str, Callable[..., Ints]] = {
    f.__name__: f for f in (places, ring, histogram, sums, smooth, some_end, reach, addresses, pipeline, relay, counts, barrier_objects, flags, parted)
}


@functools.cache
def wanted(name: str) -> Ints:
    """What NumPy says the launch's output is."""
    case = CASES[name]
    inputs: list[Any] = []
    for argument in case.arguments:
        if isinstance(argument, Scalar):
            inputs.append(int(argument.value))
        elif isinstance(argument, Buffer) and not argument.out:
            inputs.append(argument.initial.build(argument.dtype, argument.count))
    return EXPECTED[case.kernel](case, *inputs).ravel()


def test_every_kernel_is_launched() -> None:
    assert {case.kernel for case in CASES.values()} == set(EXPECTED) == set(PROGRAM.module)


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    arguments = [a.value if isinstance(a, Scalar) else a.initial.build(a.dtype, a.count) for a in case.arguments if not isinstance(a, int)]  # type: ignore[union-attr]
    output = sum(isinstance(a, Buffer) for a in case.arguments) - 1
    found = PROGRAM.run(case.kernel, case.grid, case.block, *arguments)[output]
    np.testing.assert_array_equal(found, wanted(name))


@pytest.mark.parametrize("name", [name for name in CASES if name != "ring_many"])
def test_nothing_is_found_in_correct_kernels(name: str) -> None:
    result = run_case(CASES[name], PROGRAM.module.fresh(), checks=CheckRequest(parse_kinds("all"), schedules=1))
    assert result.failure is None and result.findings == ()
    np.testing.assert_array_equal(next(iter(result.outputs.values())), wanted(name))


def test_a_profile_counts_remote_accesses_as_shared_ones() -> None:
    with gs.profiling() as profiled:
        PROGRAM.once("ring", 8, 64, np.arange(512, dtype=np.int32), np.zeros(512, np.int32), 5)
    launch = profiled.launches[-1]
    remote = [i for i in launch.instructions if i.opcode.startswith("ld.shared::cluster")]
    assert sum(i.executions for i in remote) == 8 * 2 * 5 and {(i.space, i.access) for i in remote} == {("shared", "load")}
