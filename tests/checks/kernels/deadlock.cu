// Waiting for what nobody brings.
#include "twins.cuh"
extern "C" {
__global__ void meet_all_blocks(int *arrived, int *b) {
    if (TID == 0) {
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < (int)gridDim.x) { }  /*!*/
        if (blockIdx.x == 0) b[0] = 3;
    }
}
// every block waits for the next one, which does not fit beside it
__global__ void flag_of_a_later_block(int *flags, int *b) {
    if (TID) return;
    int next = blockIdx.x + 1;
    if (next < gridDim.x) while (atomicAdd(&flags[next], 0) == 0) { } /*!*/
    atomicExch(&flags[blockIdx.x], 1);
    if (blockIdx.x == 0) b[0] = 4;
}
__global__ void lock_is_kept(int *lock, const int *a, int *b) {
    if (TID) return;
    while (atomicCAS(lock, 0, 1)) { }                       /*!*/
    __threadfence();
    FAULT(if (a[blockIdx.x] > 100) return;)
    b[0] += a[blockIdx.x] > 100;
    __threadfence();
    atomicExch(lock, 0);
}
__global__ void barrier_count_too_large(const int *a, int *b) {
    __shared__ int s[128];
    s[TID] = a[TID];
    if (TID < 64) asm volatile("bar.sync 1, %0;" ::"n"(FAULT(96) REPAIR(64)) : "memory"); /*!*/
    b[TID] = s[TID < 64 ? TID ^ 32 : TID];
}
// each holds one lock and wants the other
__global__ void two_locks(int *locks, int *met, int *b) {
    if (TID) return;
    int first = FAULT(blockIdx.x) REPAIR(0), second = 1 - first;
    while (atomicCAS(&locks[first], 0, 1)) { }              /*!*/
    FAULT(atomicAdd(met, 1); while (atomicAdd(met, 0) < 2) { })
    while (atomicCAS(&locks[second], 0, 1)) { }             /*!*/
    __threadfence();
    b[0] += 1;
    __threadfence();
    atomicExch(&locks[second], 0);
    atomicExch(&locks[first], 0);
}
__global__ void one_too_many(int *count, int *b) {
    if (TID) return;
    atomicAdd(count, 1);
    while (atomicAdd(count, 0) < (int)gridDim.x FAULT(+ 1)) { } /*!*/
    b[blockIdx.x] = 1;
}
__global__ void both_wait_first(int *flags, int *b) {
    if (TID) return;
    int other = 1 - blockIdx.x;
    REPAIR(atomicExch(&flags[blockIdx.x], 1);)
    while (atomicAdd(&flags[other], 0) == 0) { }            /*!*/
    FAULT(atomicExch(&flags[blockIdx.x], 1);)
    b[blockIdx.x] = 1;
}
// one thread spins for what comes after a barrier that it has to take itself
__global__ void spin_before_the_barrier(int *flag, int *b) {
    FAULT(if (TID == 0) while (atomicAdd(flag, 0) == 0) { }) /*!*/
    __syncthreads();                                        /*!*/
    if (TID == 64) atomicExch(flag, 1);
    REPAIR(if (TID == 0) while (atomicAdd(flag, 0) == 0) { })
    b[TID] = 1;
}
__global__ void consumer_without_producer(int *flag, const int *a, int *b) {
    if (TID < 32) {
        if (TID == 0 && a[0] > FAULT(100000) REPAIR(0)) atomicExch(flag, 1);
    } else if (TID == 32) {
        while (*(volatile int *)flag == 0) { }              /*!*/
        b[0] = 1;
    }
}
__global__ void arrive_once_too_few(const int *a, int *b) {
    __shared__ int s[64];
    if (TID < 64) {
        s[TID] = a[TID];
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        b[TID - 64] = s[TID - 64];
        FAULT(asm volatile("bar.sync 1, 128;" ::: "memory");) /*!*/
        b[TID] = 2;
    }
}
}
