"""What kernels ask of the host: printf, assert, trap, the device heap, clocks."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest

from engine.kernels import Kernels, fault_of

libc = ctypes.CDLL(None)


def c_printf(text: str, *arguments: Any) -> str:
    """What C's own printf makes of it."""
    buffer = ctypes.create_string_buffer(4096)
    libc.snprintf(buffer, ctypes.c_size_t(4096), text.encode("latin-1"), *arguments)
    return buffer.value.decode("latin-1")


INT, UINT, LONG, ULONG, DOUBLE = ctypes.c_int, ctypes.c_uint, ctypes.c_longlong, ctypes.c_ulonglong, ctypes.c_double
TEXT = ctypes.c_char_p
# format, C++ arguments, the same for C
CONVERSIONS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("%d %i", "-5, 77", (INT(-5), INT(77))),
    ("%5d|%-5d|%05d|%+d|% d|%+5d", "42, 42, 42, 42, 42, -42", tuple(map(INT, (42, 42, 42, 42, 42, -42)))),
    ("%.4d|%8.3d|%-8.3d|%.0d", "7, 7, 7, 0", tuple(map(INT, (7, 7, 7, 0)))),
    ("%u %x %X %o", "4000000000u, 0xbeefu, 0xBEEFu, 511u", tuple(map(UINT, (4000000000, 0xBEEF, 0xBEEF, 511)))),
    ("%#x %#X %#o %#x %08x %#010x", "255u, 255u, 8u, 0u, 255u, 255u", tuple(map(UINT, (255, 255, 8, 0, 255, 255)))),
    ("%lld %llu %llx %ld %lu", "-5000000000ll, 18446744073709551615ull, 0x123456789abcdefull, -1l, 7ul",
     (LONG(-5000000000), ULONG(2**64 - 1), ULONG(0x123456789ABCDEF), ctypes.c_long(-1), ctypes.c_ulong(7))),
    ("%hd %hu %hhd %hhu", "70000, 70000, 300, 300", tuple(map(INT, (70000, 70000, 300, 300)))),
    ("%zu %jd %td", "(size_t)12, (long long)-3, (long long)-4", (ULONG(12), LONG(-3), LONG(-4))),
    ("%f %.2f %10.3f %-10.1f| %+f % f %010.2f", "3.14159, 2.71828, -1.5, 2.25, 1.0, 1.0, -3.25", tuple(map(DOUBLE, (3.14159, 2.71828, -1.5, 2.25, 1.0, 1.0, -3.25)))),
    ("%e %.3e %E %12.2e", "12345.678, 0.00012345, 1e100, -1e-5", tuple(map(DOUBLE, (12345.678, 0.00012345, 1e100, -1e-5)))),
    ("%g %g %g %g %G %.3g %#g", "0.0001, 0.00001, 123456.0, 1234567.0, 1e-10, 3.14159, 1.0",
     tuple(map(DOUBLE, (0.0001, 0.00001, 123456.0, 1234567.0, 1e-10, 3.14159, 1.0)))),
    ("%a %A %.2a", "1.0, 0.1, 3.14159", tuple(map(DOUBLE, (1.0, 0.1, 3.14159)))),
    ("%f %e %g %F %5f|%-8g|%08f", "1.0/zero, -1.0/zero, zero/zero*0, 1.0/zero, -1.0/zero, 1.0/zero, 1.0/zero",
     tuple(map(DOUBLE, (np.inf, -np.inf, np.nan, np.inf, -np.inf, np.inf, np.inf)))),
    ("%c%c%c|%3c|%-3c|", "'a', 66, '%', 'x', 'y'", tuple(map(INT, (97, 66, 37, 120, 121)))),
    ("%s|%10s|%-10s|%.3s|%10.2s|", '"hello", "right", "left", "truncate", "both"', tuple(map(TEXT, (b"hello", b"right", b"left", b"truncate", b"both")))),
    ("%*d|%-*d|%.*f|%*.*f", "6, 42, 6, 42, 2, 3.14159, 9, 3, 2.71828",
     (INT(6), INT(42), INT(6), INT(42), INT(2), DOUBLE(3.14159), INT(9), INT(3), DOUBLE(2.71828))),
    ("%*d|%.*d", "-6, 42, -1, 42", tuple(map(INT, (-6, 42, -1, 42)))),
    ("100%% of %d%%", "5", (INT(5),)),
    ("%d %f %lld %s %c %u", '1, 2.5, 3ll, "four", \'5\', 6u', (INT(1), DOUBLE(2.5), LONG(3), TEXT(b"four"), INT(53), UINT(6))),
    ("no arguments", "", ()),
    ("tab\\tnewline-free \\\\ quote\\\"", "", ()),
]  # fmt: skip

