"""`gs.checking()`: sessions, what they collect, outputs that nobody wrote, memory that is freed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import UsageError

SOURCE = r"""
extern "C" {
__global__ void set(int* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = i; }
__global__ void clash(int* x) { x[0] = threadIdx.x; }
__global__ void count(int* x, const int* where) { x[where[threadIdx.x]]++; }
__global__ void quiet(int* x) {
    // gridstride: ignore[race-global]
    x[0] = threadIdx.x;
}
__global__ void follow(int** table) { table[0][5] = 1; }
__global__ void overrun(int* x, int n) { x[threadIdx.x] = 1; x[n] = 2; }
__global__ void copy(const int* a, int* b) { b[threadIdx.x] = a[threadIdx.x]; }
struct Pair { char c; int v; };
__global__ void pairs(Pair* p) { p[threadIdx.x].c = 1; p[threadIdx.x].v = 2; }
__global__ void even(float* x) { x[2 * threadIdx.x] = 1; }
__global__ void grab(int** keep, int* out) { if (threadIdx.x == 0) { keep[0] = (int*)malloc(64); keep[0][0] = 1; out[0] = keep[0][0]; } }
__global__ void drop(int** keep) { if (threadIdx.x == 0) free(keep[0]); }
}
"""


@pytest.fixture(scope="module")
def module() -> gs.Module:
    return gs.device("sim").compile(SOURCE)


def kinds(findings: gs.Findings) -> list[tuple[str, str]]:
    return [(found.kind, found.severity) for found in findings]


def test_a_clean_launch_passes_with_a_receipt(module: gs.Module) -> None:
    x = module.device.empty(100, np.int32)
    with gs.checking() as findings:
        module["set"][1, 128](x, 100)
        x.numpy()
    assert findings.passed and list(findings) == [] and len(findings) == 0
    receipt = findings.receipt
    assert (receipt.launches, receipt.threads, receipt.skipped) == (1, 128, ())
    # four warps, of which the last has four active lanes: one store each
    assert (receipt.accesses, receipt.bytes) == (4, 400)
    assert {"out-of-bounds", "race-shared", "race-global", "uninitialised", "divergent-barrier", "warp-mask"} <= set(receipt.checks)


def test_nothing_run_is_no_pass() -> None:
    with gs.checking() as findings:
        pass
    assert not findings.passed and findings.receipt.launches == 0


def test_a_race_is_an_error_with_the_callers_name_for_the_buffer(module: gs.Module) -> None:
    winners = module.device.zeros(1, np.int32)
    with gs.checking() as findings:
        for _ in range(3):
            module["clash"][1, 64](winners)
    (found,) = findings.errors
    assert (found.kind, found.buffer, found.index, found.kernel) == ("race-global", "winners", 0, "clash")
    assert found.count % 3 == 0 and found.count > 0  # three launches, one cause
    assert not findings.passed and findings[0] == found and findings[:1] == [found]
    assert repr(findings).startswith("<gridstride.Findings: 1 finding in 3 launches>\nerror[GS202] race-global: ")


@pytest.mark.parametrize(("where", "shared"), [([6, 5, 5], 5), ([5, 5, 6], 5), ([1, 7, 4, 7], 7)])
def test_a_race_among_lanes_is_at_the_word_that_they_share(module: gs.Module, where: list[int], shared: int) -> None:
    x, places = module.device.zeros(8, np.int32), module.device.array(np.array(where, np.int32))
    with gs.checking() as findings:
        module["count"][1, len(where)](x, places)
    assert {(found.kind, found.index) for found in findings} == {("race-global", shared)}


def test_lanes_that_share_no_word_do_not_race(module: gs.Module) -> None:
    x, places = module.device.zeros(8, np.int32), module.device.array(np.array([6, 5, 0, 7], np.int32))
    with gs.checking() as findings:
        module["count"][1, 4](x, places)
    assert findings.passed and not list(findings)


def test_only_what_was_asked_for(module: gs.Module) -> None:
    x = module.device.zeros(1, np.int32)
    with gs.checking("race-shared, launch-shape") as findings:
        module["clash"][1, 64](x)
    assert list(findings) == []
    assert findings.receipt.checks == ("out-of-bounds", "misaligned", "deadlock", "race-shared", "launch-shape")
    with pytest.raises(UsageError, match="there is no check 'speed'"), gs.checking("speed"):
        pass


def test_sessions_nest_and_end(module: gs.Module) -> None:
    x = module.device.zeros(1, np.int32)
    with gs.checking("none") as outer:
        with gs.checking("race-global") as inner:
            module["clash"][1, 64](x)
        module["clash"][1, 64](x)
    module["clash"][1, 64](x)
    assert (len(outer), outer.receipt.launches) == (0, 2)
    assert (kinds(inner), inner.receipt.launches) == ([("race-global", "error")], 1)


def test_comments_and_rules_hide_and_the_receipt_says_so(module: gs.Module, tmp_path: Path) -> None:
    x = module.device.zeros(1, np.int32)
    rules = tmp_path / "rules"
    rules.write_text("race-global kernel=clash\n")
    with gs.checking(suppress=rules) as findings:
        module["quiet"][1, 64](x)
        module["clash"][1, 64](x)
    assert list(findings) == []
    assert [re.sub(r"^\d+", "N", what) for what in findings.receipt.skipped] == [
        "N finding hidden by comments in the source",
        "N finding hidden by suppression rules",
    ]


def test_what_stops_a_kernel_is_a_finding_too(module: gs.Module) -> None:
    x = module.device.zeros(32, np.int32)
    with gs.checking() as findings, pytest.raises(gs.KernelFault):
        module["overrun"][1, 32](x, 32)
    assert ("out-of-bounds", "error") in kinds(findings)
    assert findings.receipt.skipped == ("what comes after the fault in the launch",)


# ---- outputs that the host reads ---------------------------------------------------------------------------------


def test_an_output_with_holes(module: gs.Module) -> None:
    x = module.device.empty(64)
    with gs.checking() as findings:
        module["even"][1, 32](x)
        x.numpy()
    (found,) = findings
    assert (found.kind, found.severity, found.kernel, found.buffer, found.index) == ("uninitialised", "error", "even", "x", 1)
    assert found.message == "the host reads `x`, but 32 of its 64 elements (the first at [1]) were never written"


def test_reading_only_what_was_written_is_clean(module: gs.Module) -> None:
    x = module.device.empty(64)
    with gs.checking() as findings:
        module["even"][1, 32](x)
        assert np.array_equal(x[::2].numpy(), np.ones(32, np.float32))
        assert x[62].item() == 1
    assert list(findings) == []
    with gs.checking() as findings:
        module["even"][1, 32](x)
        x[1].item()
    assert [f.message for f in findings] == ["the host reads `x`, but its one element were never written".replace("were", "were")]


def test_padding_of_structures_is_no_hole(module: gs.Module) -> None:
    pair = np.dtype({"names": ["c", "v"], "formats": [np.int8, np.int32], "offsets": [0, 4], "itemsize": 8})
    for dtype in (pair, np.dtype(np.int32)):  # as fields, and as words of which one byte was written
        x = module.device.empty(32 * 8 // dtype.itemsize, dtype)
        with gs.checking() as findings:
            module["pairs"][1, 32](x.view(np.uint8) if dtype is not pair else x)
            x.numpy()
        assert list(findings) == []


def test_copies_of_undefined_data_are_no_error(module: gs.Module) -> None:
    a, b = module.device.empty(32, np.int32), module.device.empty(32, np.int32)
    with gs.checking() as findings:
        module["copy"][1, 32](a, b)
    assert list(findings) == []
    with gs.checking() as findings:
        module["copy"][1, 32](a, b)
        b.numpy()
    assert kinds(findings) == [("uninitialised", "warning")]
    assert findings[0].message == "the host reads `b`, but all of its 32 elements are copies of memory that was never written"


def test_what_the_host_wrote_is_defined(module: gs.Module) -> None:
    x = module.device.empty(64)
    x[1::2] = np.zeros(32, np.float32)
    with gs.checking() as findings:
        module["even"][1, 32](x)
        x.numpy()
    assert list(findings) == []


# ---- freed memory, the heap, refused calls -----------------------------------------------------------------------


def test_use_after_free_names_what_was_freed(module: gs.Module) -> None:
    device = module.device
    victim = device.zeros(16, np.int32)
    module["set"][1, 16](victim, 16)  # so that its name is known
    table = device.array(np.array([victim.address], np.uint64))
    victim.free()
    with gs.checking() as findings, pytest.raises(gs.KernelFault) as stopped:
        module["follow"][1, 1](table)
    assert re.search(r"writes `victim`, which was freed, at byte 20 of its 64 \(kernel\.cu:\d+, block", str(stopped.value))
    assert (findings[0].kind, findings[0].buffer) == ("out-of-bounds", "victim")
    assert findings[0].advice == "free memory only after the last kernel that uses it"


def test_an_array_freed_twice(module: gs.Module) -> None:
    x = module.device.zeros(4, name="x")
    x.free()
    with gs.checking() as findings, pytest.raises(UsageError):
        x.free()
    assert [(f.code, f.message) for f in findings] == [("GS602", "the array 'x' is freed a second time")]


def test_the_devices_heap_leaks_unless_a_later_kernel_frees_it(module: gs.Module) -> None:
    device = module.device
    keep, out = device.zeros(1, np.uint64), device.zeros(1, np.int32)
    with gs.checking() as findings:
        module["grab"][1, 32](keep, out)
    assert [(f.code, f.severity, f.kernel, f.message) for f in findings] == [
        ("GS601", "warning", "grab", "1 allocation of the device's heap (64 bytes) was never freed")
    ]
    with gs.checking() as findings:
        module["grab"][1, 32](keep, out)
        module["drop"][1, 32](keep)
    assert [f for f in findings if f.kind == "leak"] == []
    with gs.checking() as findings, pytest.raises(gs.KernelFault) as stopped:
        module["drop"][1, 32](keep)
    assert ("double-free", "error") in kinds(findings)
    assert re.search(r"frees 0x[0-9a-f]+, which the device's heap did not give out, or which was freed before \(kernel\.cu:\d+", str(stopped.value))


def test_refused_calls_are_kept(module: gs.Module) -> None:
    with gs.checking() as findings, pytest.raises(gs.LaunchError):
        module["clash"][1, 1](np.zeros(4, np.int32))
    assert [(f.code, f.kernel) for f in findings] == [("GS603", "clash")]
    assert "a numpy array lies in the host's memory" in findings[0].message


def test_a_parameter_read_before_its_place_is_a_fault_like_another() -> None:
    source = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b) { .reg .b64 %x; .reg .b32 %t; mov.b64 %x, b; add.s64 %x, %x, -2; ld.param.u64 %x, [%x]; ld.global.u32 %t, [%x]; st.global.u32 [%x], %t; ret; }
"""
    kernel = gs.device("sim").compile(source)["k"]
    x = kernel.module.device.zeros(8, np.int32)
    with gs.checking() as findings, pytest.raises(gs.KernelFault):
        kernel[1, 32](x, x)
    assert [found.kind for found in findings.errors] == ["misaligned"]
