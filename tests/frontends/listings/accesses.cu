// What a machine compiler does with memory accesses: one kernel each, none of them changed but where the name says so.
extern "C" {
__global__ void plain(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i];
}

__global__ void strided(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i * 32] + x[i * 8 + 1];
}

struct Record {
    float first, second, third, fourth, fifth, sixth, seventh, eighth;
};

__global__ void record(const Record *r, float *y) {
    y[threadIdx.x] = r[threadIdx.x].third;
}

__global__ void pair(const double2 *x, double *y) {
    y[threadIdx.x] = x[threadIdx.x].x * 2.0;
}

__global__ void merged_pair(const float *x, float *y) {
    __shared__ float s[512];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[2 * threadIdx.x] + s[2 * threadIdx.x + 1];
}

__global__ void unrolled_together(const float *x, float *y, int n) {
    float s = 0;
    for (int k = 0; k < n; k++)
        s += x[k] * 2;
    y[threadIdx.x] = s;
}

__global__ void unrolled_apart(const float *x, float *y) {
    float s = 0;
    for (int k = 0; k <= threadIdx.x; k++)
        s += x[k];
    y[threadIdx.x] = s;
}

__global__ void gathered_atomic(const int *x, int *sum) {
    atomicAdd(sum, x[threadIdx.x]);
}

__global__ void scattered_atomic(const int *x, int *bins) {
    atomicAdd(&bins[x[threadIdx.x]], 1);
}
}
