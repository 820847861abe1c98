// Faults as they stand in programs: reductions in two steps, compaction, sparse rows, look-back, tiles that are used twice.
#include "twins.cuh"
#include <cuda/atomic>
extern "C" {
// softmax over rows, one warp a row: the maximum is kept in shared memory and used again for the sum without a barrier
__global__ void softmax(const float *x, float *y, int n) {
    __shared__ float part[4];
    int w = TID / 32, l = TID % 32;
    const float *row = x + blockIdx.x * n;
    float m = -1e30f;
    for (int i = TID; i < n; i += blockDim.x) m = fmaxf(m, row[i]);
    for (int o = 16; o; o /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
    if (l == 0) part[w] = m;
    __syncthreads();
    m = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));     /*!*/
    REPAIR(__syncthreads();)
    float s = 0;
    for (int i = TID; i < n; i += blockDim.x) s += expf(row[i] - m);
    for (int o = 16; o; o /= 2) s += __shfl_xor_sync(~0u, s, o);
    if (l == 0) part[w] = s;                                         /*!*/
    __syncthreads();
    s = part[0] + part[1] + part[2] + part[3];
    for (int i = TID; i < n; i += blockDim.x) y[blockIdx.x * n + i] = expf(row[i] - m) / s;
}
// stream compaction: the block's base is taken by one thread, the others read it too early
__global__ void compact(const int *x, int *y, int *count, int n) {
    __shared__ int base, sums[12];
    int i = GID, keep = i < n && x[i] % 3 == 0;
    unsigned b = __ballot_sync(~0u, keep);
    int l = TID % 32, w = TID / 32;
    if (l == 0) sums[w] = __popc(b);
    __syncthreads();
    if (TID == 0) {
        int all = 0;
        for (int k = 0; k < blockDim.x / 32; k++) all += sums[k];
        base = atomicAdd(count, all);                                /*!*/
    }
    REPAIR(__syncthreads();)
    int at = base + __popc(b & ((1u << l) - 1));                     /*!*/
    for (int k = 0; k < w; k++) at += sums[k];
    if (keep) y[at] = x[i];
}
// a matrix-vector product, rows of uneven length: the tail's shared slot is never written
__global__ void spmv(const int *starts, const int *cols, const float *v, const float *x, float *y, int rows) {
    __shared__ float p[128];
    int r = blockIdx.x;
    float s = 0;
    for (int k = starts[r] + TID; k < starts[r + 1]; k += blockDim.x) s += v[k] * x[cols[k]];
    FAULT(if (starts[r] + TID < starts[r + 1])) p[TID] = s;
    __syncthreads();
    for (int o = 64; o; o /= 2) { if (TID < o) p[TID] += p[TID + o]; __syncthreads(); }  /*!*/
    if (TID == 0) y[r] = p[0];                                       /*!*/
}
// a decoupled look-back that reads the aggregate before the flag's acquire
__global__ void lookback(const int *x, int *agg, u32 *flag, int *out) {
    __shared__ int before;
    int v = x[GID];
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    if (TID == 0) {
        agg[blockIdx.x] = v;                                         /*!*/
        cuda::atomic_ref<u32, cuda::thread_scope_device> f(flag[blockIdx.x]);
        f.store(1, cuda::memory_order_release);
        int s = 0;
        for (int k = blockIdx.x - 1; k >= 0; k--) {
            cuda::atomic_ref<u32, cuda::thread_scope_device> g(flag[k]);
            while (g.load(FAULT(cuda::memory_order_relaxed) REPAIR(cuda::memory_order_acquire)) == 0);
            s += agg[k];                                             /*!*/
        }
        before = s;
    }
    __syncthreads();
    out[GID] = before;
}
// a transpose in tiles 16 wide, padded; the tile is reused for a second matrix
__global__ void transpose_two(const float *a, const float *b, float *c, int n) {
    __shared__ float t[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    int u = blockIdx.y * 16 + threadIdx.x, v = blockIdx.x * 16 + threadIdx.y;
    t[threadIdx.y][threadIdx.x] = a[y * n + x];
    __syncthreads();
    float s = t[threadIdx.x][threadIdx.y];                           /*!*/
    REPAIR(__syncthreads();)
    t[threadIdx.y][threadIdx.x] = b[y * n + x];                      /*!*/
    __syncthreads();
    c[v * n + u] = s + t[threadIdx.x][threadIdx.y];
}
// sgemm in tiles without the second barrier
__global__ void gemm(const float *A, const float *B, float *C, int N) {
    __shared__ float a[16][16], b[16][16];
    int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
    float s = 0;
    for (int k0 = 0; k0 < N; k0 += 16) {
        a[threadIdx.y][threadIdx.x] = A[r * N + k0 + threadIdx.x];   /*!*/
        b[threadIdx.y][threadIdx.x] = B[(k0 + threadIdx.y) * N + c]; /*!*/
        __syncthreads();
        for (int k = 0; k < 16; ++k) s += a[threadIdx.y][k] * b[k][threadIdx.x];   /*!*/
        REPAIR(__syncthreads();)
    }
    C[r * N + c] = s;
}
}
