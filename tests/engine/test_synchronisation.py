"""Barriers, locks, flags and everything else with which threads wait for each other."""

from __future__ import annotations

import numpy as np
import pytest

from engine.kernels import HEADER, Kernels

BUDGET = 50_000_000  # far more than any of these needs: a hang ends as a failure
rng = np.random.default_rng(23)

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define TID int t = threadIdx.x, g = blockIdx.x * blockDim.x + t; (void)g;
extern "C" __global__ void barrier_loop(const int *in, int *out, int rounds) {
    __shared__ int ring[256]; TID
    ring[t] = in[g]; __syncthreads();
    for (int i = 0; i < rounds; i++) { int v = ring[(t + 1) % blockDim.x]; __syncthreads(); ring[t] = v * 3 + i; __syncthreads(); }
    out[g] = ring[t];
}
extern "C" __global__ void barrier_counts(const int *in, int *out) {
    TID int v = in[g];
    int c = __syncthreads_count(v & 1), a = __syncthreads_and(v < 990), o = __syncthreads_or(v > 995);
    for (int i = 0; i < 3; i++) c = c * 10 + __syncthreads_or(v == i) + 2 * __syncthreads_and(v != i);
    out[g] = c * 4 + a * 2 + o;
}
extern "C" __global__ void barrier_after_exit(const int *in, int *out) { // warps that end do not hold up the others
    __shared__ int s[256]; TID
    if (t >= 64 && (in[blockIdx.x] & 1)) return;
    s[t] = in[g]; __syncthreads(); int v = s[t ^ 1] + s[t ^ 32]; __syncthreads(); s[t] = v; __syncthreads(); out[g] = s[63 - (t & 63)];
}
extern "C" __global__ void producer_consumer(const int *in, int *out, int rounds) { // two buffers, warps specialised, named barriers
    __shared__ int buffer[2][64]; int t = threadIdx.x; // 128 threads: 64 produce, 64 consume
    if (t < 64) { for (int i = 0; i < rounds; i++) { int b = i & 1;
        if (i >= 2) asm volatile("bar.sync %0, 128;" :: "r"(3 + b) : "memory");
        buffer[b][t] = in[i * 64 + t] * 2; asm volatile("bar.arrive %0, 128;" :: "r"(1 + b) : "memory"); } }
    else { int sum = 0; for (int i = 0; i < rounds; i++) { int b = i & 1;
        asm volatile("bar.sync %0, 128;" :: "r"(1 + b) : "memory"); sum = sum * 7 + buffer[b][127 - t];
        if (i + 2 < rounds) asm volatile("bar.arrive %0, 128;" :: "r"(3 + b) : "memory"); } out[t - 64] = sum; }
}
extern "C" __global__ void pairs_of_warps(const int *in, int *out) { // each pair of warps has a barrier of its own and its own number of rounds
    __shared__ int s[256]; int t = threadIdx.x, pair = t / 64; s[t] = in[t];
    for (int i = 0; i <= pair; i++) { asm volatile("barrier.sync %0, 64;" :: "r"(pair + 1) : "memory"); int v = s[t ^ 32]; asm volatile("barrier.sync %0, 64;" :: "r"(pair + 1) : "memory"); s[t] = v + t; }
    __syncthreads(); out[t] = s[255 - t];
}
extern "C" __global__ void syncwarp_exchange(const int *in, int *out) { // both sides of the branch meet at __syncwarp
    __shared__ int s[64]; int t = threadIdx.x; int r;
    if (t & 1) { s[t] = in[t] * 3; __syncwarp(); r = s[t - 1] + 1; __syncwarp(); }
    else { s[t] = in[t] + 7; __syncwarp(); r = s[t + 1] * 2; __syncwarp(); }
    out[t] = r;
}
extern "C" __global__ void syncwarp_halves(const int *in, int *out) { // partial masks, different numbers of rounds
    __shared__ int s[64]; int t = threadIdx.x, lane = t & 31, r = 0; s[t] = in[t]; __syncwarp();
    unsigned m = lane < 16 ? 0xffffu : 0xffff0000u; int rounds = lane < 16 ? 5 : 3;
    for (int i = 0; i < rounds; i++) { int v = s[(t & ~15) + ((t + 1) & 15)]; __syncwarp(m); s[t] = v + i; __syncwarp(m); r = r * 3 + s[t ^ 1]; __syncwarp(m); }
    out[t] = r;
}
extern "C" __global__ void syncwarp_three_ways(int *out) {
    __shared__ int s[32]; int t = threadIdx.x; s[t] = 0; __syncwarp();
    if (t < 8) { s[t] = t + 1; __syncwarp(); s[t] += s[31 - t]; __syncwarp(); }
    else if (t < 20) { s[t] = t * 10; __syncwarp(); int v = s[t - 8]; __syncwarp(); s[t] = v; }
    else { s[t] = -t; for (int i = 0; i < t; i++) s[t] += i & 1; __syncwarp(); __syncwarp(); }
    __syncwarp(); out[t] = s[(t + 5) & 31];
}
// ---- locks
__device__ int global_lock = 0, flag = 0, ticket_next = 0, ticket_now = 0; __device__ unsigned arrived = 0;
extern "C" __global__ void lock_inside_loop(int *sum, int n) { // the critical section inside the loop that tries: works with any scheduling of lanes
    TID bool done = false;
    while (!done) { if (atomicCAS(&global_lock, 0, 1) == 0) { __threadfence(); volatile int *s = sum; s[0] = s[0] + g + 1; s[1] = s[1] + 1; __threadfence(); atomicExch(&global_lock, 0); done = true; } }
}
extern "C" __global__ void lock_after_loop(int *sum, int n) { // spin first, then work: needs lanes that make progress independently
    TID
    while (atomicCAS(&global_lock, 0, 1) != 0) { }
    __threadfence(); volatile int *s = sum; s[0] = s[0] + g + 1; s[1] = s[1] + 1; __threadfence();
    atomicExch(&global_lock, 0);
}
extern "C" __global__ void lock_with_sleep(int *sum, int n) {
    TID unsigned ns = 8;
    while (atomicCAS(&global_lock, 0, 1) != 0) { __nanosleep(ns); if (ns < 256) ns *= 2; }
    volatile int *s = sum; s[0] = s[0] + g + 1; s[1] = s[1] + 1; __threadfence(); atomicExch(&global_lock, 0);
}
extern "C" __global__ void shared_locks(const int *in, int *out) { // a lock for each of eight cells
    __shared__ int lock[8], cell[8]; int t = threadIdx.x; if (t < 8) { lock[t] = 0; cell[t] = 0; } __syncthreads();
    int k = in[t] & 7; bool done = false;
    while (!done) { if (atomicExch(&lock[k], 1) == 0) { volatile int *c = cell; c[k] = c[k] * 1 + in[t]; __threadfence_block(); atomicExch(&lock[k], 0); done = true; } }
    __syncthreads(); if (t < 8) out[t] = cell[t];
}
extern "C" __global__ void ticket_lock(int *order, int *count) {
    TID if (t % 16 == 0) { int mine = atomicAdd(&ticket_next, 1); while (atomicAdd(&ticket_now, 0) != mine) { } volatile int *c = count; int at = *c; *c = at + 1; order[at] = mine; __threadfence(); atomicAdd(&ticket_now, 1); }
}
extern "C" __global__ void lane_to_lane(int *out) { // one lane waits for its neighbour, down the warp
    __shared__ volatile int turn; int t = threadIdx.x; if (t == 0) turn = 31; __syncwarp();
    while (turn != t) { } out[31 - t] = t; __threadfence_block(); turn = t - 1;
}
extern "C" __global__ void warp_to_warp(int *out) { // the last warp goes first
    __shared__ volatile int turn; int t = threadIdx.x, w = t / 32, last = blockDim.x / 32 - 1; if (t == 0) turn = last; __syncthreads();
    if (t % 32 == 0) { while (turn != w) { } out[last - w] = w; __threadfence_block(); turn = w - 1; }
}
extern "C" __global__ void block_to_block(int *out, volatile int *turn) { // the last block goes first
    int b = blockIdx.x; if (threadIdx.x == 0) { while (*turn != b) { } out[gridDim.x - 1 - b] = b; __threadfence(); *turn = b - 1; }
}
extern "C" __global__ void message(int *data, volatile int *ready, int *out) { // block 0 reads what the last block writes
    if (blockIdx.x == gridDim.x - 1) { data[threadIdx.x] = threadIdx.x * 3; __threadfence(); __syncthreads(); if (threadIdx.x == 0) *ready = 1; }
    else if (blockIdx.x == 0) { if (threadIdx.x == 0) while (!*ready) { } __syncthreads(); __threadfence(); out[threadIdx.x] = ((volatile int *)data)[threadIdx.x] + 1; }
}
extern "C" __global__ void last_block(const int *in, int *partial, int *out, int n) {
    __shared__ int s[128]; __shared__ bool last; TID
    int sum = 0; for (int i = g; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    s[t] = sum; __syncthreads(); for (int k = 64; k; k /= 2) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
    if (t == 0) { partial[blockIdx.x] = s[0]; __threadfence(); last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1; }
    __syncthreads();
    if (last) { sum = 0; for (int i = t; i < gridDim.x; i += blockDim.x) sum += ((volatile int *)partial)[i]; s[t] = sum; __syncthreads(); if (t == 0) { for (int i = 1; i < 128; i++) sum += s[i]; *out = sum; } }
}
extern "C" __global__ void global_barrier(int *data, unsigned *count, int rounds) {
    TID int n = gridDim.x * blockDim.x;
    for (int i = 0; i < rounds; i++) {
        int v = ((volatile int *)data)[(g + 7) % n];
        __syncthreads(); if (t == 0) { __threadfence(); unsigned goal = gridDim.x * (2 * i + 1); atomicAdd(count, 1); while (*(volatile unsigned *)count < goal) { } __threadfence(); } __syncthreads();
        data[g] = v + i;
        __syncthreads(); if (t == 0) { __threadfence(); unsigned goal = gridDim.x * (2 * i + 2); atomicAdd(count, 1); while (*(volatile unsigned *)count < goal) { } __threadfence(); } __syncthreads();
    }
}
extern "C" __global__ void spin_on_shuffle(const int *in, int *out) { // a vote decides when all go on
    int t = threadIdx.x, v = in[t], rounds = 0; while (__any_sync(~0u, v > 0)) { if (v > 0) v -= (t & 3) + 1; rounds++; } out[t] = rounds * 100 + v;
}
extern "C" __global__ void work_queue(int *queue, int *head, int *out, int n) { // lanes take work until there is none
    while (true) { int i = atomicAdd(head, 1); if (i >= n) break; int x = queue[i], c = 0; while (x > 1) { x = x & 1 ? 3 * x + 1 : x / 2; c++; } out[i] = c; }
}
extern "C" __global__ void linked_list(int *next, int *head) { TID int old = *(volatile int *)head, seen; do { seen = old; next[g] = seen; __threadfence(); old = atomicCAS(head, seen, g); } while (old != seen); }
extern "C" __global__ void counts_in_memory(volatile int *v, int n, int who) { // registers stay the same, memory does not
    if ((who < 0 ? blockIdx.x : threadIdx.x) == abs(who)) { while (v[0] < n) v[0] = v[0] + 1; v[1] = 1; } else while (v[1] == 0) { } }
extern "C" __global__ void group_sync(const int *in, int *out) { auto b = cg::this_thread_block(); __shared__ int s[128]; s[b.thread_rank()] = in[b.thread_rank()]; b.sync(); out[b.thread_rank()] = s[127 - b.thread_rank()]; auto tok = b.barrier_arrive(); b.barrier_wait(std::move(tok)); }
"""
SOURCE = SOURCE.replace("std::move(tok)", "static_cast<decltype(tok)&&>(tok)")
program = Kernels(SOURCE)


def test_barriers_in_a_loop() -> None:
    given = rng.integers(0, 100, (3, 200)).astype(np.int32)
    _, out = program.run("barrier_loop", 3, 200, given, np.zeros((3, 200), np.int32), 9)
    ring = given.astype(np.int64)
    for i in range(9):
        ring = np.roll(ring, -1, axis=1) * 3 + i
    np.testing.assert_array_equal(out, ring)


@pytest.mark.parametrize("threads", (32, 100, 256, 1024))
def test_barriers_that_reduce(threads: int) -> None:
    given = rng.integers(0, 1000, (2, threads)).astype(np.int32)
    _, out = program.run("barrier_counts", 2, threads, given, np.zeros((2, threads), np.int32))
    for v, row in zip(given, out, strict=True):
        c = int((v & 1).sum())
        for i in range(3):
            c = c * 10 + bool((v == i).any()) + 2 * bool((v != i).all())
        assert (row == c * 4 + bool((v < 990).all()) * 2 + bool((v > 995).any())).all()


def test_barriers_after_warps_have_ended() -> None:
    given = rng.integers(0, 1000, (4, 256)).astype(np.int32)
    flat = given.reshape(-1)
    _, out = program.run("barrier_after_exit", 4, 256, given, np.full((4, 256), -1, np.int32))
    t = np.arange(256)
    for b in range(4):
        v = given[b][t ^ 1] + given[b][t ^ 32]
        expected = v[63 - (t & 63)]
        if flat[b] & 1:
            expected = np.where(t < 64, expected, -1)
        np.testing.assert_array_equal(out[b], expected)


def test_producer_and_consumer_with_named_barriers() -> None:
    rounds = 7
    given = rng.integers(0, 10, (rounds, 64)).astype(np.int32)
    _, out = program.run("producer_consumer", 1, 128, given, np.zeros(64, np.int32), rounds)
    total = np.zeros(64, np.int64)
    for row in given:
        total = total * 7 + row[::-1] * 2
    np.testing.assert_array_equal(out, total.astype(np.int32))


def test_a_barrier_for_each_pair_of_warps() -> None:
    given = rng.integers(0, 1000, 256).astype(np.int32)
    _, out = program.run("pairs_of_warps", 1, 256, given, np.zeros(256, np.int32))
    t, s = np.arange(256), given.copy()
    for pair in range(4):
        for _ in range(pair + 1):
            s = np.where(t // 64 == pair, s[t ^ 32] + t, s)
    np.testing.assert_array_equal(out, s[::-1])


def test_both_sides_of_a_branch_meet() -> None:
    given = rng.integers(0, 1000, 64).astype(np.int32)
    _, out = program.run("syncwarp_exchange", 1, 64, given, np.zeros(64, np.int32))
    t = np.arange(64)
    np.testing.assert_array_equal(out, np.where(t & 1, given[t - 1] + 8, given[(t + 1) % 64] * 6))


def test_half_warps_that_meet_on_their_own() -> None:
    given = rng.integers(0, 100, 64).astype(np.int32)
    _, out = program.run("syncwarp_halves", 1, 64, given, np.zeros(64, np.int32))
    for half in range(4):
        s, r = given[half * 16 : half * 16 + 16].astype(int), np.zeros(16, int)
        for i in range(3 if half % 2 else 5):
            s = np.roll(s, -1) + i
            r = r * 3 + s[np.arange(16) ^ 1]
        np.testing.assert_array_equal(out[half * 16 : half * 16 + 16], r)


def test_three_branches_that_meet() -> None:
    (out,) = program.run("syncwarp_three_ways", 1, 32, np.zeros(32, np.int32))
    t = np.arange(32)
    s = np.where(t < 8, t + 1, np.where(t < 20, t * 10, -t + t // 2))
    after = s.copy()
    after[:8] += s[31 - t[:8]]
    # between the second and the third meeting the middle lanes keep what they read before: of the first lanes their sums or not yet
    middle = {k: {s[k - 8], after[k - 8]} for k in range(8, 20)}
    for k in range(32):
        source = (k + 5) & 31
        assert out[k] in middle.get(source, {after[source]})


@pytest.mark.parametrize("name", ("lock_inside_loop", "lock_after_loop", "lock_with_sleep"))
@pytest.mark.parametrize("shape", ((1, 32), (1, 128), (4, 64)), ids=str)
def test_spin_locks(name: str, shape: tuple[int, int]) -> None:
    n = shape[0] * shape[1]

    def check(outputs: list[np.ndarray]) -> None:
        assert list(outputs[0]) == [n * (n + 1) // 2, n]

    program.each(name, *shape, np.zeros(2, np.int32), n, check=check, budget=BUDGET)


def test_locks_in_shared_memory() -> None:
    given = rng.integers(0, 1000, 160).astype(np.int32)

    def check(outputs: list[np.ndarray]) -> None:
        np.testing.assert_array_equal(outputs[1], [given[given & 7 == k].sum() for k in range(8)])

    program.each("shared_locks", 1, 160, given, np.zeros(8, np.int32), check=check, budget=BUDGET)


def test_a_ticket_lock() -> None:
    def check(outputs: list[np.ndarray]) -> None:
        order, count = outputs
        assert count[0] == 24 and (np.diff(order) == 1).all()

    program.each("ticket_lock", 3, 128, np.zeros(24, np.int32), np.zeros(1, np.int32), check=check, budget=BUDGET)


def test_a_lane_waits_for_its_neighbour() -> None:
    program.each(
        "lane_to_lane", 1, 32, np.zeros(32, np.int32), budget=BUDGET, check=lambda o: np.testing.assert_array_equal(o[0], np.arange(31, -1, -1))
    )


def test_a_warp_waits_for_a_later_one() -> None:
    program.each("warp_to_warp", 1, 256, np.zeros(8, np.int32), budget=BUDGET, check=lambda o: np.testing.assert_array_equal(o[0], np.arange(7, -1, -1)))


def test_a_block_waits_for_a_later_one() -> None:
    blocks = 12
    program.each(
        "block_to_block",
        blocks,
        64,
        np.zeros(blocks, np.int32),
        np.array([blocks - 1], np.int32),
        budget=BUDGET,
        check=lambda o: np.testing.assert_array_equal(o[0], np.arange(blocks - 1, -1, -1)),
    )


def test_a_message_from_the_last_block_to_the_first() -> None:
    zeros = np.zeros(64, np.int32)
    program.each("message", 9, 64, zeros, np.zeros(1, np.int32), zeros, budget=BUDGET, check=lambda o: np.testing.assert_array_equal(o[2], np.arange(64) * 3 + 1))


def test_the_last_block_reduces() -> None:
    given = rng.integers(-1000, 1000, 5000).astype(np.int32)
    program.each(
        "last_block", 13, 128, given, np.zeros(13, np.int32), np.zeros(1, np.int32), 5000, check=lambda o: np.testing.assert_array_equal(o[2], given.sum())
    )


def test_a_barrier_over_the_grid() -> None:
    n, rounds = 6 * 96, 4
    start = rng.integers(0, 100, n).astype(np.int32)
    expected = start.astype(int)
    for i in range(rounds):
        expected = np.roll(expected, -7) + i
    program.each(
        "global_barrier", 6, 96, start, np.zeros(1, np.uint32), rounds, budget=BUDGET, check=lambda o: np.testing.assert_array_equal(o[0], expected)
    )


def test_a_loop_that_a_vote_ends() -> None:
    given = rng.integers(0, 100, 64).astype(np.int32)
    _, out = program.run("spin_on_shuffle", 1, 64, given, np.zeros(64, np.int32))
    for w in (0, 32):
        t = np.arange(w, w + 32)
        step = (t & 3) + 1
        rounds = np.maximum(-(-given[t] // step), 0)
        np.testing.assert_array_equal(out[t], rounds.max() * 100 + given[t] - rounds * step)


def test_a_work_queue() -> None:
    given = rng.integers(1, 300, 500).astype(np.int32)

    def steps(x: int) -> int:
        c = 0
        while x > 1:
            x = 3 * x + 1 if x & 1 else x // 2
            c += 1
        return c

    expected = [steps(int(x)) for x in given]
    program.each(
        "work_queue", 2, 64, given, np.zeros(1, np.int32), np.zeros(500, np.int32), 500, check=lambda o: np.testing.assert_array_equal(o[2], expected)
    )


def test_a_list_that_all_threads_prepend_to() -> None:
    def check(outputs: list[np.ndarray]) -> None:
        following, head = outputs
        seen, k = [], int(head[0])
        while k >= 0:
            seen.append(k)
            k = int(following[k])
        assert sorted(seen) == list(range(192))

    program.each("linked_list", 3, 64, np.zeros(192, np.int32), np.array([-1], np.int32), check=check)


@pytest.mark.parametrize(("shape", "who"), (((2, 1), -1), ((1, 64), 32), ((1, 32), 31)), ids=("block", "warp", "lane"))
def test_waiting_for_long_work_in_memory(shape: tuple[int, int], who: int) -> None:
    program.each(
        "counts_in_memory", *shape, np.zeros(2, np.int32), 1_000_000, who, budget=BUDGET, check=lambda o: np.testing.assert_array_equal(o[0], [1_000_000, 1])
    )


def test_barriers_of_cooperative_groups() -> None:
    given = rng.integers(0, 1000, 128).astype(np.int32)
    _, out = program.run("group_sync", 1, 128, given, np.zeros(128, np.int32))
    np.testing.assert_array_equal(out, given[::-1])


SHUFFLES_ACROSS_GROUPS = Kernels(
    r"""
extern "C" __global__ void shuffles_after_a_lock(int *lock, int *out) {
    // lanes leave the lock one by one and meet again at the shuffle
    int t = threadIdx.x, lane = t & 31; bool done = false; int mine = -1;
    while (!done) { if (atomicCAS(lock, 0, 1) == 0) { mine = out[64]; out[64] = mine + 1; __threadfence(); atomicExch(lock, 0); done = true; } }
    __syncwarp();
    int sum = mine; for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    out[t] = sum * 2 + (__shfl_sync(~0u, mine, 5) == __shfl_sync(~0u, mine, (lane + 1) & 31));
}
extern "C" __global__ void shuffles_without_meeting(int *flag, int *out) {
    // the shuffle itself brings the lanes together, whatever way they came (Volta and later)
    int t = threadIdx.x; volatile int *f = flag; int r;
    if (t < 16) { while (f[0] == 0) { } r = __shfl_xor_sync(~0u, t * 3, 16); }
    else { f[0] = 1; r = __shfl_xor_sync(~0u, t * 3, 16); }
    out[t] = r + (__ballot_sync(~0u, t & 1) == 0xaaaaaaaau) + 2 * (__reduce_add_sync(~0u, t) == 496) + 4 * (__popc(__match_any_sync(~0u, t & 3)) == 8);
}
"""
)


def test_shuffles_of_lanes_that_came_apart() -> None:
    def check(outputs: list[np.ndarray]) -> None:
        out = outputs[1]
        assert out[64] == 64
        for w in (0, 32):
            assert len(set(out[w : w + 32] // 2)) == 1
        assert out[0] // 2 + out[32] // 2 == 64 * 63 // 2
        flags = out[:64].reshape(2, 32) & 1
        assert (flags.sum(axis=1) == 1).all() and (flags[:, 4] == 1).all()

    SHUFFLES_ACROSS_GROUPS.each("shuffles_after_a_lock", 1, 64, np.zeros(1, np.int32), np.zeros(65, np.int32), check=check, budget=BUDGET)


def test_shuffles_bring_lanes_together() -> None:
    t = np.arange(32)
    SHUFFLES_ACROSS_GROUPS.each(
        "shuffles_without_meeting",
        1,
        32,
        np.zeros(1, np.int32),
        np.zeros(32, np.int32),
        budget=BUDGET,
        check=lambda o: np.testing.assert_array_equal(o[1], (t ^ 16) * 3 + 7),
    )


BARRIERS = Kernels(
    HEADER
    + """
.visible .entry reducing(.param .u64 in_, .param .u64 out_) {
  .reg .b32 %t, %v, %r, %x, %g, %n; .reg .b64 %in, %out; .reg .pred %p, %q, %w;
  ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x; mad.wide.u32 %in, %t, 4, %in; mad.wide.u32 %out, %t, 16, %out;
  ld.global.b32 %v, [%in]; setp.gt.u32 %p, %v, 500; shr.u32 %g, %t, 6; add.u32 %g, %g, 4; mov.u32 %n, 64;
  barrier.red.popc.aligned.u32 %r, %g, %n, %p; barrier.red.and.aligned.pred %q, %g, 64, %p; bar.red.or.pred %w, %g, 64, !%p;
  selp.u32 %x, 1, 0, %q; selp.u32 %g, 1, 0, %w; barrier.cta.red.popc.aligned.u32 %n, 0, %p;
  st.global.v4.b32 [%out], {%r, %x, %g, %n}; ret; }
.visible .entry all_sixteen(.param .u64 out_) {
  .reg .b32 %t, %i, %a, %s; .reg .b64 %out; .reg .pred %p; .shared .align 4 .b8 room[512];
  ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x; mad.wide.u32 %out, %t, 4, %out; shl.b32 %a, %t, 2; mov.u32 %s, room; add.u32 %a, %a, %s; xor.b32 %s, %a, 128;
  mov.u32 %i, 0; st.shared.u32 [%a], 0;
L: bar.sync %i; ld.shared.u32 %t, [%s]; bar.sync %i, 64; add.u32 %t, %t, 1; st.shared.u32 [%a], %t; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 16; @%p bra L;
  st.global.u32 [%out], %t; ret; }
"""
)


def test_reducing_barriers_of_some_warps() -> None:
    given = rng.integers(0, 1000, 256).astype(np.uint32)
    given[64:128] = 700
    _, out = BARRIERS.run("reducing", 1, 256, given, np.zeros((256, 4), np.uint32))
    for t in range(256):
        group = given[t // 64 * 64 : t // 64 * 64 + 64] > 500
        assert list(out[t]) == [group.sum(), group.all(), (~group).any(), (given > 500).sum()]


def test_all_sixteen_barriers() -> None:
    (out,) = BARRIERS.run("all_sixteen", 1, 64, np.zeros(64, np.uint32))
    assert (out == 16).all()
