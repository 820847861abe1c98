"""Floating-point operations: equal to what Nsight Compute read on an H200, but where the machine code computes otherwise than PTX."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gridstride as gs
from gridstride.cases import read_cases, run_case
from gridstride.observers.metrics.flops import FloatingKind, count_floating, floating_kind, is_expanded
from gridstride.observers.metrics.nsight import nsight_counters, nsight_marks
from gridstride.observers.metrics.profile import InstructionCounts
from metrics import half_forms

TRUTH = Path(__file__).parent.parent / "truth"
COUNTERS = json.loads((TRUTH / "counters.json").read_text())
CASES = {case.name: case for case in read_cases(TRUTH / "cases.json")}
NAMES = [f"smsp__sass_thread_inst_executed_op_{width}{operation}_pred_on.sum" for width in "dfh" for operation in ("add", "mul", "fma")]

# (case, counter) → what the machine counts more than the PTX, and why.
EXCEPTIONS = {
    # ptxas puts ten fused multiply-adds in place of each of the two divisions of a thread (160 × 128 threads).
    ("mandelbrot", "ffma"): 160 * 128 * 2 * 10,
    # the square root, correctly rounded: two multiplications and two fused multiply-adds a thread (72,261 threads).
    ("sobel", "fmul"): 2 * 72261,
    ("sobel", "ffma"): 2 * 72261,
    # v / 3.0f of 8,000 threads, and the paths of powf that not all of them take.
    ("math_mix", "ffma"): 32596,
    # The last of five additions after a shuffle is used by lane 0 alone, and ptxas moves it into the branch that uses it: 256 warps
    # whose other 31 lanes do not add.
    ("dot_double_atomic", "dadd"): -256 * 31,
    # Likewise in the one warp of each of 32 blocks that adds up the warps' sums.
    ("reduce_full", "fadd"): -32 * 31,
}


@pytest.fixture(scope="module")
def module() -> gs.Module:
    return gs.device("sim:h200").compile(TRUTH / "kernels.ptx")


@pytest.mark.parametrize("name", sorted(n for n in COUNTERS if any(COUNTERS[n].get(counter) for counter in NAMES)))
def test_operations_are_nsights(name: str, module: gs.Module) -> None:
    metrics = run_case(CASES[name], module.fresh(), profile=True).metrics
    assert metrics is not None
    counters, marks = nsight_counters(metrics), nsight_marks(metrics)
    for counter in NAMES:
        if counter not in COUNTERS[name]:
            continue
        short = counter.split("_op_")[1].split("_")[0]
        difference = EXCEPTIONS.get((name, short), 0)
        assert COUNTERS[name][counter] - counters[counter] == difference, counter
        if difference > 0:  # what the machine adds is announced; what it moves elsewhere cannot be seen in PTX
            assert marks[counter] == "modelled"


def test_no_case_with_arithmetic_is_left_out() -> None:
    assert {case for case, _ in EXCEPTIONS} <= set(CASES)
    assert sum(any(COUNTERS[n].get(counter) for counter in NAMES) for n in COUNTERS) >= 30


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("add.f32", FloatingKind("add", "f", 1)),
        ("sub.rn.ftz.f32", FloatingKind("add", "f", 1)),
        ("mul.rz.f64", FloatingKind("mul", "d", 1)),
        ("fma.rn.f16x2", FloatingKind("fma", "h", 2)),
        ("fma.rn.relu.bf16", FloatingKind("fma", "h", 1)),
        ("mad.rn.f32", FloatingKind("fma", "f", 1)),
        ("add.rn.f32x2", FloatingKind("add", "f", 2)),
        ("add.f32.f16", FloatingKind("add", "f", 1)),
        ("add.s32", None),
        ("mad.lo.u32", None),
        ("min.f32", None),
        ("cvt.rn.f32.s32", None),
        ("ld.global.f32", None),
        ("div.rn.f32", None),
    ],
)
def test_kinds_of_opcodes(opcode: str, kind: FloatingKind | None) -> None:
    assert floating_kind(opcode) == kind


@pytest.mark.parametrize(
    ("opcode", "expanded"),
    [
        ("div.rn.f32", True),
        ("div.full.f32", True),
        ("sqrt.rn.f64", True),
        ("rcp.approx.ftz.f64", True),
        ("rsqrt.approx.f32", False),
        ("rcp.approx.ftz.f32", False),
        ("sin.approx.f32", False),
        ("div.s32", False),
    ],
)
def test_what_the_machine_expands(opcode: str, expanded: bool) -> None:
    assert is_expanded(opcode) is expanded


def test_a_fused_multiply_add_counts_two() -> None:
    counts = count_floating(
        [
            InstructionCounts(1, None, None, "fma.rn.f32", 3, 96),
            InstructionCounts(2, None, None, "mul.f64", 1, 10),
            InstructionCounts(3, None, None, "add.f16x2", 1, 5),
        ]
    )
    assert counts.flops == 2 * 96 + 10 + 2 * 5
    assert (counts.flops_of("f"), counts.flops_of("d"), counts.flops_of("h")) == (192, 10, 10)


HALVES = json.loads((Path(__file__).parent / "half_counts_h200.json").read_text())


@pytest.fixture(scope="module")
def half_module() -> gs.Module:
    return gs.device("sim:h200").compile(half_forms.ptx())


@pytest.mark.parametrize("name", list(half_forms.forms()))
def test_halves_are_nsights(name: str, half_module: gs.Module) -> None:
    """Packed or not, an instruction counts once a thread. Which of the packed additions and multiplications become fused
    multiply-adds, and which scalar ones are packed, is ptxas's choice: there only the sum can agree, or is an upper bound."""
    read = HALVES[name]
    with gs.profiling() as profile:
        half_module[name][1, half_forms.THREADS](half_module.device.zeros(8192, np.uint8))
    counted = {counter: nsight_counters(profile.launches[0])[f"smsp__sass_thread_inst_executed_op_{counter}_pred_on.sum"] for counter in half_forms.NAMES}
    packed = name.endswith("x2")
    if packed:
        assert sum(counted.values()) == sum(read.values())
        assert counted["hfma"] <= read["hfma"]
    elif name.startswith("beside"):
        assert sum(counted.values()) >= sum(read.values())
    else:
        assert counted == read
    assert profile.launches[0].floating.flops_of("h") == (2 if packed else 1) * sum(n * (2 if c == "hfma" else 1) for c, n in counted.items())


def test_every_form_was_measured() -> None:
    assert set(HALVES) == set(half_forms.forms())
