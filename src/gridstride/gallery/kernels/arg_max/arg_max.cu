// The place of the largest of n floats, the first one where several are as large. A pair travels where a sum had one number.
struct Best {
    float value;
    int index;
};

// The better of two: the larger value, and of equal ones the lower place. The order of comparisons does not matter then.
__device__ __forceinline__ Best better(Best a, Best b) {
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

// Worse than anything: what threads without an element bring.
__device__ __forceinline__ Best nothing() { return {-__int_as_float(0x7f800000), 0x7fffffff}; }

// == tree: pairs in shared memory
__device__ __forceinline__ Best tree(Best mine) {
    __shared__ float values[256];            // two arrays: neighbouring threads use neighbouring words of both
    __shared__ int indices[256];
    int t = threadIdx.x;
    values[t] = mine.value, indices[t] = mine.index;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            Best b = better({values[t], indices[t]}, {values[t + half], indices[t + half]});
            values[t] = b.value, indices[t] = b.index;
        }
    }
    return {values[0], indices[0]};          // of use to thread 0, which wrote it
}

extern "C" __global__ void argmax_tree(const float *x, float2 *partial, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    Best mine = nothing();
    if (i < n)
        mine = {x[i], i};
    mine = tree(mine);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = make_float2(mine.value, __int_as_float(mine.index));   // 8 bytes a block
}

extern "C" __global__ void argmax_tree_partials(const float2 *partial, int *out, int blocks) {
    Best mine = nothing();
    for (int b = threadIdx.x; b < blocks; b += 256)
        mine = better(mine, {partial[b].x, __float_as_int(partial[b].y)});
    mine = tree(mine);
    if (threadIdx.x == 0)
        *out = mine.index;
}

// == shuffle: pairs in registers
__device__ __forceinline__ Best warp_best(Best mine) {
    for (int step = 16; step > 0; step /= 2)   // two shuffles a round, one for each half of the pair
        mine = better(mine, {__shfl_down_sync(0xffffffff, mine.value, step), __shfl_down_sync(0xffffffff, mine.index, step)});
    return mine;
}

__device__ __forceinline__ Best block_best(Best mine) {
    __shared__ Best bests[8];
    mine = warp_best(mine);
    if (threadIdx.x % 32 == 0)
        bests[threadIdx.x / 32] = mine;
    __syncthreads();
    return threadIdx.x < 32 ? warp_best(bests[threadIdx.x % 8]) : nothing();   // four times the same eight: the best is the best
}

extern "C" __global__ void argmax_shuffle(const float *x, float2 *partial, int n) {
    Best mine = nothing();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        mine = better(mine, {x[i], i});
    mine = block_best(mine);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = make_float2(mine.value, __int_as_float(mine.index));
}

extern "C" __global__ void argmax_shuffle_partials(const float2 *partial, int *out, int blocks) {
    Best mine = nothing();
    for (int b = threadIdx.x; b < blocks; b += 256)
        mine = better(mine, {partial[b].x, __float_as_int(partial[b].y)});
    mine = block_best(mine);
    if (threadIdx.x == 0)
        *out = mine.index;
}

// == packed: value and place in one number of 64 bits
__device__ __forceinline__ unsigned long long pack(float value, int index) {
    unsigned int bits = __float_as_uint(value + 0.0f);                           // -0 becomes 0: they are equal
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;                      // now ordered as unsigned numbers as the floats are
    return (unsigned long long)bits << 32 | (unsigned int)~index;                // of equal values the lower place is the larger number
}

extern "C" __global__ void __launch_bounds__(256) argmax_packed(const float *x, unsigned long long *out, int n) {
    __shared__ unsigned long long bests[8];
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    int me = blockIdx.x * 256 + threadIdx.x, quads = n / 4;
    Best mine = nothing();
    for (int i = me; i < quads; i += gridDim.x * 256) {
        float4 v = x4[i];
        // within a vector the places are known: the comparison of pairs is needed only for the winner
        Best low = v.y > v.x ? Best{v.y, 4 * i + 1} : Best{v.x, 4 * i}, high = v.w > v.z ? Best{v.w, 4 * i + 3} : Best{v.z, 4 * i + 2};
        mine = better(mine, high.value > low.value ? high : low);
    }
    if (4 * quads + me < n)
        mine = better(mine, {x[4 * quads + me], 4 * quads + me});
    unsigned long long best = mine.index == 0x7fffffff ? 0 : pack(mine.value, mine.index);
    for (int step = 16; step > 0; step /= 2)
        best = max(best, __shfl_down_sync(0xffffffff, best, step));              // one number, one comparison
    if (threadIdx.x % 32 == 0)
        bests[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; w++)
            best = max(best, bests[w]);
        atomicMax(out, best);                                                    // the largest of all blocks, in any order the same
    }
}
