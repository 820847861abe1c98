// The exclusive scan of n whole numbers: out[i] is the sum of everything before in[i]. 1 2 3 4 gives 0 1 3 6.

// The inclusive scan of a warp: after rounds of 1, 2, 4, 8 and 16 lane l holds the sum of lanes 0 to l.
__device__ __forceinline__ int warp_scan(int v) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        int before = __shfl_up_sync(0xffffffff, v, step);
        if (threadIdx.x % 32 >= step)                            // lanes below have nobody so far before them
            v += before;
    }
    return v;
}

// What all blocks before it have, added to the elements of each block: the last pass of scans block by block.
extern "C" __global__ void scan_add(int *out, const int *offsets, int n, int items) {
    for (int i = blockIdx.x * items + threadIdx.x; i < min((blockIdx.x + 1) * items, n); i += blockDim.x)
        out[i] += offsets[blockIdx.x];
}

// == hillis-steele: log n rounds of n additions
extern "C" __global__ void scan_hillis_steele(const int *in, int *out, int *sums, int n) {
    __shared__ int s[2][256];                                    // two copies: one is read while the other is written
    int t = threadIdx.x, i = blockIdx.x * 256 + t, now = 0;
    s[0][t] = i < n ? in[i] : 0;
    for (int step = 1; step < 256; step *= 2) {
        __syncthreads();
        s[now ^ 1][t] = s[now][t] + (t >= step ? s[now][t - step] : 0);   // all threads add in all eight rounds: 2,048 additions for 256
        now ^= 1;
    }
    __syncthreads();
    if (i < n)
        out[i] = t > 0 ? s[now][t - 1] : 0;                      // exclusive: one further
    if (t == 255)
        sums[blockIdx.x] = s[now][255];
}

// == blelloch: up and down a tree
// PAD: words are left out so that the tree's strides do not meet in one bank.
template <bool PAD> __device__ __forceinline__ int place(int i) { return PAD ? i + i / 32 : i; }

template <bool PAD> __device__ __forceinline__ void tree_scan(const int *in, int *out, int *sums, int n) {
    __shared__ int s[512 + (PAD ? 16 : 0)];
    int t = threadIdx.x, base = blockIdx.x * 512;
    s[place<PAD>(t)] = base + t < n ? in[base + t] : 0;
    s[place<PAD>(t + 256)] = base + t + 256 < n ? in[base + t + 256] : 0;
    for (int step = 1; step < 512; step *= 2) {                  // up: each node gets the sum of its two children; 511 additions
        __syncthreads();
        int right = 2 * step * (t + 1) - 1;
        if (right < 512)
            s[place<PAD>(right)] += s[place<PAD>(right - step)];
    }
    __syncthreads();
    if (t == 0) {
        sums[blockIdx.x] = s[place<PAD>(511)];
        s[place<PAD>(511)] = 0;                                  // nothing stands before the root
    }
    for (int step = 256; step > 0; step /= 2) {                  // down: the left child begins where its parent does, the right one behind the left
        __syncthreads();
        int right = 2 * step * (t + 1) - 1;
        if (right < 512) {
            int left = s[place<PAD>(right - step)];
            s[place<PAD>(right - step)] = s[place<PAD>(right)];
            s[place<PAD>(right)] += left;
        }
    }
    __syncthreads();
    if (base + t < n)
        out[base + t] = s[place<PAD>(t)];
    if (base + t + 256 < n)
        out[base + t + 256] = s[place<PAD>(t + 256)];
}

extern "C" __global__ void scan_blelloch(const int *in, int *out, int *sums, int n) { tree_scan<false>(in, out, sums, n); }

// == conflict-free: the same tree with padding
extern "C" __global__ void scan_conflict_free(const int *in, int *out, int *sums, int n) { tree_scan<true>(in, out, sums, n); }

// == shuffle: registers instead of shared memory
extern "C" __global__ void scan_shuffle(const int *in, int *out, int *sums, int n) {
    __shared__ int warps[8];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    int own = i < n ? in[i] : 0, inclusive = warp_scan(own);
    if (t % 32 == 31)
        warps[t / 32] = inclusive;
    __syncthreads();
    int of_warps = warp_scan(warps[t % 8] * (t % 32 < 8));       // every warp scans the eight sums for itself: no second barrier
    int before = __shfl_sync(0xffffffff, of_warps, t / 32) - warps[t / 32];
    if (i < n)
        out[i] = before + inclusive - own;
    if (t == 255)
        sums[blockIdx.x] = before + inclusive;
}

// == block: sixteen elements a thread
constexpr int ITEMS = 4096;                                      // of a block of 256 threads

// A tile is four times 256 vectors of four numbers: neighbouring lanes load neighbouring vectors.
struct Tile {
    int4 v[4];
    int before[4], total;                                        // what stands before each of this thread's vectors; the sum of the tile

