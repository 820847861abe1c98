"""NVIDIA's own device libraries: CUB's block and warp primitives, libcu++ atomics and barriers."""

from __future__ import annotations

import numpy as np

from engine.kernels import Kernels

rng = np.random.default_rng(41)

CUB = Kernels(
    r"""
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cuda/functional>
extern "C" __global__ void block_reduce(const int *in, int *out, int n) {
    typedef cub::BlockReduce<int, 128> Reduce; __shared__ typename Reduce::TempStorage s; int t = threadIdx.x, g = blockIdx.x * 128 + t;
    int sum = Reduce(s).Sum(in[g]); __syncthreads(); int most = Reduce(s).Reduce(in[g], cuda::maximum<>{}); __syncthreads(); int some = Reduce(s).Sum(t < n ? in[g] : 0, n);
    if (t == 0) { out[3 * blockIdx.x] = sum; out[3 * blockIdx.x + 1] = most; out[3 * blockIdx.x + 2] = some; }
}
extern "C" __global__ void block_scan(const int *in, int *out) {
    typedef cub::BlockScan<int, 96> Scan; __shared__ typename Scan::TempStorage s; int t = threadIdx.x; int items[4], result[4], total;
    for (int i = 0; i < 4; i++) items[i] = in[4 * t + i];
    Scan(s).ExclusiveSum(items, result, total); __syncthreads(); int inclusive; Scan(s).InclusiveScan(items[0], inclusive, cuda::maximum<>{});
    for (int i = 0; i < 4; i++) out[5 * t + i] = result[i]; out[5 * t + 4] = inclusive; if (t == 0) out[480] = total;
}
extern "C" __global__ void block_sort(const unsigned *in, unsigned *out) {
    typedef cub::BlockRadixSort<unsigned, 64, 4, int> Sort; __shared__ typename Sort::TempStorage s; int t = threadIdx.x; unsigned keys[4]; int values[4];
    for (int i = 0; i < 4; i++) { keys[i] = in[4 * t + i]; values[i] = 4 * t + i; }
    Sort(s).Sort(keys, values); for (int i = 0; i < 4; i++) { out[4 * t + i] = keys[i]; out[256 + 4 * t + i] = values[i]; }
}
extern "C" __global__ void warp_primitives(const int *in, int *out) {
    typedef cub::WarpReduce<int> Reduce; typedef cub::WarpScan<int> Scan; typedef cub::WarpReduce<int, 8> Eight;
    __shared__ typename Reduce::TempStorage r[4]; __shared__ typename Scan::TempStorage s[4]; __shared__ typename Eight::TempStorage e[16]; int t = threadIdx.x, w = t / 32;
    int sum = Reduce(r[w]).Sum(in[t]), scan; Scan(s[w]).InclusiveSum(in[t], scan); int eight = Eight(e[t / 8]).Reduce(in[t], cuda::minimum<>{});
    out[3 * t] = t % 32 ? 0 : sum; out[3 * t + 1] = scan; out[3 * t + 2] = t % 8 ? 0 : eight;
}
extern "C" __global__ void block_exchange(const int *in, int *out) {
    typedef cub::BlockLoad<int, 64, 3, cub::BLOCK_LOAD_TRANSPOSE> Load; typedef cub::BlockStore<int, 64, 3, cub::BLOCK_STORE_WARP_TRANSPOSE> Store; typedef cub::BlockHistogram<unsigned char, 64, 3, 16> Histogram;
    __shared__ union { typename Load::TempStorage load; typename Store::TempStorage store; typename Histogram::TempStorage histogram; } s; __shared__ int bins[16]; int items[3]; unsigned char small[3];
    Load(s.load).Load(in, items); __syncthreads(); for (int i = 0; i < 3; i++) { small[i] = items[i] & 15; items[i] = items[i] * 10 + threadIdx.x; }
    Store(s.store).Store(out, items); __syncthreads(); Histogram(s.histogram).Histogram(small, bins); __syncthreads(); if (threadIdx.x < 16) out[192 + threadIdx.x] = bins[threadIdx.x];
}
"""
)


def test_block_reduce() -> None:
    given = rng.integers(-1000, 1000, (3, 128)).astype(np.int32)
    _, out = CUB.run("block_reduce", 3, 128, given, np.zeros((3, 3), np.int32), 77)
    np.testing.assert_array_equal(out, np.stack([given.sum(1), given.max(1), given[:, :77].sum(1)], 1))


def test_block_scan() -> None:
    given = rng.integers(-1000, 1000, (96, 4)).astype(np.int32)
    _, out = CUB.run("block_scan", 1, 96, given, np.zeros(481, np.int32))
    flat = given.ravel()
    np.testing.assert_array_equal(out[:480].reshape(96, 5)[:, :4].ravel(), flat.cumsum() - flat)
    np.testing.assert_array_equal(out[:480].reshape(96, 5)[:, 4], np.maximum.accumulate(given[:, 0]))
    assert out[480] == flat.sum()


def test_block_radix_sort() -> None:
    given = rng.integers(0, 2**32, 256, dtype=np.uint32)
    given[::7] = given[0]
    _, out = CUB.run("block_sort", 1, 64, given, np.zeros(512, np.uint32))
    order = np.argsort(given, kind="stable")
    np.testing.assert_array_equal(out[:256], given[order])
    np.testing.assert_array_equal(out[256:], order)


