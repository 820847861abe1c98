"""atom and red: every operation, type, space and scope, with old values in lane order; and what C++ builds of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine.kernels import HEADER, Kernels

LANES = 64
INTEGERS = {"u32": np.uint32, "s32": np.int32, "b32": np.uint32, "u64": np.uint64, "s64": np.int64, "b64": np.uint64, "b16": np.uint16}
FORMS = [
    *[(op, t) for op in ("and", "or", "xor") for t in ("b32", "b64")],
    *[("exch", t) for t in ("b32", "b64")],
    *[("cas", t) for t in ("b16", "b32", "b64")],
    *[("add", t) for t in ("u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2")],
    ("inc", "u32"),
    ("dec", "u32"),
    *[(op, t) for op in ("min", "max") for t in ("u32", "s32", "u64", "s64")],
]
SPACES = ("global", "shared", "generic", "shared_generic")
SCOPES = ("", ".cta", ".gpu", ".sys")
ORDERS = ("", ".relaxed", ".acquire", ".release", ".acq_rel")
WIDTH = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64} | {t: int(t[1:]) for t in INTEGERS}


def words_of(op: str, kind: str, number: int) -> str:
    noftz = ".noftz" if kind.startswith(("f16", "bf16")) else ""
    return f"{ORDERS[number % 5]}{SCOPES[number % 4]}%s.{op}{noftz}.{kind}"


def name_of(op: str, kind: str, space: str) -> str:
    return f"k_{op}_{kind}_{space}"


def kernel(op: str, kind: str, space: str, number: int) -> str:
    """cells[t & 3] first by all lanes with the old values kept, then cells[4 + (t & 3)] by red, then by a third of the lanes."""
    bits = WIDTH[kind]
    size = bits // 8
    register = f"b{bits}"
    shared = space.startswith("shared")
    word = "" if space.endswith("generic") else f".{space}"
    operands = "%v, %n" if op == "cas" else "%v"
    with_red = op not in ("exch", "cas")
    second = (
        f"red{ORDERS[number % 5] if number % 5 in (1, 3) else ''}{SCOPES[number % 4]}{word}.{op}{'.noftz' if kind.startswith(('f16', 'bf16')) else ''}.{kind} [%c+{4 * size}], %v;"
        if with_red
        else f"atom{word}.{op}.{kind} %old2, [%c+{4 * size}], {operands};"
    )
    third = f"@%third atom{word}.{op}{'.noftz' if kind.startswith(('f16', 'bf16')) else ''}.{kind} %old2, [%c+{8 * size}], {operands};"
    return f""".visible .entry {name_of(op, kind, space)}(.param .u64 cells_, .param .u64 in_, .param .u64 new_, .param .u64 old_) {{
  .reg .u32 %t, %i; .reg .u64 %cells, %c, %in, %new, %old_at, %g, %s; .reg .{register} %v, %n, %old, %old2, %x; .reg .pred %third, %few;
  {f".shared .align 8 .b8 room[{12 * size}];" if shared else ""}
  ld.param.u64 %cells, [cells_]; ld.param.u64 %in, [in_]; ld.param.u64 %new, [new_]; ld.param.u64 %old_at, [old_]; mov.u32 %t, %tid.x;
  mad.wide.u32 %in, %t, {size}, %in; mad.wide.u32 %new, %t, {size}, %new; mad.wide.u32 %old_at, %t, {size}, %old_at;
  ld.global.{register} %v, [%in]; ld.global.{register} %n, [%new];
  rem.u32 %i, %t, 3; setp.eq.u32 %third, %i, 0; setp.lt.u32 %few, %t, 12;
  mad.wide.u32 %g, %t, {size}, %cells;
  {f"mov.u64 %s, room; {'cvta.shared.u64 %s, %s;' if space == 'shared_generic' else ''}" if shared else "mov.u64 %s, %cells;"}
  {f"mad.wide.u32 %c, %t, {size}, %s; @%few ld.global.{register} %x, [%g]; @%few st{word}.{register} [%c], %x; bar.sync 0;" if shared else ""}
  and.b32 %i, %t, 3; mad.wide.u32 %c, %i, {size}, %s;
  atom{words_of(op, kind, number) % word} %old, [%c], {operands};
  st.global.{register} [%old_at], %old;
  {second}
  mov.{register} %old2, 0;
  {third}
  st.global.{register} [%old_at+{LANES * size}], %old2;
  {f"bar.sync 0; mad.wide.u32 %c, %t, {size}, %s; @%few ld{word}.{register} %x, [%c]; @%few st.global.{register} [%g], %x;" if shared else ""}
  ret; }}
