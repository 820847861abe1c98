// C = A B in single precision, row-major: A is m x k, B is k x n, C is m x n, of any size.
// Each element of A is needed by n outputs, each of B by m: 2 m n k FLOPs over m k + k n + m n numbers. The art is to load each seldom.

// == swapped: a thread an output, neighbours in a column
extern "C" __global__ void matmul_swapped(const float *A, const float *B, float *C, int m, int n, int k) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, col = blockIdx.y * blockDim.y + threadIdx.y;   // x, which runs fastest, goes down
    if (row >= m || col >= n)
        return;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += A[(long long)row * k + i] * B[(long long)i * n + col];   // A: 32 lanes in 32 rows, 32 sectors a request; C likewise
    C[(long long)row * n + col] = sum;
}

// == naive: a thread an output, neighbours in a row
extern "C" __global__ void matmul_naive(const float *A, const float *B, float *C, int m, int n, int k) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;   // x runs along the row
    if (row >= m || col >= n)
        return;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += A[(long long)row * k + i] * B[(long long)i * n + col];   // A: one address for the warp, B: 4 sectors. But every value is loaded anew
    C[(long long)row * n + col] = sum;
}

// == tiled: 32 x 32 tiles in shared memory
extern "C" __global__ void matmul_tiled(const float *A, const float *B, float *C, int m, int n, int k) {
    __shared__ float a[32][32], b[32][32];
    int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int at = 0; at < k; at += 32) {
        // each thread loads one value of each tile; behind the borders are zeros, which add nothing
        a[threadIdx.y][threadIdx.x] = row < m && at + threadIdx.x < k ? A[(long long)row * k + at + threadIdx.x] : 0.0f;
        b[threadIdx.y][threadIdx.x] = at + threadIdx.y < k && col < n ? B[(long long)(at + threadIdx.y) * n + col] : 0.0f;
        __syncthreads();                                          // the tiles are whole
#pragma unroll 8
        for (int i = 0; i < 32; i++)
            sum += a[threadIdx.y][i] * b[i][threadIdx.x];         // each value loaded is used 32 times; but two shared loads feed one FMA
        __syncthreads();                                          // nobody reads them any more
    }
    if (row < m && col < n)
        C[(long long)row * n + col] = sum;
}

