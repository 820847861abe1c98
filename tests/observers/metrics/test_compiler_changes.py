"""Accesses that the machine compiler changed: on kept listings, and on the truth set's kernels where nvdisasm is installed.

Which of the truth set's lines these are follows from its counters: what the hardware executed and the PTX does not say. They are listed in
tests/truth/README.md ("Some counters cannot agree").
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gridstride as gs
from gridstride.cases import read_cases, run_case
from gridstride.errors import UnsupportedError
from gridstride.frontends import nvrtc
from gridstride.frontends.sass import SassListing, find_disassembler, machine_code, parse_listing
from gridstride.frontends.source import load_source
from gridstride.observers.metrics.compiler_changes import changed_lines, compiler_changes, line_totals
from gridstride.observers.metrics.profile import InstructionCounts
from gridstride.ptx.nodes import Module
from gridstride.ptx.parser import parse

TESTS = Path(__file__).parents[2]
LISTINGS = TESTS / "frontends" / "listings"
TRUTH = TESTS / "truth"
SOURCE = (LISTINGS / "accesses.cu").read_text().splitlines()


def line_of(text: str) -> int:
    (found,) = (number for number, line in enumerate(SOURCE, 1) if line.strip() == text)
    return found


MERGED = line_of("y[threadIdx.x] = s[2 * threadIdx.x] + s[2 * threadIdx.x + 1];")
APART = line_of("s += x[k];")
TOGETHER = line_of("s += x[k] * 2;")
GATHERED = line_of("atomicAdd(sum, x[threadIdx.x]);")


@pytest.fixture(scope="module", params=["sm_80", "sm_90"])
def kept(request: pytest.FixtureRequest) -> tuple[Module, SassListing]:
    arch = request.param
    return parse((LISTINGS / f"accesses.{arch}.ptx").read_text()), parse_listing((LISTINGS / f"accesses.{arch}.sass").read_text(), arch)


def test_changed_lines_of_the_kept_listings(kept: tuple[Module, SassListing]) -> None:
    # Two loads of neighbours became one of 64 bits; the loop of an unknown number of turns was unrolled 16, 8 and 4 times over
    # NVVM's 4 and 1; the atomic is preceded by a load. The uniform loop is unrolled as well, and that changes nothing.
    assert changed_lines(*kept) == {MERGED: (3, 2), APART: (5, 29), GATHERED: (2, 2)}


def test_each_change_has_its_reason(kept: tuple[Module, SassListing]) -> None:
    changes = compiler_changes(*kept)
    assert {(c.kernel, c.line, c.how, c.lanes_may_part) for c in changes if c.how == "copied"} == {
        ("unrolled_together", TOGETHER, "copied", False),
        ("unrolled_apart", APART, "copied", True),
    }
    assert [(c.kernel, c.how) for c in changes if c.how != "copied"] == [
        ("merged_pair", "merged"),
        ("merged_pair", "merged"),
        ("gathered_atomic", "gathered"),
    ]
    assert all(c.file == "accesses.cu" for c in changes)
    assert {c.description for c in changes if c.kernel == "merged_pair"} == {
        "merged with a neighbour (LDS.64)",
        "merged with a neighbour (counted there)",
    }


def test_a_kernel_alone(kept: tuple[Module, SassListing]) -> None:
    assert changed_lines(*kept, "plain") == changed_lines(*kept, "pair") == changed_lines(*kept, "scattered_atomic") == {}
    assert changed_lines(*kept, "merged_pair") == {MERGED: (3, 2)}
    assert line_totals(*kept, ["plain"]) == {line_of("y[i] = x[i];"): (2, 2)}


def counts_of(module: Module, kernel: str, *, executions: int = 8, sectors: int = 256, divergent: int = 0) -> list[InstructionCounts]:
    """Counts of a run in which every instruction was executed as often, with as many sectors; `divergent` at every branch."""
    return [
        InstructionCounts(
            i.line, None, None if i.loc is None else i.loc.line, i.opcode, executions, 32 * executions, sectors=sectors,
            divergent=divergent * (i.opcode == "bra"),
        )
        for i in module.functions[kernel].body
    ]  # fmt: skip


def test_copies_change_a_count_where_lanes_part(kept: tuple[Module, SassListing]) -> None:
    module, sass = kept
    for kernel in ("unrolled_apart", "unrolled_together"):
        assert changed_lines(module, sass, kernel, counts_of(module, kernel)) == {}
        line = APART if kernel == "unrolled_apart" else TOGETHER
        assert changed_lines(module, sass, kernel, counts_of(module, kernel, divergent=1)) == {line: (5, 29)}


def test_a_gathered_atomic_that_was_counted_as_one_access_is_as_it_was(kept: tuple[Module, SassListing]) -> None:
    module, sass = kept
    assert changed_lines(module, sass, "gathered_atomic", counts_of(module, "gathered_atomic", sectors=8)) == {}
    assert changed_lines(module, sass, "gathered_atomic", counts_of(module, "gathered_atomic", sectors=9)) == {GATHERED: (2, 2)}


def test_what_never_ran_changed_nothing(kept: tuple[Module, SassListing]) -> None:
    module, sass = kept
    assert changed_lines(module, sass, "merged_pair", counts_of(module, "merged_pair", executions=0, sectors=0)) == {}
    assert changed_lines(module, sass, "merged_pair", counts_of(module, "merged_pair")) == {MERGED: (3, 2)}


def _listing(code: str) -> SassListing:
    return parse_listing(f".text.k:\n{code}", "sm_90")


def _code(*rows: tuple[int, str]) -> str:
    return "".join(
        f'\t//## File ".nv_debug_ptx_txt", line {line}\n        /*{16 * k:04x}*/                   {text} ;\n' for k, (line, text) in enumerate(rows)
    )


_PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [p];
	ld.global.v2.u32 {%r1, %r2}, [%rd1];
	ld.global.u8 %r3, [%rd1+8];
	atom.global.add.u32 %r4, [%rd1], %r1;
	st.global.u32 [%rd1+16], %r2;
	ret;
}
"""


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        ([(9, "LDG.E.64 R2, [R0]"), (10, "LDG.E.U8 R4, [R0+0x8]"), (11, "ATOMG.E.ADD R5, [R0], R2"), (12, "STG.E [R0+0x10], R3")], []),
        # A narrow access may move the whole register, and a load of two words may be one word where the other is not needed.
        (
            [(9, "LDG.E R2, [R0]"), (10, "LDG.E R4, [R0+0x8]"), (11, "ATOMG.E.ADD R5, [R0], R2"), (12, "STG.E [R0+0x10], R3")],
            [(9, "resized")],
        ),
        (
            [(9, "LDG.E.64 R2, [R0]"), (10, "LDG.E.U8 R4, [R0+0x8]"), (11, "LDG.E R6, [R0]"), (11, "ATOMG.E.CAS R5, [R0], R2")],
            [(11, "emulated"), (12, "removed")],
        ),
        ([(9, "LDG.E.64 R2, [R0]"), (11, "ATOMG.E.ADD R5, [R0], R2"), (12, "STG.E [R0+0x10], R3")], [(10, "removed")]),
    ],
)
def test_kinds_of_change(rows: list[tuple[int, str]], changes: list[tuple[int, str]]) -> None:
    found = compiler_changes(_PTX, _listing(_code(*rows)))
    assert [(c.ptx_line, c.how) for c in found] == changes


