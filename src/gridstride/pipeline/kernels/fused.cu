// The whole edge pipeline in one pass over memory: the samples are read once, the 8-bit edges written once, the histogram counted on
// the way. Between them nothing leaves the multiprocessor.
//
// A block takes a tile. A warp is one row of 128 pixels: lane l holds the four neighbours 4 l .. 4 l + 3, so that a row of 8-bit grey is
// one 32-bit load a lane and a row of edges one 32-bit store a lane, neighbouring lanes at neighbouring words. The outermost MARGIN / 4
// lanes of each side are the halo: they hold what the blur and Sobel of the lanes between need, and write nothing.
//
//   phase 1   each warp: load a row, make it grey, blur it along the row (neighbours from other lanes' registers by shuffles),
//             put it in shared memory. TILE_ROWS + 2 HALO rows, dealt out to the warps.
//   barrier   the columns need rows of other warps
//   phase 2   each warp: march down ROWS_PER_WARP rows of the tile; blur down the columns (the rows it needs slide through registers),
//             Sobel, pack four edges into a word, count them.
//
// Bank conflicts: there are none. Shared memory is used in whole float4s, lane l at float4 l of a row.
// Rows of source, edges and output begin at a multiple of 512 bytes (pitched), so that vectors are aligned in every row.

#include "pixels.cuh"

constexpr int HALO = RADIUS + 1;                      // Sobel needs the blurred neighbours, and those RADIUS pixels more
constexpr int MARGIN = (HALO + 3) / 4 * 4;            // the halo in whole lanes
constexpr int TILE_COLUMNS = 128 - 2 * MARGIN;        // pixels of a row that a warp writes
constexpr int WARPS = 8;
constexpr int ROWS_PER_WARP = RADIUS <= 4 ? 8 : 4;    // fewer where the halo is large: the rows must fit 48 KB
constexpr int TILE_ROWS = WARPS * ROWS_PER_WARP;
constexpr int SHARED_ROWS = TILE_ROWS + 2 * HALO;
constexpr int TAPS = 2 * RADIUS + 1;

struct Four {
    float v[4];
};

__device__ Four four(float4 vector) { return {vector.x, vector.y, vector.z, vector.w}; }

// ---------------------------------------------------------------------------------------------------------------- reading

template <typename Sample, int CHANNELS> __device__ float grey_of(const Sample *pixel) {
    float value;
    if constexpr (CHANNELS == 1)
        value = pixel[0];
    else
        value = luma(pixel[0], pixel[1], pixel[2]); // alpha is not used
    return to_eight_bit_scale(value, Sample());
}

// The grey values of the pixels x .. x + 3 of one row. x is a multiple of 4, and may lie outside of the row, in whole or in part.
template <typename Sample, int CHANNELS>
__device__ Four load_grey(const Sample *row, int x, int width) {
    Four grey;
    if (x >= 0 && x + 4 <= width) {
        // Four pixels are 4 to 32 bytes and lie one after the other: WORDS words, the lanes' words side by side. One vector load where
        // that is a power of two; for RGB three or six loads, which together touch each sector of the warp's 384 or 768 bytes, the
        // first from memory and the others from the L1 cache.
        constexpr int WORDS = CHANNELS * sizeof(Sample);
        alignas(16) u32 words[WORDS];
        const u32 *from = reinterpret_cast<const u32 *>(row + x * CHANNELS);
        if constexpr (WORDS % 4 == 0) {
#pragma unroll
            for (int k = 0; k < WORDS / 4; k++)
                reinterpret_cast<uint4 *>(words)[k] = reinterpret_cast<const uint4 *>(from)[k];
        } else if constexpr (WORDS % 2 == 0) {
#pragma unroll
            for (int k = 0; k < WORDS / 2; k++)
                reinterpret_cast<uint2 *>(words)[k] = reinterpret_cast<const uint2 *>(from)[k];
        } else {
#pragma unroll
            for (int k = 0; k < WORDS; k++)
                words[k] = from[k];
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            Sample pixel[CHANNELS];
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) {
                constexpr int IN_A_WORD = 4 / sizeof(Sample);
                int sample = k * CHANNELS + c; // its place among the samples of the four pixels
                pixel[c] = words[sample / IN_A_WORD] >> (sample % IN_A_WORD * 8 * sizeof(Sample));
            }
            grey.v[k] = grey_of<Sample, CHANNELS>(pixel);
        }
    } else { // at a border: pixel by pixel, each brought inside by itself
#pragma unroll
        for (int k = 0; k < 4; k++) {
            // Lanes beyond the halo are of no use to anyone, but must stay inside the memory: they take the last pixel of the halo.
            int place = inside(min(x + k, width + HALO - 1), width);
            grey.v[k] = BORDER == BORDER_CONSTANT && place < 0 ? BORDER_VALUE : grey_of<Sample, CHANNELS>(row + place * CHANNELS);
        }
    }
    return grey;
}

