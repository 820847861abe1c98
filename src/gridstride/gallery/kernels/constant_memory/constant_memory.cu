// A table of 32 coefficients, read by every thread. Constant memory has a cache of its own that gives one word a pass to the whole warp.
__constant__ float coefficients[32] = {1.0f,   0.5f,   0.25f,  2.0f,  -1.0f,  3.0f, -0.5f, 4.0f, 1.5f,  2.5f, -2.0f,
                                       0.125f, 0.75f,  1.25f,  -3.0f, 5.0f,   6.0f, -4.0f, 7.0f, 8.0f,  0.0f, 9.0f,
                                       -5.0f,  -0.25f, 10.0f,  11.0f, -6.0f,  12.0f, -7.0f, 13.0f, 14.0f, 15.0f};

// == broadcast: one word for the warp
extern "C" __global__ void constant_broadcast(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] * coefficients[blockIdx.x % 32];    // the same index in all lanes: one pass, as fast as a register
}

// == divergent: a word for each lane
extern "C" __global__ void constant_divergent(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] * coefficients[i % 32];             // 32 words: 32 passes, one after the other
}

// == pairs: a word for two lanes
extern "C" __global__ void constant_pairs(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] * coefficients[i % 32 / 2];         // 16 words: 16 passes; lanes with the same word share
}

// == shared: where lanes differ, shared memory
extern "C" __global__ void constant_shared(const float *x, float *y, int n) {
    __shared__ float table[32];
    if (threadIdx.x < 32)
        table[threadIdx.x] = coefficients[threadIdx.x]; // 32 passes, but by one warp of the block, once
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] * table[i % 32];                    // 32 words in 32 banks: one pass
}
