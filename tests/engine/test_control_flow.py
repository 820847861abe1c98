"""Branches, loops, switches and early exits that lanes take each in its own way, against a plain Python thread."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine.kernels import Kernels, per_thread

N = 32 * 5 + 7

SOURCE = r"""
#define ME int t = blockIdx.x * blockDim.x + threadIdx.x; if (t >= n) return; int v = in[t];
#define K(name) extern "C" __global__ void name(const int *in, int *out, int n)

K(nested_if) { ME
    int r;
    if (v & 1) { if (v & 2) { r = v * 3; if (v & 4) r -= 7; else r += 11; } else r = v ^ 0x55; }
    else if (v & 8) { r = -v; if ((v & 16) && (v & 32)) r *= 5; }
    else r = 1000 - v;
    out[t] = r + (v & 64 ? 1 : 0);
}
K(trip_counts) { ME
    int r = 1;
    for (int i = 0; i < (v & 31); i++) r = r * 3 + i;
    out[t] = r;
}
K(break_continue) { ME
    int r = 0;
    for (int i = 0; i < 40; i++) {
        if (((v >> (i & 7)) & 1) == 0 && i > 3) { r += 2; continue; }
        if (i > (v & 63)) break;
        r = r * 2 + i;
    }
    out[t] = r;
}
K(outer_continue) { ME
    int r = 0;
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 6; j++) {
            if (((v + i * j) & 7) == 3) goto next_i;
            if (((v ^ (i + j)) & 31) == 9) goto done;
            r += i * 10 + j;
        }
        r ^= 0x100;
next_i: r += 1;
    }