"""


def bf16(values: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16 (ties to even); finite values only."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def as_numbers(kind: str, bits: np.ndarray) -> np.ndarray:
    if kind.startswith("bf16"):
        return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return bits.view({"f16": np.float16, "f16x2": np.float16, "f32": np.float32, "f64": np.float64}.get(kind) or INTEGERS[kind])


def model(op: str, kind: str) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """The new cell from its old bits and the operands' bits, all of them arrays of one element."""

    def applied(old: np.ndarray, v: np.ndarray, n: np.ndarray) -> np.ndarray:
        if op == "exch":
            return v
        if op == "cas":
            return n if old == v else old
        if op in ("and", "or", "xor"):
            return {"and": old & v, "or": old | v, "xor": old ^ v}[op]
        if op == "inc":
            return old * 0 if old >= v else old + old.dtype.type(1)
        if op == "dec":
            return v if old == 0 or old > v else old - old.dtype.type(1)
        a, b = as_numbers(kind, old), as_numbers(kind, v)
        if op in ("min", "max"):
            return (np.minimum if op == "min" else np.maximum)(a, b).view(old.dtype)
        if kind.startswith("bf16"):  # the exact sum of two bfloat16 of these sizes is a float64; rounded once, to odd and then to nearest
            exact = a.astype(np.float64) + b.astype(np.float64)
            near = exact.astype(np.float32)
            assert (near == exact).all()
            return bf16(near).view(old.dtype)
        return (a + b).astype(a.dtype).view(old.dtype)

    return applied