// == registers-2x2: four outputs a thread
// T x T outputs a thread for 16 x 16 threads: tiles of 16 T x 16 of A and 16 x 16 T of B. A thread's rows and columns are 16 apart, so that
// its neighbours' are side by side.
template <int T> __device__ __forceinline__ void register_tile(const float *A, const float *B, float *C, int m, int n, int k) {
    __shared__ float a[16 * T][16], b[16][16 * T + 16];           // a warp is two rows of 16 threads, which write 32 banks where rows are an odd multiple of 16 words
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 * T + ty, col = blockIdx.x * 16 * T + tx;
    float sum[T][T] = {};
    for (int at = 0; at < k; at += 16) {
#pragma unroll
        for (int r = 0; r < T; r++) {
            a[ty + 16 * r][tx] = row + 16 * r < m && at + tx < k ? A[(long long)(row + 16 * r) * k + at + tx] : 0.0f;
            b[ty][tx + 16 * r] = at + ty < k && col + 16 * r < n ? B[(long long)(at + ty) * n + col + 16 * r] : 0.0f;
        }
        __syncthreads();
#pragma unroll 4
        for (int i = 0; i < 16; i++) {
            float x[T], y[T];
#pragma unroll
            for (int r = 0; r < T; r++)
                x[r] = a[ty + 16 * r][i], y[r] = b[i][tx + 16 * r];   // 2 T loads …
#pragma unroll
            for (int r = 0; r < T; r++)
#pragma unroll
                for (int c = 0; c < T; c++)
                    sum[r][c] += x[r] * y[c];                         // … feed T * T multiply-adds
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < T; r++)
#pragma unroll
        for (int c = 0; c < T; c++)
            if (row + 16 * r < m && col + 16 * c < n)
                C[(long long)(row + 16 * r) * n + col + 16 * c] = sum[r][c];
}

extern "C" __global__ void __launch_bounds__(256) matmul_registers2(const float *A, const float *B, float *C, int m, int n, int k) {
    register_tile<2>(A, B, C, m, n, k);
}

// == registers-4x4: sixteen outputs a thread
extern "C" __global__ void __launch_bounds__(256) matmul_registers4(const float *A, const float *B, float *C, int m, int n, int k) {
    register_tile<4>(A, B, C, m, n, k);                           // 8 shared loads for 16 multiply-adds
}

// == vector-8x8: 64 outputs a thread, sixteen bytes an access
constexpr int TILE = 128, DEPTH = 8;                              // a block makes 128 x 128 outputs, eight steps of k at a time
constexpr int PITCH = TILE + 4;                                   // of A's tile: its transposed columns fall into different banks

// Where a thread stands. Eight warps make 32 x 64 outputs each, in 4 x 2 parts of the tile. A lane makes two times four rows and two times four
// columns. A warp's access of 16 bytes a lane takes two passes instead of four where lanes go in pairs of equal addresses, each lane with its
// neighbour or each with the next but one: so neighbours (bit 0 of the lane) share columns, and the next but one (bit 1) shares rows.
struct Place {
    int row, col;
    __device__ __forceinline__ Place() {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        row = warp / 2 * 32 + (lane & 1) * 4 + (lane >> 2 & 1) * 8;
        col = warp % 2 * 64 + (lane >> 1 & 1) * 4 + (lane >> 3) * 8;
    }
};

// Four values from p on, of which `count` are there; `aligned`: rows are whole numbers of vectors, so that all four are there or none.
__device__ __forceinline__ float4 load4(const float *p, int count, bool aligned) {
    if (aligned && count > 0)
        return *reinterpret_cast<const float4 *>(p);
    float4 v = make_float4(0, 0, 0, 0);
    if (!aligned) {
        if (count > 0) v.x = p[0];
        if (count > 1) v.y = p[1];
        if (count > 2) v.z = p[2];
        if (count > 3) v.w = p[3];
    }
    return v;
}

// What a thread loads of each pair of tiles: a vector of A along k, and one of B along n. ALIGNED: both are known to be aligned.
template <bool ALIGNED> struct Loader {
    const float *A, *B;                                           // the next vectors
    int n, a_left, b_left, b_cols;                                // values of A's row from there on, rows of B from there on, columns of B
    bool a_aligned;
    __device__ __forceinline__ Loader(const float *A, const float *B, int m, int n, int k) : n(n) {
        int row = blockIdx.y * TILE + threadIdx.x / 2, at = threadIdx.x % 2 * 4;        // two threads take the eight values of a row: one sector
        int down = threadIdx.x / 32, col = blockIdx.x * TILE + threadIdx.x % 32 * 4;    // a warp takes 512 bytes of a row
        this->A = A + (long long)row * k + at, this->B = B + (long long)down * n + col;
        a_left = row < m ? k - at : 0, b_left = k - down, b_cols = n - col;
        a_aligned = k % 4 == 0;
    }
    __device__ __forceinline__ float4 a() const { return load4(A, a_left, ALIGNED || a_aligned); }
    __device__ __forceinline__ float4 b() const { return load4(B, b_left > 0 ? b_cols : 0, ALIGNED || n % 4 == 0); }
    __device__ __forceinline__ void next() { A += DEPTH, B += (long long)DEPTH * n, a_left -= DEPTH, b_left -= DEPTH; }
    static __device__ __forceinline__ void store(float4 x, float4 y, float (*a)[PITCH], float (*b)[TILE]) {
        int row = threadIdx.x / 2, at = threadIdx.x % 2 * 4;
        a[at][row] = x.x, a[at + 1][row] = x.y, a[at + 2][row] = x.z, a[at + 3][row] = x.w;   // transposed: rows of A side by side
        *reinterpret_cast<float4 *>(&b[threadIdx.x / 32][threadIdx.x % 32 * 4]) = y;
    }
};

// One pair of tiles: eight times 64 multiply-adds for four shared loads of 16 bytes.
__device__ __forceinline__ void multiply(const float (*a)[PITCH], const float (*b)[TILE], Place at, float (&sum)[8][8]) {
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
        float x[8], y[8];
        *reinterpret_cast<float4 *>(x) = *reinterpret_cast<const float4 *>(&a[i][at.row]);
        *reinterpret_cast<float4 *>(x + 4) = *reinterpret_cast<const float4 *>(&a[i][at.row + 16]);
        *reinterpret_cast<float4 *>(y) = *reinterpret_cast<const float4 *>(&b[i][at.col]);
        *reinterpret_cast<float4 *>(y + 4) = *reinterpret_cast<const float4 *>(&b[i][at.col + 32]);
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int c = 0; c < 8; c++)
                sum[r][c] += x[r] * y[c];
    }
}

