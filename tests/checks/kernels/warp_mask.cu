// Warp-wide operations with lanes that do not take part.
#include "twins.cuh"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" {
__global__ void early_return(const int *a, int *b, int n) {
    int i = GID;
    FAULT(if (i >= n) return;)
    int v = i < n ? a[i] : 0;
    for (int o = 16; o; o /= 2) v += __shfl_down_sync(~0u, v, o);  /*!*/
    if (TID % 32 == 0) b[i / 32] = v;
}
__global__ void in_a_branch(const int *a, int *b) {
    int v = a[TID], w = 0;
    FAULT(if (TID < 16) w = __shfl_xor_sync(~0u, v, 1);)    /*!*/
    REPAIR(if (TID < 16) w = __shfl_xor_sync(0xffffu, v, 1);)
    b[TID] = v + w;                                         /*!*/
}
__global__ void reads_outside_the_mask(const int *a, int *b) {
    int v = a[TID];
    if (TID < 8) v = __shfl_sync(0xffu, v, FAULT(TID + 4) REPAIR((TID + 4) % 8)); /*!*/
    b[TID] = v;
}
// the block is no multiple of 32: the last warp has 16 lanes
__global__ void partial_warp(const int *a, int *b) {
    int v = a[TID];
    v += __shfl_down_sync(~0u, v, FAULT(16) REPAIR(8), REPAIR(16) FAULT(32)); /*!*/
    b[TID] = v;
}
__global__ void trip_counts(const int *a, int *b) {
    int v = a[TID];
    for (int k = 0; k < FAULT(TID % 4) REPAIR(3); ++k)
        v += __shfl_sync(~0u, v, 3 ^ TID);                  /*!*/
    b[TID] = v;                                             /*!*/
}
__global__ void caller_not_named(const int *a, int *b) {
    int v = a[TID];
    if (TID < 12) v = __shfl_sync(FAULT(0xffu) REPAIR(0xfffu), v, 0); /*!*/
    b[TID] = v;
}
__global__ void exchange_with_the_other_half(const int *a, int *b) {
    int v = a[TID], w;
    FAULT(if (TID & 16) w = __shfl_xor_sync(~0u, v, 16); else w = v;) /*!*/
    REPAIR(w = __shfl_xor_sync(~0u, v, 16); if (!(TID & 16)) w = v;)
    b[TID] = w;                                             /*!*/
}
__global__ void ballot_in_a_branch(const int *a, int *b) {
    u32 m = 0;
    if (TID % 32 < 20) m = __ballot_sync(FAULT(~0u) REPAIR(0xfffffu), a[TID] > 500); /*!*/
    b[TID] = m + a[TID];                                    /*!*/
}
__global__ void syncwarp_in_a_branch(const int *a, int *b) {
    __shared__ int s[32];
    s[TID] = a[TID];
    if (TID < 16) {
        __syncwarp(FAULT(~0u) REPAIR(0xffffu));             /*!*/
        s[TID] += s[TID] / 2;
    }
    b[TID] = s[TID] + 3;                                    /*!*/
}
__global__ void reduction_in_a_branch(const int *a, int *b) {
    int v = 0;
    if (TID >= 8) v = __reduce_add_sync(FAULT(~0u) REPAIR(~0xffu), a[TID]); /*!*/
    b[TID] = v + 1;                                         /*!*/
}
__global__ void match_in_a_branch(const int *a, int *b) {
    u32 v = 0;
    if (TID < 24) v = __match_any_sync(FAULT(~0u) REPAIR(0xffffffu), a[TID] & 3); /*!*/
    b[TID] = v;                                             /*!*/
}
// a mask from __activemask names who happens to be here; one from before the branch names who should be
__global__ void stale_ballot(const int *a, int *b, int n) {
    u32 m = __ballot_sync(~0u, TID < n);
    int v = a[TID];
    if (FAULT(TID < n - 5) REPAIR(TID < n)) v = __shfl_sync(m, v, n - 1);  /*!*/
    b[TID] = v;                                             /*!*/
}
__global__ void exit_in_a_loop(const int *a, int *b) {
    int v = a[TID];
    for (int k = 0; k < 4; ++k) {
        FAULT(if (k == 2 && TID == 31) return;)
        v = __shfl_sync(~0u, v, (TID + 1) % 32) + k;        /*!*/
    }
    b[TID] = v;
}
// both arms do something, and meet again
__global__ void vote_in_one_arm(const int *a, int *b) {
    int v;
    if (TID < 12) v = __any_sync(FAULT(~0u) REPAIR(0xfffu), a[TID] > 990); /*!*/
    else v = a[TID] / 2;
    atomicAdd(&b[TID % 4], v);                              /*!*/
}
__global__ void syncwarp_in_one_arm(const int *a, int *b) {
    __shared__ int s[32];
    if (TID < 20) {
        s[TID] = a[TID];
        __syncwarp(FAULT(~0u) REPAIR(0xfffffu));            /*!*/
        b[TID] = s[19 - TID];
    } else {
        b[TID] = a[TID] & 7;
    }
    b[TID] += 5;                                            /*!*/
}
// all that comes after the branch is a barrier
__global__ void meets_the_block_instead(const int *a, int *b) {
    __shared__ int s[64];
    if (TID < 40) s[TID] = a[TID] + __popc(__ballot_sync(FAULT(~0u) REPAIR(TID < 32 ? ~0u : 0xffu), a[TID] & 1)); /*!*/
    else s[TID] = TID;                                      /*!*/
    __syncthreads();                                        /*!*/
    b[TID] = s[63 - TID];
}
__global__ void in_a_nested_branch(const int *a, int *b) {
    int v = a[TID], w = 1;
    if (v & 1) {
        if (v & 2) w = __popc(__match_any_sync(FAULT(~0u) REPAIR(__activemask()), v >> 6)); /*!*/
        else w = v * 3;
        b[TID + 32] = w + 2;                                /*!*/
    }
    b[TID] = w;                                             /*!*/
}
// lanes that leave the loop early go on behind it
__global__ void leaves_the_loop(const int *a, int *b) {
    int v = a[TID], rounds = 0;
    u32 here = ~0u;
    while (v > 60) {
        REPAIR(here = __activemask();)
        rounds += __popc(__ballot_sync(here, v & 1)) != 99; /*!*/
        v /= 2;
    }
    b[TID] = rounds;                                        /*!*/
}
// the named lanes wait for the block, which waits for these
__global__ void waits_at_a_barrier(const int *a, int *b) {
    int v = 0;
    if (TID < 16) v = __all_sync(FAULT(~0u) REPAIR(0xffffu), a[TID] < 1000); /*!*/
    FAULT(else __syncthreads();)                            /*!*/
    b[TID] = v;                                             /*!*/
}
}
