// The dot product of two arrays: a multiplication for each pair, and a reduction.

// The sum over a block of 256 threads, in thread 0.
template <typename T> __device__ __forceinline__ T block_sum(T v) {
    __shared__ T sums[8];
    for (int step = 16; step > 0; step /= 2)
        v += __shfl_down_sync(0xffffffff, v, step);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x >= 32)
        return 0;
    v = sums[threadIdx.x % 8];
    for (int step = 4; step > 0; step /= 2)
        v += __shfl_down_sync(0xffffffff, v, step, 8);
    return v;
}

// == two-kernels: multiply, then sum
extern "C" __global__ void dot_multiply(const float *x, const float *y, float *products, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        products[i] = x[i] * y[i];           // written to memory, only to be read again
}

extern "C" __global__ void dot_sum(const float *x, float *out, int n) {
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        atomicAdd(out, sum);
}

// == fused: products stay in registers
extern "C" __global__ void dot_fused(const float *x, const float *y, float *out, int n) {
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i] * y[i];                  // one fused multiply-add; 8 bytes an element instead of 16
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        atomicAdd(out, sum);
}

// == float4: vectors
__device__ __forceinline__ float dot4(float4 a, float4 b) { return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w); }

extern "C" __global__ void __launch_bounds__(256) dot_float4(const float *x, const float *y, float *out, int n) {
    const float4 *x4 = reinterpret_cast<const float4 *>(x), *y4 = reinterpret_cast<const float4 *>(y);
    int me = blockIdx.x * 256 + threadIdx.x, threads = gridDim.x * 256, quads = n / 4, i = me;
    float sum = 0;
    for (; i + threads < quads; i += 2 * threads) {   // four loads of 16 bytes under way
        float4 a = x4[i], b = y4[i], c = x4[i + threads], d = y4[i + threads];
        sum += dot4(a, b) + dot4(c, d);
    }
    if (i < quads)
        sum += dot4(x4[i], y4[i]);
    if (4 * quads + me < n)
        sum += x[4 * quads + me] * y[4 * quads + me];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        atomicAdd(out, sum);
}

// == double: products and sums in double precision
extern "C" __global__ void __launch_bounds__(256) dot_double(const float *x, const float *y, double *out, int n) {
    const float4 *x4 = reinterpret_cast<const float4 *>(x), *y4 = reinterpret_cast<const float4 *>(y);
    int me = blockIdx.x * 256 + threadIdx.x, threads = gridDim.x * 256, quads = n / 4;
    double sum = 0;                                   // the product of two floats is exact in double precision
    for (int i = me; i < quads; i += threads) {
        float4 a = x4[i], b = y4[i];
        sum += ((double)a.x * b.x + (double)a.y * b.y) + ((double)a.z * b.z + (double)a.w * b.w);
    }
    if (4 * quads + me < n)
        sum += (double)x[4 * quads + me] * y[4 * quads + me];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        atomicAdd(out, sum);
}
