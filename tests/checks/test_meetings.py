"""Threads that wait at different places, each for the other: the finding names both, and stands for the deadlock."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

import gridstride as gs
from gridstride import cli

SOURCE = r"""
extern "C" {
__global__ void two_barriers(int* x) {
    if (threadIdx.x < 64)
        asm volatile("bar.sync 1;");
    else
        asm volatile("bar.sync 2;");
    x[threadIdx.x] = 1;
}
__global__ void vote_and_barrier(int* x) {
    int v = 0;
    if (threadIdx.x < 16)
        v = __all_sync(~0u, x[threadIdx.x]);
    else
        __syncthreads();
    x[threadIdx.x] = v;
}
__global__ void barrier_of_too_many(int* x) {
    if (threadIdx.x < 64)
        asm volatile("bar.sync 1, 128;");
    x[threadIdx.x] = 1;
}
}
"""


@pytest.fixture(scope="module")
def module() -> gs.Module:
    return gs.device("sim").compile(SOURCE)


def stopped(module: gs.Module, kernel: str, checks: str, threads: int) -> tuple[gs.Findings, gs.KernelFault]:
    x = module.device.zeros(128, np.int32)
    with gs.checking(checks) as findings, pytest.raises(gs.KernelFault) as fault:
        module[kernel][1, threads](x)
    assert fault.value.code == "deadlock"
    return findings, fault.value


def test_two_barriers_are_told_with_both_places(module: gs.Module) -> None:
    findings, fault = stopped(module, "two_barriers", "divergent-barrier", 128)
    (found,) = findings
    assert (found.kind, found.severity) == ("divergent-barrier", "error")
    assert found.message == (
        "thread (0,0,0) waits at one barrier, while thread (64,0,0) waits at another, and neither can go on: a deadlock "
        "(block (0,0,0), kernel.cu:5 and kernel.cu:7)"
    )
    assert found.site.line == 5 and found.other is not None and (found.other.line, found.other.thread) == (7, (64, 0, 0))
    assert str(fault) == f"kernel `two_barriers`: {found.message}"


def test_a_vote_that_waits_for_lanes_at_a_barrier(module: gs.Module) -> None:
    findings, _ = stopped(module, "vote_and_barrier", "warp-mask", 32)
    (found,) = findings
    assert (found.kind, found.severity, found.site.line) == ("warp-mask", "error", 13)
    assert found.message == (
        "vote: lane 0 waits in an operation whose mask names a lane (16) that waits elsewhere at kernel.cu:15, and neither can go on: a deadlock "
        "(kernel.cu:13, block (0,0,0), thread (0,0,0))"
    )


@pytest.mark.parametrize(("kernel", "checks", "threads"), [("two_barriers", "race-shared", 128), ("two_barriers", "none", 128), ("barrier_of_too_many", "all", 128)])
def test_all_else_is_a_deadlock(module: gs.Module, kernel: str, checks: str, threads: int) -> None:
    findings, _ = stopped(module, kernel, checks, threads)
    assert [found.kind for found in findings.errors] == ["deadlock"]


def test_the_command_line_tells_it_once(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(SOURCE)
    launch = ("--grid", "1", "--block", "128", "--arg", "x=i32[128]:zeros", "--device", "sim", "--json", str(tmp_path / "r.json"))
    with pytest.raises(SystemExit) as ended:
        cli.main(["check", str(source), "two_barriers", *launch])
    assert ended.value.code == 1
    (case,) = json.loads((tmp_path / "r.json").read_text())["cases"]
    assert [(f["kind"], f["severity"], f["line"]) for f in case["findings"]] == [("divergent-barrier", "error", 5)]


TAILS = r"""
extern "C" {
__global__ void returns_with_a_store(const int* a, int* b) {
    int v = 0;
    for (int k = 0; k < 4; ++k) {
        if (k == (int)threadIdx.x / 12) { b[threadIdx.x] = -k; return; }
        v += __popc(__ballot_sync(~0u, a[threadIdx.x] >> k & 1));
    }
    b[threadIdx.x] = v;
}
__global__ void leaves_with_a_store(const int* a, int* b) {
    int v = 0;
    for (int k = 0; k < 4; ++k) {
        if (k == (int)threadIdx.x / 12) { v = -k; break; }
        v += __popc(__ballot_sync(~0u, a[threadIdx.x] >> k & 1));
    }
    b[threadIdx.x] = v;
}
}
"""


def test_a_last_store_is_a_note_where_the_source_returns_before() -> None:
    # the compiler makes the same code of the two: one store, to which lanes come from three places
    module = gs.device("sim").compile(TAILS)
    found = {}
    for kernel in ("returns_with_a_store", "leaves_with_a_store"):
        a, b = module.device.array(np.arange(32, dtype=np.int32)), module.device.zeros(32, np.int32)
        with gs.checking() as findings:
            module[kernel][1, 32](a, b)
        assert np.array_equal(b.numpy(), -(np.arange(32) // 12))
        (found[kernel],) = findings
    assert [f.severity for f in found.values()] == ["note", "error"]
    assert found["returns_with_a_store"].message.startswith(
        "vote: lane 12 waits in an operation whose mask names a lane (0) that still runs but goes on without it, to kernel.cu:9, which is fine if it returns there"
    )


def test_thousands_of_blocks_that_wait_for_one_end_in_seconds() -> None:
    # an H200 holds 132 * 32 blocks of 64 threads: one fewer than the grid
    source = r"""
    extern "C" __global__ void meet(int* arrived, int* b) {
        if (threadIdx.x == 0) { atomicAdd(arrived, 1); while (atomicAdd(arrived, 0) < (int)gridDim.x) { } }
        __syncthreads();
        b[blockIdx.x] = 1;
    }
    """
    module = gs.device("sim:h200").compile(source)
    arrived, b = module.device.zeros(1, np.int32), module.device.zeros(4225, np.int32)
    module["meet"][2, 64](arrived, b)  # compiled
    arrived[:] = np.zeros(1, np.int32)
    began = time.process_time()
    with gs.checking() as findings, pytest.raises(gs.KernelFault):
        module["meet"][4225, 64](arrived, b)
    assert [found.kind for found in findings.errors] == ["deadlock"]
    assert arrived.item() == 4224
    assert time.process_time() - began < 10
