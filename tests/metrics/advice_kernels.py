"""For each rule of advice a kernel that it speaks about, and its twin in which what the advice says was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gridstride as gs
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

Argument = int | float | tuple[int, str]
"""A number, or (count, dtype) of a buffer that holds 0, 1, 2, … modulo 64."""


@dataclass(frozen=True)
class Launch:
    kernel: str
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    arguments: Sequence[Argument]
    shared: int = 0


@dataclass(frozen=True)
class Pair:
    """`device`: what both run on; `metric`: of the advice meant, where the rule has several."""

    name: str
    code: str
    source: str
    bad: Launch
    good: Launch
    device: str = "sim:h200"


def run(source: str, launch: Launch, device: str = "sim:h200") -> LaunchMetrics:
    opened = gs.device(device)
    kernel = opened.compile(source)[launch.kernel]
    given: list[Any] = []
    for argument in launch.arguments:
        if isinstance(argument, tuple):
            count, dtype = argument
            given.append(opened.array((np.arange(count) % 64).astype(dtype)))
        else:
            given.append(argument)
    with gs.profiling() as profile:
        kernel[launch.grid, launch.block](*given, shared=launch.shared)
    return profile.launches[-1]


GID = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
N = 8192


def _both(bad: str, good: str) -> str:
    return f'extern "C" {{\n{bad}\n{good}\n}}'


PAIRS = [
    Pair(
        "loads a row apart",
        "GA01",
        _both(
            f"__global__ void bad(const float *x, float *y) {{ {GID} y[i] = x[i * 32]; }}",
            f"__global__ void good(const float *x, float *y) {{ {GID} y[i] = x[i]; }}",
        ),
        Launch("bad", N // 256, 256, [(32 * N, "f4"), (N, "f4")]),
        Launch("good", N // 256, 256, [(32 * N, "f4"), (N, "f4")]),
    ),
    Pair(
        "stores down a column",
        "GA01",
        _both(
            "__global__ void bad(const float *x, float *y) { y[threadIdx.x * 32 + threadIdx.y] = x[threadIdx.y * 32 + threadIdx.x]; }",
            "__global__ void good(const float *x, float *y) {\n"
            "  __shared__ float t[32][33];\n  t[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];\n  __syncthreads();\n"
            "  y[threadIdx.y * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y];\n}",
        ),
        Launch("bad", 1, (32, 32), [(1024, "f4"), (1024, "f4")]),
        Launch("good", 1, (32, 32), [(1024, "f4"), (1024, "f4")]),
    ),
    Pair(
        "one field of a record",
        "GA01",
        _both(
            f"struct Record {{ float f[8]; }};\n__global__ void bad(const Record *x, float *y) {{ {GID} y[i] = x[i].f[3]; }}",
            f"__global__ void good(const float *x, float *y) {{ {GID} y[i] = x[3 * {N} + i]; }}",
        ),
        Launch("bad", N // 256, 256, [(8 * N, "f4"), (N, "f4")]),
        Launch("good", N // 256, 256, [(8 * N, "f4"), (N, "f4")]),
    ),
    *(
        Pair(
            f"column of a tile of {kind}",
            "GA02",
            _both(
                *(
                    f"__global__ void {name}(const {kind} *x, {kind} *y) {{\n"
                    f"  __shared__ {kind} t[32][{width}];\n  t[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];\n"
                    "  __syncthreads();\n  y[threadIdx.y * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y];\n}"
                    for name, width in (("bad", 32), ("good", 33))
                )
            ),
            Launch("bad", 1, (32, 32), [(1024, dtype), (1024, dtype)]),
            Launch("good", 1, (32, 32), [(1024, dtype), (1024, dtype)]),
        )
        for kind, dtype in (("float", "f4"), ("double", "f8"))
    ),
    *(
        Pair(
            f"stride of {stride} words of shared memory",
            "GA02",
            _both(
                *(
                    f"__global__ void {name}(const float *x, float *y) {{\n"
                    "  __shared__ float s[2112];\n  s[threadIdx.x] = x[threadIdx.x];\n  __syncthreads();\n"
                    f"  int i = threadIdx.x * {stride};\n  y[threadIdx.x] = s[{index}];\n}}"
                    for name, index in (("bad", "i"), ("good", "i + i / 32"))
                )
            ),
            Launch("bad", 1, 64, [(64, "f4"), (64, "f4")]),
            Launch("good", 1, 64, [(64, "f4"), (64, "f4")]),
        )
        for stride in (2, 4, 8, 16, 32)
    ),
    Pair(
        "odd and even lanes",
        "GA03",
        _both(
            *(
                f"__global__ void {name}(const float *x, float *y) {{\n  {GID}  float v = x[i];\n  if ({condition}) {{\n"
                "    for (int k = 0; k < 40; k++) v = v * 1.0001f + 0.5f;\n  } else {\n"
                "    for (int k = 0; k < 40; k++) v = v * 0.9999f - 0.25f;\n  }\n  y[i] = v;\n}"
                for name, condition in (("bad", "threadIdx.x & 1"), ("good", "threadIdx.x / 32 & 1"))
            )
        ),
        Launch("bad", N // 256, 256, [(N, "f4"), (N, "f4")]),
        Launch("good", N // 256, 256, [(N, "f4"), (N, "f4")]),
    ),
    Pair(
        "64 KB of shared memory",
        "GA04",
        "extern \"C\" __global__ void copy(const float *x, float *y) {\n  extern __shared__ float s[];\n"
        f"  {GID}  s[threadIdx.x] = x[i];\n  y[i] = s[threadIdx.x];\n}}",
        Launch("copy", 400, 128, [(51200, "f4"), (51200, "f4")], shared=65536),
        # 228 KB for 8 blocks, each of which takes 1 KB more than it asks for
        Launch("copy", 400, 128, [(51200, "f4"), (51200, "f4")], shared=228 * 1024 // 8 - 1024),
    ),
    Pair(
        "blocks of 100",
        "GA05",
        f'extern "C" __global__ void twice(float *x) {{ {GID} x[i] *= 2; }}',
        Launch("twice", 80, 100, [(8000, "f4")]),
        Launch("twice", 63, 128, [(8064, "f4")]),
    ),
    Pair(
        "a fifth more blocks than fit",
        "GA06",
        f'extern "C" __global__ void twice(float *x, int n) {{\n  {GID}  for (; i < n; i += gridDim.x * blockDim.x) x[i] *= 2;\n}}',
        Launch("twice", 200, 256, [(51200, "f4"), 51200]),
        Launch("twice", 168, 256, [(51200, "f4"), 51200]),  # 28 multiprocessors of 1,536 threads
        device="sim:rtx3060",
    ),
    Pair(
        "every lane adds to one sum",
        "GA07",
        _both(
            f"__global__ void bad(const float *x, float *sum) {{ {GID} atomicAdd(sum, x[i]); }}",
            f"__global__ void good(const float *x, float *sum) {{\n  {GID}  float v = x[i];\n"
            "  for (int k = 16; k > 0; k /= 2) v += __shfl_down_sync(0xffffffff, v, k);\n"
            "  if (threadIdx.x % 32 == 0) atomicAdd(sum, v);\n}",
        ),
        Launch("bad", 32, 256, [(N, "f4"), (1, "f4")]),
        Launch("good", 32, 256, [(N, "f4"), (1, "f4")]),
    ),
    Pair(
        "a table of constants",
        "GA08",
        _both(
            f"__constant__ float table[64];\n__global__ void bad(float *y) {{ {GID} y[i] = table[threadIdx.x & 63]; }}",
            f"__global__ void good(float *y) {{ {GID} y[i] = table[blockIdx.x & 63]; }}",
        ),
        Launch("bad", 32, 256, [(N, "f4")]),
        Launch("good", 32, 256, [(N, "f4")]),
    ),
    Pair(
        "an array with an index from memory",
        "GA09",
        _both(
            f"__global__ void bad(const int *x, int *y) {{\n  {GID}  int a[16];\n  for (int k = 0; k < 16; k++) a[k] = i * k;\n"
            "  int s = 0;\n  for (int k = 0; k < 8; k++) s += a[x[i * 8 + k] & 15];\n  y[i] = s;\n}",
            f"__global__ void good(const int *x, int *y) {{\n  {GID}  int s = 0;\n"
            "  for (int k = 0; k < 8; k++) s += i * (x[i * 8 + k] & 15);\n  y[i] = s;\n}",
        ),
        Launch("bad", 4, 256, [(8192, "i4"), (1024, "i4")]),
        Launch("good", 4, 256, [(8192, "i4"), (1024, "i4")]),
    ),
    Pair(
        "4 bytes a lane",
        "GA10",
        _both(
            f"__global__ void bad(const float *x, float *y, int n) {{ {GID} if (i < n) y[i] = x[i] + 1.0f; }}",
            f"__global__ void good(const float4 *x, float4 *y, int n) {{\n  {GID}  if (i < n / 4) {{\n    float4 v = x[i];\n"
            "    y[i] = make_float4(v.x + 1.0f, v.y + 1.0f, v.z + 1.0f, v.w + 1.0f);\n  }\n}",
        ),
        Launch("bad", 700, 256, [(179200, "f4"), (179200, "f4"), 179200]),
        Launch("good", 175, 256, [(179200, "f4"), (179200, "f4"), 179200]),
        device="sim:rtx3060",
    ),
    Pair(
        "nine reads of each value",
        "GA11",
        _both(
            "__global__ void bad(const float *x, float *y) {\n  float s = 0;\n"
            "  for (int r = 0; r < 3; r++) for (int c = 0; c < 3; c++) s += x[(threadIdx.y + r) * 18 + threadIdx.x + c];\n"
            "  y[threadIdx.y * 16 + threadIdx.x] = s;\n}",
            "__global__ void good(const float *x, float *y) {\n  __shared__ float t[324];\n"
            "  for (int k = threadIdx.y * 16 + threadIdx.x; k < 324; k += 256) t[k] = x[k];\n  __syncthreads();\n  float s = 0;\n"
            "  for (int r = 0; r < 3; r++) for (int c = 0; c < 3; c++) s += t[(threadIdx.y + r) * 18 + threadIdx.x + c];\n"
            "  y[threadIdx.y * 16 + threadIdx.x] = s;\n}",
        ),
        Launch("bad", 1, (16, 16), [(324, "f4"), (256, "f4")]),
        Launch("good", 1, (16, 16), [(324, "f4"), (256, "f4")]),
    ),
    Pair(
        "one block",
        "GA12",
        f'extern "C" __global__ void twice(float *x, int n) {{\n  {GID}  for (; i < n; i += gridDim.x * blockDim.x) x[i] *= 2;\n}}',
        Launch("twice", 1, 1024, [(40000, "f4"), 40000]),
        Launch("twice", 157, 256, [(40000, "f4"), 40000]),
    ),
    Pair(
        "an eighth of the bytes",
        "GA13",
        _both(
            f"__global__ void bad(const float *x, float *y) {{ {GID} y[i] = x[8 * i] + 1.0f; }}",
            f"__global__ void good(const float *x, float *y) {{ {GID} y[i] = x[i] + 1.0f; }}",
        ),
        Launch("bad", N // 256, 256, [(8 * N, "f4"), (N, "f4")]),
        Launch("good", N // 256, 256, [(N, "f4"), (N, "f4")]),
    ),
    Pair(
        "rounded twice",
        "GA14",
        _both(
            *(
                f"__global__ void {name}(float *x) {{\n  {GID}  float v = x[i];\n  for (int k = 0; k < 100; k++) v = {step};\n  x[i] = v;\n}}"
                for name, step in (("bad", "__fadd_rn(__fmul_rn(v, 0.5f), 1.0f)"), ("good", "fmaf(v, 0.5f, 1.0f)"))
            )
        ),
        Launch("bad", 4, 256, [(1024, "f4")]),
        Launch("good", 4, 256, [(1024, "f4")]),
    ),
]
