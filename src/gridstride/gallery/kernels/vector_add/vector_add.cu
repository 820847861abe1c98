// c = a + b, element by element: the "hello world" of GPUs, and pure memory traffic: 12 bytes for one addition.

// == one-thread: all elements by one thread
extern "C" __global__ void add_one_thread(const float *a, const float *b, float *c, int n) {
    for (int i = 0; i < n; i++)   // a loop as on a processor; 31 lanes of the only warp, and 131 multiprocessors, do nothing
        c[i] = a[i] + b[i];       // each access is a request for 4 bytes, and moves a sector of 32
}

// == one-block: one block shares the loop
extern "C" __global__ void add_one_block(const float *a, const float *b, float *c, int n) {
    // Thread t takes t, t + 256, …: at each moment the 32 lanes of a warp are at 32 neighbours, 128 bytes, 4 whole sectors.
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        c[i] = a[i] + b[i];       // but a block lives on one multiprocessor: the others still do nothing
}

// == thread-each: a thread for each element
extern "C" __global__ void add_thread_each(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;   // blocks before this one, times their size, plus the place in it
    if (i < n)                                       // the grid is rounded up to whole blocks: the last one reaches past the end
        c[i] = a[i] + b[i];
}

// == grid-stride: a fixed grid walks over any size
extern "C" __global__ void add_grid_stride(const float *a, const float *b, float *c, int n) {
    int threads = gridDim.x * blockDim.x;            // of the whole grid: as many as the device holds at once
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)
        c[i] = a[i] + b[i];                          // coalesced as before; blocks are started once, not once for every 256 elements
}

// == float4: sixteen bytes an access
extern "C" __global__ void add_float4(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int quads = n / 4;                               // groups of four elements; arrays begin at multiples of 256 bytes, so each is aligned
    if (i < quads) {
        float4 x = reinterpret_cast<const float4 *>(a)[i];   // one instruction loads 16 bytes a lane, 512 a warp: a quarter of the requests
        float4 y = reinterpret_cast<const float4 *>(b)[i];
        reinterpret_cast<float4 *>(c)[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
    int tail = 4 * quads + i;                        // what is left when n is no multiple of four: at most three elements,
    if (tail < n)                                    // which the first threads of the grid take
        c[tail] = a[tail] + b[tail];
}
