// Results that depend on the order of blocks and warps.
#include "twins.cuh"
extern "C" {
__global__ void float_sum(const float *a, float *b) {
    FAULT(atomicAdd(b, a[GID]);)
    REPAIR(if (GID == 0) { float s = 0; for (int k = 0; k < gridDim.x * blockDim.x; ++k) s += a[k]; *b = s; })
}
__global__ void double_sum(const double *a, double *b) {
    FAULT(if (TID == 0) { double s = 0; for (int k = 0; k < 32; ++k) s += a[GID + k]; atomicAdd(b, s); })
    REPAIR(if (GID == 0) { double s = 0; for (int k = 0; k < gridDim.x * blockDim.x; ++k) s += a[k]; *b = s; })
}
__global__ void compaction(const int *a, int *count, int *b) {
    FAULT(if (a[GID] > 500) b[atomicAdd(count, 1)] = GID;)
    REPAIR(b[GID] = a[GID] > 500; if (a[GID] > 500) atomicAdd(count, 1);)
}
__global__ void last_one_wins(int *b) {
    if (TID == 0) FAULT(atomicExch) REPAIR(atomicMax)(b, (int)blockIdx.x + 1);
}
__global__ void first_one_wins(int *b) {
    if (TID == 0) { FAULT(atomicCAS(b, 0, (int)blockIdx.x + 1);) REPAIR(atomicCAS(b, 0, 7);) }
}
__global__ void ticket_as_result(int *count, int *b) {
    if (TID == 0) b[blockIdx.x] = FAULT(atomicAdd(count, 1)) REPAIR(atomicAdd(count, 0) >= 0);
}
__global__ void list_order(int *head, int *next) {
    if (TID == 0) next[blockIdx.x] = FAULT(atomicExch(head, (int)blockIdx.x)) REPAIR((int)blockIdx.x - 1);
}
__global__ void work_stealing(int *count, int *b) {
    __shared__ int item;
    for (;;) {
        __syncthreads();
        if (TID == 0) item = atomicAdd(count, 1);
        __syncthreads();
        if (item >= 40) break;
        if (TID == 0) b[item] = FAULT(blockIdx.x) REPAIR(item * 3);
    }
}
// saturates: whoever comes first fills it
__global__ void bounded_counter(int *b, int *taken) {
    if (TID == 0) {
        int old = atomicAdd(b, (int)blockIdx.x + 1);
        FAULT(taken[blockIdx.x] = old < 10;)
        REPAIR(taken[blockIdx.x] = old < 1000;)
    }
}
}