PRINTS = "".join(
    f'    if (which == {k}) printf("{text}\\n"{", " if given else ""}{given});\n' for k, (text, given, _) in enumerate(CONVERSIONS)
)
SOURCE = (
    r"""
extern "C" __global__ void conversions(int which, double zero) {
"""
    + PRINTS
    + r"""
}
extern "C" __global__ void order(int rounds) {
    for (int i = 0; i < rounds; i++) { if ((threadIdx.x + i) % 3 == 0) printf("[%d %d %d]", blockIdx.x, threadIdx.x, i); __syncthreads(); }
}
extern "C" __global__ void results(int *out) { out[0] = printf("%d %d\n", 1, 2); out[1] = printf("nothing\n"); }
extern "C" __global__ void pointers(int *p) { printf("%p|%20p|%p\n", p, p + 1, (void *)0); }
extern "C" __global__ void float_argument(float f, char c, short s, unsigned char u) { printf("%.9g %d %d %d\n", f, c, s, u); }
extern "C" __global__ void many(int n) { printf("%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d\n", n, n+1, n+2, n+3, n+4, n+5, n+6, n+7, n+8, n+9, n+10, n+11, n+12, n+13, n+14, n+15, n+16, n+17, n+18, n+19); }
extern "C" __global__ void choose(int *in) { printf(in[threadIdx.x] > 2 ? "big %d\n" : "small %d\n", in[threadIdx.x]); }
__device__ char mutable_text[16] = "from a variable";
extern "C" __global__ void variable_text() { printf("%s!\n", mutable_text); }
#include <cassert>
extern "C" __global__ void checked(const int *in, int limit) { int t = blockIdx.x * blockDim.x + threadIdx.x; assert(in[t] < limit && "too large"); }
extern "C" __global__ void trapping(const int *in) { if (in[threadIdx.x] == 7) __trap(); }
extern "C" __global__ void heap(int *out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int *p = (int *)malloc((t % 7 + 1) * sizeof(int)); if (!p) { out[t] = -1; return; }
    for (int i = 0; i <= t % 7; i++) p[i] = t * 10 + i; int sum = 0; for (int i = 0; i <= t % 7; i++) sum += p[i]; out[t] = sum; free(p);
}
extern "C" __global__ void heap_keeps(int **table, int *out, int phase) {
    int t = threadIdx.x; if (phase == 0) { table[t] = (int *)malloc(8); table[t][0] = t; table[t][1] = t * t; } else { out[t] = table[t][0] + table[t][1] * 1000; free(table[t]); }
}
extern "C" __global__ void heap_is_full(int *out) { void *p = malloc(1ull << 40); out[0] = p == nullptr; void *z = malloc(16); out[1] = z != nullptr; out[2] = ((size_t)z & 15) == 0; free(z); free(nullptr); }
__device__ int destroyed = 0;
struct Base { int v; __device__ Base(int x) : v(x) {} __device__ ~Base() { atomicAdd(&destroyed, 1); } };
extern "C" __global__ void news(int *out) { int t = threadIdx.x; Base *b = new Base(t); int *a = new int[t + 1]; for (int i = 0; i <= t; i++) a[i] = i; int s = b->v; for (int i = 0; i <= t; i++) s += a[i]; delete b; delete[] a; out[t] = s; __syncthreads(); if (t == 0) out[blockDim.x] = destroyed; }
extern "C" __global__ void tree(int *out) { // a linked list in the device heap, made by one thread and walked by another
    struct Node { int v; Node *next; }; __shared__ Node *head; int t = threadIdx.x;
    if (t == 0) { head = nullptr; for (int i = 0; i < 10; i++) head = new Node{i, head}; } __syncthreads();
    if (t == 33) { int k = 0; for (Node *n = head; n; n = n->next) out[k++] = n->v; } __syncthreads();
    if (t == 5) while (head) { Node *n = head; head = n->next; delete n; }
}
extern "C" __global__ void bad_free(int *p) { free(p); }
extern "C" __global__ void double_free() { void *p = malloc(32); free(p); free(p); }
extern "C" __global__ void use_after_free(int *out) { int *p = (int *)malloc(64); p[3] = 5; free(p); out[0] = *(volatile int *)(p + 3); }
extern "C" __global__ void past_the_end_of_the_heap_block(int *out) { int *p = (int *)malloc(64); p[out[0]] = 1; }
extern "C" __global__ void times(long long *out) { long long a = clock64(); unsigned long long g; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g)); __nanosleep(100); int c = clock(); long long b = clock64(); unsigned long long h; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(h)); out[0] = b > a; out[1] = h >= g; out[2] = clock() - c >= 0; }
"""
)
program = Kernels(SOURCE)
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("which", range(len(CONVERSIONS)), ids=lambda k: CONVERSIONS[k][0])
def test_conversions(which: int, capfd: Capture) -> None:
    text, _, arguments = CONVERSIONS[which]
    program.once("conversions", 1, 1, which, 0.0)
    plain = text.replace("\\t", "\t").replace("\\\\", "\\").replace('\\"', '"')
    expected = c_printf(plain, *arguments)
    out = capfd.readouterr().out
    assert out.replace("-nan", "nan") == expected.replace("-nan", "nan") + "\n"


