// Many small products: C[b] = A[b] B[b] for matrices of 16 x 16, one after the other in memory. One is too small for a multiprocessor.

// == per-output: a thread for each output
extern "C" __global__ void batched_per_output(const float *A, const float *B, float *C, int batch) {
    long long i = (long long)blockIdx.x * 256 + threadIdx.x;     // 256 outputs are a matrix: a block each
    if (i >= 256LL * batch)
        return;
    int row = threadIdx.x / 16, col = threadIdx.x % 16;
    const float *a = A + 256LL * blockIdx.x + 16 * row, *b = B + 256LL * blockIdx.x + col;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 16; k++)
        sum += a[k] * b[16 * k];                                 // every value is asked for sixteen times, of L1
    C[i] = sum;
}

// == shared: both matrices in shared memory
extern "C" __global__ void batched_shared(const float *A, const float *B, float *C, int batch) {
    __shared__ float a[16][16], b[16][16];
    int row = threadIdx.x / 16, col = threadIdx.x % 16;
    long long i = 256LL * blockIdx.x + threadIdx.x;
    a[row][col] = A[i], b[row][col] = B[i];                      // each value once, side by side
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 16; k++)
        sum += a[row][k] * b[k][col];
    C[i] = sum;
}

// == warp: a warp for each product, eight outputs a lane
__device__ __forceinline__ void add(float4 &sum, float a, float4 b) { sum.x += a * b.x, sum.y += a * b.y, sum.z += a * b.z, sum.w += a * b.w; }

extern "C" __global__ void __launch_bounds__(256) batched_warp(const float *A, const float *B, float *C, int batch) {
    __shared__ float4 tiles[8][2][64];                           // of each warp: A and B, rows of four vectors
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int matrix = blockIdx.x * 8 + warp;
    if (matrix >= batch)
        return;                                                  // whole warps; nobody waits for them
    const float4 *a4 = reinterpret_cast<const float4 *>(A) + 64LL * matrix, *b4 = reinterpret_cast<const float4 *>(B) + 64LL * matrix;
    tiles[warp][0][lane] = a4[lane], tiles[warp][0][lane + 32] = a4[lane + 32];   // 512 bytes a request
    tiles[warp][1][lane] = b4[lane], tiles[warp][1][lane + 32] = b4[lane + 32];
    __syncwarp();                                                // the warp's own tiles: no block-wide barrier
    int row = lane / 4, col = lane % 4;                          // rows `row` and `row` + 8, columns 4 col to 4 col + 3
    float4 top = make_float4(0, 0, 0, 0), low = top;
#pragma unroll
    for (int k = 0; k < 16; k += 4) {                            // six loads of sixteen bytes for 32 multiply-adds
        float4 x = tiles[warp][0][4 * row + k / 4], y = tiles[warp][0][4 * (row + 8) + k / 4];
        const float4 *b = &tiles[warp][1][4 * k + col];
        add(top, x.x, b[0]), add(low, y.x, b[0]);
        add(top, x.y, b[4]), add(low, y.y, b[4]);
        add(top, x.z, b[8]), add(low, y.z, b[8]);
        add(top, x.w, b[12]), add(low, y.w, b[12]);
    }
    float4 *c4 = reinterpret_cast<float4 *>(C) + 64LL * matrix;
    c4[lane] = top, c4[lane + 32] = low;                         // lane 4 row + col: side by side
}
