// The sum of n floats. Every element is read once, so the best that can be is the time of reading them.

// One round of a tree in shared memory: the first `half` threads each add what lies `half` further on.
__device__ __forceinline__ void halve(float *s, int half) {
    if (threadIdx.x < half)
        s[threadIdx.x] += s[threadIdx.x + half];
}

// The sum over groups of WIDTH neighbouring lanes, in the first lane of each group: after each round half as many lanes hold sums of twice as many.
template <int WIDTH = 32> __device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int step = WIDTH / 2; step > 0; step /= 2)
        v += __shfl_down_sync(0xffffffff, v, step, WIDTH);   // a register of the lane `step` further on; no memory, no barrier
    return v;
}

// The sum over a block of 256 threads, in thread 0: each warp by itself, then the first warp over the eight warps' sums.
__device__ __forceinline__ float block_sum(float v) {
    __shared__ float sums[8];
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = v;
    __syncthreads();                                          // the only barrier
    return threadIdx.x < 32 ? warp_sum<8>(sums[threadIdx.x % 8]) : 0.0f;   // four groups of eight lanes do the same, so that no lane goes another way
}

// What one thread of the grid sums up: vectors of four, four loads under way at once, and at the end what is no whole vector.
__device__ __forceinline__ float thread_sum(const float *x, int n) {
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    int me = blockIdx.x * 256 + threadIdx.x, threads = gridDim.x * 256, quads = n / 4, i = me;
    float4 s = make_float4(0, 0, 0, 0);
    for (; i + 3 * threads < quads; i += 4 * threads) {
        float4 a = x4[i], b = x4[i + threads], c = x4[i + 2 * threads], d = x4[i + 3 * threads];
        s.x += (a.x + b.x) + (c.x + d.x), s.y += (a.y + b.y) + (c.y + d.y);
        s.z += (a.z + b.z) + (c.z + d.z), s.w += (a.w + b.w) + (c.w + d.w);
    }
    for (; i < quads; i += threads) {
        float4 a = x4[i];
        s.x += a.x, s.y += a.y, s.z += a.z, s.w += a.w;
    }
    float sum = (s.x + s.y) + (s.z + s.w);
    return 4 * quads + me < n ? sum + x[4 * quads + me] : sum;   // at most three elements are left
}

// == one-thread: all by one thread
extern "C" __global__ void sum_one_thread(const float *x, float *out, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];                         // each addition waits for the one before, and a sector is moved for each
    *out = sum;
}

// == atomic: an atomic for each element
extern "C" __global__ void sum_atomic(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(out, x[i]);                // right, but n additions to one address are made one after the other
}

// == interleaved: a tree in shared memory, by neighbours
extern "C" __global__ void sum_interleaved(const float *x, float *out, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? x[i] : 0.0f;              // threads behind the end bring zero, which changes no sum
    __syncthreads();
    for (int k = 1; k < 256; k *= 2) {
        if (t % (2 * k) == 0)                // every second, fourth, eighth … thread: all warps stay busy with ever fewer lanes
            s[t] += s[t + k];
        __syncthreads();                     // outside of the branch: every thread must come here
    }
    if (t == 0)
        out[blockIdx.x] = s[0];              // a partial sum a block; the next launch sums these
}

// == strided: a tree whose working threads are neighbours
extern "C" __global__ void sum_strided(const float *x, float *out, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int k = 1; k < 256; k *= 2) {
        int j = 2 * k * t;                   // threads 0, 1, 2, … work: whole warps drop out. But the words they touch are 2 k apart:
        if (j < 256)
            s[j] += s[j + k];                // they meet in ever fewer banks
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}

// == sequential: a tree over halves
extern "C" __global__ void sum_sequential(const float *x, float *out, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? x[i] : 0.0f;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        halve(s, half);                      // neighbouring threads, neighbouring words: full warps and no conflict
    }
    if (t == 0)                              // thread 0 wrote s[0] itself
        out[blockIdx.x] = s[0];
}

