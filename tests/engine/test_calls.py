"""Device functions that are not inlined: structures by value, recursion, function pointers, virtual functions."""

from __future__ import annotations

import numpy as np
import pytest

from engine.kernels import HEADER, Kernels, fault_of

N = 128
SOURCE = r"""
#define T int t = blockIdx.x * blockDim.x + threadIdx.x; int v = in[t]; (void)v
#define K(name) extern "C" __global__ void name(const int *in, int *out)
struct Pair { int a; float b; }; struct Big { double d[3]; int n; char c; }; struct Tiny { unsigned char x, y; };
__device__ __noinline__ Pair make_pair(int a, float b) { Pair p; p.a = a * 2; p.b = b + 1; return p; }
__device__ __noinline__ int take_pair(Pair p, Pair *q) { q->a += p.a; return p.a - (int)p.b; }
__device__ __noinline__ Big make_big(int n) { Big b; for (int i = 0; i < 3; i++) b.d[i] = n * (i + 0.5); b.n = n; b.c = (char)n; return b; }
__device__ __noinline__ double sum_big(Big b, int which) { return b.d[which % 3] + b.n + b.c; }
__device__ __noinline__ Tiny swap(Tiny t) { Tiny r; r.x = t.y; r.y = t.x; return r; }
__device__ __noinline__ short narrow(short a, unsigned char b, signed char c, bool d) { return (short)(a + b * 2 + c * 3 + d); }
__device__ __noinline__ float4 vector(float4 a, float2 b) { return make_float4(a.x + b.y, a.y, a.w, a.z * b.x); }
__device__ __noinline__ long long wide(long long a, int b, double c) { return a * b + (long long)c; }
K(structures) { T;
    Pair p = make_pair(v, v * 0.5f), q = {1, 2.f}; int r = take_pair(p, &q) + q.a; Big b = make_big(v & 31); double s = sum_big(b, v);
    Tiny y = swap(Tiny{(unsigned char)v, (unsigned char)(v >> 8)}); short n = narrow((short)(v * 100), (unsigned char)v, (signed char)-v, v & 1);
    float4 f = vector(make_float4(v, 1, 2, 3), make_float2(0.5f, v));
    int *o = out + 8 * t; o[0] = r; o[1] = (int)(s * 2); o[2] = y.x * 256 + y.y; o[3] = n; o[4] = (int)(f.x + f.y * 10 + f.z * 100 + f.w * 1000); o[5] = (int)wide(1000000007ll * v, v, v * 1.5);
}
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
K(recursion) { T; out[t] = fib(v % 11); }
__device__ int odd(int n); __device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1); } __device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
K(mutual) { T; out[t] = even(v % 40) * 10 + odd(v % 17); }
__device__ __noinline__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
K(nested_recursion) { T; out[t] = ackermann(v & 1, v % 7) + ackermann(2, v & 3); }
__device__ __noinline__ void quicksort(int *a, int lo, int hi) { if (lo >= hi) return; int p = a[(lo + hi) / 2], i = lo, j = hi; while (i <= j) { while (a[i] < p) i++; while (a[j] > p) j--; if (i <= j) { int x = a[i]; a[i++] = a[j]; a[j--] = x; } } quicksort(a, lo, j); quicksort(a, i, hi); }
K(sorting) { T; int a[12]; for (int i = 0; i < 12; i++) a[i] = (v * (i + 3) * 7919) % 101; quicksort(a, 0, 11); int r = 0; for (int i = 0; i < 12; i++) r = r * 3 + a[i]; out[t] = r; }
__device__ __noinline__ int with_local(int n) { int a[4]; for (int i = 0; i < 4; i++) a[i] = n * i; int r = n > 0 ? with_local(n - 1) : 0; for (int i = 0; i < 4; i++) r += a[(i + n) & 3]; return r; }
K(locals_of_each_level) { T; out[t] = with_local(v & 7); }
typedef int (*Op)(int, int);
__device__ int add(int a, int b) { return a + b; } __device__ int sub(int a, int b) { return a - b; } __device__ int mul(int a, int b) { return a * b; } __device__ int loop(int a, int b) { int r = 0; for (int i = 0; i < (b & 7); i++) r += a ^ i; return r; }
__device__ Op table[] = {add, sub, mul, loop}; __constant__ Op fixed[] = {mul, add};
K(pointers) { T; out[t] = table[v & 3](v, t) * 3 + fixed[t & 1](v, 2); }
__device__ __noinline__ int apply(Op f, int n, int a) { return n == 0 ? a : apply(f, n - 1, f(a, n)); }
K(pointers_passed_on) { T; out[t] = apply((v & 1) ? add : (v & 2) ? sub : loop, v % 5, v); }
extern "C" __global__ void store_pointer(Op *where, int which) { *where = which ? sub : mul; }
extern "C" __global__ void call_stored(Op *where, int *out) { out[threadIdx.x] = (*where)(threadIdx.x, 5); }
struct Shape { __device__ virtual ~Shape() {} __device__ virtual int area() const = 0; __device__ virtual int twice() const { return 2 * area(); } };
struct Square : Shape { int s; __device__ Square(int s) : s(s) {} __device__ int area() const override { return s * s; } };
struct Rectangle : Shape { int a, b; __device__ Rectangle(int a, int b) : a(a), b(b) {} __device__ int area() const override { return a * b; } __device__ int twice() const override { return a * b + 1; } };
K(virtuals) { T; Shape *s = (v & 1) ? (Shape *)new Square(v & 15) : (Shape *)new Rectangle(v & 7, t); out[t] = s->area() * 100 + s->twice(); delete s; }
__device__ __noinline__ int shared_inside(int v) { __shared__ int s[64]; int u = threadIdx.x; s[u] = v; __syncthreads(); int r = s[63 - u]; __syncthreads(); return r; }
K(barriers_in_functions) { T; int r = shared_inside(v) + shared_inside(v * 2) * 3; out[t] = r; }
__device__ __noinline__ int barrier_recursion(int v, int n) { __shared__ int s[64]; if (n == 0) return v; s[threadIdx.x] = v; __syncthreads(); int r = s[(threadIdx.x + 1) & 63]; __syncthreads(); return barrier_recursion(r + n, n - 1); }
K(barriers_in_recursion) { T; out[t] = barrier_recursion(v, 5); }
__device__ __noinline__ int shuffle_inside(int v, int n) { if (n == 0) return 0; int r = __shfl_xor_sync(~0u, v, n) + __popc(__ballot_sync(~0u, v & 1)); return r + shuffle_inside(v + 1, n - 1); }
K(shuffles_in_recursion) { T; out[t] = shuffle_inside(v, 4); }
__device__ __noinline__ int atomic_inside(int *p, int n) { if (n == 0) return 0; atomicAdd(p, n); return 1 + atomic_inside(p, n - 1); }
K(atomics_in_recursion) { T; int r = atomic_inside(out, v & 7); out[1 + t] = r; }
__device__ __noinline__ int print_inside(int n) { if (n <= 0) return 0; printf("%d\n", n); return print_inside(n - 2) + n; }
extern "C" __global__ void printing(int *out) { out[0] = print_inside(7); }
extern "C" __global__ void endless_recursion(int *out) { out[0] = fib(out[0]); }
__device__ __noinline__ int descend(int n) { int a[16]; a[n & 15] = n; return n == 0 ? 0 : descend(n - 1) + a[n & 15] - n + 1; }
extern "C" __global__ void deep(int *out, int n) { out[threadIdx.x] = descend(n); }
"""
program = Kernels(SOURCE)
values = np.random.default_rng(31).integers(0, 1000, N).astype(np.int32)


