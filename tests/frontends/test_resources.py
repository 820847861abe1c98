from __future__ import annotations

import json
from pathlib import Path

import pytest

from gridstride.errors import UnsupportedError
from gridstride.frontends import resources
from gridstride.frontends.resources import Resources, assemble_for_resources, parse_assembler_log
from gridstride.frontends.source import load_source

TRUTH = Path(__file__).parents[1] / "truth"

# Printed by ptxas: 13.x for sm_90, and 12.x for sm_80, which also reports constant banks.
LOG = """ptxas warning : Stack size for entry function 'r' cannot be statically determined
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'r' for 'sm_90'
ptxas info    : Function properties for r
ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers
ptxas info    : Compile time = 3.965 ms
ptxas info    : Function properties for rec
ptxas         .     56 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Compiling entry function 'big' for 'sm_80'
ptxas info    : Function properties for big
    64 bytes stack frame, 4 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1200 bytes smem, 372 bytes cmem[0], 16 bytes cmem[2]
ptxas info    : Compiling entry function 'old' for 'sm_80'
ptxas info    : Used 10 registers, 352 bytes cmem[0]
"""


def test_assembler_log() -> None:
    assert parse_assembler_log(LOG) == {
        "r": Resources(24, 0, 0, 8, 0, 0),
        "big": Resources(32, 1, 1200, 64, 4, 20, {0: 372, 2: 16}),
        "old": Resources(10, 0, 0, 0, 0, 0, {0: 352}),
    }


def test_resources_survive_json() -> None:
    for value in parse_assembler_log(LOG).values():
        assert Resources.from_json(json.loads(json.dumps(value.to_json()))) == value


def test_without_an_assembler_ptx_has_no_resources_and_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "find_assembler", lambda: None)
    expected = "the registers of a PTX file are assigned by NVIDIA's ptxas, which is not here: `pip install nvidia-cuda-nvcc` brings it"
    with pytest.raises(UnsupportedError) as caught:
        assemble_for_resources(".version 8.0\n", "sm_90")
    assert str(caught.value) == expected
    loaded = load_source(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out) { ret; }\n")
    report = loaded.resource_report()
    assert (report.arch, report.kernels, report.reason) == ("sm_80", {}, expected)
    assert loaded.resources("k") is None


def test_an_assembler_that_refuses_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assembler = tmp_path / "ptxas"
    assembler.write_text("#!/bin/sh\necho 'ptxas fatal   : Unsupported .version 9.9' >&2\nexit 255\n")
    assembler.chmod(0o755)
    monkeypatch.setattr(resources, "find_assembler", lambda: assembler)
    with pytest.raises(UnsupportedError) as caught:
        assemble_for_resources(".version 9.9\n", "sm_90")
    assert str(caught.value) == f"NVIDIA's ptxas ({assembler}) refuses this PTX for sm_90: ptxas fatal   : Unsupported .version 9.9"


@pytest.mark.usefixtures("compiler")
def test_registers_and_shared_memory_are_those_that_the_h200_reported() -> None:
    """Nsight Compute's counters of all 66 launches; the machine never gives a thread fewer than 16 registers."""
    cases = {case["name"]: case["kernel"] for case in json.loads((TRUTH / "cases.json").read_text())}
    loaded = load_source(TRUTH / "kernels.cu")
    compared = 0
    for name, counters in json.loads((TRUTH / "counters.json").read_text()).items():
        need = loaded.resources(cases[name])
        assert need is not None
        assert max(need.registers, 16) == counters["launch__registers_per_thread"], name
        assert need.shared_bytes == counters["launch__shared_mem_per_block_static"], name
        compared += 1
    assert compared == 66
