// Launches that do not fit their kernel: here the launch is repaired, not the kernel.
#include "twins.cuh"
extern "C" {
__global__ void block_y(const int *a, int *b) { atomicAdd(&b[GID], a[GID]); }
__global__ void grid_y(const int *a, int *b) { atomicAdd(&b[GID], a[GID]); }
__global__ void grid_z(const int *a, int *b, int w) {
    int x = GID, y = blockIdx.y * blockDim.y + threadIdx.y;
    atomicAdd(&b[y * w + x], a[y * w + x]);
}
__global__ void block_z(const int *a, int *b) { atomicAdd(&b[threadIdx.y * blockDim.x + TID], a[TID]); }
__global__ void columns_alike(const int *a, int *b) { atomicAdd(&b[blockIdx.y * 32 + TID], a[blockIdx.y * 32 + TID]); }
__global__ void tail_left_out(const int *a, int *b, int n) {
    int i = GID;
    if (i < n) b[i] = a[i] * 2;
}
__global__ void too_many_threads(int *b) { b[GID] = GID; }
__global__ void grid_y_too_large(int *b) {
    int i = blockIdx.y * gridDim.x + blockIdx.x;
    if (i < 64) b[i] = i;
}
__global__ void shared_too_large(int *b) {
    extern __shared__ int s[];
    s[TID] = TID;
    __syncthreads();
    b[TID] = s[31 - TID];
}
__global__ void __launch_bounds__(64) beyond_its_bounds(int *b) { b[GID] = GID; }
}
