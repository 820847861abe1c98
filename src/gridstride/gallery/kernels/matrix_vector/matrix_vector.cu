// y = A x for A of m x n, row-major: every element of A is used once, so the matrix has to be read at the speed of memory.

// == thread-row: a thread for each row
extern "C" __global__ void matvec_thread(const float *A, const float *x, float *y, int m, int n) {
    int row = blockIdx.x * 256 + threadIdx.x;
    if (row >= m)
        return;
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += A[(long long)row * n + i] * x[i];                 // lanes are a row apart: 32 sectors a request, though caches keep them for the next steps
    y[row] = sum;
}

// == warp-row: a warp for each row
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        v += __shfl_down_sync(0xffffffff, v, step);
    return v;
}

extern "C" __global__ void matvec_warp(const float *A, const float *x, float *y, int m, int n) {
    int row = (blockIdx.x * 256 + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= m)
        return;                                                  // whole warps
    float sum = 0;
    for (int i = lane; i < n; i += 32)
        sum += A[(long long)row * n + i] * x[i];                 // lanes are neighbours; x comes from the cache
    sum = warp_sum(sum);
    if (lane == 0)
        y[row] = sum;
}

// == warp-float4: vectors
extern "C" __global__ void __launch_bounds__(256) matvec_float4(const float *A, const float *x, float *y, int m, int n) {
    int row = (blockIdx.x * 256 + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= m)
        return;
    const float *a = A + (long long)row * n;
    float sum = 0;
    int done = 0;
    if (n % 4 == 0) {                                            // then every row begins at a multiple of sixteen bytes
        const float4 *a4 = reinterpret_cast<const float4 *>(a), *x4 = reinterpret_cast<const float4 *>(x);
#pragma unroll 4
        for (int i = lane; i < n / 4; i += 32) {
            float4 u = a4[i], v = x4[i];
            sum += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
        }
        done = n;
    }
    for (int i = done + lane; i < n; i += 32)
        sum += a[i] * x[i];
    sum = warp_sum(sum);
    if (lane == 0)
        y[row] = sum;
}

// == four-rows: a warp makes four rows at once
extern "C" __global__ void __launch_bounds__(256) matvec_four_rows(const float *A, const float *x, float *y, int m, int n) {
    int row = (blockIdx.x * 256 + threadIdx.x) / 32 * 4, lane = threadIdx.x % 32;
    if (row >= m)
        return;
    float sum[4] = {};
    bool vectors = n % 4 == 0;
    const float *a[4];
#pragma unroll
    for (int r = 0; r < 4; r++)
        a[r] = A + (long long)min(row + r, m - 1) * n;           // behind the last row the last one again, which nobody writes
    if (vectors)
        for (int i = 4 * lane; i < n; i += 128) {
            float4 v = *reinterpret_cast<const float4 *>(x + i); // x once for four rows, and four loads of A under way
#pragma unroll
            for (int r = 0; r < 4; r++) {
                float4 u = *reinterpret_cast<const float4 *>(a[r] + i);
                sum[r] += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
            }
        }
    else
        for (int i = lane; i < n; i += 32)
#pragma unroll
            for (int r = 0; r < 4; r++)
                sum[r] += a[r][i] * x[i];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        float s = warp_sum(sum[r]);
        if (lane == 0 && row + r < m)
            y[row + r] = s;
    }
}
