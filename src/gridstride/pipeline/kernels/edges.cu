// The edge pipeline: grey -> blur along rows -> blur along columns -> Sobel magnitude -> 8-bit edges and their histogram.
//
// Image kernels. A block is 32 x 8 threads; one warp is 32 threads of one row (threadIdx.x counts fastest), so the lanes of a
// warp touch 32 neighbouring pixels of one image row. A float image is read and written 128 consecutive bytes a warp: 4 sectors of
// 32 bytes, the fewest there can be (one more where the row does not begin on a sector). Eight rows a block, because the filters
// of neighbouring rows read the same rows and find them in the cache.
//
// Arithmetic, borders and the constants of the blur are in pixels.cuh.
//
// Contracts. The lines `gridstride: contract` say what each kernel needs of a launch; every launch is held against them, and the tests prove
// that each pixel of an output has its one thread, for images around the borders of blocks (docs/contracts.md).
//
// Sizes. The host refuses images of more than 2^28 pixels, so a 32-bit index reaches every sample (4 * 2^28 of them fit).

#include "output.cuh"

// The pixel column of this thread. The grid covers the width, rounded up to whole blocks: x may lie outside the image.
__device__ int column() { return blockIdx.x * blockDim.x + threadIdx.x; }

// The first pixel row of this thread, and the distance to its next one. The grid covers the height too, but for images taller than
// its limit of 65,535 blocks: there each thread goes on, a whole grid further down.
__device__ int first_row() { return blockIdx.y * blockDim.y + threadIdx.y; }
__device__ int row_step() { return gridDim.y * blockDim.y; }

// ---------------------------------------------------------------------------------------------------------------- grey

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
// The parameters of kernels that a macro makes have no names there: p0 is samples, p1 out, p2 width, p3 height.
// gridstride: contract kernel=grey_u8_1,grey_u16_1 extent=p2,p3 block=32,8 grid_stride=y covers=p1 extents=p0:p2,p3 distinct=p0,p1
// gridstride: contract kernel=grey_u8_3,grey_u16_3 extent=p2,p3 block=32,8 grid_stride=y covers=p1 extents=p0:3*p2,p3 distinct=p0,p1
// gridstride: contract kernel=grey_u8_4,grey_u16_4 extent=p2,p3 block=32,8 grid_stride=y covers=p1 extents=p0:4*p2,p3 distinct=p0,p1
GREY_KERNEL(grey_u8_1, u8, 1)
GREY_KERNEL(grey_u8_3, u8, 3)
GREY_KERNEL(grey_u8_4, u8, 4)
GREY_KERNEL(grey_u16_1, u16, 1)
GREY_KERNEL(grey_u16_3, u16, 3)
GREY_KERNEL(grey_u16_4, u16, 4)

// ---------------------------------------------------------------------------------------------------------------- blur

// gridstride: contract extent=width,height block=32,8 grid_stride=y covers=out extents=in:width,height distinct=in,out
extern "C" __global__ void blur_rows(const float *in, float *out, int width, int height) {
    int x = column();
    if (x >= width) // no pixel for this thread
        return;
    // Each tap's column is brought inside by itself. Clamping only the outermost and reusing it for the inner ones would be wrong
    // beside the border, where only the outer tap falls off the image.
    int places[2 * RADIUS + 1];
#pragma unroll
    for (int k = -RADIUS; k <= RADIUS; k++)
        places[k + RADIUS] = inside(x + k, width);
    for (int y = first_row(); y < height; y += row_step()) {
        const float *row = in + y * width; // the same for the whole warp
        // One load a tap, each of 32 neighbouring floats but shifted by a pixel: 4 or 5 sectors, all but the first from the cache.
        out[y * width + x] = weighted([&](int k) { return at(row, places[k + RADIUS]); });
    }
}

// gridstride: contract extent=width,height block=32,8 grid_stride=y covers=out extents=in:width,height distinct=in,out
extern "C" __global__ void blur_columns(const float *in, float *out, int width, int height) {
    int x = column();
    if (x >= width) // no pixel for this thread
        return;
    for (int y = first_row(); y < height; y += row_step()) {
        // Each tap's row is brought inside by itself, as above. A warp has one y, so its lanes agree on all rows, and each load takes
        // 32 neighbouring floats of one row: coalesced, though the filter runs down the columns. All but one of the rows serve the
        // neighbouring warps of the block as well.
        out[y * width + x] = weighted([&](int k) {
            int row = inside(y + k, height);
            return BORDER == BORDER_CONSTANT && row < 0 ? BORDER_VALUE : in[row * width + x];
        });
    }
}