__device__ __forceinline__ void write(const float (&sum)[8][8], Place at, float *C, int m, int n) {
#pragma unroll
    for (int r = 0; r < 8; r++) {
        int row = blockIdx.y * TILE + at.row + r % 4 + r / 4 * 16;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int col = blockIdx.x * TILE + at.col + half * 32;
            const float *v = sum[r] + 4 * half;
            float *p = C + (long long)row * n + col;
            if (row < m && n % 4 == 0 && col < n)
                *reinterpret_cast<float4 *>(p) = make_float4(v[0], v[1], v[2], v[3]);
            else if (row < m)
                for (int c = 0; c < 4; c++)
                    if (col + c < n)
                        p[c] = v[c];
        }
    }
}

__device__ __forceinline__ void single_buffered(const float *A, const float *B, float *C, int m, int n, int k) {
    __shared__ __align__(16) float a[DEPTH][PITCH], b[DEPTH][TILE];
    Place place;
    Loader<false> load(A, B, m, n, k);
    float sum[8][8] = {};
    for (int at = 0; at < k; at += DEPTH, load.next()) {
        load.store(load.a(), load.b(), a, b);                     // everybody waits for memory here
        __syncthreads();
        multiply(a, b, place, sum);
        __syncthreads();
    }
    write(sum, place, C, m, n);
}

extern "C" __global__ void matmul_vector8(const float *A, const float *B, float *C, int m, int n, int k) { single_buffered(A, B, C, m, n, k); }

// == bounds: the same with a promise
extern "C" __global__ void __launch_bounds__(256, 2) matmul_bounds(const float *A, const float *B, float *C, int m, int n, int k) {
    single_buffered(A, B, C, m, n, k);                            // at most 256 threads, and two blocks a multiprocessor: at most 128 registers
}

// == double-buffered: the next tiles are loaded while these are multiplied
template <bool ALIGNED>
__device__ __forceinline__ void double_buffered(const float *A, const float *B, float *C, int m, int n, int k, float (*a)[DEPTH][PITCH], float (*b)[DEPTH][TILE]) {
    Place place;
    Loader<ALIGNED> load(A, B, m, n, k);
    float sum[8][8] = {};
    load.store(load.a(), load.b(), a[0], b[0]);
    __syncthreads();
    int now = 0;
    for (int at = DEPTH; at < k; at += DEPTH, now ^= 1) {
        load.next();
        float4 x = load.a(), y = load.b();                        // asked for now, needed after the multiplications
        multiply(a[now], b[now], place, sum);
        load.store(x, y, a[now ^ 1], b[now ^ 1]);                 // into the other pair of tiles, which nobody reads: one barrier is enough
        __syncthreads();
    }
    multiply(a[now], b[now], place, sum);
    write(sum, place, C, m, n);
}

extern "C" __global__ void __launch_bounds__(256, 2) matmul_double(const float *A, const float *B, float *C, int m, int n, int k) {
    __shared__ __align__(16) float a[2][DEPTH][PITCH], b[2][DEPTH][TILE];
    if (n % 4 == 0 && k % 4 == 0)                                 // known here, it saves the registers that the other case needs
        double_buffered<true>(A, B, C, m, n, k, a, b);
    else
        double_buffered<false>(A, B, C, m, n, k, a, b);
}