@pytest.fixture(scope="module")
def truth() -> tuple[Module, SassListing]:
    try:
        nvrtc.version()
    except UnsupportedError as error:
        pytest.skip(str(error))
    if find_disassembler() is None:
        pytest.skip("nvdisasm is not installed")
    loaded = load_source(TRUTH / "kernels.cu")
    return parse(loaded.ptx), machine_code(loaded)


# The counters of tests/truth/counters.json that memory instructions make, by the accesses that they count.
FAMILIES = ("t_requests_pipe_lsu_mem_global_op", "t_sectors_pipe_lsu_mem_global_op", "pipe_lsu_wavefronts_mem_shared_op", "inst_executed_op_shared")
LAUNCHES = (
    "vec_add", "saxpy_gridstride", "transpose_tile", "reduce_tree", "reduce_interleaved", "reduce_strided", "reduce_full", "reduce_atomic", "scan_blelloch",
    "hist_private", "sgemm_naive", "sgemm_tiled", "sgemm_regtile", "conv2d_naive", "loop_triangle", "shared_stride", "math_mix", "bitonic_block",
)  # fmt: skip


def test_truth_set_lines_are_recognised_and_no_others(truth: tuple[Module, SassListing]) -> None:
    """A launch has changed lines exactly where the hardware counted other accesses than the PTX's run has."""
    cases = {case.kernel: case for case in reversed(read_cases(TRUTH / "cases.json"))}
    read = json.loads((TRUTH / "counters.json").read_text())
    module, sass = truth
    program = gs.device("sim:h200").compile(TRUTH / "kernels.cu")
    changed, different = {}, set()
    for kernel in LAUNCHES:
        result = run_case(cases[kernel], program.fresh(), profile=True)
        assert result.metrics is not None
        lines = changed_lines(module, sass, kernel, result.metrics.instructions)
        if lines:
            changed[kernel] = lines
        hardware = read[cases[kernel].name]
        if any(result.counters[name] != hardware[name] for name in hardware if any(f in name for f in FAMILIES) and name in result.counters):
            different.add(kernel)
    assert set(changed) == different == {"sgemm_regtile", "scan_blelloch", "bitonic_block", "reduce_strided", "loop_triangle"}
    source = (TRUTH / "kernels.cu").read_text().splitlines()
    texts = {kernel: {source[line - 1].strip() for line in lines} for kernel, lines in changed.items()}
    assert texts["loop_triangle"] == {"s += x[(i & ~31) + k];"}
    assert texts["reduce_strided"] == {"s[j] += s[j + k];"}
    assert texts["bitonic_block"] == {"int p = s[i], q = s[i + j];", "s[i] = q;", "s[i + j] = p;"}
    # For eight shared stores, the PTX has 64 loads; the hardware executed 41.
    hardware = read[cases["sgemm_regtile"].name]
    stores = hardware["smsp__sass_inst_executed_op_shared_st.sum"] / 8
    assert list(changed["sgemm_regtile"].values()) == [(64, hardware["smsp__sass_inst_executed_op_shared_ld.sum"] / stores)]


def test_without_a_run_only_loops_that_may_part_are_named(truth: tuple[Module, SassListing]) -> None:
    module, sass = truth
    for kernel in ("sgemm_naive", "sgemm_swapped", "sgemm_tiled", "conv2d_naive", "vec_add", "transpose_tile", "hist_private", "shared_f128"):
        assert changed_lines(module, sass, kernel) == {}, kernel
    assert list(changed_lines(module, sass, "loop_triangle")) == [378]
