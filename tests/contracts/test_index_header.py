"""gridstride/index.cuh: the right elements in one, two and three dimensions, at the cost of the lines that one would write by hand."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

import gridstride as gs
from gridstride.frontends.sass import find_disassembler, machine_code

# Each kernel by hand and with the header; T is the type of the extent, W the same with the sign of blockIdx.
PAIRS = """
#include <gridstride/index.cuh>
#define AT(axis) ((T)((W)blockIdx.axis * blockDim.axis + threadIdx.axis))
extern "C" {
// gridstride: contract extent=n covers=y
__global__ void hand_1(T n, const float* x, float* y) { T i = AT(x); if (i < n) y[i] = 2 * x[i]; }
// gridstride: contract extent=n covers=y
__global__ void index_1(T n, const float* x, float* y) { if (auto i = gridstride::index(n)) y[*i] = 2 * x[*i]; }
__global__ void hand_2(T w, T h, const float* x, float* y) { T i = AT(x), j = AT(y); if (i < w && j < h) y[j * w + i] = 2 * x[j * w + i]; }
// gridstride: contract extent=w,h covers=y
__global__ void index_2(T w, T h, const float* x, float* y) { if (auto p = gridstride::index(w, h)) y[*p] = 2 * x[*p]; }
__global__ void hand_3(T w, T h, T d, const float* x, float* y) {
    T i = AT(x), j = AT(y), k = AT(z);
    if (i < w && j < h && k < d) y[(k * h + j) * w + i] = 2 * x[(k * h + j) * w + i];
}
// gridstride: contract extent=w,h,d covers=y
__global__ void index_3(T w, T h, T d, const float* x, float* y) { if (auto p = gridstride::index(w, h, d)) y[*p] = 2 * x[*p]; }
__global__ void hand_loop(T n, const float* x, float* y) { for (T i = AT(x); i < n; i += (W)gridDim.x * blockDim.x) y[i] = 2 * x[i]; }
// gridstride: contract extent=n grid_stride covers=y
__global__ void elements_1(T n, const float* x, float* y) { for (auto i : gridstride::elements(n)) y[i] = 2 * x[i]; }
// gridstride: contract extent=w,h grid_stride covers=y
__global__ void elements_2(T w, T h, const float* x, float* y) { for (auto p : gridstride::elements(w, h)) y[*p] = 2 * x[p.y * w + p.x]; }
// gridstride: contract extent=w,h,d grid_stride covers=y
__global__ void elements_3(T w, T h, T d, const float* x, float* y) {
    for (auto p : gridstride::elements(w, h, d)) y[*p] = 2 * x[(p.z * h + p.y) * w + p.x];
}
}
"""
TYPES = {"int": "unsigned", "unsigned": "unsigned", "long long": "unsigned long long", "size_t": "size_t"}


@cache
def compiled(kind: str) -> gs.Module:
    return gs.device("sim").compile(re.sub(r"\bW\b", TYPES[kind], re.sub(r"\bT\b", kind, PAIRS)))


def instructions(module: gs.Module, kernel: str) -> list[str]:
    """The PTX of a kernel, opcodes alone."""
    body = module.ptx.partition(f".entry {kernel}(")[2].partition("\n}")[0]
    return re.findall(r"^\s*(?:@!?%p\d+ )?([a-z]\w*(?:\.\w+)*)\b[^:;]*;", body, re.MULTILINE)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", TYPES)
def test_an_index_costs_what_the_lines_by_hand_cost(kind: str, axes: int) -> None:
    by_hand, with_index = (sorted(instructions(compiled(kind), f"{name}_{axes}")) for name in ("hand", "index"))
    assert len(by_hand) > 10 and len(with_index) == len(by_hand)


@pytest.mark.skipif(find_disassembler() is None, reason="machine code needs NVIDIA's nvdisasm")
@pytest.mark.parametrize("kind", ["int", "size_t"])
def test_the_machine_code_is_as_long(kind: str) -> None:
    kernels = machine_code(compiled(kind).source).kernels
    length = {name: len([i for i in kernel.instructions if i.opcode.partition(".")[0] not in ("NOP", "BRA")]) for name, kernel in kernels.items()}
    for axes in (1, 2, 3):
        assert length[f"index_{axes}"] <= length[f"hand_{axes}"]


def executed(kernel: gs.Kernel, *arguments: object) -> int:
    """Warp instructions of a launch."""
    with gs.profiling() as profile:
        kernel.with_contract(None)[3, 64](*arguments)
    return sum(instruction.executions for instruction in profile[kernel.name].instructions)


@pytest.mark.parametrize(("kind", "once"), [("int", 1), ("unsigned", 0)])
def test_a_loop_costs_what_the_loop_by_hand_costs(kind: str, once: int) -> None:
    """One more instruction before the loop for signed extents (negative ones have no elements), none in it."""
    module = compiled(kind)
    x, y = module.device.zeros(3 * 64 * 40), module.device.zeros(3 * 64 * 40)
    for rounds in (1, 40):
        by_hand, with_elements = (executed(module[name], rounds * 3 * 64, x, y) for name in ("hand_loop", "elements_1"))
        assert by_hand > 6 * rounds * 5 and with_elements - by_hand == once * 6  # of six warps


@pytest.mark.parametrize(("kernel", "kind"), [*((f"{name}_{axes}", "int") for name in ("index", "elements") for axes in (1, 2, 3)), ("index_2", "size_t")])
def test_each_element_has_its_thread(kernel: str, kind: str) -> None:
    proved = compiled(kind)[kernel]
    proof = proved.prove(blocks=[(8, 4, 2)[: proved.contract.axes if proved.contract else 1]])
    assert proof.passed and "double-write" in proof.checks, proof


def test_negative_and_huge_extents() -> None:
    module = gs.device("sim").compile(
        "#include <gridstride/index.cuh>\n"
        'extern "C" __global__ void loop(int n, unsigned long long* seen) { for (auto i : gridstride::elements(n)) atomicAdd(seen, 1ull); }\n'
        'extern "C" __global__ void one(int n, unsigned long long* seen) { if (auto i = gridstride::index(n)) atomicAdd(seen, 1ull); }\n'
        'extern "C" __global__ void last(int n, int from, int* seen) {\n'
        "    for (gridstride::Elements1<int>::Iterator i = {(unsigned)from + threadIdx.x, (unsigned)n, 64}, end = i; i != end; ++i) atomicMax(seen, *i);\n"
        "}\n"
    )
    for kernel in ("loop", "one"):
        seen = module.device.zeros(1, np.uint64)
        for n in (-5, 0, 7):
            module[kernel][1, 64](n, seen)
        assert int(seen.numpy()[0]) == 7
    top = module.device.zeros(1, np.int32)
    module["last"][1, 64](2**31 - 1, 2**31 - 100, top)  # a signed loop would wrap here and go on for ever
    assert int(top.numpy()[0]) == 2**31 - 2


def test_findings_stand_in_the_users_lines() -> None:
    source = '#include <gridstride/index.cuh>\nextern "C" __global__ void k(int n, float* y) {\n    if (auto i = gridstride::index(n))\n        y[*i + 1] = 1;\n}\n'
    module = gs.device("sim").compile(source, name="k.cu")
    with pytest.raises(gs.KernelFault, match=re.escape("(k.cu:4, block (0,0,0), thread (31,0,0))")):
        module["k"][1, 32](32, module.device.zeros(32))


def test_other_compilers_find_the_header() -> None:
    folder = gs.include_folder()
    assert (folder / "gridstride" / "index.cuh").is_file()