def operands_of(op: str, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bits of 12 cells, of each lane's operand and of its second operand."""
    rng = np.random.default_rng(seed)
    unsigned = np.dtype(f"u{WIDTH[kind] // 8}")
    if kind in INTEGERS:
        top = 2 ** (8 * unsigned.itemsize)
        cells, v, n = (rng.integers(0, top, k, dtype=unsigned) for k in (12, LANES, LANES))
        if op in ("inc", "dec"):
            cells, v = cells % 9, v % 7
        if op == "cas":
            cells, v, n = cells % 3, v % 3, n % 3
        return cells.astype(unsigned), v.astype(unsigned), n
    per = 2 if kind.endswith("x2") else 1
    numbers = [np.round(rng.normal(0, 4, k * per) * 8) / 8 for k in (12, LANES, LANES)]
    if kind.startswith("bf16"):
        return tuple(bf16(x).view(unsigned) for x in numbers)  # type: ignore[return-value]
    element = {"f16": np.float16, "f16x2": np.float16, "f32": np.float32, "f64": np.float64}[kind]
    if kind in ("f32", "f64"):
        numbers = [rng.normal(0, 4, len(x)) for x in numbers]
    return tuple(x.astype(element).view(unsigned) for x in numbers)  # type: ignore[return-value]


PROGRAMS = {
    space: Kernels(HEADER + "".join(kernel(op, kind, space, number) for number, (op, kind) in enumerate(FORMS))) for space in SPACES
}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("op", "kind"), FORMS, ids=lambda v: v)
def test_every_form(op: str, kind: str, space: str) -> None:
    cells, v, n = operands_of(op, kind, FORMS.index((op, kind)))
    expected, old = cells.copy(), np.zeros((2, LANES), cells.dtype)
    step = model(op, kind)
    # lanes in order, the first warp before the second
    for part, lanes in ((0, range(LANES)), (1, range(LANES)), (2, range(0, LANES, 3))):
        for lane in lanes:
            at = slice(part * 4 + (lane & 3), part * 4 + (lane & 3) + 1)
            if part != 1:
                old[part // 2, lane] = expected[at][0]
            expected[at] = step(expected[at], v[lane : lane + 1], n[lane : lane + 1])
    got, _, _, got_old = PROGRAMS[space].once(name_of(op, kind, space), 1, LANES, cells, v, n, np.zeros((2, LANES), cells.dtype))
    np.testing.assert_array_equal(got_old, old)
    np.testing.assert_array_equal(got, expected)


WIDE = Kernels(
    HEADER
    + """
.visible .entry exch128(.param .u64 cell_, .param .u64 old_) {
  .reg .u32 %t; .reg .u64 %c, %o, %a, %b; .reg .b128 %v, %w; ld.param.u64 %c, [cell_]; ld.param.u64 %o, [old_]; mov.u32 %t, %tid.x;
  cvt.u64.u32 %a, %t; add.u64 %b, %a, 1000; mov.b128 %v, {%a, %b};
  atom.global.exch.b128 %w, [%c], %v;
  mov.b128 {%a, %b}, %w; mad.wide.u32 %o, %t, 16, %o; st.global.v2.u64 [%o], {%a, %b}; ret; }
.visible .entry cas128(.param .u64 cell_, .param .u64 old_) {
  .reg .u32 %t; .reg .u64 %c, %o, %a, %b, %n; .reg .b128 %v, %w, %x; ld.param.u64 %c, [cell_]; ld.param.u64 %o, [old_]; mov.u32 %t, %tid.x;
  cvt.u64.u32 %a, %t; mul.lo.u64 %b, %a, 3; mov.b128 %v, {%a, %b}; add.u64 %a, %a, 1; add.u64 %b, %b, 3; mov.b128 %x, {%a, %b};
  atom.global.cas.b128 %w, [%c], %v, %x;
  mov.b128 {%a, %b}, %w; mad.wide.u32 %o, %t, 16, %o; st.global.v2.u64 [%o], {%a, %b}; ret; }
"""
)


def test_exchange_of_128_bits() -> None:
    cell, old = WIDE.once("exch128", 1, 64, np.array([7, 8], np.uint64), np.zeros((64, 2), np.uint64))
    chain = [(7, 8), *[(t, t + 1000) for t in range(63)]]
    np.testing.assert_array_equal(old, chain)
    assert list(cell) == [63, 1063]


def test_compare_and_swap_of_128_bits() -> None:
    cell, old = WIDE.once("cas128", 1, 64, np.array([0, 0], np.uint64), np.zeros((64, 2), np.uint64))
    np.testing.assert_array_equal(old, [(t, 3 * t) for t in range(64)])
    assert list(cell) == [64, 192]
    cell, old = WIDE.once("cas128", 1, 32, np.array([5, 16], np.uint64), np.zeros((32, 2), np.uint64))
    assert list(cell) == [5, 16] and (old == [5, 16]).all()


SOURCE = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define T int t = blockIdx.x * blockDim.x + threadIdx.x
__device__ float atomicMaxFloat(float *p, float v) {
    int *i = (int *)p, old = *i;
    while (__int_as_float(old) < v) { int seen = atomicCAS(i, old, __float_as_int(v)); if (seen == old) break; old = seen; }
    return __int_as_float(old);
}
__device__ float atomicMinFloat(float *p, float v) {
    return v >= 0 ? __int_as_float(atomicMin((int *)p, __float_as_int(v))) : __uint_as_float(atomicMax((unsigned *)p, __float_as_uint(v)));
}
__device__ double atomicMulDouble(double *p, double v) {
    unsigned long long *u = (unsigned long long *)p, old = *u, seen;
    do { seen = old; old = atomicCAS(u, seen, (unsigned long long)__double_as_longlong(v * __longlong_as_double(seen))); } while (seen != old);
    return __longlong_as_double(old);
}
extern "C" __global__ void float_extremes(const float *in, float *out, int n) { T; if (t < n) { atomicMaxFloat(out, in[t]); atomicMinFloat(out + 1, in[t]); } }
extern "C" __global__ void products(double *out) { T; atomicMulDouble(out + t % 3, (t & 1) ? 2.0 : 0.5); }
extern "C" __global__ void histogram(const unsigned char *in, unsigned *out, int n) {
    __shared__ unsigned bins[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(bins + in[i], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) if (bins[i]) atomicAdd(out + i, bins[i]);
}
extern "C" __global__ void counters(unsigned *out, const unsigned *in) {
    T; unsigned v = in[t];
    if (v & 1) atomicAdd(out, v); else if (v & 2) atomicSub(out + 1, v);
    if ((v & 7) > 4) { atomicOr(out + 2, v); atomicXor(out + 3, v); atomicAnd(out + 4, v | 0xff); }
    atomicInc(out + 5, 17); atomicDec(out + 6, 10);
    if (v % 5) { atomicMax(out + 7, v); atomicMin(out + 8, v); atomicMax((int *)out + 9, (int)v); atomicMin((int *)out + 10, (int)v); }
    atomicAdd_block(out + 11, 1); atomicAdd_system(out + 12, 2);
}
extern "C" __global__ void append(const int *in, int *out, int *count, int n) { T; if (t < n && in[t] > 0) out[atomicAdd(count, 1)] = in[t]; }
extern "C" __global__ void halves(__half *h, __half2 *h2, __nv_bfloat16 *b, __nv_bfloat162 *b2) {
    T; atomicAdd(h + (t & 1), __float2half(0.5f)); atomicAdd(h2, __floats2half2_rn(1.0f, 0.25f)); atomicAdd(b, __float2bfloat16(1.0f)); atomicAdd(b2, __floats2bfloat162_rn(2.0f, 0.5f));
}
extern "C" __global__ void old_values_used(unsigned long long *cell, unsigned long long *out) { T; out[t] = atomicAdd(cell, (unsigned long long)t) ^ atomicExch(cell + 1 + t % 2, t); }
extern "C" __global__ void short_cas(unsigned short *cell, int *out) { T; unsigned short old = cell[0], seen; int tries = 0; do { seen = old; old = atomicCAS(cell, seen, (unsigned short)(seen + 3)); tries++; } while (old != seen); out[t] = old; }
"""
program = Kernels(SOURCE)
rng = np.random.default_rng(3)


def test_float_extremes_by_compare_and_swap() -> None:
    given = rng.normal(0, 100, 1000).astype(np.float32)
    _, out = program.run("float_extremes", 8, 128, given, np.array([-np.inf, np.inf], np.float32), 1000)
    assert out[0] == given.max() and out[1] == given.min()


def test_a_product_by_compare_and_swap() -> None:
    (out,) = program.run("products", 3, 96, np.ones(3))
    t = np.arange(288)
    np.testing.assert_array_equal(out, [np.prod(np.where(t[t % 3 == k] & 1, 2.0, 0.5)) for k in range(3)])


def test_a_histogram() -> None:
    given = (rng.normal(128, 30, 20000).clip(0, 255)).astype(np.uint8)
    _, out = program.run("histogram", 5, 256, given, np.zeros(256, np.uint32), 20000)
    np.testing.assert_array_equal(out, np.bincount(given, minlength=256))


def test_counters() -> None:
    v = rng.integers(0, 2**32, 512, dtype=np.uint32)
    start = np.array([1, 2, 3, 4, 0xFFFFFFFF, 5, 6, 0, 0xFFFFFFFF, 0, 0, 0, 0], np.uint32)
    out, _ = program.run("counters", 4, 128, start, v)
    some, fifth = v[(v & 7) > 4], v[v % 5 != 0]
    inc, dec = 5, 6
    for _ in range(512):
        inc = 0 if inc >= 17 else inc + 1
        dec = 10 if dec == 0 or dec > 10 else dec - 1
    expected = [
        1 + int(v[v & 1 != 0].sum(dtype=np.uint32)),
        2 - int(v[(v & 3) == 2].sum(dtype=np.uint32)),
        3 | int(np.bitwise_or.reduce(some)),
        4 ^ int(np.bitwise_xor.reduce(some)),
        int(np.bitwise_and.reduce(some | 0xFF)),
        inc,
        dec,
        int(fifth.max()),
        int(fifth.min()),
        max(0, int(fifth.view(np.int32).max())),
        min(0, int(fifth.view(np.int32).min())),
        512,
        1024,
    ]
    np.testing.assert_array_equal(out, [x % 2**32 for x in expected])


def test_appending_in_any_order() -> None:
    given = rng.integers(-50, 50, 300).astype(np.int32)

    def check(outputs: list[np.ndarray]) -> None:
        _, out, count = outputs
        assert count[0] == (given > 0).sum()
        np.testing.assert_array_equal(np.sort(out[: count[0]]), np.sort(given[given > 0]))

    program.each("append", 3, 100, given, np.zeros(300, np.int32), np.zeros(1, np.int32), 300, check=check)
    _, out, _ = program.once("append", 3, 100, given, np.zeros(300, np.int32), np.zeros(1, np.int32), 300)
    np.testing.assert_array_equal(out[: (given > 0).sum()], given[given > 0])  # blocks, warps and lanes in their natural order


def test_halves_in_memory() -> None:
    h, h2, b, b2 = program.run("halves", 2, 64, np.zeros(2, np.float16), np.zeros(2, np.float16), np.zeros(2, np.uint16), np.zeros(2, np.uint16))
    assert list(h) == [32, 32] and list(h2) == [128, 32]
    assert list((b.astype(np.uint32) << 16).view(np.float32)) == [128, 0] and list((b2.astype(np.uint32) << 16).view(np.float32)) == [256, 64]


def test_old_values_that_are_used() -> None:
    cell, out = program.once("old_values_used", 1, 64, np.array([5, 100, 200], np.uint64), np.zeros(64, np.uint64))
    total, other = 5, [100, 200]
    first, second = [], []
    for t in range(64):
        first.append(total)
        total += t
        second.append(other[t % 2])
        other[t % 2] = t
    np.testing.assert_array_equal(out, np.array(first) ^ np.array(second))
    assert list(cell) == [total, *other]


def test_a_counter_of_16_bits() -> None:
    def check(outputs: list[np.ndarray]) -> None:
        assert outputs[0][0] == 10 + 3 * 192
        np.testing.assert_array_equal(np.sort(outputs[1]), 10 + 3 * np.arange(192))

    program.each("short_cas", 3, 64, np.array([10, 77], np.uint16), np.zeros(192, np.int32), check=check)


VECTORS = Kernels(
    r"""
#include <cuda_fp16.h>
extern "C" __global__ void vectors(float4 *four, float2 *two, float2 *old) {
    int t = threadIdx.x;
    atomicAdd(four, make_float4(1, 2, 3, t));
    old[t] = atomicAdd(two + (t & 1), make_float2(t, -1));
}
"""
)


def test_vectors_of_floats() -> None:
    four, two, old = VECTORS.once("vectors", 1, 64, np.zeros(4, np.float32), np.zeros((2, 2), np.float32), np.zeros((64, 2), np.float32))
    t = np.arange(64)
    assert list(four) == [64, 128, 192, t.sum()]
    np.testing.assert_array_equal(two, [[t[::2].sum(), -32], [t[1::2].sum(), -32]])
    before = [t[k % 2 : k : 2].sum() for k in range(64)]
    np.testing.assert_array_equal(old, np.stack([before, -(t // 2)], axis=1))
