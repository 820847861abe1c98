"""From which parameter addresses come, where the kernel says which of them are addresses (`.ptr`) and where it does not."""

from __future__ import annotations

import pytest

from gridstride.lower.kernel import access_provenance
from gridstride.ptx.parser import parse

PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 {x} x, .param .u64 extent, .param .u64 {y} y, .param .align 8 .b8 pair[16], .param .u64 cast) {{
.reg .b64 %rd<20>; .reg .f32 %f<8>; .reg .b32 %r<3>; .reg .pred %p<3>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [extent]; ld.param.u64 %rd3, [y]; ld.param.u64 %rd4, [pair+8]; ld.param.u64 %rd5, [cast];
shr.s64 %rd6, %rd2, 63; and.b64 %rd7, %rd6, %rd2; shl.b64 %rd8, %rd7, 2; add.s64 %rd9, %rd1, %rd8;
ld.global.f32 %f1, [%rd9];
LOOP: add.s64 %rd9, %rd9, %rd2; ld.global.f32 %f2, [%rd9]; setp.lt.s64 %p1, %rd9, %rd3; @%p1 bra LOOP;
st.global.f32 [%rd3], %f1;
st.global.f32 [%rd4], %f2;
st.global.f32 [%rd5], %f2;
selp.b64 %rd10, %rd1, %rd3, %p1; st.global.f32 [%rd10], %f1;
st.global.f32 [%rd8], %f1;
ret; }}
"""


def origins(x: str, y: str) -> list[int]:
    """The offset of the parameter that each site comes from; -1: unknown."""
    return [offset for offset, _, _ in access_provenance(parse(PTX.format(x=x, y=y)), "k")][5:]  # behind the loads of the parameters


def test_numbers_added_to_an_address_leave_its_origin() -> None:
    # x twice, the branch, y, the pointer in a structure, an integer that is cast, one of two addresses, a number that no address was added to
    assert origins(".ptr .align 1", ".ptr .global .align 4") == [0, 0, -1, 16, 24 + 8, 40, -1, -1]


@pytest.mark.parametrize("attribute", ["", ".ptr .align 1"])
def test_without_the_attribute_every_parameter_may_be_an_address(attribute: str) -> None:
    """Said of one parameter, it holds for all: the other is then a number."""
    assert origins("", attribute) == [-1, -1, -1, 16, 32, 40, -1, -1]  # x + extent: two candidates, or two numbers