    __device__ __forceinline__ void load(const int *in, int base, int n) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int i = base + 1024 * j + 4 * threadIdx.x;
            if (i + 3 < n)
                v[j] = *reinterpret_cast<const int4 *>(in + i);
            else                                                 // of the last tile only
                v[j] = make_int4(i < n ? in[i] : 0, i + 1 < n ? in[i + 1] : 0, i + 2 < n ? in[i + 2] : 0, 0);
        }
    }

    __device__ __forceinline__ void scan() {
        __shared__ int sums[32];                                 // of the eight warps in each of the four parts, in the order of the elements
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {                            // four scans side by side hide each other's waiting
            own[j] = v[j].x + v[j].y + v[j].z + v[j].w;
            before[j] = warp_scan(own[j]);
            if (lane == 31)
                sums[8 * j + warp] = before[j];
        }
        __syncthreads();
        int mine = sums[lane], inclusive = warp_scan(mine);      // every warp scans the 32 sums for itself
        total = __shfl_sync(0xffffffff, inclusive, 31);
#pragma unroll
        for (int j = 0; j < 4; j++)
            before[j] += __shfl_sync(0xffffffff, inclusive - mine, 8 * j + warp) - own[j];
    }

    __device__ __forceinline__ void store(int *out, int base, int n, int offset) const {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int i = base + 1024 * j + 4 * threadIdx.x, a = offset + before[j], b = a + v[j].x, c = b + v[j].y, d = c + v[j].z;
            if (i + 3 < n)
                *reinterpret_cast<int4 *>(out + i) = make_int4(a, b, c, d);
            else {
                if (i < n) out[i] = a;
                if (i + 1 < n) out[i + 1] = b;
                if (i + 2 < n) out[i + 2] = c;
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(256) scan_block(const int *in, int *out, int *sums, int n) {
    Tile tile;
    tile.load(in, blockIdx.x * ITEMS, n);
    tile.scan();
    tile.store(out, blockIdx.x * ITEMS, n, 0);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = tile.total;
}

// == three-pass: sums first, then the scan
extern "C" __global__ void __launch_bounds__(256) scan_sums(const int *in, int *sums, int n) {
    __shared__ int warps[8];
    Tile tile;
    tile.load(in, blockIdx.x * ITEMS, n);
    int sum = 0;
    for (int j = 0; j < 4; j++)
        sum += tile.v[j].x + tile.v[j].y + tile.v[j].z + tile.v[j].w;
    sum = __reduce_add_sync(0xffffffff, sum);                    // one instruction for whole numbers
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        sums[blockIdx.x] = warps[0] + warps[1] + warps[2] + warps[3] + warps[4] + warps[5] + warps[6] + warps[7];
}

extern "C" __global__ void __launch_bounds__(256) scan_with_offsets(const int *in, const int *offsets, int *out, int n) {
    Tile tile;
    tile.load(in, blockIdx.x * ITEMS, n);
    tile.scan();
    tile.store(out, blockIdx.x * ITEMS, n, offsets[blockIdx.x]); // the offset is known: nothing has to be written twice
}

// == look-back: one pass
// What a tile has to tell: 0 nothing yet, KNOWN its own sum, ALL the sum of everything up to its end. State and sum are one word of 64 bits, so
// that they are seen together and no fence is needed.
constexpr unsigned long long KNOWN = 1ull << 32, ALL = 2ull << 32;

extern "C" __global__ void __launch_bounds__(256) scan_lookback(const int *in, int *out, volatile unsigned long long *state, unsigned int *ticket, int n) {
    __shared__ int my_tile, offset;
    if (threadIdx.x == 0)
        my_tile = atomicAdd(ticket, 1);                          // tiles in the order in which blocks start: whoever waits, waits for a block that runs
    __syncthreads();
    int index = my_tile, lane = threadIdx.x;
    Tile tile;
    tile.load(in, index * ITEMS, n);
    tile.scan();
    if (threadIdx.x < 32) {
        if (lane == 0)
            state[index] = (index ? KNOWN : ALL) | (unsigned int)tile.total;          // the next tiles need not wait for more
        int sum = 0;
        for (int last = index - 1; last >= 0; last -= 32) {      // 32 tiles before this one at a time, the nearest in lane 0
            unsigned long long seen = ALL;                       // before the first tile: everything, and it is zero
            do {
                if (last - lane >= 0)
                    seen = state[last - lane];
            } while (__any_sync(0xffffffff, seen < KNOWN));      // until each has told something
            unsigned int whole = __ballot_sync(0xffffffff, seen >= ALL);
            int nearest = whole ? __ffs(whole) - 1 : 31;         // the nearest that knows all before it; behind it nothing is needed
            sum += __reduce_add_sync(0xffffffff, lane <= nearest ? (int)seen : 0);
            if (whole)
                break;
        }
        if (lane == 0) {
            if (index)
                state[index] = ALL | (unsigned int)(sum + tile.total);
            offset = sum;
        }
    }
    __syncthreads();
    tile.store(out, index * ITEMS, n, offset);
}