// The pixel `distance` to the right (or left, below 0) of this lane's pixel k, from the registers of the lane that holds it. Lanes
// without such a lane get a value of their own; they lie in the halo, where it is not used.
__device__ float neighbour(const Four &row, int k, int distance) {
    int place = k + distance;
    int lane = place >= 0 ? place / 4 : -((3 - place) / 4); // rounded down; a constant once the loops are unrolled
    float value = row.v[place - 4 * lane];
    return lane == 0 ? value : lane > 0 ? __shfl_down_sync(~0u, value, lane) : __shfl_up_sync(~0u, value, -lane);
}

// ---------------------------------------------------------------------------------------------------------------- writing

// Four elements as one vector. Behind the last pixel of a row lies the gap up to the next row's beginning: it may be overwritten.
__device__ void store(u8 *to, const u8 *four) { *reinterpret_cast<u32 *>(to) = four[0] | four[1] << 8 | four[2] << 16 | four[3] << 24; }
__device__ void store(u16 *to, const u16 *four) { *reinterpret_cast<uint2 *>(to) = make_uint2(four[0] | four[1] << 16, four[2] | four[3] << 16); }
__device__ void store(float *to, const float *four) { *reinterpret_cast<float4 *>(to) = make_float4(four[0], four[1], four[2], four[3]); }

