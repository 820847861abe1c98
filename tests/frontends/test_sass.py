"""Machine code: listings that nvdisasm printed, kept beside this file, and fresh ones where it is installed."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from gridstride.errors import UnsupportedError
from gridstride.frontends import sass
from gridstride.frontends.sass import SassInstruction, SassKernel, SassListing, disassemble, find_disassembler, machine_code, parse_listing
from gridstride.frontends.sass_meaning import MachineAccess, explanations, half_pair_bits, loaded_constant, memory_access
from gridstride.frontends.source import load_source

LISTINGS = Path(__file__).parent / "listings"


def listing(arch: str) -> SassListing:
    return parse_listing((LISTINGS / f"accesses.{arch}.sass").read_text(), arch)


@pytest.mark.parametrize(("text", "integer"), [("2.384185791015625e-07", 4), ("1.9073486328125e-06", 32), ("4.76837158203125e-07", 8)])
def test_integers_hidden_in_half_numbers(text: str, integer: int) -> None:
    assert half_pair_bits("0", text) == integer
    instruction = SassInstruction(0, "", "HFMA2.MMA", f"R5, -RZ, RZ, 0, {text}", "k")
    assert loaded_constant(instruction) == ("R5", integer)


def test_every_integer_below_2048_is_its_half_number_over_2_to_the_24() -> None:
    for integer in range(2048):
        assert half_pair_bits("0", repr(integer / 2**24)) == integer


@pytest.mark.parametrize("value", [1.0, -2.5, 0.15625, 1.875, 65504.0, 3.7421875])
def test_both_halves_are_half_precision_numbers(value: float) -> None:
    bits = int(np.float16(value).view(np.uint16))
    assert half_pair_bits(repr(value), "0") == bits << 16
    assert half_pair_bits("0", repr(value)) == bits


def test_a_one_written_as_two_halves() -> None:
    # 1.0f is 0x3f800000, whose upper half is the half-precision number 1.875.
    assert half_pair_bits("1.875", "0") == struct.unpack("<I", struct.pack("<f", 1.0))[0]
    assert half_pair_bits("+INF", "-INF") == 0x7C00FC00
    assert half_pair_bits("+QNAN", "0") is None
    assert half_pair_bits("70000", "0") is None


@pytest.mark.parametrize(
    ("opcode", "operands", "constant"),
    [
        ("MOV", "R9, 0x400", ("R9", 1024)),
        ("UMOV", "UR4, 0x8", ("UR4", 8)),
        ("IMAD.MOV.U32", "R5, RZ, RZ, 0x4", ("R5", 4)),
        ("IMAD.MOV.U32", "R5, RZ, RZ, R4", None),
        ("MOV", "R2, R5", None),
        ("HFMA2", "R5, R2, R3, 0, 0", None),
        ("FADD", "R5, R2, R3", None),
        ("EXIT", "", None),
    ],
)
def test_constants(opcode: str, operands: str, constant: tuple[str, int] | None) -> None:
    assert loaded_constant(SassInstruction(0, "", opcode, operands, "k")) == constant


@pytest.mark.parametrize(
    ("text", "access"),
    [
        ("LDG.E.128", MachineAccess("global", "load", 16)),
        ("LDG.E.U8.CONSTANT", MachineAccess("global", "load", 1)),
        ("STS.64", MachineAccess("shared", "store", 8)),
        ("LDL", MachineAccess("local", "load", 4)),
        ("ST.E.U16", MachineAccess("generic", "store", 2)),
        ("REDG.E.ADD.F64.RN.STRONG.GPU", MachineAccess("global", "atomic", 8)),
        ("ATOMS.POPC.INC.32", MachineAccess("shared", "atomic", 4)),
        ("LDC.64", None),
        ("FFMA", None),
    ],
)
def test_accesses(text: str, access: MachineAccess | None) -> None:
    assert memory_access(SassInstruction(0, "", text, "", "k")) == access
    assert memory_access(SassInstruction(0, "@!PT", text, "", "k")) is None


def test_listing_is_read_whole() -> None:
    found = listing("sm_90")
    assert list(found.kernels) and set(found.kernels) == {
        "plain", "strided", "record", "pair", "merged_pair", "unrolled_together", "unrolled_apart", "gathered_atomic", "scattered_atomic",
    }  # fmt: skip
    for kernel in found.kernels.values():
        addresses = [i.address for i in kernel.instructions]
        assert addresses == list(range(0, 16 * len(addresses), 16))
        assert kernel.instructions[-1].opcode == "EXIT"
        assert {i.file for i in kernel.instructions} == {"accesses.cu"}


def test_instructions_lead_to_source_and_ptx_lines() -> None:
    source = (LISTINGS / "accesses.cu").read_text().splitlines()
    ptx = (LISTINGS / "accesses.sm_90.ptx").read_text().splitlines()
    (load,) = (i for i in listing("sm_90").kernels["plain"].instructions if i.head == "LDG")
    (store,) = (i for i in listing("sm_90").kernels["plain"].instructions if i.head == "STG")
    assert load.line is not None and load.ptx_line is not None and store.ptx_line is not None
    assert source[load.line - 1].strip() == "y[i] = x[i];"
    assert ptx[load.ptx_line - 1].split()[0] == "ld.global.f32"
    assert ptx[store.ptx_line - 1].split()[0] == "st.global.f32"


def test_strides_are_decoded() -> None:
    # i * 32 floats and i * 8 floats; records of 32 bytes; the constants are half-precision numbers on compute capability 8.0.
    for arch in ("sm_80", "sm_90"):
        notes = set(explanations(listing(arch).kernels["strided"]).values())
        assert any(note.endswith("× 128 bytes") for note in notes), notes
        assert any(note.endswith("× 8") for note in notes), notes
        notes = set(explanations(listing(arch).kernels["record"]).values())
        assert any(note.endswith("× 32 bytes") for note in notes), notes
    assert "HFMA2.MMA" in {i.opcode for i in listing("sm_80").kernels["record"].instructions}


def test_a_constant_is_forgotten_where_other_code_comes_in() -> None:
    def code(second: str) -> SassKernel:
        rows = [("MOV", "R5, 0x4"), (second, "R6, R2"), ("IMAD.WIDE", "R2, R0, R5, R8"), ("MOV", "R5, R9"), ("EXIT", "")]
        return SassKernel("k", tuple(SassInstruction(16 * k, "", *row, "k") for k, row in enumerate(rows)), frozenset({0x20}))

    assert 0x20 not in explanations(code("MOV"))
    straight = SassKernel("k", code("MOV").instructions, frozenset())
    assert explanations(straight)[0x20] == "R0 × 4 bytes"


def test_inlined_calls_are_kept_innermost_first() -> None:
    text = (
        ".text.k:\n"
        '\t//## File "a.cu", line 3 inlined at "a.cu", line 4\n\t//## File "a.cu", line 4 inlined at "a.cu", line 5\n\t//## File "a.cu", line 5\n'
        '\t//## File ".nv_debug_ptx_txt", line 54\n'
        "        /*0000*/              @!P0 LDG.E R8, desc[UR4][R2.64+0x20] ;\n"
        "        /*0010*/                   EXIT ;\n$k$helper:\n"
        '\t//## File "b.h", line 9\n        /*0020*/                   RET.REL.NODEC R2 `(k) ;\n'
    )
    load, end, back = parse_listing(text, "sm_90").kernels["k"].instructions
    assert (load.guard, load.opcode, load.operands) == ("@!P0", "LDG.E", "R8, desc[UR4][R2.64+0x20]")
    assert (load.file, load.line, load.ptx_line, load.inlined_at) == ("a.cu", 3, 54, (("a.cu", 4), ("a.cu", 5)))
    assert (end.line, end.function) == (3, "k")
    assert (back.file, back.line, back.inlined_at, back.function) == ("b.h", 9, (), "$k$helper")


@pytest.fixture
def disassembler(compiler: None) -> None:
    if find_disassembler() is None:
        pytest.skip("nvdisasm is not installed")


@pytest.mark.usefixtures("disassembler")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_fresh_listing_has_the_same_accesses(arch: str) -> None:
    fresh = machine_code(load_source((LISTINGS / "accesses.cu").read_text(), name="accesses.cu", arch=arch))
    for name, kernel in listing(arch).kernels.items():
        kept = [(i.opcode, i.line) for i in kernel.instructions if memory_access(i)]
        assert [(i.opcode, i.line) for i in fresh.kernels[name].instructions if memory_access(i)] == kept
        assert {i.file for i in fresh.kernels[name].instructions} == {"accesses.cu"}


@pytest.mark.usefixtures("disassembler")
def test_what_is_no_cubin_wrong() -> None:
    with pytest.raises(UnsupportedError, match=r"^NVIDIA's nvdisasm \(.*\) failed: "):
        disassemble(b"no cubin")


def test_without_nvdisasm_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sass, "find_disassembler", lambda: None)
    sass._disassembler.cache_clear()
    with pytest.raises(UnsupportedError) as caught:
        disassemble(b"")
    sass._disassembler.cache_clear()
    assert str(caught.value) == (
        "machine code is listed by NVIDIA's nvdisasm, which is not installed here: on Linux (glibc) or Windows run "
        "`pip install 'gridstride[sass]'` (or `pip install nvidia-cuda-nvdisasm`)"
    )


def test_ptx_without_ptxas_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sass, "find_assembler", lambda: None)
    with pytest.raises(UnsupportedError) as caught:
        sass.assemble(".version 8.0", "sm_90")
    assert str(caught.value) == (
        "machine code for a PTX file is made by NVIDIA's ptxas, which is not here: `pip install nvidia-cuda-nvcc` brings it; "
        "for CUDA C++ nothing more is needed"
    )
