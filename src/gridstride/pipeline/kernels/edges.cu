// The edge pipeline: grey -> blur along rows -> blur along columns -> Sobel magnitude -> 8-bit edges and their histogram.
//
// Image kernels. A block is 32 x 8 threads; one warp is 32 threads of one row (threadIdx.x counts fastest), so the lanes of a
// warp touch 32 neighbouring pixels of one image row. A float image is read and written 128 consecutive bytes a warp: 4 sectors of
// 32 bytes, the fewest there can be (one more where the row does not begin on a sector). Eight rows a block, because the filters
// of neighbouring rows read the same rows and find them in the cache.
//
// Arithmetic. Products and sums are spelled __fmul_rn and __fadd_rn: each is rounded once, and no compiler may contract a product
// and a sum into a fused multiply-add. So every device gives the same bits, and the NumPy float32 reference can follow step by step.
// All stages hold values on the scale of 8 bits, 0 to 255, whatever the depth of the input.
//
// Sizes. The host refuses images of more than 2^28 pixels, so a 32-bit index reaches every sample (4 * 2^28 of them fit).

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

// The pixel column of this thread. The grid covers the width, rounded up to whole blocks: x may lie outside the image.
__device__ int column() { return blockIdx.x * blockDim.x + threadIdx.x; }

// The first pixel row of this thread, and the distance to its next one. The grid covers the height too, but for images taller than
// its limit of 65,535 blocks: there each thread goes on, a whole grid further down.
__device__ int first_row() { return blockIdx.y * blockDim.y + threadIdx.y; }
__device__ int row_step() { return gridDim.y * blockDim.y; }

// An index held inside 0 .. size - 1: beyond the border stands a copy of the border pixel.
__device__ int clamped(int index, int size) { return min(max(index, 0), size - 1); }

// ---------------------------------------------------------------------------------------------------------------- grey

// Brightness as ITU-R BT.601 weighs the three colours, added from left to right.
__device__ float luma(float red, float green, float blue) {
    return __fadd_rn(__fadd_rn(__fmul_rn(0.299f, red), __fmul_rn(0.587f, green)), __fmul_rn(0.114f, blue));
}

// 16-bit samples reach 65535 = 257 * 255; this brings them to 0 .. 255. 8-bit samples are there already.
__device__ float to_eight_bit_scale(float value, u8) { return value; }
__device__ float to_eight_bit_scale(float value, u16) { return __fmul_rn(value, 1.0f / 257.0f); }

// Four samples of one pixel, loaded by one instruction.
template <typename Sample> struct alignas(4 * sizeof(Sample)) FourSamples {
    Sample red, green, blue, alpha;
};

template <typename Sample, int CHANNELS>
__device__ void grey(const Sample *samples, float *out, int width, int height) {
    int x = column();
    if (x >= width) // the last block of a row may hang over the right border: those threads have no pixel
        return;     // (no barrier follows, so leaving early is allowed)
    for (int y = first_row(); y < height; y += row_step()) {
        u32 pixel = y * width + x; // rows lie one after the other: lane k of a warp holds pixel + k
        float value;
        if constexpr (CHANNELS == 1) {
            value = samples[pixel]; // 32 neighbouring samples: 1 sector of 8-bit, 2 of 16-bit samples
        } else if constexpr (CHANNELS == 3) {
            // Red, green and blue lie side by side, so lane k's red is 3 samples after lane k-1's. Each of the three loads strides
            // over the warp's 96 samples (3 sectors of 8 bits, 6 of 16): three requests for the same sectors. The first brings them
            // from memory, the others find them in the L1 cache; every byte fetched is used.
            float red = samples[3 * pixel];
            float green = samples[3 * pixel + 1];
            float blue = samples[3 * pixel + 2];
            value = luma(red, green, blue);
        } else {
            // With alpha a pixel is 4 or 8 bytes, and aligned so: one vector load a lane, 128 or 256 consecutive bytes a warp.
            // Alpha says how much of a background would show, not how bright the pixel is; it is not used.
            auto four = reinterpret_cast<const FourSamples<Sample> *>(samples)[pixel];
            value = luma(four.red, four.green, four.blue);
        }
        out[pixel] = to_eight_bit_scale(value, Sample()); // 32 neighbouring floats: 4 sectors
    }
}

#define GREY_KERNEL(NAME, SAMPLE, CHANNELS)                                                                 \
    extern "C" __global__ void NAME(const SAMPLE *samples, float *out, int width, int height) {             \
        grey<SAMPLE, CHANNELS>(samples, out, width, height);                                                \
    }
GREY_KERNEL(grey_u8_1, u8, 1)
GREY_KERNEL(grey_u8_3, u8, 3)
GREY_KERNEL(grey_u8_4, u8, 4)
GREY_KERNEL(grey_u16_1, u16, 1)
GREY_KERNEL(grey_u16_3, u16, 3)
GREY_KERNEL(grey_u16_4, u16, 4)

// ---------------------------------------------------------------------------------------------------------------- blur

// A Gaussian of sigma 1 over five pixels; the weights sum to 1. Added in the order of the pixels.
__device__ float weighted(float before2, float before1, float centre, float after1, float after2) {
    float sum = __fmul_rn(0.06136f, before2);
    sum = __fadd_rn(sum, __fmul_rn(0.24477f, before1));
    sum = __fadd_rn(sum, __fmul_rn(0.38774f, centre));
    sum = __fadd_rn(sum, __fmul_rn(0.24477f, after1));
    sum = __fadd_rn(sum, __fmul_rn(0.06136f, after2));
    return sum;
}