// The chosen output, if `STAGE` is it.
template <int STAGE> __device__ void put_out(unsigned char *output, int pitch, int x, int y, const Four &values) {
    if constexpr (OUTPUT == STAGE) {
        OutputElement elements[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            elements[k] = to_output(values.v[k]);
        store(reinterpret_cast<OutputElement *>(output + (size_t)y * pitch) + x, elements);
    }
}

// ---------------------------------------------------------------------------------------------------------------- Sobel

// A blurred row as Sobel reads it: this lane's four pixels and one more to either side.
struct Six {
    float v[6];
};

// What is beyond the left and right border: the border pixel (also when mirrored, one step outside), or the constant.
__device__ Six with_neighbours(const Four &row, int x, int width) {
    Six six;
    six.v[0] = neighbour(row, 0, -1);
    six.v[5] = neighbour(row, 3, 1);
#pragma unroll
    for (int k = 0; k < 4; k++)
        six.v[k + 1] = row.v[k];
    if (x == 0)
        six.v[0] = BORDER == BORDER_CONSTANT ? BORDER_VALUE : six.v[1];
    if (x + 4 >= width) { // the last pixel of the row is among the four; its right neighbour is the one after it
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (x + k == width - 1)
                six.v[k + 2] = BORDER == BORDER_CONSTANT ? BORDER_VALUE : six.v[k + 1];
    }
    return six;
}

// ---------------------------------------------------------------------------------------------------------------- the kernel

template <typename Sample, int CHANNELS>
__device__ void fused(const unsigned char *source, int source_pitch, u8 *edges, int edges_pitch, u32 *histogram, unsigned char *output,
                      int output_pitch, int width, int height) {
    __shared__ float4 rows[SHARED_ROWS][32]; // blurred along the row; float4 l of a row is lane l's
    __shared__ u32 counts[256];              // the block's own histogram
    int lane = threadIdx.x, warp = threadIdx.y;
    int x = (int)blockIdx.x * TILE_COLUMNS - MARGIN + 4 * lane; // this lane's first pixel
    bool writes = lane >= MARGIN / 4 && lane < 32 - MARGIN / 4 && x < width;
    counts[warp * 32 + lane] = 0; // 256 threads, a counter each; neighbouring lanes clear neighbouring words

    // A grid has at most 65,535 blocks along y: taller images are taken in several rounds.
    for (int top = blockIdx.y * TILE_ROWS; top < height; top += gridDim.y * TILE_ROWS) {
        // Phase 1. Shared row r is the image's row top - HALO + r, or what stands for it beyond the border.
        for (int r = warp; r < SHARED_ROWS; r += WARPS) {
            // Rows beyond the halo of the last row are of no use, but must stay inside the memory.
            int y = inside(min(top - HALO + r, height + HALO - 1), height); // the same for all lanes of the warp
            Four blurred;
            if (BORDER == BORDER_CONSTANT && y < 0) {
#pragma unroll
                for (int k = 0; k < 4; k++)
                    blurred.v[k] = BORDER_VALUE; // the constant stands for the blurred row, too: each filter finds it beyond the border
            } else {
                Four grey = load_grey<Sample, CHANNELS>(reinterpret_cast<const Sample *>(source + (size_t)y * source_pitch), x, width);
#pragma unroll
                for (int k = 0; k < 4; k++)
                    blurred.v[k] = weighted([&](int tap) { return neighbour(grey, k, tap); });
                if (writes && r >= HALO && r < HALO + TILE_ROWS && top - HALO + r < height) { // each pixel once, not as another tile's halo
                    put_out<OUTPUT_GREY>(output, output_pitch, x, y, grey);
                    put_out<OUTPUT_BLURRED_ROWS>(output, output_pitch, x, y, blurred);
                }
            }
            rows[r][lane] = make_float4(blurred.v[0], blurred.v[1], blurred.v[2], blurred.v[3]); // 512 consecutive bytes a warp
        }
        // Barrier 1: phase 2 reads rows that other warps have put there, and adds to counters that others have cleared.
        __syncthreads();

        // Phase 2. The warp's first row; the rows of the image that its window holds: y - 1, y, y + 1 of the blurred ones.
        int first = warp * ROWS_PER_WARP;
        Six above, here, below;
        Four taps[TAPS]; // the shared rows that the next blurred row needs
#pragma unroll
        for (int k = 0; k < TAPS - 1; k++)
            taps[k + 1] = four(rows[first + k][lane]);
#pragma unroll
        for (int step = 0; step < ROWS_PER_WARP + 2; step++) {
            // Slide down by one row: registers only change their names, since the loop is unrolled.
            above = here, here = below;
#pragma unroll
            for (int k = 0; k < TAPS - 1; k++)
                taps[k] = taps[k + 1];
            taps[TAPS - 1] = four(rows[first + step + TAPS - 1][lane]); // one float4 a lane, 512 consecutive bytes a warp
            Four blurred;
#pragma unroll
            for (int k = 0; k < 4; k++)
                blurred.v[k] = weighted([&](int tap) { return taps[tap + RADIUS].v[k]; });
            below = with_neighbours(blurred, x, width);
            int row = top + first + step - 1; // of `below` in the image
            if (step >= 1 && step <= ROWS_PER_WARP && writes && row < height)
                put_out<OUTPUT_BLURRED>(output, output_pitch, x, row, blurred);
            int y = row - 1;
            if (step < 2 || !writes || y >= height) // the window is not full yet, or there is no pixel
                continue;                           // (no shuffle or barrier follows in this step)
            Six north = above, south = below;
#pragma unroll
            for (int k = 0; k < 6; k++) { // beyond the first and the last row of the image
                if (y == 0)
                    north.v[k] = BORDER == BORDER_CONSTANT ? BORDER_VALUE : here.v[k];
                if (y == height - 1)
                    south.v[k] = BORDER == BORDER_CONSTANT ? BORDER_VALUE : here.v[k];
            }
            float columns[6]; // 1 2 1 down each column, which two pixels share
#pragma unroll
            for (int k = 0; k < 6; k++)
                columns[k] = side(north.v[k], here.v[k], south.v[k]);
            Four magnitude;
            u8 levels[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float across = __fsub_rn(columns[k + 2], columns[k]);
                float down = __fsub_rn(side(south.v[k], south.v[k + 1], south.v[k + 2]), side(north.v[k], north.v[k + 1], north.v[k + 2]));
                magnitude.v[k] = length(across, down);
                levels[k] = to_eight_bits(magnitude.v[k]);
                if (x + k < width)                   // the last lane of a row may hold fewer than four pixels
                    atomicAdd(&counts[levels[k]], 1u); // lanes with the same value take turns
            }
            store(edges + (size_t)y * edges_pitch + x, levels); // a word a lane, neighbouring lanes side by side
            put_out<OUTPUT_MAGNITUDE>(output, output_pitch, x, y, magnitude);
            put_out<OUTPUT_THRESHOLDED>(output, output_pitch, x, y, magnitude);
        }
        // Barrier 2: the next round overwrites rows that other warps may still read; and at the end every counter is complete.
        __syncthreads();
    }
    // Thread t adds counter t to bin t: neighbouring words. Integer sums have no rounding, so the order of the blocks does not matter.
    u32 count = counts[warp * 32 + lane];
    if (count != 0)
        atomicAdd(&histogram[warp * 32 + lane], count);
}

// 256 threads. Four blocks a multiprocessor at least: the compiler keeps to 64 registers a thread.
#define FUSED_KERNEL(NAME, SAMPLE, CHANNELS)                                                                                          \
    extern "C" __global__ void __launch_bounds__(256, 4)                                                                              \
        NAME(const unsigned char *source, int source_pitch, u8 *edges, int edges_pitch, u32 *histogram, unsigned char *output,        \
             int output_pitch, int width, int height) {                                                                               \
        fused<SAMPLE, CHANNELS>(source, source_pitch, edges, edges_pitch, histogram, output, output_pitch, width, height);            \
    }
FUSED_KERNEL(fused_u8_1, u8, 1)
FUSED_KERNEL(fused_u8_3, u8, 3)
FUSED_KERNEL(fused_u8_4, u8, 4)
FUSED_KERNEL(fused_u16_1, u16, 1)
FUSED_KERNEL(fused_u16_3, u16, 3)
FUSED_KERNEL(fused_u16_4, u16, 4)
