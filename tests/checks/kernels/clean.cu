// Correct kernels that look like faulty ones: any finding on them is a false alarm.
#include "twins.cuh"
#include <cooperative_groups.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;
struct Padded { u8 tag; int value; };
extern "C" {
__global__ void struct_copied_with_padding(Padded *a, Padded *b, int *out) {
    a[TID].tag = (u8)TID;
    a[TID].value = TID * 3;
    ((volatile int2 *)b)[TID].x = ((volatile int2 *)a)[TID].x;
    ((volatile int2 *)b)[TID].y = ((volatile int2 *)a)[TID].y;
    out[TID] = b[TID].tag + b[TID].value;
}
__global__ void vector_load_of_three(int4 *mid, int *b) {
    mid[TID].x = 1; mid[TID].y = TID; mid[TID].z = 2;
    int4 v = *(int4 *)&mid[TID];
    b[TID] = v.x + v.y + v.z;
}
__global__ void copies_of_nothing(const int *a, int *mid, int *b) {
    mid[TID] = a[TID];
    int v = __shfl_xor_sync(~0u, mid[TID], 1);
    mid[TID + 32] = v;
    b[TID] = TID;
}
__global__ void undefined_but_not_chosen(const int *a, int *b, int n) {
    __shared__ int s[32];
    if (TID < n) s[TID] = a[TID];
    __syncthreads();
    int v = s[TID];
    b[TID] = TID < n ? v : -1;
}
__global__ void bytes_of_one_word(const int *a, u8 *b) {
    __shared__ u8 s[128];
    s[TID] = (u8)a[TID];
    s[TID] = s[TID] + 1;
    b[GID] = s[TID];
}
__global__ void votes_after_early_return(const int *a, int *b, int n) {
    if (GID >= n) return;
    bool any = __any_sync(~0u, a[GID] > 990);
    u32 m = __ballot_sync(~0u, a[GID] > 500);
    __syncwarp();
    b[GID] = any + 2 * (m >> (TID & 31) & 1);
}
__global__ void partial_warp_full_mask(const int *a, int *b) {
    __shared__ int s[40];
    s[TID] = a[TID];
    __syncwarp();
    u32 m = __ballot_sync(~0u, a[TID] > 500);
    b[TID] = s[TID ^ 1] + (m != 0);
}
__global__ void early_return_of_whole_warps(const int *a, int *b, int n) {
    __shared__ int s[128];
    if (TID >= n) return;
    s[TID] = a[TID];
    asm volatile("bar.sync 1, 64;" ::: "memory");
    b[TID] = s[TID ^ 63];
}
__global__ void coalesced_group_sum(const int *a, int *b) {
    if (a[TID] > 300) {
        auto g = cg::coalesced_threads();
        int v = 1;
        for (int o = 1; o < g.size(); o *= 2) {
            int u = g.shfl_up(v, o);
            if (g.thread_rank() >= o) v += u;
        }
        b[TID] = v;
    }
}
__global__ void tile_shuffles(const int *a, int *b) {
    auto tile = cg::tiled_partition<4>(cg::this_thread_block());
    int v = a[TID];
    for (int o = 2; o; o /= 2) v += tile.shfl_xor(v, o);
    b[TID] = v;
}
__global__ void grid_meets(const int *a, int *mid, int *b) {
    mid[GID] = a[GID];
    cg::this_grid().sync();
    int n = gridDim.x * blockDim.x;
    b[GID] = mid[n - 1 - GID];
}
__global__ void producer_by_barrier_id(const int *a, int *b) {
    __shared__ int s[2][64];
    if (TID < 64) {
        for (int r = 0; r < 4; ++r) {
            if (r >= 2) asm volatile("bar.sync %0, 128;" ::"r"(3 + (r & 1)) : "memory");
            s[r & 1][TID] = a[r * 64 + TID];
            asm volatile("bar.arrive %0, 128;" ::"r"(1 + (r & 1)) : "memory");
        }
    } else {
        int sum = 0;
        for (int r = 0; r < 4; ++r) {
            asm volatile("bar.sync %0, 128;" ::"r"(1 + (r & 1)) : "memory");
            sum = sum * 3 + s[r & 1][127 - TID];
            if (r < 2) asm volatile("bar.arrive %0, 128;" ::"r"(3 + (r & 1)) : "memory");
        }
        b[TID - 64] = sum;
    }
}
__global__ void relaxed_counters(u32 *count, u32 *b) {
    cuda::atomic_ref<u32, cuda::thread_scope_device> c(*count);
    c.fetch_add(1, cuda::memory_order_relaxed);
    b[GID] = c.load(cuda::memory_order_relaxed) > 0;
}
__global__ void acq_rel_lock(int *lock, int *total) {
    cuda::atomic_ref<int, cuda::thread_scope_device> l(*lock);
    if (TID == 0) {
        int free = 0;
        while (!l.compare_exchange_weak(free, 1, cuda::memory_order_acquire)) free = 0;
        total[0] += blockIdx.x + 1;
        l.store(0, cuda::memory_order_release);
    }
}
__global__ void one_acquires_all_read(int *data, u32 *flag, int *b) {
    if (blockIdx.x == 0) {
        data[TID] = TID * 5;
        __syncthreads();
        if (TID == 0) { __threadfence(); atomicExch(flag, 1u); }
    } else {
        if (TID == 0) { while (atomicAdd(flag, 0u) == 0) { } __threadfence(); }
        __syncthreads();
        b[GID - blockDim.x] = data[63 - TID];
    }
}
__global__ void divergent_loop_then_barrier(const int *a, int *b) {
    __shared__ int s[64];
    int v = 0;
    for (int k = 0; k < a[TID] % 7; ++k) v += k;
    s[TID] = v;
    __syncthreads();
    b[TID] = s[63 - TID];
}
__global__ void barrier_in_uniform_loop(const int *a, int *b, int n) {
    __shared__ int s[64];
    int sum = 0;
    for (int k = 0; k < n; ++k) {
        s[TID] = a[TID] + k;
        __syncthreads();
        sum += s[TID ^ 33];
        __syncthreads();
    }
    b[TID] = sum;
}
__global__ void masked_shuffle_in_branch(const int *a, int *b, int n) {
    u32 m = __ballot_sync(~0u, TID < n);
    if (TID < n) b[TID] = __shfl_sync(m, a[TID], (TID + 1) % n);
}
__global__ void stack_array_in_full(const int *a, int *b) {
    int v[16];
    for (int k = 0; k < 16; ++k) v[k] = a[k] + TID;
    b[TID] = v[a[TID] & 15];
}
__global__ void past_the_view_of_nobody(const int *a, int *b, int n) {
    for (int i = GID; i < n; i += gridDim.x * blockDim.x) b[i] = a[n - 1 - i];
}
__global__ void warp_sum_by_redux(const int *a, int *b) {
    int v = __reduce_add_sync(~0u, a[TID]);
    if (TID % 32 == 0) b[TID / 32] = v;
}
__global__ void match_leaders(const int *a, int *h) {
    u32 same = __match_any_sync(~0u, a[TID] & 7);
    if (__ffs(same) - 1 == (TID & 31)) atomicAdd(&h[a[TID] & 7], __popc(same));
}
// of a word in shared memory one byte is computed from what nobody wrote, and another one is used
__global__ void defined_byte_beside_a_computed_one(int *b) {
    __shared__ u8 s[128];
    s[4 * TID + 1] = (u8)TID;
    s[4 * TID] = s[4 * TID + 3] + 1;
    u32 w = ((volatile u32 *)s)[TID];
    b[TID] = w >> 8 & 0xff;
}
__global__ void vote_after_a_store_and_return(const int *a, int *b, int n) {
    int i = GID;
    if (i >= n) { b[i] = 7; return; }
    int v = __any_sync(~0u, a[i] > 500);
    b[i] = v;
}
// the lanes that the vote names and that do not come: all of them return, though not at once
__global__ void vote_without_lanes_that_may_return(const int *a, int *b, int leave) {
    int v = 0;
    if (TID < 20) v = __popc(__ballot_sync(~0u, a[TID] & 1));
    else if (leave) return;
    b[TID] = v;
}
__global__ void ballots_until_lanes_return(const int *a, int *b) {
    int v = 0;
    for (int k = 0; k < 4; ++k) {
        if (k == TID / 12) { b[TID] = -k; return; }
        v += __popc(__ballot_sync(~0u, a[TID] >> k & 1));
    }
    b[TID] = v;
}
__global__ void a_reduction_in_each_arm(const int *a, int *b) {
    int v;
    if (TID < 16) v = __reduce_add_sync(0xffffu, a[TID]);
    else v = __reduce_max_sync(0xffff0000u, a[TID]);
    b[TID] = v;
}
__global__ void syncwarp_in_each_arm(const int *a, int *b) {
    __shared__ int s[32];
    s[TID] = a[TID];
    if (TID < 16) {
        __syncwarp();
        b[TID] = s[TID + 16];
    } else {
        b[TID] = a[TID] / 3;
        __syncwarp();
    }
    b[TID] += 1;
}
// variables that have a value only on the paths on which it is used
__global__ void a_value_where_it_is_used(const int *a, int *b, int n) {
    int at;
    bool found = false;
    for (int k = 0; k < n; ++k)
        if (a[k] == a[TID] + 1) { at = k; found = true; }
    b[TID] = found ? at * 2 : -1;
    if (found && at > 9) b[TID] += 1;
}
__global__ void first_round_begins(const float *a, float *b, int n) {
    float most;
    for (int k = 0; k < n; ++k) most = k == 0 ? a[TID] : fmaxf(most, a[TID + k]);
    if (n > 0) b[TID] = most;
}
__global__ void three_of_four_are_set(const float *a, float4 *mid, float *b) {
    float4 v;
    v.x = a[TID];
    v.y = v.x * 2;
    v.z = 1;
    mid[TID] = v;
    __syncthreads();
    float4 w = ((float4 *)mid)[TID ^ 1];
    b[TID] = w.x + w.y + w.z;
}
__global__ void atomics_that_overwrite(const int *a, int *mid, int *b) {
    if (TID % 2) atomicExch(&mid[TID], a[TID]);
    else atomicAnd(&mid[TID], 0);
    atomicAdd(&mid[TID], 1);
    b[TID] = mid[TID];
}
// a warp adds up, meets, reads, and goes on to add: nothing but the warp's own meetings orders it
__global__ void atomics_of_a_warp(const int *a, int *sums, int *b) {
    __shared__ int s[4];
    int w = TID / 32;
    if (TID % 32 == 0) s[w] = 0;
    __syncwarp();
    for (int k = 0; k < 3; k++) {
        atomicAdd(&s[w], a[TID + k]);
        atomicAdd(&sums[w], a[TID + k]);
        if (TID % 2) atomicMax(&s[w], 1);
        __syncwarp();
        b[TID] = s[w] + sums[w];
        __syncwarp();
        if (TID % 32 == 7) s[w] += 1;
        __syncwarp();
    }
}
__global__ void atomics_of_a_block(const int *a, int *sums, int *b) {
    for (int k = 0; k < 3; k++) {
        atomicAdd(&sums[blockIdx.x], a[GID]);
        atomicAdd(&sums[blockIdx.x], k);
        __syncthreads();
        b[GID] = sums[blockIdx.x];
        __syncthreads();
        if (TID == 70) sums[blockIdx.x] *= 2;
        __syncthreads();
    }
}
}