done: out[t] = r;
}
K(dense_switch) { ME
    int r = 7;
    switch (v & 15) {
        case 0: r = v; break;
        case 1: r = v * 2; break;
        case 2: r = v * v;            // falls through
        case 3: r += 3; break;
        case 4: r = v - 4; break;
        case 5: r = ~v; break;
        case 6: r = v >> 1; break;
        case 7: r = v << 3; break;
        case 8: r = r * 9; // falls through
        case 9: r ^= v; break;
        case 10: r = 100; break;
        case 11: { for (int i = 0; i < (v & 7); i++) r += i * v; } break;
        case 12: out[t] = -12; return;
        default: r = -1;
    }
    out[t] = r;
}
K(sparse_switch) { ME
    int r;
    switch (v % 1000) { case 3: r = 1; break; case 70: r = 2; break; case 500: r = 3; break; case 999: r = 4; break; default: r = v % 1000 + 10; }
    out[t] = r;
}
K(early_return) { ME
    if (v % 3 == 0) { out[t] = -3; return; }
    int r = v;
    while (r > 10) { r = r / 2 - 1; if (r % 5 == 0) { out[t] = r + 1000; return; } }
    out[t] = r;
}
K(do_while) { ME
    int r = 0, x = v & 0xff;
    do { r++; x = (x & 1) ? 3 * x + 1 : x / 2; } while (x > 1 && r < 200);
    out[t] = r * 1000 + x;
}
K(short_circuit) { ME
    int calls = 0;
    auto seen = [&](int bit) { calls = calls * 2 + 1; return (v >> bit) & 1; };
    bool a = seen(0) && (seen(1) || seen(2)) && !seen(3);
    bool b = seen(4) || (seen(5) && seen(6));
    out[t] = calls * 4 + a * 2 + b;
}
K(temporal) { ME
    int i = 0, last = 0, x = v & 0xffff;
    while (true) {
        last = i * 7 + 1;
        if (x <= i) break;
        x = x * 3 / 4;
        i++;
    }
    out[t] = last * 100 + i;
}
K(temporal_uniform) { ME
    // `k` takes the same values in every lane while the loop runs, and another in each after it
    int k = n, steps = 0;
    while (k > (v & 127)) { k -= 3; steps++; }
    int again = 0;
    for (int j = 0; j < 3; j++) { again += k; if ((v >> j) & 1) continue; again ^= steps; }
    out[t] = k * 1000 + steps + again * 7;
}
K(uniform_overwritten) { ME
    int u = n * 3, w = n + 1;
    if (v & 1) { u = n - 5; if (v & 2) w = u * 2; }
    else { u += w; w = 17; }
    for (int i = 0; i < 3; i++) { if ((v >> (i + 2)) & 1) u = u * 2 + n; else w -= u; }
    out[t] = u ^ w;
}
K(two_exits_of_a_loop) { ME
    int r = v, i;
    for (i = 0; i < 20; i++) {
        r = r * 5 + 1;
        if ((r & 15) == 3) { r += 100; break; }
        if ((r & 31) == 20) { r -= 100; goto other; }
    }
    r ^= i; out[t] = r; return;
other: out[t] = r * 2 + i;
}
K(loop_in_branches) { ME
    int r = 0;
    if (v & 1) { for (int i = 0; i < (v & 15); i++) { if (i & 1) r += i; else for (int j = 0; j < i; j++) r += j ^ v; } }
    else { int j = v & 7; while (j--) { r -= j; if (j == 3 && (v & 16)) break; } }
    out[t] = r;
}
__device__ __noinline__ int collatz(int x, int limit) { int c = 0; while (x != 1 && c < limit) { x = x & 1 ? 3 * x + 1 : x >> 1; c++; } return c; }
__device__ __noinline__ int early(int x) { if (x < 0) return -1; if (x % 2) return collatz(x + 2, 50); for (int i = 0; i < x % 9; i++) if (i == 5) return i * x; return x; }
K(calls) { ME
    int r = early(v & 0xff);
    if (v & 256) r += collatz((v & 63) + 1, 200); else r -= early(-(v & 3));
    out[t] = r;
}
K(long_if_chain) { ME
    int r = v & 127;
    if (r < 10) r += 1; else if (r < 20) r += 2; else if (r < 30) r += 3; else if (r < 40) r += 4; else if (r < 50) r += 5;
    else if (r < 60) r += 6; else if (r < 70) r += 7; else if (r < 80) r += 8; else if (r < 90) r += 9; else r = 5000;
    out[t] = r;
}
K(triangle) { ME
    int total = 0;
    for (int i = 0; i < (t & 31); i++) for (int j = i; j < (v & 15); j++) { total += i * j; if (total > 2000) { total -= 1999; break; } }
    out[t] = total;
}
K(ackermannish) { ME
    // an explicit stack of its own: loop-carried local array
    int stack[24], top = 0, r = v & 3; stack[top++] = (v >> 2) & 1;
    int guard = 0;
    while (top && guard++ < 300) { int m = stack[--top];
        if (m == 0) r = r + 1; else if (r == 0) { r = 1; if (top < 24) stack[top++] = m - 1; }
        else { r = r - 1; if (top < 23) { stack[top++] = m - 1; stack[top++] = m; } } }
    out[t] = r * 1000 + guard;
}
"""
program = Kernels(SOURCE)
values = np.random.default_rng(7).integers(0, 4096, N).astype(np.int32)


def wrap(x: int) -> int:
    return (x + 2**31) % 2**32 - 2**31


def cdiv(a: int, b: int) -> int:
    return abs(a) // b * (1 if a >= 0 else -1)


def cmod(a: int, b: int) -> int:
    return a - cdiv(a, b) * b


def nested_if(t: int, v: int) -> int:
    if v & 1:
        r = (v * 3 + (-7 if v & 4 else 11)) if v & 2 else v ^ 0x55
    elif v & 8:
        r = -v * (5 if v & 16 and v & 32 else 1)
    else:
        r = 1000 - v
    return r + (1 if v & 64 else 0)


def trip_counts(t: int, v: int) -> int:
    r = 1
    for i in range(v & 31):
        r = r * 3 + i
    return r


def break_continue(t: int, v: int) -> int:
    r = 0
    for i in range(40):
        if not (v >> (i & 7)) & 1 and i > 3:
            r += 2
            continue
        if i > (v & 63):
            break
        r = r * 2 + i
    return r


def outer_continue(t: int, v: int) -> int:
    r = 0
    for i in range(6):
        for j in range(6):
            if ((v + i * j) & 7) == 3:
                break
            if ((v ^ (i + j)) & 31) == 9:
                return r
            r += i * 10 + j
        else:
            r ^= 0x100
        r += 1
    return r


def dense_switch(t: int, v: int) -> int:
    k = v & 15
    if k == 11:
        return 7 + sum(i * v for i in range(v & 7))
    return {0: v, 1: v * 2, 2: v * v + 3, 3: 10, 4: v - 4, 5: ~v, 6: v >> 1, 7: v << 3, 8: 63 ^ v, 9: 7 ^ v, 10: 100, 12: -12}.get(k, -1)


def sparse_switch(t: int, v: int) -> int:
    return {3: 1, 70: 2, 500: 3, 999: 4}.get(v % 1000, v % 1000 + 10)


def early_return(t: int, v: int) -> int:
    if v % 3 == 0:
        return -3
    r = v
    while r > 10:
        r = r // 2 - 1
        if r % 5 == 0:
            return r + 1000
    return r


def do_while(t: int, v: int) -> int:
    r, x = 0, v & 0xFF
    while True:
        r += 1
        x = 3 * x + 1 if x & 1 else x // 2
        if not (x > 1 and r < 200):
            return r * 1000 + x


def short_circuit(t: int, v: int) -> int:
    calls = 0

    def seen(bit: int) -> int:
        nonlocal calls
        calls = calls * 2 + 1
        return v >> bit & 1

    a = bool(seen(0) and (seen(1) or seen(2)) and not seen(3))
    b = bool(seen(4) or (seen(5) and seen(6)))
    return calls * 4 + a * 2 + b


def temporal(t: int, v: int) -> int:
    i, x = 0, v & 0xFFFF
    while True:
        last = i * 7 + 1
        if x <= i:
            return last * 100 + i
        x = x * 3 // 4
        i += 1


def temporal_uniform(t: int, v: int) -> int:
    k, steps, again = N, 0, 0
    while k > (v & 127):
        k -= 3
        steps += 1
    for j in range(3):
        again += k
        if not v >> j & 1:
            again ^= steps
    return k * 1000 + steps + again * 7


def uniform_overwritten(t: int, v: int) -> int:
    u, w = N * 3, N + 1
    if v & 1:
        u = N - 5
        if v & 2:
            w = u * 2
    else:
        u += w
        w = 17
    for i in range(3):
        if v >> (i + 2) & 1:
            u = u * 2 + N
        else:
            w -= u
    return u ^ w


def two_exits_of_a_loop(t: int, v: int) -> int:
    r = v
    for i in range(20):
        r = wrap(r * 5 + 1)
        if r & 15 == 3:
            return (r + 100) ^ i
        if r & 31 == 20:
            return (r - 100) * 2 + i
    return r ^ 20


def loop_in_branches(t: int, v: int) -> int:
    r = 0
    if v & 1:
        for i in range(v & 15):
            r += i if i & 1 else sum(j ^ v for j in range(i))
    else:
        for j in range((v & 7) - 1, -1, -1):
            r -= j
            if j == 3 and v & 16:
                break
    return r


def collatz(x: int, limit: int) -> int:
    c = 0
    while x != 1 and c < limit:
        x = 3 * x + 1 if x & 1 else x >> 1
        c += 1
    return c


def early(x: int) -> int:
    if x < 0:
        return -1
    if x % 2:
        return collatz(x + 2, 50)
    return 5 * x if x % 9 > 5 else x


def calls(t: int, v: int) -> int:
    return early(v & 0xFF) + (collatz((v & 63) + 1, 200) if v & 256 else -early(-(v & 3)))


def long_if_chain(t: int, v: int) -> int:
    r = v & 127
    return r + r // 10 + 1 if r < 90 else 5000


def triangle(t: int, v: int) -> int:
    total = 0
    for i in range(t & 31):
        for j in range(i, v & 15):
            total += i * j
            if total > 2000:
                total -= 1999
                break
    return total


def ackermannish(t: int, v: int) -> int:
    stack, r, guard = [v >> 2 & 1], v & 3, 0
    while stack:
        guard += 1
        if guard > 300:
            break
        m = stack.pop()
        if m == 0:
            r += 1
        elif r == 0:
            r = 1
            stack.append(m - 1)
        else:
            r -= 1
            stack += [m - 1, m]
    return r * 1000 + guard


MODELS = (
    nested_if, trip_counts, break_continue, outer_continue, dense_switch, sparse_switch, early_return, do_while, short_circuit, temporal,
    temporal_uniform, uniform_overwritten, two_exits_of_a_loop, loop_in_branches, calls, long_if_chain, triangle, ackermannish,
)  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_lane_goes_its_own_way(model: Callable[[int, int], int]) -> None:
    _, out = program.run(model.__name__, 3, 64, values, np.zeros(N, np.int32), N)
    np.testing.assert_array_equal(out, per_thread(N, lambda t: model(t, int(values[t]))))


@pytest.mark.parametrize("model", (nested_if, break_continue, outer_continue, temporal_uniform), ids=lambda model: model.__name__)
def test_blocks_of_other_shapes(model: Callable[[int, int], int]) -> None:
    for block in (1, 33, 96):
        _, out = program.run(model.__name__, -(-N // block), block, values, np.zeros(N, np.int32), N)
        np.testing.assert_array_equal(out, per_thread(N, lambda t: model(t, int(values[t]))))