def wrap(x: int, bits: int = 32) -> int:
    return (x + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def ackermann(m: int, n: int) -> int:
    return n + 1 if m == 0 else ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))


def with_local(n: int) -> int:
    return 6 * n + (with_local(n - 1) if n else 0)


def loop(a: int, b: int) -> int:
    return sum(a ^ i for i in range(b & 7))


def apply(f: object, n: int, a: int) -> int:
    for k in range(n, 0, -1):
        a = f(a, k)  # type: ignore[operator]
    return a


OPERATIONS = (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, loop)


def sorting(t: int, v: int) -> int:
    r = 0
    for x in sorted(v * (i + 3) * 7919 % 101 for i in range(12)):
        r = r * 3 + x
    return wrap(r)


def virtuals(t: int, v: int) -> int:
    return (v & 15) ** 2 * 102 if v & 1 else (v & 7) * t * 101 + 1


def test_structures_by_value() -> None:
    _, out = program.run("structures", 2, 64, values, np.zeros((N, 8), np.int32))
    for t in range(N):
        v = int(values[t])
        b = v * 0.5 + 1
        small = v & 31
        narrow = wrap(wrap(v * 100, 16) + (v & 255) * 2 + wrap(-v, 8) * 3 + (v & 1), 16)
        vector = v + v + 1 * 10 + 3 * 100 + 2 * 0.5 * 1000
        expected = [2 * v - int(b) + 1 + 2 * v, int((small * (v % 3 + 0.5) + small + small) * 2), (v >> 8) * 256 + (v & 255), narrow, int(vector)]
        assert list(out[t][:5]) == expected
        assert out[t][5] == wrap(1000000007 * v * v + int(v * 1.5))


