"""Values that are the same step apart from lane to lane, through registers and conversions of every width: they are kept
as a start and a step only where that is exact, and must come out as if each lane had computed its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import gridstride as gs

Lanes = npt.NDArray[np.int64]
LANES: Lanes = np.arange(32, dtype=np.int64)
REGISTERS = ".reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<30>; .reg .b64 %rd<30>; .reg .f32 %f<9>; .reg .u32 %u<9>; .reg .s32 %s<9>;"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mov.b32 %f1, %r1; mov.b32 %r9, %f1;", lambda t: t),
        ("shl.b32 %f1, %r1, 2; mov.b32 %r9, %f1;", lambda t: 4 * t),
        ("add.u32 %r2, %r1, 5; mov.b32 %f1, %r2; mov.b32 %r9, %f1;", lambda t: t + 5),
        ("cvt.u32.u32 %rd2, %r1; cvt.u32.u64 %r9, %rd2;", lambda t: t),
        ("cvt.s64.s32 %rd2, %r1; cvt.u32.u32 %r9, %rd2;", lambda t: t),
        ("mul.wide.s32 %rd2, %r1, 12; cvt.u32.u32 %r9, %rd2;", lambda t: 12 * t),
        ("mul.wide.s32 %rd2, %r1, 12; cvt.s64.s32 %rd3, %rd2; cvt.u32.u64 %r9, %rd3;", lambda t: 12 * t),
        ("mul.wide.s32 %rd2, %r1, -12; cvt.u32.u64 %r9, %rd2;", lambda t: -12 * t),
        ("mov.u16 %rs1, %tid.x; cvt.u32.u16 %r9, %rs1;", lambda t: t),
        ("cvt.u16.u32 %rs1, %r1; add.u16 %rs2, %rs1, 3; cvt.u32.u16 %r9, %rs2;", lambda t: t + 3),
        ("mov.b64 %rd2, {%r1, %r1}; mov.b64 {%r2, %r9}, %rd2;", lambda t: t),
        ("mov.b32 {%rs1, %rs2}, %r1; cvt.u32.u16 %r9, %rs1;", lambda t: t),
        ("cvt.s64.s32 %rd2, %r1; shl.b64 %rd3, %rd2, 2; cvt.u32.u64 %r9, %rd3;", lambda t: 4 * t),
        ("mad.lo.s32 %u1, %r1, 3, %r1; add.s32 %s1, %u1, 1; mov.u32 %r9, %s1;", lambda t: 4 * t + 1),
        # a step that outgrows 32 bits, then 64
        ("".join(f"mul.lo.s32 %r{k + 2}, %r{k + 1}, 1000001;" for k in range(7)) + "mov.u32 %r9, %r8;", lambda t: t * pow(1000001, 7, 1 << 32)),
        # guards that all lanes share
        ("mov.u32 %r9, %r1; mov.u32 %r5, %ctaid.x; setp.eq.u32 %p1, %r5, 0; @%p1 add.u32 %r9, %r1, 3;", lambda t: t + 3),
        ("mov.u32 %r9, 7; mov.u32 %r5, %ctaid.x; setp.eq.u32 %p1, %r5, 0; @!%p1 add.u32 %r9, %r1, 3;", lambda t: 0 * t + 7),
    ],
)  # fmt: skip
def test_a_sum_over_the_lanes_in_any_register(body: str, expected: Callable[[Lanes], Lanes]) -> None:
    store = "mul.wide.u32 %rd20, %r1, 4; add.s64 %rd21, %rd1, %rd20; st.global.b32 [%rd21], %r9; ret;"
    head = f".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a) {{ {REGISTERS}"
    device = gs.device("sim")
    out = device.array(np.zeros(32, np.uint32))
    device.compile(f"{head}\nld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x;\n{body}\n{store} }}\n")["k"][1, 32](out)
    np.testing.assert_array_equal(out.numpy(), (expected(LANES) & 0xFFFFFFFF).astype(np.uint32))
