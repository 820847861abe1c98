"""How often each element of a buffer is read: the textbook's 3×3 convolution of 4×4 values, 36 reads one by one and 16 through a tile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gridstride as gs
from gridstride.observers.metrics.profile import BufferLoads
from gridstride.report.profile_json import profile_json

TRUTH = Path(__file__).parent.parent / "truth" / "kernels.ptx"


def convolved(kernel: str, block: tuple[int, int, int], *sizes: int) -> gs.Profile:
    device = gs.device("sim")
    image = device.array(np.arange(16, dtype=np.float32), name="image")
    weights = device.array(np.ones(9, np.float32), name="weights")
    out = device.array(np.zeros(4, np.float32), name="out")
    with gs.profiling() as profile:
        device.compile(TRUTH)[kernel][1, block](image, 4, 4, weights, *sizes, out, 2, 2)
    np.testing.assert_array_equal(out.numpy(), [45, 54, 81, 90])
    return profile


def test_one_by_one_and_through_a_tile() -> None:
    (naive,) = convolved("conv2d_naive", (16, 16, 1), 3, 3).launches
    (tiled,) = convolved("conv2d_tiled", (18, 18, 1)).launches
    loads = [[(buffer.bytes, buffer.loaded, buffer.reads_of_each) for buffer in launch.profile.buffers] for launch in (naive, tiled)]
    assert loads[0] == [(64, 36 * 4, 2.25), (36, 36 * 4, 4)]
    assert loads[1] == [(64, 16 * 4, 1), (36, 36 * 4, 4)]


def test_it_is_shown_and_written() -> None:
    profile = convolved("conv2d_naive", (16, 16, 1), 3, 3)
    first, second = (buffer.name for buffer in profile.launches[0].profile.buffers)
    assert f"buffer reads   times each element is read: {first} 2.25, {second} 4\n" in str(profile)
    assert profile_json(profile.launches[0])["buffers"] == [
        {"name": first, "bytes": 64, "loaded_bytes": 144, "reads_of_each": 2.25},
        {"name": second, "bytes": 36, "loaded_bytes": 144, "reads_of_each": 4.0},
    ]


CHOSEN = """.version 8.0
.target sm_90
.address_size 64
.visible .entry chosen(.param .u64 a, .param .u64 b, .param .u32 which, .param .u64 out)
{
.reg .pred %p<2>;
.reg .b32 %r<4>;
.reg .b64 %d<8>;
ld.param.u64 %d1, [a];
ld.param.u64 %d2, [b];
ld.param.u32 %r1, [which];
ld.param.u64 %d3, [out];
setp.eq.u32 %p1, %r1, 0;
selp.b64 %d4, %d1, %d2, %p1;
mov.u32 %r2, %tid.x;
mul.wide.u32 %d5, %r2, 4;
add.u64 %d4, %d4, %d5;
add.u64 %d3, %d3, %d5;
ld.global.u32 %r3, [%d4];
st.global.u32 [%d3], %r3;
ret;
}
"""


def test_what_may_come_from_either_is_of_neither() -> None:
    device = gs.device("sim")
    a, b, out = (device.array(np.zeros(32, np.int32)) for _ in range(3))
    with gs.profiling() as profile:
        device.compile(CHOSEN)["chosen"][1, 32](a, b, 1, out)
    assert profile.launches[0].profile.buffers == (BufferLoads("", 0, 128),)
    assert "buffer reads   128 bytes of buffers that cannot be told apart\n" in str(profile)


def test_an_empty_buffer_has_no_mean() -> None:
    assert np.isnan(BufferLoads("x", 0, 0).reads_of_each)
    assert BufferLoads("x", 8, 16).reads_of_each == pytest.approx(2)
