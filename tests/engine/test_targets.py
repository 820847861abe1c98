"""The same kernels compiled for every architecture: the compiler spells them differently for each, the results are the same."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import gridstride as gs
from engine.kernels import EVERY_TARGET, Kernels

SOURCE = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
#define T int t = blockIdx.x * blockDim.x + threadIdx.x
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) { T; if (t < n) y[t] = a * x[t] + y[t]; }
extern "C" __global__ void reduce(const int *in, int *out) { __shared__ int s[256]; T; s[threadIdx.x] = in[t]; __syncthreads(); for (int k = blockDim.x / 2; k; k /= 2) { if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k]; __syncthreads(); } if (threadIdx.x == 0) atomicAdd(out, s[0]); }
extern "C" __global__ void warp_reduce(const int *in, int *out) { T; int v = in[t]; for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d); if (threadIdx.x % 32 == 0) atomicMax(out, v); auto w = cg::tiled_partition<16>(cg::this_thread_block()); out[1 + t] = cg::reduce(w, in[t], cg::plus<int>()) + __popc(__match_any_sync(~0u, in[t] & 1)); }
extern "C" __global__ void transpose(const float *in, float *out, int n) { __shared__ float tile[16][17]; int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y; if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = in[y * n + x]; __syncthreads(); x = blockIdx.y * 16 + threadIdx.x; y = blockIdx.x * 16 + threadIdx.y; if (x < n && y < n) out[y * n + x] = tile[threadIdx.x][threadIdx.y]; }
extern "C" __global__ void integers(const int *in, int *out) { T; int v = in[t]; unsigned u = v; out[8 * t] = __clz(v) + __ffs(v) * 100 + __popc(v) * 10000; out[8 * t + 1] = __brev(u); out[8 * t + 2] = __byte_perm(u, ~u, 0x3715); out[8 * t + 3] = v / 7 + v % 13; out[8 * t + 4] = __mulhi(v, v) ^ __umulhi(u, u); out[8 * t + 5] = __sad(v, -v, 7); out[8 * t + 6] = __funnelshift_l(u, ~u, v & 31); out[8 * t + 7] = (int)((long long)v * v % 1000003); }
extern "C" __global__ void floats(const float *in, float *out) { T; float v = in[t]; out[4 * t] = sqrtf(v) / (v + 1.0f); out[4 * t + 1] = fmaf(v, v, -1.0f) + floorf(v) * truncf(v * 3); out[4 * t + 2] = fminf(v, 2.0f) - fmaxf(v, 1.0f) + rintf(v * 4); out[4 * t + 3] = (float)(int)v + __int_as_float(__float_as_int(v) ^ 1); }
extern "C" __global__ void halves(const float *in, float *out) { T; __half a = __float2half(in[t]), b = __float2half(0.75f); __half2 c = __halves2half2(a, b); c = __hfma2(c, c, __float2half2_rn(0.5f)); out[3 * t] = __half2float(__hadd(a, b)); out[3 * t + 1] = __low2float(c) + __high2float(c); __nv_bfloat16 x = __float2bfloat16(in[t]); out[3 * t + 2] = __bfloat162float(__hmul(x, __float2bfloat16(3.0f))); }
extern "C" __global__ void branches(const int *in, int *out) { T; int v = in[t] & 1023, r = 0; switch (v % 6) { case 0: r = v; break; case 1: while (v > 3) v = v / 2 - 1; r = v; break; case 2: for (int i = 0; i < v % 20; i++) { if (i == 13) break; r += i * v; } break; case 3: r = -v; case 4: r ^= 77; break; default: r = 1; } out[t] = r; }
extern "C" __global__ void histogram(const int *in, int *bins) { T; atomicAdd(bins + (in[t] & 15), 1); }
extern "C" __global__ void doubles(const float *in, double *out) { T; double v = in[t]; out[2 * t] = v * v * 1.25 + sqrt(v) / 3.0; out[2 * t + 1] = (double)(long long)(v * 1e9) + fabs(-v); }
extern "C" __global__ void locals(const int *in, int *out) { T; int a[8]; for (int i = 0; i < 8; i++) a[i] = in[t] >> i; a[in[t] & 7] = 5; int s = 0; for (int i = 0; i < 8; i++) s = s * 3 + a[(i + t) & 7]; out[t] = s; }
extern "C" __global__ void votes(const int *in, int *out) { T; int v = in[t]; out[t] = __ballot_sync(~0u, v & 1) ^ (__any_sync(~0u, v == 5) << 3) ^ (__all_sync(~0u, v > 0) << 4) ^ (__syncthreads_count(v & 2) << 5); }
extern "C" __global__ void lock(int *l, int *sum) { T; bool done = false; while (!done) { if (atomicCAS(l, 0, 1) == 0) { volatile int *s = sum; *s = *s + t; __threadfence(); atomicExch(l, 0); done = true; } } }
extern "C" __global__ void printing(int n) { if (threadIdx.x < n) printf("%d of %d\n", threadIdx.x, n); }
"""
N = 256
rng = np.random.default_rng(51)
ints = rng.integers(-(2**31), 2**31, N).astype(np.int32)
floats = (rng.random(N) * 50).astype(np.float32)


@functools.cache
def program(target: str) -> Kernels:
    return Kernels(SOURCE, arch=target)


