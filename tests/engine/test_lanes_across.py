"""Operations across the lanes of a warp: shuffles, votes, matches, reductions, cooperative groups."""

from __future__ import annotations

import numpy as np
import pytest

import gridstride as gs
from engine.kernels import HEADER, Kernels

LANES = 64
MODES = ("up", "down", "bfly", "idx")
FULL = 0xFFFFFFFF
rng = np.random.default_rng(17)


def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane read and the predicate, after the pseudocode of PTX ISA 9.7.9.6."""
    b, segment, clamp = b & 31, c >> 8 & 31, c & 31
    top, bottom = lane & segment | clamp & ~segment, lane & segment
    if mode == "up":
        j, fits = lane - b, lane - b >= top
    elif mode == "down":
        j, fits = lane + b, lane + b <= top
    elif mode == "bfly":
        j, fits = lane ^ b, lane ^ b <= top
    else:
        j = bottom | b & ~segment & 31
        fits = j <= top
    return (j if fits else lane), fits


def control(mode: str, width: int) -> int:
    """What __shfl_*_sync passes for a width (CUDA's sm_30_intrinsics)."""
    return (32 - width) << 8 | (0 if mode == "up" else 31)


IMMEDIATE = [(mode, b, width) for mode in MODES for b in (0, 1, 2, 5, 16, 31) for width in (32, 16, 8, 4, 2, 1)]
SHUFFLES = Kernels(
    HEADER
    + "".join(
        f""".visible .entry const_{mode}(.param .u64 in_, .param .u64 out_) {{
  .reg .b32 %t, %v, %r, %p1; .reg .b64 %in, %out; .reg .pred %p;
  ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x; mad.wide.u32 %in, %t, 4, %in; mad.wide.u32 %out, %t, 8, %out; ld.global.b32 %v, [%in];
  {"".join(f'''
  shfl.sync.{mode}.b32 %r|%p, %v, {b}, {control(mode, width)}, -1; selp.u32 %p1, 1, 0, %p; st.global.v2.b32 [%out+{k * 8 * LANES}], {{%r, %p1}};'''
     for k, (b, width) in enumerate((b, w) for m, b, w in IMMEDIATE if m == mode))}
  ret; }}
.visible .entry lanes_{mode}(.param .u64 in_, .param .u64 b_, .param .u64 c_, .param .u64 out_) {{
  .reg .b32 %t, %v, %r, %p1, %b, %c, %m; .reg .b64 %in, %out, %bp, %cp; .reg .pred %p;
  ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; ld.param.u64 %bp, [b_]; ld.param.u64 %cp, [c_]; mov.u32 %t, %tid.x;
  mad.wide.u32 %in, %t, 4, %in; mad.wide.u32 %bp, %t, 4, %bp; mad.wide.u32 %cp, %t, 4, %cp; mad.wide.u32 %out, %t, 8, %out;
  ld.global.b32 %v, [%in]; ld.global.b32 %b, [%bp]; ld.global.b32 %c, [%cp]; mov.b32 %m, -1;
  shfl.sync.{mode}.b32 %r|%p, %v, %b, %c, %m; selp.u32 %p1, 1, 0, %p; st.global.v2.b32 [%out], {{%r, %p1}};
  shfl.sync.{mode}.b32 %r, %v, 3, %c, 0xffffffff; shfl.sync.{mode}.b32 _|%p, %v, %b, 31, %m; selp.u32 %p1, 1, 0, %p; st.global.v2.b32 [%out+{8 * LANES}], {{%r, %p1}};
  ret; }}
"""
        for mode in MODES
    )
)


@pytest.mark.parametrize("mode", MODES)
def test_shuffles_by_constants(mode: str) -> None:
    given = rng.integers(0, 2**32, LANES, dtype=np.uint32)
    cases = [(b, w) for m, b, w in IMMEDIATE if m == mode]
    _, out = SHUFFLES.run(f"const_{mode}", 1, LANES, given, np.zeros((len(cases), LANES, 2), np.uint32))
    for k, (b, width) in enumerate(cases):
        for t in range(LANES):
            source, fits = shuffled(mode, t & 31, b, control(mode, width))
            assert list(out[k, t]) == [given[(t & 32) + source], fits], (mode, b, width, t)


@pytest.mark.parametrize("mode", MODES)
def test_shuffles_by_each_lane_differently(mode: str) -> None:
    given = rng.integers(0, 2**32, LANES, dtype=np.uint32)
    b = rng.integers(0, 64, LANES).astype(np.uint32)
    c = np.array([control(mode, int(w)) for w in rng.choice([32, 16, 8, 4, 2, 1], LANES)], np.uint32)
    *_, out = SHUFFLES.run(f"lanes_{mode}", 1, LANES, given, b, c, np.zeros((2, LANES, 2), np.uint32))
    for t in range(LANES):
        source, fits = shuffled(mode, t & 31, int(b[t]), int(c[t]))
        assert list(out[0, t]) == [given[(t & 32) + source], fits]
        source, _ = shuffled(mode, t & 31, 3, int(c[t]))
        _, fits = shuffled(mode, t & 31, int(b[t]), 31)
        assert list(out[1, t]) == [given[(t & 32) + source], fits]


SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
#define T int t = blockIdx.x * blockDim.x + threadIdx.x; int lane = threadIdx.x & 31; int v = in[t]; (void)lane;
#define K(name) extern "C" __global__ void name(const int *in, int *out)
K(votes) { T
    unsigned r = __ballot_sync(~0u, v & 1); int k = __all_sync(~0u, v > 10) + 2 * __any_sync(~0u, v > 990) + 4 * __uni_sync(~0u, v & 2);
    if (lane % 3 == 0) { unsigned m = 0x49249249; k += 8 * __all_sync(m, v & 4) + 16 * __any_sync(m, v > 900) + 32 * __uni_sync(m, 1); r ^= __ballot_sync(m, v > 500); }
    out[2 * t] = r; out[2 * t + 1] = k;
}
K(matches) { T
    unsigned any = __match_any_sync(~0u, v & 3); int p; unsigned all = __match_all_sync(~0u, v >> 10, &p);
    unsigned long long wide = ((unsigned long long)(v & 1) << 40) | 5; unsigned any64 = __match_any_sync(~0u, wide);
    int q = 0; unsigned half = 0; if (lane >= 16) half = __match_all_sync(0xffff0000u, v & 0, &q) ^ __match_any_sync(0xffff0000u, v & 7);
    out[4 * t] = any; out[4 * t + 1] = all + 2 * p; out[4 * t + 2] = any64; out[4 * t + 3] = half + q;
}
K(reductions) { T
    int *o = out + 8 * t; unsigned m = ~0u;
    o[0] = __reduce_add_sync(m, v); o[1] = __reduce_min_sync(m, v - 500); o[2] = __reduce_max_sync(m, v - 500); o[3] = __reduce_and_sync(m, v | 3);
    o[4] = __reduce_or_sync(m, v); o[5] = __reduce_xor_sync(m, v); o[6] = __reduce_min_sync(m, (unsigned)(v - 500));
    if (lane & 1) o[7] = __reduce_add_sync(0xaaaaaaaau, v); else o[7] = __reduce_max_sync(0x55555555u, (unsigned)v);
}
K(masks) { T
    unsigned a = 0, b = 0, c = 0;
    if (v & 1) { a = __activemask(); if (v & 2) b = __activemask(); else b = ~__activemask(); }
    else { a = __activemask() ^ 0xff; }
    c = __activemask();
    out[3 * t] = a; out[3 * t + 1] = b; out[3 * t + 2] = c;
}
K(shuffle_types) { T
    double d = __shfl_xor_sync(~0u, v * 0.5, 3); long long l = __shfl_down_sync(~0u, (long long)v << 33, 2); float f = __shfl_up_sync(~0u, v + 0.25f, 4, 8);
    int i = __shfl_sync(~0u, v, lane * 7, 16); unsigned long long u = __shfl_sync(~0u, ~0ull - v, 5);
    out[5 * t] = (int)(d * 2); out[5 * t + 1] = (int)(l >> 33); out[5 * t + 2] = (int)(f * 4); out[5 * t + 3] = i; out[5 * t + 4] = (int)(~0ull - u);
}
K(divergent_shuffles) { T
    int r = 0;
    if (lane < 16) r = __shfl_xor_sync(0xffffu, v, 1) + __shfl_sync(0xffffu, v, 3);
    else r = __shfl_down_sync(0xffff0000u, v, 2) - __shfl_up_sync(0xffff0000u, v, 1, 16);
    for (int i = 0; i < (lane & 3); i++) { unsigned m = __activemask(); r += __popc(m) * 100; }
    out[t] = r;
}
K(warp_scan) { T int s = v; for (int d = 1; d < 32; d *= 2) { int o = __shfl_up_sync(~0u, s, d); if (lane >= d) s += o; } out[t] = s; }
K(tiles) { T
    auto block = cg::this_thread_block(); auto warp = cg::tiled_partition<32>(block); auto eight = cg::tiled_partition<8>(warp); auto dynamic = cg::tiled_partition(block, 4);
    int *o = out + 10 * t;
    o[0] = cg::reduce(eight, v, cg::plus<int>()); o[1] = cg::reduce(warp, v, cg::greater<int>()); o[2] = eight.thread_rank() + 100 * eight.meta_group_rank() + 10000 * eight.meta_group_size();
    o[3] = eight.shfl(v, 3) + eight.shfl_xor(v, 1) - eight.shfl_up(v, 2); o[4] = eight.ballot(v & 1) * 4 + eight.any(v > 900) * 2 + eight.all(v < 900);
    o[5] = cg::inclusive_scan(eight, v); o[6] = cg::exclusive_scan(warp, v, cg::plus<int>()); o[7] = dynamic.thread_rank() + 10 * dynamic.size();
    o[8] = eight.match_any(v & 1); o[9] = block.thread_rank() + 1000 * block.size();
}
K(coalesced) { T
    int r = 0;
    if (v & 1) { auto g = cg::coalesced_threads(); r = g.thread_rank() * 100 + g.size(); r += 10000 * g.shfl(v & 15, 0); r += 1000000 * (cg::reduce(g, v & 7, cg::plus<int>()) & 255); g.sync(); }
    else { auto g = cg::coalesced_threads(); r = -(int)g.thread_rank() - 1; }
    out[t] = r;
}
K(partitions) { T
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto labeled = cg::labeled_partition(warp, v & 3); auto binary = cg::binary_partition(warp, (v & 4) != 0);
    out[3 * t] = labeled.size() * 100 + labeled.thread_rank(); out[3 * t + 1] = cg::reduce(labeled, v, cg::plus<int>());
    out[3 * t + 2] = binary.size() * 10000 + binary.thread_rank() * 100 + binary.shfl(v & 31, 0);
}
K(aggregated) { // warp-aggregated increments
    T if (v & 1) { auto g = cg::coalesced_threads(); int base = 0; if (g.thread_rank() == 0) base = atomicAdd(out, (int)g.size()); out[1 + t] = g.shfl(base, 0) + g.thread_rank(); } else out[1 + t] = -1;
}
K(exited_lanes) { T // lanes that have ended take no part
    if (v % 3 == 0) return;
    unsigned m = __activemask(); out[4 * t] = m; out[4 * t + 1] = __reduce_add_sync(m, v); out[4 * t + 2] = __ballot_sync(m, v & 1); __syncwarp(m); out[4 * t + 3] = __popc(__match_any_sync(m, v & 1));
}
"""
program = Kernels(SOURCE)
N = 96
values = rng.integers(0, 1000, N).astype(np.int32)


def warps() -> list[np.ndarray]:
    return [values[w : w + 32] for w in range(0, N, 32)]


def bits(flags: np.ndarray) -> int:
    return sum(1 << k for k in range(len(flags)) if flags[k])


def run(name: str, columns: int) -> np.ndarray:
    _, out = program.run(name, 3, 32, values, np.zeros((N, columns), np.int32))
    _, other = program.run(name, 1, 96, values, np.zeros((N, columns), np.int32))
    np.testing.assert_array_equal(out, other)
    return out.reshape(3, 32, columns)


def test_votes() -> None:
    out = run("votes", 2)
    for w, v in enumerate(warps()):
        some = v[::3]
        for lane in range(32):
            ballot = bits(v & 1)
            k = all(v > 10) + 2 * any(v > 990) + 4 * (len(set(v & 2)) == 1)
            if lane % 3 == 0:
                k += 8 * bool((some & 4).all()) + 16 * any(some > 900) + 32
                ballot ^= bits((v > 500) & (np.arange(32) % 3 == 0))
            assert out[w, lane, 0].view(np.uint32) == ballot and out[w, lane, 1] == k


def test_matches() -> None:
    out = run("matches", 4).view(np.uint32)
    for w, v in enumerate(warps()):
        for lane in range(32):
            same = bits((v & 3) == (v[lane] & 3))
            all_ = len(set(v >> 10)) == 1
            assert out[w, lane, 0] == same and out[w, lane, 1] == ((FULL if all_ else 0) + 2 * all_) % 2**32
            assert out[w, lane, 2] == bits((v & 1) == (v[lane] & 1))
            upper = np.arange(32) >= 16
            half = 0xFFFF0000 ^ bits(((v & 7) == (v[lane] & 7)) & upper)
            assert out[w, lane, 3] == (half + 1 if lane >= 16 else 0)


def test_reductions() -> None:
    out = run("reductions", 8)
    for w, v in enumerate(warps()):
        u = (v - 500).astype(np.int64)
        common = [v.sum(), u.min(), u.max(), np.bitwise_and.reduce(v | 3), np.bitwise_or.reduce(v), np.bitwise_xor.reduce(v), (u % 2**32).min()]
        for lane in range(32):
            last = v[1::2].sum() if lane & 1 else v[::2].max()
            assert [int(x) % 2**32 for x in (*common, last)] == [int(x) % 2**32 for x in out[w, lane]]


def test_active_masks() -> None:
    out = run("masks", 3).view(np.uint32)
    for w, v in enumerate(warps()):
        for lane in range(32):
            odd = bits(v & 1)
            inner = bits((v & 3) == 3) if v[lane] & 2 else ~bits((v & 3) == 1) & FULL
            expected = [odd, inner, FULL] if v[lane] & 1 else [(~odd & FULL) ^ 0xFF, 0, FULL]
            assert list(out[w, lane]) == expected


def test_shuffles_of_all_types() -> None:
    out = run("shuffle_types", 5)
    for w, v in enumerate(warps()):
        for lane in range(32):
            up = lane - 4 if lane % 8 >= 4 else lane
            expected = [v[lane ^ 3], v[lane + 2] if lane < 30 else v[lane], v[up] * 4 + 1, v[lane // 16 * 16 + lane * 7 % 16], v[5]]
            assert list(out[w, lane]) == expected


def test_shuffles_in_branches() -> None:
    out = run("divergent_shuffles", 1)
    for w, v in enumerate(warps()):
        for lane in range(32):
            upper = (v[lane + 2] if lane < 30 else v[lane]) - (v[lane - 1] if lane > 16 else v[lane])
            r = v[lane ^ 1] + v[3] if lane < 16 else upper
            active = sum(int(((np.arange(32) & 3) > i).sum()) for i in range(lane & 3))
            assert out[w, lane, 0] == r + active * 100


def test_a_scan_by_shuffles() -> None:
    np.testing.assert_array_equal(run("warp_scan", 1)[:, :, 0], [v.cumsum() for v in warps()])


def test_tiles() -> None:
    _, out = program.run("tiles", 1, N, values, np.zeros((N, 10), np.int32))
    for t in range(N):
        w, e = values[t & ~31 : (t & ~31) + 32], values[t & ~7 : (t & ~7) + 8]
        r, lane = t & 7, t & 31
        assert list(out[t]) == [
            e.sum(),
            w.max(),
            r + 100 * (lane // 8) + 40000,
            e[3] + e[r ^ 1] - e[r - 2 if r >= 2 else r],
            bits(e & 1) * 4 + bool((e > 900).any()) * 2 + bool((e < 900).all()),
            e[: r + 1].sum(),
            w[:lane].sum(),
            (t & 3) + 40,
            bits((e & 1) == (e[r] & 1)),
            t + 1000 * N,
        ]


def test_coalesced_groups() -> None:
    out = run("coalesced", 1)
    for w, v in enumerate(warps()):
        odd = [k for k in range(32) if v[k] & 1]
        for lane in range(32):
            if v[lane] & 1:
                expected = odd.index(lane) * 100 + len(odd) + 10000 * (v[odd[0]] & 15) + 1000000 * (sum(v[k] & 7 for k in odd) & 255)
            else:
                expected = -(lane - sum(k < lane for k in odd)) - 1
            assert out[w, lane, 0] == expected


def test_partitions() -> None:
    out = run("partitions", 3)
    for w, v in enumerate(warps()):
        for lane in range(32):
            label = [k for k in range(32) if v[k] & 3 == v[lane] & 3]
            half = [k for k in range(32) if v[k] & 4 == v[lane] & 4]
            expected = [len(label) * 100 + label.index(lane), v[label].sum(), len(half) * 10000 + half.index(lane) * 100 + (v[half[0]] & 31)]
            assert list(out[w, lane]) == expected


def test_aggregated_increments() -> None:
    def check(outputs: list[np.ndarray]) -> None:
        out = outputs[1]
        assert out[0] == (values & 1).sum()
        np.testing.assert_array_equal(np.sort(out[1:][values & 1 == 1]), np.arange(out[0]))

    program.each("aggregated", 3, 32, values, np.zeros(1 + N, np.int32), check=check)


def test_lanes_that_have_ended_under_checks() -> None:
    """A warp's lanes that return early are there again in the next block that it runs."""
    with gs.checking():
        test_lanes_that_have_ended()


def test_lanes_that_have_ended() -> None:
    out = run("exited_lanes", 4).view(np.uint32)
    for w, v in enumerate(warps()):
        here = v % 3 != 0
        for lane in range(32):
            if here[lane]:
                assert list(out[w, lane]) == [bits(here), v[here].sum(), bits((v & 1 == 1) & here), (here & (v & 1 == v[lane] & 1)).sum()]


ELECT = Kernels(
    HEADER
    + """
.visible .entry elected(.param .u64 out_) {
  .reg .b32 %t, %l, %r, %m; .reg .b64 %out; .reg .pred %p, %q;
  ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x; mad.wide.u32 %out, %t, 8, %out;
  elect.sync %r|%p, 0xffffffff; selp.u32 %m, 1, 0, %p; mov.u32 %l, %laneid; setp.gt.u32 %q, %l, 9; mad.lo.u32 %r, %r, 10, %m;
  mov.b32 %m, 77;
  @!%q bra DONE;
  elect.sync %m|%p, 0xfffffc00; @%p add.u32 %m, %m, 100;
DONE: st.global.v2.b32 [%out], {%r, %m}; ret; }
"""
)


def test_election() -> None:
    (out,) = ELECT.once("elected", 1, 64, np.zeros((64, 2), np.uint32))
    # who is elected is the machine's choice, but it is one member for all
    for w in range(2):
        for column, members in ((0, range(32)), (1, range(10, 32))):
            found = out[w * 32 + np.array(members), column]
            leaders = found // 10 if column == 0 else found % 100
            assert len(set(leaders)) == 1 and leaders[0] in members
            assert [k for k, x in zip(members, found, strict=True) if (x % 10 if column == 0 else x >= 100)] == [leaders[0]]
        assert (out[w * 32 : w * 32 + 10, 1] == 77).all()