// ---------------------------------------------------------------------------------------------------------------- Sobel

// gridstride: contract extent=width,height block=32,8 grid_stride=y covers=out extents=in:width,height distinct=in,out
extern "C" __global__ void sobel(const float *in, float *out, int width, int height) {
    int x = column();
    if (x >= width) // no pixel for this thread
        return;
    int left = inside(x - 1, width), right = inside(x + 1, width);
    for (int y = first_row(); y < height; y += row_step()) {
        int north = inside(y - 1, height), south = inside(y + 1, height); // three rows, the same for all lanes of a warp
        // A neighbour: in each row the lanes read 32 neighbouring floats, shifted by a pixel to either side.
        auto value = [&](int row, int place) { return BORDER == BORDER_CONSTANT && (row < 0 || place < 0) ? BORDER_VALUE : in[row * width + place]; };
        float north_west = value(north, left), above = value(north, x), north_east = value(north, right);
        float west = value(y, left), east = value(y, right);
        float south_west = value(south, left), below = value(south, x), south_east = value(south, right);
        float across = __fsub_rn(side(north_east, east, south_east), side(north_west, west, south_west)); // right - left
        float down = __fsub_rn(side(south_west, below, south_east), side(north_west, above, north_east)); // bottom - top
        out[y * width + x] = length(across, down);
    }
}

// ---------------------------------------------------------------------------------------------------------------- histogram

// One-dimensional: the position in the image does not matter to a histogram. Blocks of 256 threads, one for each bin.
// gridstride: contract extent=pixels block=256 elements_per_thread=16 grid_stride covers=edges
// gridstride: contract extents=magnitude:pixels|histogram:256 distinct=magnitude,edges,histogram
extern "C" __global__ void edges_and_histogram(const float *magnitude, u8 *edges, u32 *histogram, u32 pixels) {
    // The block's private counters, 1 KB. Adding to shared memory is far cheaper than to global memory, and no other block waits.
    __shared__ u32 counts[256];
    u32 bin = threadIdx.x;
    counts[bin] = 0; // thread t clears counter t: neighbouring words in different banks, one pass
    // Barrier 1: no thread may count before every counter is clear; a late clearing would wipe out an early count.
    __syncthreads();
    u32 step = gridDim.x * blockDim.x; // all threads of the grid
    for (u32 group = blockIdx.x * blockDim.x + threadIdx.x; group < (pixels + 3) / 4; group += step) {
        // Four pixels at once. Lane k of a warp takes group + k: 512 consecutive bytes are read (16 sectors) and 128 written (4 sectors).
        u32 first = 4 * group;
        if (first + 4 <= pixels) {
            float4 four = reinterpret_cast<const float4 *>(magnitude)[group];
            u32 levels[] = {to_eight_bits(four.x), to_eight_bits(four.y), to_eight_bits(four.z), to_eight_bits(four.w)};
            reinterpret_cast<u32 *>(edges)[group] = levels[0] | levels[1] << 8 | levels[2] << 16 | levels[3] << 24;
#pragma unroll
            for (int k = 0; k < 4; k++)
                atomicAdd(&counts[levels[k]], 1u); // lanes with the same value take turns; that is what a histogram of a flat image costs
        } else { // the last pixels of an image, where they are fewer than four
            for (u32 pixel = first; pixel < pixels; pixel++) {
                u32 level = to_eight_bits(magnitude[pixel]);
                edges[pixel] = level;
                atomicAdd(&counts[level], 1u);
            }
        }
    }
    // Barrier 2: no counter may be read before every thread of the block has added its last pixel. All threads get here,
    // those without a pixel too: the loop has no early return.
    __syncthreads();
    // Thread t adds counter t to bin t: neighbouring words again. The host cleared the bins; the order in which blocks add does not
    // matter, because integer sums have no rounding.
    if (counts[bin] != 0)
        atomicAdd(&histogram[bin], counts[bin]);
}
