// The positive ones among n numbers, side by side, and how many they are. Where does each go?

// == atomic: a place for each
extern "C" __global__ void compact_atomic(const int *in, int *out, int *count, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && in[i] > 0)
        out[atomicAdd(count, 1)] = in[i];                        // right, in whatever order; every kept element asks the same counter
}

// == warp: one atomic for a warp
extern "C" __global__ void compact_warp(const int *in, int *out, int *count, int n) {
    int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x % 32;
    int v = i < n ? in[i] : 0;
    unsigned int kept = __ballot_sync(0xffffffff, v > 0);        // a bit for each lane that keeps its element
    int base = 0;
    if (lane == 0 && kept)
        base = atomicAdd(count, __popc(kept));                   // places for all of them at once
    base = __shfl_sync(0xffffffff, base, 0);
    if (v > 0)
        out[base + __popc(kept & ((1u << lane) - 1))] = v;       // as many further as lanes before it keep theirs: in order within the warp
}

// What a block of 256 threads keeps of its sixteen elements a thread: lane l of warp w has elements w * 512 + 32 k + l.
struct Kept {
    int v[16], before[16], total;                                // before: kept ones of this warp in front of each; total: of the warp

    __device__ __forceinline__ void load(const int *in, int n) {
        int first = blockIdx.x * 4096 + threadIdx.x / 32 * 512 + threadIdx.x % 32;
        total = 0;
#pragma unroll
        for (int k = 0; k < 16; k++)
            v[k] = first + 32 * k < n ? in[first + 32 * k] : 0;
#pragma unroll
        for (int k = 0; k < 16; k++) {
            unsigned int kept = __ballot_sync(0xffffffff, v[k] > 0);
            before[k] = total + __popc(kept & ((1u << threadIdx.x % 32) - 1));
            total += __popc(kept);
        }
    }

    // What the warps before this one keep, and the whole block's number.
    __device__ __forceinline__ int before_warp(int &all) const {
        __shared__ int warps[8];
        if (threadIdx.x % 32 == 0)
            warps[threadIdx.x / 32] = total;
        __syncthreads();
        int sum = 0;
        all = 0;
#pragma unroll
        for (int w = 0; w < 8; w++) {
            sum += w < threadIdx.x / 32 ? warps[w] : 0;
            all += warps[w];
        }
        return sum;
    }

    __device__ __forceinline__ void store(int *out, int base) const {
#pragma unroll
        for (int k = 0; k < 16; k++)
            if (v[k] > 0)
                out[base + before[k]] = v[k];                    // neighbours go to neighbours
    }
};

// == block: one atomic for 4,096 elements
extern "C" __global__ void __launch_bounds__(256) compact_block(const int *in, int *out, int *count, int n) {
    __shared__ int base;
    Kept kept;
    int all;
    kept.load(in, n);
    int before = kept.before_warp(all);
    if (threadIdx.x == 0)
        base = atomicAdd(count, all);                            // blocks come in any order, so the order of the output is theirs
    __syncthreads();
    kept.store(out, base + before);
}

// == ordered: counts, their scan, then the elements
extern "C" __global__ void __launch_bounds__(256) compact_counts(const int *in, int *counts, int n) {
    Kept kept;
    int all;
    kept.load(in, n);
    kept.before_warp(all);
    if (threadIdx.x == 0)
        counts[blockIdx.x] = all;
}

extern "C" __global__ void compact_offsets(int *counts, int *count, int blocks) {
    __shared__ int warps[8];
    int carry = 0;                                               // one block of 256 threads goes over the counts, which are few
    for (int at = 0; at < blocks; at += 256) {
        int i = at + threadIdx.x, own = i < blocks ? counts[i] : 0, v = own;
        for (int step = 1; step < 32; step *= 2) {
            int before = __shfl_up_sync(0xffffffff, v, step);
            v += threadIdx.x % 32 >= step ? before : 0;
        }
        if (threadIdx.x % 32 == 31)
            warps[threadIdx.x / 32] = v;
        __syncthreads();
        int before = carry;
        for (int w = 0; w < 8; w++) {
            before += w < threadIdx.x / 32 ? warps[w] : 0;
            carry += warps[w];
        }
        if (i < blocks)
            counts[i] = before + v - own;
        __syncthreads();                                         // the sums are written anew in the next round
    }
    if (threadIdx.x == 0)
        *count = carry;
}

extern "C" __global__ void __launch_bounds__(256) compact_ordered(const int *in, const int *offsets, int *out, int n) {
    Kept kept;
    int all;
    kept.load(in, n);
    kept.store(out, offsets[blockIdx.x] + kept.before_warp(all));
}