// == coarsened: many elements a thread before the tree
extern "C" __global__ void sum_coarsened(const float *x, float *out, int n) {
    __shared__ float s[256];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256)
        sum += x[i];                         // in a register: no barrier, no shared memory, all lanes
    s[t] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        halve(s, half);                      // the tree runs once a block, and there are only as many blocks as fit
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}

// == shuffle: registers instead of shared memory
extern "C" __global__ void sum_shuffle(const float *x, float *out, int n) {
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    sum = block_sum(sum);                    // 5 shuffles in each warp, one barrier, 3 shuffles in the first warp
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

// == full: vectors, four loads under way, one launch
extern "C" __global__ void __launch_bounds__(256) sum_full(const float *x, float *out, int n) {
    float sum = block_sum(thread_sum(x, n));
    if (threadIdx.x == 0)
        atomicAdd(out, sum);                 // one atomic a block, a thousand in all. Their order is the machine's: so are the last bits
}

// == deterministic: the last block adds up, always in the same order
extern "C" __global__ void __launch_bounds__(256) sum_deterministic(const float *x, float *partial, unsigned int *ticket, float *out, int n) {
    __shared__ bool last;
    float sum = block_sum(thread_sum(x, n));
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();                                         // the partial sum is there before the ticket is drawn
        last = atomicAdd(ticket, 1) == gridDim.x - 1;            // who draws the last ticket knows that all others are done
        __threadfence();                                         // and sees what they wrote
    }
    __syncthreads();
    if (!last)                                                   // the same for all threads of a block
        return;
    sum = 0;
    for (int b = threadIdx.x; b < gridDim.x; b += 256)           // block by block, whoever is last
        sum += partial[b];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *out = sum;
        *ticket = 0;                                             // ready for the next launch
    }
}

// == kahan: with what rounding took
struct Compensated {
    float sum, lost;                         // what was added up, and what the additions rounded away
};

__device__ __forceinline__ Compensated add(Compensated a, float v) {
    float s = a.sum + v, z = s - a.sum;      // s is rounded; (a - (s - z)) + (v - z) is exactly what it lost (Knuth's TwoSum)
    return {s, a.lost + ((a.sum - (s - z)) + (v - z))};
}

__device__ __forceinline__ Compensated add(Compensated a, Compensated b) {
    a = add(a, b.sum);
    return {a.sum, a.lost + b.lost};
}

template <int WIDTH> __device__ __forceinline__ Compensated warp_sum(Compensated v) {
    for (int step = WIDTH / 2; step > 0; step /= 2) {
        float sum = __shfl_down_sync(0xffffffff, v.sum, step, WIDTH), lost = __shfl_down_sync(0xffffffff, v.lost, step, WIDTH);
        v = add(v, Compensated{sum, lost});
    }
    return v;
}

__device__ __forceinline__ Compensated block_sum(Compensated v) {
    __shared__ Compensated sums[8];
    v = warp_sum<32>(v);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = v;
    __syncthreads();
    return threadIdx.x < 32 ? warp_sum<8>(sums[threadIdx.x % 8]) : Compensated{0, 0};
}

extern "C" __global__ void __launch_bounds__(256) sum_kahan(const float *x, float2 *partial, int n) {
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    int me = blockIdx.x * 256 + threadIdx.x, threads = gridDim.x * 256, quads = n / 4;
    Compensated sum = {0, 0};
    for (int i = me; i < quads; i += threads) {
        float4 v = x4[i];
        sum = add(add(add(add(sum, v.x), v.y), v.z), v.w);
    }
    if (4 * quads + me < n)
        sum = add(sum, x[4 * quads + me]);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = make_float2(sum.sum, sum.lost);
}

extern "C" __global__ void sum_kahan_partials(const float2 *partial, float *out, int blocks) {
    Compensated sum = {0, 0};
    for (int b = threadIdx.x; b < blocks; b += 256)
        sum = add(sum, Compensated{partial[b].x, partial[b].y});
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *out = sum.sum + sum.lost;           // rounded once
}