extern "C" __global__ void blur_rows(const float *in, float *out, int width, int height) {
    int x = column();
    if (x >= width) // no pixel for this thread
        return;
    // Each tap's column is clamped by itself. Clamping only the outer two and reusing them for the inner ones would be wrong
    // in the second column and the last but one, where only the outer tap falls off the image.
    int before2 = clamped(x - 2, width);
    int before1 = clamped(x - 1, width);
    int after1 = clamped(x + 1, width);
    int after2 = clamped(x + 2, width);
    for (int y = first_row(); y < height; y += row_step()) {
        const float *row = in + y * width; // the same for the whole warp
        // Five loads, each of 32 neighbouring floats but shifted by a pixel: 4 or 5 sectors, all but the first from the cache.
        out[y * width + x] = weighted(row[before2], row[before1], row[x], row[after1], row[after2]);
    }
}

extern "C" __global__ void blur_columns(const float *in, float *out, int width, int height) {
    int x = column();
    if (x >= width) // no pixel for this thread
        return;
    for (int y = first_row(); y < height; y += row_step()) {
        // Each tap's row is clamped by itself, as above. A warp has one y, so its lanes agree on all five rows ...
        int before2 = clamped(y - 2, height) * width;
        int before1 = clamped(y - 1, height) * width;
        int after1 = clamped(y + 1, height) * width;
        int after2 = clamped(y + 2, height) * width;
        // ... and each load takes 32 neighbouring floats of one row: coalesced, though the filter runs down the columns.
        // Four of the five rows serve the neighbouring warps of the block as well.
        out[y * width + x] = weighted(in[before2 + x], in[before1 + x], in[y * width + x], in[after1 + x], in[after2 + x]);
    }
}

// ---------------------------------------------------------------------------------------------------------------- Sobel

// One side of a Sobel operator: 1 2 1. Doubling is exact.
__device__ float side(float first, float middle, float last) {
    return __fadd_rn(__fadd_rn(first, __fmul_rn(2.0f, middle)), last);
}

extern "C" __global__ void sobel(const float *in, float *out, int width, int height) {
    int x = column();
    if (x >= width) // no pixel for this thread
        return;
    int left = clamped(x - 1, width); // beyond the border: the border pixel
    int right = clamped(x + 1, width);
    for (int y = first_row(); y < height; y += row_step()) {
        const float *above = in + clamped(y - 1, height) * width; // three rows, the same for all lanes of a warp
        const float *here = in + y * width;
        const float *below = in + clamped(y + 1, height) * width;
        // The eight neighbours: in each row the lanes read 32 neighbouring floats, shifted by a pixel to either side.
        float north_west = above[left], north = above[x], north_east = above[right];
        float west = here[left], east = here[right];
        float south_west = below[left], south = below[x], south_east = below[right];
        float across = __fsub_rn(side(north_east, east, south_east), side(north_west, west, south_west)); // right - left
        float down = __fsub_rn(side(south_west, south, south_east), side(north_west, north, north_east)); // bottom - top
        // The length of the gradient, with the correctly rounded root: 0 to about 1,443.
        out[y * width + x] = __fsqrt_rn(__fadd_rn(__fmul_rn(across, across), __fmul_rn(down, down)));
    }
}

// ---------------------------------------------------------------------------------------------------------------- histogram

// To 8 bits: half is rounded up, everything beyond 255 becomes 255. floor(m + 0.5) would be shorter and wrong for the float just
// below 0.5, whose sum rounds to 1; the fraction here is exact.
__device__ u32 to_eight_bits(float magnitude) {
    float limited = fminf(magnitude, 255.0f);
    u32 whole = __float2uint_rz(limited); // towards zero
    float fraction = __fsub_rn(limited, __uint2float_rn(whole));
    return fraction >= 0.5f ? whole + 1 : whole; // 254.5 becomes 255; 255 itself has no fraction
}

// One-dimensional: the position in the image does not matter to a histogram. Blocks of 256 threads, one for each bin.
extern "C" __global__ void edges_and_histogram(const float *magnitude, u8 *edges, u32 *histogram, u32 pixels) {
    // The block's private counters, 1 KB. Adding to shared memory is far cheaper than to global memory, and no other block waits.
    __shared__ u32 counts[256];
    u32 bin = threadIdx.x;
    counts[bin] = 0; // thread t clears counter t: neighbouring words in different banks, one pass
    // Barrier 1: no thread may count before every counter is clear; a late clearing would wipe out an early count.
    __syncthreads();
    u32 step = gridDim.x * blockDim.x; // all threads of the grid
    for (u32 pixel = blockIdx.x * blockDim.x + threadIdx.x; pixel < pixels; pixel += step) {
        // Lane k of a warp takes pixel + k: 128 consecutive bytes are read (4 sectors) and 32 written (1 sector).
        u32 edge = to_eight_bits(magnitude[pixel]);
        edges[pixel] = edge;
        // Lanes with the same value take turns here; that is what a histogram of a flat image costs.
        atomicAdd(&counts[edge], 1u);
    }
    // Barrier 2: no counter may be read before every thread of the block has added its last pixel. All threads get here,
    // those without a pixel too: the loop has no early return.
    __syncthreads();
    // Thread t adds counter t to bin t: neighbouring words again. The host cleared the bins; the order in which blocks add does not
    // matter, because integer sums have no rounding.
    if (counts[bin] != 0)
        atomicAdd(&histogram[bin], counts[bin]);
}