MODELS = {
    "recursion": lambda t, v: fib(v % 11),
    "mutual": lambda t, v: (v % 40 % 2 == 0) * 10 + (v % 17 % 2 == 1),
    "nested_recursion": lambda t, v: ackermann(v & 1, v % 7) + ackermann(2, v & 3),
    "sorting": sorting,
    "locals_of_each_level": lambda t, v: with_local(v & 7),
    "pointers": lambda t, v: wrap(OPERATIONS[v & 3](v, t) * 3 + (v + 2 if t & 1 else v * 2)),
    "pointers_passed_on": lambda t, v: apply(OPERATIONS[0] if v & 1 else OPERATIONS[1] if v & 2 else loop, v % 5, v),
    "virtuals": virtuals,
    "barriers_in_functions": lambda t, v: int(values[t // 64 * 64 + 63 - t % 64]) * 7,
    "barriers_in_recursion": lambda t, v: int(values[t // 64 * 64 + (t + 5) % 64]) + 15,
    "shuffles_in_recursion": lambda t, v: sum(
        int(values[t ^ n]) + 4 - n + int(((values[t & ~31 : (t & ~31) + 32] + 4 - n) & 1).sum()) for n in range(4, 0, -1)
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_calls(name: str) -> None:
    _, out = program.run(name, 2, 64, values, np.zeros(N, np.int32))
    np.testing.assert_array_equal(out, [MODELS[name](t, int(values[t])) for t in range(N)])


def test_atomics_in_recursion() -> None:
    _, out = program.run("atomics_in_recursion", 2, 64, values, np.zeros(N + 1, np.int32))
    k = values & 7
    assert out[0] == (k * (k + 1) // 2).sum()
    np.testing.assert_array_equal(out[1:], k)


def test_function_pointers_in_memory() -> None:
    device, module = program.device, program.module
    device.seed = device.threads = device.budget = None
    where, out = device.zeros(1, np.uint64), device.zeros(32, np.int32)
    t = np.arange(32)
    for which, expected in ((1, t - 5), (0, t * 5)):
        module["store_pointer"][1, 1](where, which)
        module["call_stored"][1, 32](where, out)
        np.testing.assert_array_equal(out.numpy(), expected)


def test_printing_in_recursion(capfd: pytest.CaptureFixture[str]) -> None:
    (out,) = program.once("printing", 1, 1, np.zeros(1, np.int32))
    assert capfd.readouterr().out == "7\n5\n3\n1\n" and out[0] == 16


def test_a_call_of_nothing() -> None:
    device, module = program.device, program.module
    device.seed = device.threads = device.budget = None
    for bad in (0, 12345, 1 << 60):
        where, out = device.array(np.array([bad], np.uint64)), device.zeros(32, np.int32)
        fault = fault_of(lambda where=where, out=out: module["call_stored"][1, 32](where, out))  # type: ignore[misc]
        assert fault.code in ("out-of-bounds", "trap")
        assert fault.fault.site.thread == (0, 0, 0)


def test_deep_recursion() -> None:
    (out,) = program.once("deep", 1, 32, np.zeros(32, np.int32), 50)
    np.testing.assert_array_equal(out, 50)


def test_recursion_without_end() -> None:
    """1,024 bytes of stack a thread are CUDA's default; whatever ours is, the end is a fault, not the end of the process."""
    fault = fault_of(lambda: program.once("deep", 1, 32, np.zeros(32, np.int32), -1))
    assert fault.code == "out-of-bounds" and fault.fault.space == "local"
    assert "call stack is full" in str(fault) and "recursion" in fault.fault.advice
    (out,) = program.once("recursion", 2, 64, values, np.zeros(N, np.int32))[1:]
    np.testing.assert_array_equal(out, [fib(int(v) % 11) for v in values])


PTX = Kernels(
    HEADER
    + """
.func (.reg .b32 %r) square(.reg .b32 %x) { mul.lo.u32 %r, %x, %x; ret; }
.func (.param .b32 r) cube(.param .b32 x) { .reg .b32 %a, %b; ld.param.b32 %a, [x]; mul.lo.u32 %b, %a, %a; mul.lo.u32 %b, %b, %a; st.param.b32 [r], %b; ret; }
.func (.param .b32 r) negate(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; neg.s32 %a, %a; st.param.b32 [r], %a; ret; }
.func (.param .align 8 .b8 r[16]) mixed(.param .align 8 .b8 x[16]) {
  .reg .b32 %a<4>; .reg .b64 %w; ld.param.v2.b32 {%a0, %a1}, [x]; ld.param.b64 %w, [x+8];
  mov.b64 {%a2, %a3}, %w; st.param.b64 [r], %w; st.param.v2.b32 [r+8], {%a1, %a0}; ret; }
.func nothing() { ret; }
.func leaves(.param .b32 x) { .reg .b32 %a; .reg .pred %p; ld.param.b32 %a, [x]; setp.eq.u32 %p, %a, 5; @%p exit; ret; }
.visible .entry calls(.param .u64 in_, .param .u64 out_) {
  .reg .b32 %t, %v, %r, %s, %q; .reg .b64 %in, %out, %f, %w; .reg .pred %p;
  ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x; mad.wide.u32 %in, %t, 4, %in; mad.wide.u32 %out, %t, 16, %out; ld.global.b32 %v, [%in];
  call (%r), square, (%v); call nothing;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r; call.uni (b), cube, (a); ld.param.b32 %s, [b]; }
  { .param .align 8 .b8 a[16]; .param .align 8 .b8 b[16]; st.param.v2.b32 [a], {%v, %r}; st.param.b32 [a+8], %s; st.param.b32 [a+12], %t; call (b), mixed, (a); ld.param.b64 %w, [b]; ld.param.v2.b32 {%s, %q}, [b+8]; }
  st.global.b64 [%out], %w; st.global.v2.b32 [%out+8], {%s, %q};
  { .param .b32 a; st.param.b32 [a], %t; call leaves, (a); }
  st.global.b32 [%out], 99; ret; }
.visible .entry indirect(.param .u64 in_, .param .u64 out_) {
  .reg .b32 %t, %v, %r; .reg .b64 %in, %out, %f, %g; .reg .pred %p;
  ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x; mad.wide.u32 %in, %t, 4, %in; mad.wide.u32 %out, %t, 4, %out; ld.global.b32 %v, [%in];
  P: .callprototype (.param .b32 _) _ (.param .b32 _);
  mov.u64 %f, cube; mov.u64 %g, negate; and.b32 %r, %v, 1; setp.eq.u32 %p, %r, 1; selp.b64 %f, %f, %g, %p;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %v; call (b), %f, (a), P; ld.param.b32 %r, [b]; }
  st.global.b32 [%out], %r; ret; }
"""
)


def test_hand_written_calls() -> None:
    given = np.arange(3, 35, dtype=np.uint32)
    _, out = PTX.run("calls", 1, 32, given, np.zeros((32, 4), np.uint32))
    for t in range(32):
        v = int(given[t])
        r = v * v
        s = r**3 % 2**32
        assert list(out[t]) == [s if t == 5 else 99, t, r, v]


def test_hand_written_indirect_calls() -> None:
    given = np.arange(3, 35, dtype=np.uint32)
    _, out = PTX.run("indirect", 1, 32, given, np.zeros(32, np.uint32))
    np.testing.assert_array_equal(out, [int(v) ** 3 if v & 1 else 2**32 - int(v) for v in given])
