"""Accesses that the machine compiler changed: on kept listings, and on the truth set's kernels where nvdisasm is installed.

Which of the truth set's lines these are follows from its counters: what the hardware executed and the PTX does not say. They are listed in
tests/truth/README.md ("Some counters cannot agree").
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


def counts_of(module: Module, kernel: str, *, executions: int = 8, lanes: int = 256, divergent: int = 0) -> list[InstructionCounts]:
    """Counts of a run in which every instruction was executed as often; `divergent` at every branch."""
    return [
        InstructionCounts(i.line, None, None if i.loc is None else i.loc.line, i.opcode, executions, lanes, divergent=divergent * (i.opcode == "bra"))
        for i in module.functions[kernel].body
    ]


def test_copies_change_a_count_where_lanes_part(kept: tuple[Module, SassListing]) -> None:
    module, sass = kept
    for kernel in ("unrolled_apart", "unrolled_together"):
        assert changed_lines(module, sass, kernel, counts_of(module, kernel)) == {}
        line = APART if kernel == "unrolled_apart" else TOGETHER
        assert changed_lines(module, sass, kernel, counts_of(module, kernel, divergent=1)) == {line: (5, 29)}


def test_a_gathered_atomic_of_one_lane_is_as_it_was(kept: tuple[Module, SassListing]) -> None:
    module, sass = kept
    assert changed_lines(module, sass, "gathered_atomic", counts_of(module, "gathered_atomic", lanes=8)) == {}
    assert changed_lines(module, sass, "gathered_atomic", counts_of(module, "gathered_atomic", lanes=9)) == {GATHERED: (2, 2)}


def test_what_never_ran_changed_nothing(kept: tuple[Module, SassListing]) -> None:
    module, sass = kept
    assert changed_lines(module, sass, "merged_pair", counts_of(module, "merged_pair", executions=0, lanes=0)) == {}
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


def test_truth_set_lines_are_recognised_and_no_others(truth: tuple[Module, SassListing]) -> None:
    module, sass = truth
    source = (TRUTH / "kernels.cu").read_text().splitlines()
    found = {}
    for kernel in sass.kernels:
        # Loops of which lanes leave at different times in the truth set's launches: the triangle's (a lane's number of turns is its
        # index plus one). Math_mix never takes its way through local memory (arguments below 105,615); one lane of a warp alone adds to
        # ballot_compact's counter.
        counts = counts_of(module, kernel, divergent=int(kernel == "loop_triangle"))
        if kernel == "math_mix":
            counts = [c for c in counts if ".local." not in c.opcode]
        if kernel == "ballot_compact":
            counts = [InstructionCounts(c.ptx_line, c.file, c.line, c.opcode, 8, 8) for c in counts]
        if lines := changed_lines(module, sass, kernel, counts):
            found[kernel] = {line: (totals, source[line - 1].strip()) for line, totals in lines.items()}
    assert set(found) == {"sgemm_regtile", "scan_blelloch", "bitonic_block", "reduce_strided", "loop_triangle", "reduce_atomic"}
    assert found["loop_triangle"] == {378: ((5, 29), "s += x[(i & ~31) + k];")}
    # The hardware's shared loads, over the 1,024 times that a warp runs the tile's code: 41.
    counters = json.loads((TRUTH / "counters.json").read_text())
    ((totals, text),) = found["sgemm_regtile"].values()
    assert text.startswith("float x0 = a[ty * 2][k]")
    stores = counters["sgemm_regtile"]["smsp__sass_inst_executed_op_shared_st.sum"] / 8
    assert totals == (64, counters["sgemm_regtile"]["smsp__sass_inst_executed_op_shared_ld.sum"] / stores)
    assert [text for _, text in found["reduce_atomic"].values()] == ["atomicAdd(out, in[i]);"]
    assert counters["reduce_atomic"]["l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"] == counters["reduce_atomic"]["l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"]
    assert {text for _, text in found["reduce_strided"].values()} == {"s[j] += s[j + k];"}
    assert {text for _, text in found["bitonic_block"].values()} == {"int p = s[i], q = s[i + j];", "s[i] = q;", "s[i + j] = p;"}


def test_without_a_run_only_loops_that_may_part_are_named(truth: tuple[Module, SassListing]) -> None:
    module, sass = truth
    for kernel in ("sgemm_naive", "sgemm_swapped", "sgemm_tiled", "conv2d_naive", "vec_add", "transpose_tile", "hist_private", "shared_f128"):
        assert changed_lines(module, sass, kernel) == {}, kernel
    assert list(changed_lines(module, sass, "loop_triangle")) == [378]
