// Barriers that a part of the block does not reach.
#include "twins.cuh"
__device__ __noinline__ int meet_and_read(int *s, int t) {
    __syncthreads();
    return s[t ^ 1];
}
extern "C" {
__global__ void half_of_the_block(const int *a, int *b) {
    __shared__ int s[128];
    s[TID] = a[TID];
    REPAIR(__syncthreads();)
    if (TID < 64) {
        FAULT(__syncthreads();)                             /*!*/
        b[TID] = s[TID] + s[TID + 64];
    }
    b[TID + 64] = a[TID];
}
__global__ void odd_threads(const int *a, int *b) {
    __shared__ int s[128];
    s[TID] = a[TID];
    REPAIR(__syncthreads();)
    if (TID & 1) {
        FAULT(__syncthreads();)                             /*!*/
        s[TID] *= 2;
    }
    b[TID] = s[TID] + 1;
}
__global__ void trip_counts(const int *a, int *b) {
    __shared__ int s[128];
    int sum = 0;
    for (int k = 0; k < FAULT(1 + TID / 32) REPAIR(4); ++k) {
        s[TID] = a[TID] + k;
        __syncthreads();                                    /*!*/
        sum += s[TID];
        __syncthreads();                                    /*!*/
    }
    b[TID] = sum;
    b[TID + 128] = 1;
}
__global__ void trip_counts_in_a_warp(const int *a, int *b) {
    __shared__ int s[64];
    int sum = 0;
    s[TID] = 0;
    for (int k = 0; k < 4; ++k) {
        FAULT(if (k > TID % 4) break;)
        s[TID] += a[TID];
        __syncthreads();                                    /*!*/
        sum += s[TID] + k;
    }
    b[TID] = sum;
}
__global__ void two_barriers(const int *a, int *b) {
    __shared__ int s[128];
    s[TID] = a[TID];
    REPAIR(__syncthreads();)
    if (TID < 64) {
        FAULT(asm volatile("bar.sync 1;" ::: "memory");)    /*!*/
        b[TID] = s[127 - TID];
    } else {
        FAULT(asm volatile("bar.sync 2;" ::: "memory");)    /*!*/
        b[TID] = s[TID] * 2;
    }
}
__global__ void in_a_switch(const int *a, int *b) {
    __shared__ int s[128];
    s[TID] = a[TID];
    int v = 0;
    switch (TID / 32) {
    case 0: v = 5; break;
    case 1: FAULT(__syncthreads();) v = s[TID]; break;      /*!*/
    default: v = 7;
    }
    REPAIR(__syncthreads();)
    b[TID] = v + a[TID];
}
__global__ void counting_barrier(const int *a, int *b) {
    int c = 0;
    if (FAULT(a[TID] > 400) REPAIR(true)) c = __syncthreads_count(a[TID] > 600); /*!*/
    b[TID] = c + TID;
}
__global__ void in_a_function(const int *a, int *b) {
    __shared__ int s[128];
    s[TID] = a[TID];
    int v = 1;
    if (FAULT(TID >= 32) REPAIR(a[0] >= 0)) v = meet_and_read(s, TID);     /*!*/
    b[TID] = v * 3;
}
__global__ void guarded_load(const int *a, int *b, int n) {
    __shared__ int s[128];
    int i = GID;
    if (i < n) {
        s[TID] = a[i];
        FAULT(__syncthreads();)                             /*!*/
    }
    REPAIR(__syncthreads();)
    b[i] = i < n - 1 && TID < 127 ? s[TID] * 2 : -1;
}
__global__ void votes_of_a_block(const int *a, int *b) {
    int r = 9;
    FAULT(if (TID % 64 < 40)) r = __syncthreads_or(a[TID] > 998);  /*!*/
    b[TID] = r != 0;
}
}