def test_warp_primitives() -> None:
    given = rng.integers(-1000, 1000, 128).astype(np.int32)
    _, out = CUB.run("warp_primitives", 1, 128, given, np.zeros((128, 3), np.int32))
    np.testing.assert_array_equal(out[::32, 0], given.reshape(4, 32).sum(1))
    np.testing.assert_array_equal(out[:, 1], given.reshape(4, 32).cumsum(1).ravel())
    np.testing.assert_array_equal(out[::8, 2], given.reshape(16, 8).min(1))


def test_block_load_store_and_histogram() -> None:
    given = rng.integers(0, 1000, 192).astype(np.int32)
    _, out = CUB.run("block_exchange", 1, 64, given, np.zeros(208, np.int32))
    np.testing.assert_array_equal(out[:192], given * 10 + np.arange(192) // 3)
    np.testing.assert_array_equal(out[192:], np.bincount(given & 15, minlength=16))


LIBCUXX = Kernels(
    r"""
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/tuple>
#include <cuda/std/complex>
#include <cuda/std/utility>
#include <cuda/std/limits>
#include <cuda/std/bit>
extern "C" __global__ void atomics(int *counter, float *sum, unsigned *bits, int *order) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    cuda::atomic_ref<int, cuda::thread_scope_device> c(*counter); int at = c.fetch_add(1, cuda::memory_order_relaxed); order[at] = t;
    cuda::atomic_ref<float, cuda::thread_scope_device> s(*sum); s.fetch_add(1.5f);
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> b(bits[0]); b.fetch_or(1u << (t & 31)); cuda::atomic_ref<unsigned, cuda::thread_scope_device> m(bits[1]); m.fetch_max(t * 7u);
    unsigned old = m.load(cuda::memory_order_acquire); while (!m.compare_exchange_weak(old, old + 2, cuda::memory_order_acq_rel)) { }
    __shared__ cuda::atomic<int, cuda::thread_scope_block> local; if (threadIdx.x == 0) local.store(0); __syncthreads(); local.fetch_sub(2); __syncthreads(); if (threadIdx.x == 0) atomicAdd((int *)bits + 2, local.load());
}
extern "C" __global__ void release_acquire(int *data, int *flag, int *out) {
    cuda::atomic_ref<int, cuda::thread_scope_device> f(*flag);
    if (blockIdx.x == 1) { if (threadIdx.x == 0) { for (int i = 0; i < 16; i++) data[i] = i * i; f.store(1, cuda::memory_order_release); } }
    else if (threadIdx.x == 0) { while (f.load(cuda::memory_order_acquire) == 0) { } int s = 0; for (int i = 0; i < 16; i++) s += data[i]; *out = s; }
}
extern "C" __global__ void standard(float *out) {
    int t = threadIdx.x; cuda::std::array<float, 4> a = {1, 2, 3, (float)t}; float s = 0; for (float x : a) s += x;
    auto [p, q] = cuda::std::make_tuple(t * 2, 0.5f); cuda::std::complex<float> z(t, 1), w = z * z + cuda::std::complex<float>(0, 1);
    out[4 * t] = s; out[4 * t + 1] = p + q; out[4 * t + 2] = w.real() + 100 * w.imag(); out[4 * t + 3] = cuda::std::popcount((unsigned)t) + cuda::std::numeric_limits<short>::max() + cuda::std::countl_zero((unsigned)t | 1);
}
"""
)


def test_atomic_references() -> None:
    def check(outputs: list[np.ndarray]) -> None:
        counter, total, bits, order = outputs
        assert counter[0] == 192 and total[0] == 288 and bits[0] == 2**32 - 1 and bits[2].view(np.int32) == -384
        np.testing.assert_array_equal(np.sort(order), np.arange(192))
        assert bits[1] >= 191 * 7 + 2

    LIBCUXX.each(
        "atomics", 3, 64, np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros(3, np.uint32), np.full(192, -1, np.int32), check=check, budget=50_000_000
    )


def test_release_and_acquire() -> None:
    LIBCUXX.each(
        "release_acquire", 2, 32, np.zeros(16, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32), budget=50_000_000,
        check=lambda o: np.testing.assert_array_equal(o[2], sum(i * i for i in range(16))),
    )  # fmt: skip


def test_the_standard_library() -> None:
    (out,) = LIBCUXX.run("standard", 1, 64, np.zeros((64, 4), np.float32))
    for t in range(64):
        expected = [6 + t, 2 * t + 0.5, t * t - 1 + 100 * (2 * t + 1), t.bit_count() + 32767 + 32 - max(t, 1).bit_length()]
        np.testing.assert_array_equal(out[t], np.float32(expected))


BARRIER = Kernels(
    r"""
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/semaphore>
extern "C" __global__ void barrier(const int *in, int *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> b; __shared__ int s[64]; int t = threadIdx.x; if (t == 0) init(&b, 64); __syncthreads();
    int v = in[t]; for (int i = 0; i < 4; i++) { s[t] = v; b.arrive_and_wait(); v = s[(t + 1) & 63] + i; auto token = b.arrive(); b.wait(static_cast<decltype(token) &&>(token)); } out[t] = v;
}
""",
    arch="sm_75",  # later ones have mbarrier objects for it
)


def test_a_barrier_object() -> None:
    given = rng.integers(0, 100, 64).astype(np.int32)
    _, out = BARRIER.run("barrier", 1, 64, given, np.zeros(64, np.int32))
    np.testing.assert_array_equal(out, np.roll(given, -4) + 6)
