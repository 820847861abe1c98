"""Every instruction form of the census (what 1,368 public .cu files compile to, with counts: census.csv) runs, or is refused by name."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import KernelFault, UnsupportedError
from gridstride.isa.registry import lookup
from opcodes import census_kernels as kernels

HEADER = ".version 8.5\n.target sm_90\n.address_size 64\n"
ROWS = [(row["form"], int(row["occurrences"]), int(row["files"])) for row in csv.DictReader((Path(__file__).parent / "census.csv").open())]
REFUSED = {
    "mma": "matrix instructions", "wmma": "matrix instructions", "ldmatrix": "matrix instructions", "movmatrix": "matrix instructions",
    "tex": "textures", "suld": "surfaces", "sust": "surfaces", "cp": "asynchronous copies",
}  # fmt: skip
ENDING = {"ret", "exit", "trap"}
RUNNING = [form for form, _, _ in ROWS if form.split(".")[0] not in {*REFUSED, *ENDING}]
BATCH = 40


def missing(forms: list[str]) -> list[str]:
    found = []
    for form in forms:
        try:
            lookup(form)
        except UnsupportedError:
            found.append(form)
    return found


def test_every_form_is_known_but_those_refused_by_name() -> None:
    assert len(ROWS) == 767
    assert missing([*RUNNING, *ENDING]) == []


@pytest.mark.parametrize("form", [form for form, _, _ in ROWS if form.split(".")[0] in REFUSED])
def test_refused_forms_say_what_they_belong_to(form: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        lookup(form)
    assert str(error.value).startswith(f"instruction form `{form}` is not supported (it belongs to {REFUSED[form.split('.')[0]]}, which are not")
    assert "PTX ISA 9.7." in str(error.value)


@pytest.mark.parametrize("opcode", REFUSED)
def test_a_refused_instruction_is_named_with_its_line(opcode: str) -> None:
    form = next(f for f, _, _ in ROWS if f.split(".")[0] == opcode)
    module = gs.device("sim:h200").compile(f"{HEADER}.visible .entry k()\n{{\n  .reg .b32 %r<2>;\n  {form} %r1, [%r0];\n  ret;\n}}\n")
    with pytest.raises(UnsupportedError, match=rf"PTX line 7: instruction form `{form}`"):
        module["k"][1, 32]()


def test_most_instructions_of_real_programs_run() -> None:
    """The share of the census's 2.39 million instructions, and how many files only have forms that run."""
    counted: Counter[bool] = Counter()
    for form, occurrences, _ in ROWS:
        counted[form not in missing([form])] += occurrences
    assert counted[True] / sum(counted.values()) > 0.98


@pytest.mark.parametrize("layout", ["32", "8x8"])
@pytest.mark.parametrize("start", range(0, len(RUNNING), BATCH))
def test_forms_run_in_kernels(start: int, layout: str) -> None:
    block: int | tuple[int, int]
    block, grid, threads = (32, 2, 32) if layout == "32" else ((8, 8), 1, 64)
    fragments = [kernels.fragment(form, threads) for form in RUNNING[start : start + BATCH]]
    device = gs.device("sim:h200")
    module = device.compile(HEADER + kernels.MODULE_VARIABLES + kernels.FUNCTIONS + kernels.kernel("k", fragments))
    inputs = kernels.Inputs()
    slots = sum(f.slots for f in fragments)
    out = device.zeros(slots * kernels.THREADS, np.uint64)
    cells = device.zeros(kernels.THREADS * kernels.CELL // 8, np.uint64)
    module["k"][grid, block](device.array(inputs.buffer()), out, cells, np.frombuffer(kernels.CONSTANT_BYTES, np.uint8))
    rows = iter(out.numpy().reshape(slots, kernels.THREADS))
    wrong = []
    for fragment in fragments:
        for want in fragment.want(inputs):
            have = next(rows)
            for thread in np.flatnonzero(have != want)[:1]:
                wrong.append(f"{fragment.form}: thread {thread} has {have[thread]:#x}, not {int(want[thread]):#x}")
    assert not wrong


@pytest.mark.parametrize("form", ["ret", "exit"])
def test_threads_that_end_early_leave_the_rest_alone(form: str) -> None:
    device = gs.device("sim:h200")
    out = device.zeros(64, np.uint32)
    text = (
        ".visible .entry k(.param .u64 out)\n{\n.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
        "ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 1; setp.ne.u32 %p, %r1, 0; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1;\n"
        f"@%p {form};\nbar.sync 0;\nst.global.u32 [%d0], 7;\nret;\n}}\n"
    )
    device.compile(HEADER + text)["k"][1, 64](out)
    assert out.numpy().tolist() == [7, 0] * 32


def test_trap_stops_the_kernel() -> None:
    with pytest.raises(KernelFault, match=r"trap.*\(PTX line 4"):
        gs.device("sim:h200").compile(HEADER + ".visible .entry k() { trap; ret; }")["k"][1, 32]()
