// How often each of 256 values occurs among n bytes.

// == global: an atomic in global memory for each byte
extern "C" __global__ void histogram_global(const unsigned char *data, unsigned int *bins, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        atomicAdd(&bins[data[i]], 1);                            // n atomics, all on the same kilobyte of L2
}

// == global-skewed: the same kernel where most bytes are equal
// The kernel of `global`. Nine bytes in ten are the same value: a warp's lanes want one address in L2.

// == privatised: a histogram for each block
extern "C" __global__ void histogram_privatised(const unsigned char *data, unsigned int *bins, int n) {
    __shared__ unsigned int mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        atomicAdd(&mine[data[i]], 1);                            // in shared memory: each multiprocessor by itself
    __syncthreads();
    if (mine[threadIdx.x])
        atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);        // at the end one atomic for each bin and block
}

// == per-warp: a histogram for each warp
// The eight histograms of a block: cleared at the start, added up at the end.
__device__ __forceinline__ void clear(unsigned int (*mine)[256]) {
    for (int w = 0; w < 8; w++)
        mine[w][threadIdx.x] = 0;
    __syncthreads();
}

__device__ __forceinline__ void add_up(unsigned int (*mine)[256], unsigned int *bins) {
    __syncthreads();
    unsigned int sum = 0;
    for (int w = 0; w < 8; w++)
        sum += mine[w][threadIdx.x];
    if (sum)
        atomicAdd(&bins[threadIdx.x], sum);
}

extern "C" __global__ void histogram_per_warp(const unsigned char *data, unsigned int *bins, int n) {
    __shared__ unsigned int mine[8][256];
    clear(mine);
    unsigned int *own = mine[threadIdx.x / 32];                  // warps do not wait for each other's atomics
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        atomicAdd(&own[data[i]], 1);
    add_up(mine, bins);
}

// == vector: sixteen bytes a load
// Calls count(byte) for the four bytes of a word.
template <typename Count> __device__ __forceinline__ void each_byte(unsigned int word, Count count) {
    count(word & 255), count(word >> 8 & 255), count(word >> 16 & 255), count(word >> 24);
}

template <typename Count> __device__ __forceinline__ void each_of_mine(const unsigned char *data, int n, Count count) {
    const uint4 *vectors = reinterpret_cast<const uint4 *>(data);
    int me = blockIdx.x * 256 + threadIdx.x, threads = gridDim.x * 256;
    for (int i = me; i < n / 16; i += threads) {
        uint4 v = vectors[i];
        each_byte(v.x, count), each_byte(v.y, count), each_byte(v.z, count), each_byte(v.w, count);
    }
    if (n / 16 * 16 + me < n)                                    // at most fifteen bytes are left
        count(data[n / 16 * 16 + me]);
}

extern "C" __global__ void __launch_bounds__(256) histogram_vector(const unsigned char *data, unsigned int *bins, int n) {
    __shared__ unsigned int mine[8][256];
    clear(mine);
    unsigned int *own = mine[threadIdx.x / 32];
    each_of_mine(data, n, [=](unsigned int byte) { atomicAdd(&own[byte], 1); });
    add_up(mine, bins);
}

// == skewed: the same kernel where most bytes are equal
// The kernel of `vector`. Nine bytes in ten are the same value, and most lanes of a warp want the same word. An increment by one whose old value
// nobody reads is a machine instruction of its own, which counts lanes with the same word together: they do not wait for each other.

// == runs: equal bytes of a thread are counted before they are added
// Clever, and worse: a sum other than one is no increment, so lanes with the same word add one after the other; and the lanes go apart.
extern "C" __global__ void __launch_bounds__(256) histogram_runs(const unsigned char *data, unsigned int *bins, int n) {
    __shared__ unsigned int mine[8][256];
    clear(mine);
    unsigned int *own = mine[threadIdx.x / 32], last = 0, run = 0;
    each_of_mine(data, n, [&](unsigned int byte) {
        if (byte == last) {                                      // in a register
            run++;
            return;
        }
        if (run)
            atomicAdd(&own[last], run);
        last = byte, run = 1;
    });
    if (run)
        atomicAdd(&own[last], run);
    add_up(mine, bins);
}
