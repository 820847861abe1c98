"""Where undefined values come from: the memory that they were loaded from, or a register that nothing was assigned to."""

from __future__ import annotations

import numpy as np
import pytest

import gridstride as gs

SOURCE = r"""
extern "C" {
__global__ void gather(const int* index, const int* a, int* b) {
    int k = index[threadIdx.x + 3];
    b[threadIdx.x] = a[k & 7];
}
__global__ void shared_sum(int* b) {
    __shared__ int tile[64];
    if (threadIdx.x != 5) tile[threadIdx.x] = 1;
    __syncthreads();
    b[threadIdx.x] = tile[threadIdx.x] + 1;
}
__global__ void by_another_lane(const int* a, int* b) {
    int v = threadIdx.x == 7 ? a[40] : 1;
    b[threadIdx.x] = __shfl_xor_sync(~0u, v, 1) * 3;
}
__global__ void count(int* counts, const int* where) { atomicAdd(&counts[where[threadIdx.x]], 1); }
}
"""
REGISTERS = """.version 8.0
.target sm_90
.address_size 64
.visible .entry {name}(.param .u64 out) {{
    .reg .b64 %x; .reg .b32 %t, %n; .reg .pred %p;
    ld.param.u64 %x, [out];
    {body}
    ret;
}}
"""


@pytest.fixture(scope="module")
def module() -> gs.Module:
    return gs.device("sim").compile(SOURCE)


def only(findings: gs.Findings) -> gs.Finding:
    (found,) = findings
    assert (found.kind, found.severity) == ("uninitialised", "error")
    return found


def test_the_element_of_a_buffer(module: gs.Module) -> None:
    d = module.device
    index, a, b = d.empty(64, np.int32), d.zeros(8, np.int32), d.zeros(32, np.int32)
    index[:20] = np.zeros(20, np.int32)
    with gs.checking() as findings:
        module["gather"][1, 32](index, a, b)
    found = only(findings)
    assert found.message == (
        "an address is made from a value that was never written, loaded from `index`[20] in global memory; it was read at kernel.cu:4 "
        "(kernel.cu:5, block (0,0,0), thread (17,0,0))"
    )
    assert (found.space, found.buffer, found.index, found.address) == ("global", "index", 20, index.address + 80)


def test_the_element_of_a_shared_array(module: gs.Module) -> None:
    b = module.device.zeros(64, np.int32)
    with gs.checking() as findings:
        module["shared_sum"][1, 64](b)
    found = only(findings)
    assert (found.space, found.buffer, found.index, found.site.thread) == ("shared", "tile", 5, (5, 0, 0))
    assert found.advice == "write every element of the shared array that is read, and put a barrier between"


def test_a_value_that_another_lane_has_loaded(module: gs.Module) -> None:
    a, b = module.device.empty(64, np.int32), module.device.zeros(32, np.int32)
    with gs.checking() as findings:
        module["by_another_lane"][1, 32](a, b)
    found = only(findings)
    assert (found.buffer, found.index, found.site.thread) == ("a", 40, (6, 0, 0))


def test_an_atomic_is_told_at_its_own_line(module: gs.Module) -> None:
    counts, where = module.device.empty(4, np.int32), module.device.array(np.array([2, 2, 3, 2], np.int32))
    counts[2:3] = np.zeros(1, np.int32)
    with gs.checking() as findings:
        module["count"][1, 4](counts, where)
    found = only(findings)
    assert (found.site.line, found.buffer, found.index, found.site.thread) == (17, "counts", 3, (2, 0, 0))
    assert found.message.startswith("an atomic changes a value that was never written, loaded from `counts`[3] in global memory (kernel.cu:17,")


@pytest.mark.parametrize(
    ("name", "body", "what"),
    [
        ("output", "add.u32 %n, %t, 1; st.global.u32 [%x], %n;", "an output is made from"),
        ("branch", "setp.eq.u32 %p, %t, 0; @%p bra L; st.global.u32 [%x], 1; L:", "a branch depends on"),
        ("guard", "setp.eq.u32 %p, %t, 0; @%p st.global.u32 [%x], 1;", "a branch depends on"),
        ("address", "mul.wide.u32 %x, %t, 4; ld.global.u32 %n, [%x]; st.global.u32 [%x], %n;", "an address is made from"),
        ("pred", "@%p bra L; st.global.u32 [%x], 1; L:", "a branch depends on"),
    ],
)
def test_registers_that_nothing_was_assigned_to(name: str, body: str, what: str) -> None:
    module = gs.device("sim").compile(REGISTERS.format(name=name, body=body))
    out = module.device.zeros(4, np.int32)
    with gs.checking() as findings:
        try:
            module[name][1, 1](out)
        except gs.KernelFault:
            assert name == "address"
    found = next(f for f in findings if f.kind == "uninitialised")
    assert found.message.startswith(f"{what} a variable that was never given a value (PTX line 7, block (0,0,0), thread (0,0,0))")
    assert (found.severity, found.space, found.buffer) == ("error", None, None)
    assert found.advice == "give the variable a value on every path that leads here"


@pytest.mark.parametrize(
    "body",
    [
        "mov.b32 %n, %t; st.global.u32 [%x], %n;",  # a copy
        "@%p mov.b32 %n, %t; st.global.u32 [%x], 1;",  # that nobody uses
        "mov.b64 %x, {%t, %n}; ld.param.u64 %x, [out]; st.global.u32 [%x], 1;",
        "and.b32 %n, %t, 0; st.global.u32 [%x], %n;",
        "ld.global.u32 %n, [%x]; setp.eq.u32 %p, %n, 0; @%p mov.u32 %t, 5; @%p st.global.u32 [%x], %t;",  # assigned wherever it is used
    ],
)
def test_registers_that_decide_nothing(body: str) -> None:
    module = gs.device("sim").compile(REGISTERS.format(name="k", body=body))
    out = module.device.zeros(4, np.int32)
    with gs.checking() as findings:
        module["k"][1, 1](out)
    assert not list(findings)