def test_order_of_output(capfd: Capture) -> None:
    program.once("order", 3, 64, 4)
    out = capfd.readouterr().out
    seen = [tuple(map(int, m)) for m in re.findall(r"\[(\d+) (\d+) (\d+)\]", out)]
    expected = [(b, t, i) for b in range(3) for i in range(4) for w in range(2) for t in range(32 * w, 32 * w + 32) if (t + i) % 3 == 0]
    assert seen == expected


def test_order_of_blocks_under_seeds(capfd: Capture) -> None:
    for seed in (1, 2, 3):
        program.once("order", 4, 32, 2, seed=seed)
        blocks = [int(m) for m in re.findall(r"\[(\d+) ", capfd.readouterr().out)]
        assert blocks == sorted(blocks) and len(set(blocks)) == 4


def test_printf_returns_the_number_of_arguments(capfd: Capture) -> None:
    # CUDA C++ Programming Guide, "Formatted Output": the number of arguments parsed, not of characters
    (out,) = program.once("results", 1, 1, np.zeros(2, np.int32))
    assert list(out) == [2, 0]


def test_pointers(capfd: Capture) -> None:
    array = program.device.array(np.zeros(4, np.int32))
    program.module["pointers"][1, 1](array)
    first, second, null = capfd.readouterr().out.strip("\n").split("|")
    assert int(first, 16) == array.address and int(second, 16) == array.address + 4 and len(second) == 20
    assert null in ("(nil)", "0x0")


def test_promoted_arguments(capfd: Capture) -> None:
    program.once("float_argument", 1, 1, np.float32(0.1), -3, -300, 200)
    assert capfd.readouterr().out == c_printf("%.9g %d %d %d\n", DOUBLE(float(np.float32(0.1))), INT(-3), INT(-300), INT(200))


def test_many_arguments(capfd: Capture) -> None:
    program.once("many", 1, 1, 100)
    assert capfd.readouterr().out == " ".join(str(100 + k) for k in range(20)) + "\n"


def test_formats_that_differ_by_lane(capfd: Capture) -> None:
    program.once("choose", 1, 6, np.arange(6, dtype=np.int32))
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(f"{'big' if k > 2 else 'small'} {k}" for k in range(6))


def test_texts_in_variables(capfd: Capture) -> None:
    program.once("variable_text", 1, 1)
    assert capfd.readouterr().out == "from a variable!\n"


def test_assertions() -> None:
    given = np.arange(100, dtype=np.int32)
    program.once("checked", 2, 50, given, 100)
    fault = fault_of(lambda: program.once("checked", 2, 50, given, 73))
    assert fault.code == "assert"
    assert 'in[t] < limit && "too large"' in str(fault)
    assert fault.fault.site.block == (1, 0, 0) and fault.fault.site.thread == (23, 0, 0)
    line = next(k for k, text in enumerate(SOURCE.splitlines(), 1) if "void checked" in text)
    assert fault.fault.site.line == line and f":{line}" in str(fault)


def test_traps() -> None:
    given = np.arange(64, dtype=np.int32)
    fault = fault_of(lambda: program.once("trapping", 1, 64, given))
    assert fault.code == "trap" and fault.fault.site.thread == (7, 0, 0)
    program.once("trapping", 1, 5, given)


def test_the_device_heap() -> None:
    (out,) = program.run("heap", 3, 64, np.zeros(192, np.int32), 0)
    np.testing.assert_array_equal(out, [sum(t * 10 + i for i in range(t % 7 + 1)) for t in range(192)])


def test_the_heap_keeps_its_blocks_between_launches() -> None:
    device, module = program.device, program.module
    device.seed = device.threads = device.budget = None
    table, out = device.zeros(32, np.uint64), device.zeros(32, np.int32)
    module["heap_keeps"][1, 32](table, out, 0)
    module["heap_keeps"][1, 32](table, out, 1)
    np.testing.assert_array_equal(out.numpy(), [t + t * t * 1000 for t in range(32)])


def test_malloc_without_room_is_null() -> None:
    assert list(program.once("heap_is_full", 1, 1, np.zeros(3, np.int32))[0]) == [1, 1, 1]


def test_new_and_delete() -> None:
    fresh = Kernels(SOURCE)
    (out,) = fresh.once("news", 1, 64, np.zeros(65, np.int32))
    np.testing.assert_array_equal(out[:64], [t + t * (t + 1) // 2 for t in range(64)])
    assert out[64] == 64


def test_a_list_in_the_heap() -> None:
    (out,) = program.once("tree", 1, 64, np.zeros(10, np.int32))
    assert list(out) == list(range(9, -1, -1))


@pytest.mark.parametrize("name", ("bad_free", "double_free", "use_after_free", "past_the_end_of_the_heap_block"))
def test_misuse_of_the_heap(name: str) -> None:
    arguments = {"bad_free": (np.zeros(4, np.int32),), "double_free": ()}.get(name, (np.array([16], np.int32),))
    fault = fault_of(lambda: program.once(name, 1, 1, *arguments))
    assert fault.code == "out-of-bounds"
    program.once("heap", 1, 32, np.zeros(32, np.int32), 0)


def test_clocks() -> None:
    assert list(program.once("times", 1, 1, np.zeros(3, np.int64))[0]) == [1, 1, 1]


