"""Memory as CUDA C++ uses it: strides, wrapping indices, structures, module variables, shared and local arrays."""

from __future__ import annotations

import numpy as np
import pytest

import gridstride as gs
from engine.kernels import Kernels

N = 200

SOURCE = r"""
#define T int t = blockIdx.x * blockDim.x + threadIdx.x
extern "C" __global__ void strides(const int *in, int *out, int stride) {
    T; if (t >= 200) return;
    const int *p = in + 7000; int *q = out + 7000;
    q[t * stride] = p[t * stride] + p[-t * stride] * 3;
}
extern "C" __global__ void fixed_strides(const short *in, short *out, int n) {
    T; if (t >= n) return;
    int sum = 0;
    sum += in[t * 1] + in[t * 2] * 2 + in[t * 3] * 3 + in[t * 5] * 5 + in[t * 7] * 7 + in[t * 8] * 8 + in[t * 16] * 11 + in[t * 31] * 13 + in[t * 33] * 17;
    sum += in[32 * 256 - t] - in[32 * 256 - 2 * t] * 2 + in[32 * 256 - 3 * t] + in[32 * 256 - 17 * t] * 19 + in[32 * 256 - 32 * t];
    out[t] = sum;
    out[1000 + 3 * t] = sum; out[3000 - 5 * t] = -sum; out[4000 + 33 * t] = sum ^ 1;
}
// unsigned arithmetic wraps; the index is then extended to 64 bits
extern "C" __global__ void unsigned_wrap(const int *in, int *out, unsigned base) {
    T; unsigned i = base + t;                   // base = 2^32 - 100: wraps for t >= 100
    if (i < 1000u) out[t] = in[i];
    unsigned j = (unsigned)t * 0x01000001u;     // the low bits of the product count
    out[200 + t] = in[j >> 24] + in[j & 255];
    unsigned k = t - 100;                       // wraps for t < 100
    if (k < 0x80000000u) out[400 + t] = in[k];
    unsigned char c = t * 3; out[600 + t] = in[c];
    unsigned short s = t * 1000; out[800 + t] = in[s % 500];
}
// 64-bit index arithmetic from 32-bit parts: no wrap
extern "C" __global__ void wide_index(const char *in, int *out, long long far, unsigned big, int negative) {
    T;
    out[t] = in[(long long)t * 3 + far - far];
    out[200 + t] = in[((unsigned long long)big + t) - 4294967000ull];
    out[400 + t] = in[(long long)negative + t + 2147483648ll];
    out[600 + t] = in[((size_t)t << 33 >> 32)];
    const char *end = in + 1000; out[800 + t] = end[-1 - t];
    out[1000 + t] = (int)(&in[t * 2] - in);
}
// int sums that stay in range but whose unsigned views would not
extern "C" __global__ void signed_index(const int *in, int *out, int offset) {
    T;
    out[t] = in[t + offset + 50];               // offset = -50
    out[200 + t] = in[1000 + (t - 150) * 2];
    out[400 + t] = in[500 - (t ^ 3)];
    const int *mid = in + 600;
    out[600 + t] = mid[(t & 1) ? -t : t];
    out[800 + t] = mid[(-t) >> 1];
    out[1000 + t] = mid[-t / 3];
}
#pragma pack(push, 1)
struct Packed { char tag; int value; short s; double d; char tail[3]; };
#pragma pack(pop)
struct Mixed { char c; double d; short s; int a[3]; unsigned long long big; float f; };
struct __align__(16) Four { float x, y, z, w; };
extern "C" __global__ void structs(const Mixed *in, Mixed *out, Four *four, const uchar3 *rgb, uchar4 *rgba) {
    T;
    Mixed m = in[t]; m.c += 1; m.d *= 2; m.s = -m.s; m.a[t % 3] = t; m.big ^= 0xff00ff00ff00ff00ull; m.f += 0.5f; out[t] = m;
    Four f = four[t]; four[t] = Four{f.w, f.z, f.y, f.x + t};
    uchar3 p = rgb[t]; rgba[t] = make_uchar4(p.z, p.y, p.x, 255);
}
extern "C" __global__ void packed_bytes(unsigned char *bytes, int n) {   // unaligned fields, by bytes
    T; if (t >= n) return;
    unsigned char *p = bytes + 18 * t;
    int v; memcpy(&v, p + 1, 4); v = v * 2 + 1; memcpy(p + 1, &v, 4);
    double d; memcpy(&d, p + 7, 8); d = -d; memcpy(p + 7, &d, 8);
    p[0] ^= 0x80; p[17] = p[15] + p[16];
}
struct Big { int n; float table[1000]; unsigned char bytes[80]; };
extern "C" __global__ void big_parameter(const Big big, float *out, int more) {
    T; if (t >= big.n) return;
    out[t] = big.table[t] + big.table[999 - t] + big.bytes[t % 80] + more;
}
struct Small { char a; short b; char c[5]; };
extern "C" __global__ void small_parameters(char a, Small s, short b, double d, Small s2, unsigned char e, int *out) {
    int *o = out + 12 * threadIdx.x;
    o[0] = a; o[1] = s.a; o[2] = s.b; o[3] = s.c[threadIdx.x % 5]; o[4] = b; o[5] = (int)d; o[6] = s2.a; o[7] = s2.b; o[8] = s2.c[4]; o[9] = e;
}
__constant__ float coefficients[5] = {1.5f, -2.0f, 3.25f, 0.0f, 8.0f};
__constant__ int unset[40];
__device__ int counter = 17;
__device__ int primes[] = {2, 3, 5, 7, 11, 13};
__device__ int *prime_pointer = primes + 2;
__device__ const char *texts[] = {"zero", "one", "two"};
struct Node { int value; Node *next; };
__device__ Node third = {30, nullptr};
__device__ Node second = {20, &third};
__device__ Node first = {10, &second};
__device__ float2 pair = {1.5f, -2.0f};
static __device__ long long hidden[3] = {1, -2, 3};
extern "C" __global__ void variables(float *out) {
    int t = threadIdx.x; float *o = out + 12 * t;
    o[0] = coefficients[t % 5]; o[1] = unset[t]; o[2] = primes[t % 6]; o[3] = prime_pointer[t % 4 - 2]; o[4] = texts[t % 3][t % 3];
    int sum = 0; for (Node *n = &first; n; n = n->next) sum += n->value; o[5] = sum; o[6] = coefficients[2];
    o[7] = pair.y; o[8] = hidden[t % 3];
}
extern "C" __global__ void bump(int by) { if (threadIdx.x == 0 && blockIdx.x == 0) { counter += by; hidden[1] += by; prime_pointer = primes; } }
extern "C" __global__ void read_counter(int *out) { out[0] = counter; out[1] = (int)hidden[1]; out[2] = *prime_pointer; }
extern __shared__ __align__(16) unsigned char raw[];
extern "C" __global__ void dynamic_shared(const float *in, float *out, int n) {
    __shared__ int fixed[32]; int t = threadIdx.x;
    float *f = (float *)raw; short *s = (short *)(f + n); double *d = (double *)(raw + 2048);
    f[t] = in[t]; s[t] = t * 2; d[t] = in[t] * 0.5; if (t < 32) fixed[t] = t + 1;
    __syncthreads();
    int u = n - 1 - t;
    out[t] = f[u] + s[u] + (float)d[u] + fixed[u & 31];
}
extern "C" __global__ void local_array(const int *in, int *out) {
    T; int a[16]; short b[9]; double c[5]; char d[7];
    for (int i = 0; i < 16; i++) a[i] = in[t] + i * i;
    for (int i = 0; i < 9; i++) b[i] = i * t; for (int i = 0; i < 5; i++) c[i] = i + 0.25; for (int i = 0; i < 7; i++) d[i] = i - 3;
    int k = in[t] & 15; a[k] += 1000; b[k % 9] -= 7; c[k % 5] *= 4; d[(k * 3) % 7] ^= 5;
    int sum = 0; for (int i = 0; i < 16; i++) sum = sum * 3 + a[(i * 5 + k) & 15];
    for (int i = 0; i < 9; i++) sum += b[i]; for (int i = 0; i < 5; i++) sum += (int)(c[i] * 4); for (int i = 0; i < 7; i++) sum += d[i] * i;
    out[t] = sum;
}
__device__ __noinline__ int through(const int *p, int n) { int s = 0; for (int i = 0; i < n; i++) s += p[i] * (i + 1); return s; }
__device__ __noinline__ void put(int *p, int v) { *p = v; }
extern "C" __global__ void generic_pointers(const int *in, int *out) {
    __shared__ int shared[64]; T; int u = threadIdx.x; int local[4];
    shared[u] = in[t] * 2; for (int i = 0; i < 4; i++) local[i] = in[t] + i; __syncthreads();
    const int *choice = (in[t] & 1) ? shared + (u & ~3) : (in[t] & 2) ? local : in + (t & ~3);
    int r = through(choice, 4);
    put(&local[in[t] & 3], 5); put(&out[200 + t], in[t] & 7); __syncthreads(); put(&shared[u], t); __syncthreads();
    out[t] = r + local[0] + local[3] * 3 + shared[63 - u];
}
extern "C" __global__ void volatile_and_ldg(const int *__restrict__ in, volatile int *v, int *out) {
    T; v[t] = __ldg(in + t) + 1; int a = v[t]; v[t] = a * 2; out[t] = v[t] + __ldcg(in + t) + __ldcs(in + t) + __ldca(in + t); __stcs(out + 200 + t, a); __stwt(out + 400 + t, a + 1);
}
extern "C" __global__ void misc_copy(const unsigned char *in, unsigned char *out) {
    T; unsigned char tmp[24];
    memcpy(tmp, in + 24 * t, 24); memset(tmp + 5, t, 6); for (int i = 0; i < 24; i++) out[24 * t + i] = tmp[23 - i];
}
extern "C" __global__ void gather_scatter(const int *index, const double *in, double *out) { T; out[index[t]] = in[index[199 - t]] + in[index[t] % 50]; }
extern "C" __global__ void bool_and_bytes(const bool *b, const signed char *s, int *out) { T; out[t] = (b[t] ? 1 : 0) + s[t] * 2 + (b[199 - t] && s[t] > 0); }
extern "C" __global__ void pointers_to_pointers(int **table, int *out) { T; out[t] = table[t % 3][t]; }
"""
program = Kernels(SOURCE)
rng = np.random.default_rng(21)
t = np.arange(N)