ARGUMENTS = {
    "integers": ((2, 128), lambda: (ints, np.zeros(8 * N, np.int32))),
    "floats": ((2, 128), lambda: (floats, np.zeros(4 * N, np.float32))),
    "halves": ((2, 128), lambda: (floats, np.zeros(3 * N, np.float32))),
    "doubles": ((2, 128), lambda: (floats, np.zeros(2 * N))),
    "votes": ((2, 128), lambda: (ints, np.zeros(N, np.int32))),
}


@pytest.mark.parametrize("target", EVERY_TARGET)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_same_bits_on_every_target(name: str, target: str) -> None:
    shape, arguments = ARGUMENTS[name]
    here = program(target).run(name, *shape, *arguments())
    there = program("sm_90").run(name, *shape, *arguments())
    for a, b in zip(here, there, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("target", EVERY_TARGET)
def test_kernels_with_a_model(target: str, capfd: pytest.CaptureFixture[str]) -> None:
    run = program(target).run
    small = (ints & 1023).astype(np.int32)
    x, y = floats, floats[::-1].copy()
    _, out = run("saxpy", 2, 128, 200, 2.5, x, y)
    # one rounding: the compiler contracts to a fused multiply-add
    exact = (2.5 * x.astype(np.float64) + y.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(out[:200], exact[:200])
    np.testing.assert_array_equal(out[200:], y[200:])
    assert run("reduce", 1, N, small, np.zeros(1, np.int32))[1][0] == small.sum()
    _, out = run("warp_reduce", 2, 128, small, np.zeros(N + 1, np.int32))
    assert out[0] == small.reshape(8, 32).sum(1).max()
    ones = (small & 1).reshape(8, 32).sum(1).repeat(32)
    np.testing.assert_array_equal(out[1:], small.reshape(16, 16).sum(1).repeat(16) + np.where(small & 1, ones, 32 - ones))
    matrix = rng.random((45, 45), np.float32)
    np.testing.assert_array_equal(run("transpose", (3, 3), (16, 16), matrix, np.zeros_like(matrix), 45)[1], matrix.T)
    np.testing.assert_array_equal(run("histogram", 2, 128, small, np.zeros(16, np.int32))[1], np.bincount(small & 15, minlength=16))
    assert run("lock", 2, 64, np.zeros(1, np.int32), np.zeros(1, np.int32))[1][0] == 128 * 127 // 2
    program(target).once("printing", 1, 32, 3)
    assert capfd.readouterr().out == "0 of 3\n1 of 3\n2 of 3\n"


@pytest.mark.parametrize("target", EVERY_TARGET)
def test_branches_and_local_arrays(target: str) -> None:
    _, out = program(target).run("branches", 2, 128, ints, np.zeros(N, np.int32))
    for t in range(N):
        v, r = int(ints[t]) & 1023, 1
        kind = v % 6
        if kind == 0:
            r = v
        elif kind == 1:
            while v > 3:
                v = v // 2 - 1
            r = v
        elif kind == 2:
            r = sum(i * v for i in range(min(v % 20, 13)))
        elif kind in (3, 4):
            r = (-v if kind == 3 else 0) ^ 77
        assert out[t] == r
    small = np.abs(ints // 2**16)
    _, out = program(target).run("locals", 2, 128, small, np.zeros(N, np.int32))
    for t in range(N):
        a = [int(small[t]) >> i for i in range(8)]
        a[int(small[t]) & 7] = 5
        s = 0
        for i in range(8):
            s = s * 3 + a[(i + t) & 7]
        assert out[t] == s


def test_results_of_integer_arithmetic() -> None:
    _, out = program("sm_90").run("integers", 2, 128, ints, np.zeros(8 * N, np.int32))
    for t in range(N):
        v = int(ints[t])
        u = v % 2**32
        bits = f"{u:032b}"
        clz, ffs = 32 - u.bit_length(), (u & -u).bit_length()
        packed = [(u >> 8 * k & 255) for k in range(4)] + [(~u >> 8 * k & 255) for k in range(4)]
        quotient = abs(v) // 7 * (1 if v >= 0 else -1)
        remainder = abs(v) % 13 * (1 if v >= 0 else -1)
        shift = v & 31
        expected = [
            clz + ffs * 100 + bits.count("1") * 10000,
            int(bits[::-1], 2),
            packed[5] | packed[1] << 8 | packed[7] << 16 | packed[3] << 24,
            quotient + remainder,
            v * v >> 32 ^ u * u >> 32,
            abs(2 * v) + 7,
            ((~u & 0xFFFFFFFF) << 32 | u) << shift >> 32,
            v * v % 1000003,
        ]
        assert [int(x) % 2**32 for x in out[8 * t : 8 * t + 8]] == [x % 2**32 for x in expected]


@pytest.mark.parametrize(("device", "multiprocessors"), [("sim:h200", 132), ("sim:a100", 108), ("sim:t4", 40)])  # NVIDIA's data sheets
def test_the_number_of_multiprocessors_is_the_devices(device: str, multiprocessors: int) -> None:
    simulated = gs.device(device)
    kernel = simulated.compile(
        ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry count(.param .u64 out) {\n"
        ".reg .u64 %p; .reg .u32 %n;\nld.param.u64 %p, [out]; mov.u32 %n, %nsmid; st.global.u32 [%p], %n; ret;\n}\n"
    )["count"]
    out = simulated.array(np.zeros(1, np.uint32))
    kernel[1, 1](out)
    assert out.numpy()[0] == multiprocessors