@pytest.mark.parametrize("stride", [*range(1, 34), -1, -2, -3, -8, -33])
def test_strides(stride: int) -> None:
    given = rng.integers(-1000, 1000, 14000).astype(np.int32)
    expected = np.zeros(14000, np.int32)
    expected[7000 + t * stride] = given[7000 + t * stride] + given[7000 - t * stride] * 3
    _, out = program.once("strides", 2, 128, given, np.zeros(14000, np.int32), stride)
    np.testing.assert_array_equal(out, expected)


def test_strides_that_the_compiler_knows() -> None:
    given = rng.integers(-100, 100, 32 * 256 + 1).astype(np.int16)
    n, wide = 120, given.astype(int)
    u = np.arange(n)
    total = sum(wide[u * k] * f for k, f in ((1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (8, 8), (16, 11), (31, 13), (33, 17)))
    total = total + sum(wide[8192 - u * k] * f for k, f in ((1, 1), (2, -2), (3, 1), (17, 19), (32, 1)))
    expected = np.zeros(9000, np.int16)
    expected[3000 - 5 * u] = 0
    expected[u] = total
    expected[1000 + 3 * u] = total
    expected[3000 - 5 * u] = -total
    expected[4000 + 33 * u] = total ^ 1
    _, out = program.run("fixed_strides", 1, 128, given, np.zeros(9000, np.int16), n)
    # 1000 + 3t and 3000 - 5t never meet below 2400
    assert 1000 + 3 * (n - 1) < 3000 - 5 * (n - 1)
    np.testing.assert_array_equal(out, expected)


def test_unsigned_indices_wrap() -> None:
    given = rng.integers(-1000, 1000, 1000).astype(np.int32)
    expected = np.zeros(1000, np.int32)
    expected[100:200] = given[:100]
    j = t.astype(np.uint64) * 0x01000001 % 2**32
    expected[200:400] = given[(j >> 24).astype(int)] + given[(j & 255).astype(int)]
    expected[500:600] = given[:100]
    expected[600:800] = given[t * 3 % 256]
    expected[800:1000] = given[t * 1000 % 65536 % 500]
    _, out = program.run("unsigned_wrap", 1, N, given, np.zeros(1000, np.int32), 2**32 - 100)
    np.testing.assert_array_equal(out, expected)


def test_indices_of_64_bits() -> None:
    given = rng.integers(-100, 100, 1000).astype(np.int8)
    wide = given.astype(int)
    expected = np.concatenate([wide[t * 3], wide[t + 4294967290 - 4294967000], wide[t + 8], wide[2 * t], wide[999 - t], 2 * t])
    _, out = program.run("wide_index", 1, N, given, np.zeros(1200, np.int32), 2**40 + 12345, 4294967290, -(2**31) + 8)
    np.testing.assert_array_equal(out, expected)


def test_signed_indices() -> None:
    given = rng.integers(-1000, 1000, 1200).astype(np.int32)
    expected = np.concatenate(
        [
            given[t],
            given[1000 + (t - 150) * 2],
            given[500 - (t ^ 3)],
            given[600 + np.where(t & 1, -t, t)],
            given[600 + (-t >> 1)],
            given[600 - t // 3],
        ]
    )
    _, out = program.run("signed_index", 1, N, given, np.zeros(1200, np.int32), -50)
    np.testing.assert_array_equal(out, expected)


def test_structures() -> None:
    kind = np.dtype([("c", "i1"), ("d", "f8"), ("s", "i2"), ("a", "i4", 3), ("big", "u8"), ("f", "f4")], align=True)
    given = np.zeros(64, kind)
    u = np.arange(64)
    given["c"], given["d"], given["s"], given["big"], given["f"] = u, u / 3, u * 7, u.astype(np.uint64) << np.uint64(30), u * 0.25
    given["a"] = rng.integers(0, 1000, (64, 3))
    four = rng.random((64, 4), np.float32)
    rgb = rng.integers(0, 256, (64, 3)).astype(np.uint8)
    _, out, turned, _, rgba = program.run("structs", 2, 32, given, np.zeros(64, kind), four, rgb, np.zeros((64, 4), np.uint8))
    for name in ("c", "d", "s", "big", "f"):
        change = {"c": lambda x: x + 1, "d": lambda x: x * 2, "s": lambda x: -x, "big": lambda x: x ^ np.uint64(0xFF00FF00FF00FF00), "f": lambda x: x + np.float32(0.5)}
        np.testing.assert_array_equal(out[name], change[name](given[name]))
    given["a"][u, u % 3] = u
    np.testing.assert_array_equal(out["a"], given["a"])
    np.testing.assert_array_equal(turned, np.stack([four[:, 3], four[:, 2], four[:, 1], four[:, 0] + u.astype(np.float32)], 1))
    np.testing.assert_array_equal(rgba, np.concatenate([rgb[:, ::-1], np.full((64, 1), 255, np.uint8)], 1))


def test_unaligned_fields() -> None:
    kind = np.dtype([("tag", "u1"), ("value", "<i4"), ("pad", "u1", 2), ("d", "<f8"), ("tail", "u1", 3)])
    given = np.zeros(100, kind)
    given["tag"], given["value"], given["d"], given["tail"] = np.arange(100), np.arange(100) * 1001, np.arange(100) / 7, rng.integers(0, 256, (100, 3))
    expected = given.copy()
    expected["tag"] ^= 0x80
    expected["value"] = given["value"] * 2 + 1
    expected["d"] = -given["d"]
    expected["tail"][:, 2] = given["tail"][:, 0] + given["tail"][:, 1]
    (out,) = program.run("packed_bytes", 1, 128, given.view(np.uint8), 100)
    np.testing.assert_array_equal(out, expected.view(np.uint8))


def test_a_structure_of_4_kilobytes_by_value() -> None:
    table, data = rng.random(1000, np.float32), rng.integers(0, 256, 80).astype(np.uint8)
    big = np.int32(150).tobytes() + table.tobytes() + data.tobytes()
    assert len(big) == 4084
    (out,) = program.run("big_parameter", 2, 100, big, np.zeros(150, np.float32), 3)
    u = np.arange(150)
    np.testing.assert_array_equal(out, table[u] + table[999 - u] + data[u % 80].astype(np.float32) + np.float32(3))


def test_small_parameters_and_padding() -> None:
    small = np.dtype([("a", "i1"), ("b", "i2"), ("c", "i1", 5)], align=True)
    one, two = np.zeros((), small), np.zeros((), small)
    one["a"], one["b"], one["c"] = -5, -300, (1, -2, 3, -4, 5)
    two["a"], two["b"], two["c"] = 7, 12345, (9, 8, 7, 6, -100)
    (out,) = program.run("small_parameters", 1, 64, -1, one[()], -2, 1234.9, two[()], 200, np.zeros((64, 12), np.int32))
    for u in range(64):
        assert list(out[u][:10]) == [-1, -5, -300, (1, -2, 3, -4, 5)[u % 5], -2, 1234, 7, 12345, -100, 200]


def test_module_variables() -> None:
    program.module.variable("unset", np.int32).copy_from(np.arange(40, dtype=np.int32) * 11)
    (out,) = program.once("variables", 1, 40, np.zeros((40, 12), np.float32))
    coefficients, primes, texts = (1.5, -2.0, 3.25, 0.0, 8.0), (2, 3, 5, 7, 11, 13), ("zero", "one", "two")
    for u in range(40):
        expected = [coefficients[u % 5], u * 11, primes[u % 6], primes[u % 4], ord(texts[u % 3][u % 3]), 60, 3.25, -2.0, (1, -2, 3)[u % 3]]
        assert list(out[u][:9]) == expected


def test_module_variables_keep_their_values_between_launches() -> None:
    fresh = Kernels(SOURCE)
    assert list(fresh.once("read_counter", 1, 1, np.zeros(3, np.int32))[0]) == [17, -2, 5]
    fresh.once("bump", 2, 64, 25)
    assert list(fresh.once("read_counter", 1, 1, np.zeros(3, np.int32))[0]) == [42, 23, 2]
    assert fresh.module.variable("counter", np.int32).item() == 42


def test_dynamic_shared_memory_of_several_types() -> None:
    given = rng.random(128, np.float32)
    _, out = program.run("dynamic_shared", 2, 128, given, np.zeros(128, np.float32), 128, shared=4096)
    u = 127 - np.arange(128)
    half = (given[u].astype(np.float64) * 0.5).astype(np.float32)
    expected = given[u] + (u * 2).astype(np.float32) + half + ((u & 31) + 1).astype(np.float32)
    np.testing.assert_array_equal(out, expected)


def test_local_arrays_with_dynamic_indices() -> None:
    given = rng.integers(0, 1000, 128).astype(np.int32)
    _, out = program.run("local_array", 2, 64, given, np.zeros(128, np.int32))
    for u in range(128):
        v = int(given[u])
        k = v & 15
        a, b, c, d = [v + i * i for i in range(16)], [i * u for i in range(9)], [i + 0.25 for i in range(5)], [i - 3 for i in range(7)]
        a[k] += 1000
        b[k % 9] -= 7
        c[k % 5] *= 4
        d[k * 3 % 7] ^= 5
        total = 0
        for i in range(16):
            total = total * 3 + a[(i * 5 + k) & 15]
        total += sum(b) + sum(int(x * 4) for x in c) + sum(x * i for i, x in enumerate(d))
        assert out[u] == np.int64(total).astype(np.int32)


def test_generic_pointers_into_three_spaces_under_checks() -> None:
    """Each lane's shadow is that of its own space."""
    with gs.checking() as findings:
        test_generic_pointers_into_three_spaces_at_once()
    assert not findings.errors


def test_generic_pointers_into_three_spaces_at_once() -> None:
    given = rng.integers(0, 1000, 128).astype(np.int32)
    _, out = program.run("generic_pointers", 2, 64, given, np.zeros(400, np.int32))
    for b in range(2):
        for u in range(64):
            g = b * 64 + u
            v = int(given[g])
            quad = [given[b * 64 + (u & ~3) + i] * 2 for i in range(4)] if v & 1 else [v + i for i in range(4)] if v & 2 else list(given[(g & ~3) : (g & ~3) + 4])
            local = [v + i for i in range(4)]
            local[v & 3] = 5
            assert out[g] == sum(x * (i + 1) for i, x in enumerate(quad)) + local[0] + local[3] * 3 + b * 64 + 63 - u
            assert out[200 + g] == v & 7


def test_volatile_and_cached_loads() -> None:
    given = rng.integers(0, 1000, N).astype(np.int32)
    _, v, out = program.run("volatile_and_ldg", 1, N, given, np.zeros(N, np.int32), np.zeros(600, np.int32))
    np.testing.assert_array_equal(v, (given + 1) * 2)
    np.testing.assert_array_equal(out, np.concatenate([(given + 1) * 2 + 3 * given, given + 1, given + 2]))


def test_memcpy_and_memset() -> None:
    given = rng.integers(0, 256, (64, 24)).astype(np.uint8)
    _, out = program.run("misc_copy", 1, 64, given, np.zeros_like(given))
    expected = given.copy()
    expected[:, 5:11] = np.arange(64)[:, None]
    np.testing.assert_array_equal(out, expected[:, ::-1])


def test_gather_and_scatter() -> None:
    index, given = rng.permutation(N).astype(np.int32), rng.random(N)
    _, _, out = program.run("gather_scatter", 1, N, index, given, np.zeros(N))
    expected = np.zeros(N)
    expected[index] = given[index[::-1]] + given[index % 50]
    np.testing.assert_array_equal(out, expected)


def test_bools_and_bytes() -> None:
    flags, small = rng.integers(0, 2, N).astype(bool), rng.integers(-128, 128, N).astype(np.int8)
    _, _, out = program.run("bool_and_bytes", 1, N, flags, small, np.zeros(N, np.int32))
    np.testing.assert_array_equal(out, flags.astype(int) + small.astype(int) * 2 + (flags[::-1] & (small > 0)))


def test_pointers_to_pointers() -> None:
    device = program.device
    rows = [device.array(rng.integers(0, 100, N).astype(np.int32)) for _ in range(3)]
    table = np.array([r.address for r in rows], np.uint64)
    _, out = program.run("pointers_to_pointers", 1, N, table, np.zeros(N, np.int32))
    np.testing.assert_array_equal(out, [rows[u % 3].numpy()[u] for u in range(N)])
