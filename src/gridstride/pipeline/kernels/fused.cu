// The whole edge pipeline in one pass over memory: the samples are read once, the 8-bit edges written once, the histogram counted on
// the way. Between them nothing leaves the multiprocessor.
//
// A block takes a tile. A warp is one row of 128 pixels: lane l holds the four neighbours 4 l .. 4 l + 3, so that a row of 8-bit grey is
// one 32-bit load a lane and a row of edges one 32-bit store a lane, neighbouring lanes at neighbouring words. The outermost MARGIN / 4
// lanes of each side are the halo: they hold what the blur and Sobel of the lanes between need, and write nothing.
//
//   phase 1   each warp: load a row, make it grey, blur it along the row (neighbours from other lanes' registers, by shuffles),
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

// Four pixels of a lane in 32-bit words. Where that is a power of two, a lane loads its own by vector loads. Three or six words (RGB) would
// leave gaps between the lanes' addresses in each load; there the warp's words go through shared memory.
template <typename Sample, int CHANNELS> constexpr int WORDS = CHANNELS * sizeof(Sample);
template <typename Sample, int CHANNELS> constexpr bool STAGED = WORDS<Sample, CHANNELS> % 3 == 0;

// The words of this lane's pixels, the first of which is x of the row. `whole`: all four lie in the row; otherwise the words are of no use.
template <typename Sample, int CHANNELS>
__device__ void load_words(u32 *words, const Sample *row, int x, int width, bool whole, u32 *staged) {
    constexpr int COUNT = WORDS<Sample, CHANNELS>;
    if constexpr (STAGED<Sample, CHANNELS>) {
        int lane = threadIdx.x;
        int begin = (x - 4 * lane) / 4 * COUNT; // the warp's first word; below 0 where the halo lies left of the image
        int end = width * CHANNELS * (int)sizeof(Sample) / 4;
#pragma unroll
        for (int k = 0; k < COUNT; k++) { // 32 neighbouring words a load: 4 sectors, or 5 where they do not begin on one
            int word = begin + k * 32 + lane;
            if (word >= 0 && word < end)
                staged[k * 32 + lane] = reinterpret_cast<const u32 *>(row)[word];
        }
        __syncwarp(); // a lane takes words that other lanes have put there
        // 3 lane + k: 3 and 32 have no common factor, so the lanes are in 32 banks. Six words are taken two at a time, for the same reason.
        if constexpr (COUNT == 3) {
#pragma unroll
            for (int k = 0; k < 3; k++)
                words[k] = whole ? staged[3 * lane + k] : 0;
        } else {
#pragma unroll
            for (int k = 0; k < 3; k++)
                reinterpret_cast<uint2 *>(words)[k] = whole ? reinterpret_cast<const uint2 *>(staged)[3 * lane + k] : make_uint2(0, 0);
        }
        __syncwarp(); // the next row must not overwrite words that a lane has still to take
    } else if (whole) {
        const Sample *from = row + x * CHANNELS;
        if constexpr (COUNT == 1) {
            words[0] = *reinterpret_cast<const u32 *>(from); // 128 consecutive bytes a warp
        } else if constexpr (COUNT == 2) {
            reinterpret_cast<uint2 *>(words)[0] = *reinterpret_cast<const uint2 *>(from); // 256
        } else {
#pragma unroll
            for (int k = 0; k < COUNT / 4; k++) // 512; or 1,024 in two loads, the second of which finds its sectors in the cache
                reinterpret_cast<uint4 *>(words)[k] = reinterpret_cast<const uint4 *>(from)[k];
        }
    }
}

// The grey values of the pixels x .. x + 3 of one row. x is a multiple of 4, and may lie outside of the row, in whole or in part.
template <typename Sample, int CHANNELS> __device__ Four load_grey(const Sample *row, int x, int width, u32 *staged) {
    alignas(16) u32 words[WORDS<Sample, CHANNELS>];
    bool whole = x >= 0 && x + 4 <= width;
    load_words<Sample, CHANNELS>(words, row, x, width, whole, staged);
    Four grey;
    if (whole) {
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

// A row of pixels from REACH left of this lane's first to REACH right of its last: those of other lanes by shuffles, each once. Lanes
// without such a neighbour get a value of their own; they lie in the halo, where it is not used.
template <int REACH> struct Window {
    float v[2 * REACH + 4];
};
template <int REACH> __device__ Window<REACH> with_neighbours(const Four &row) {
    Window<REACH> window;
#pragma unroll
    for (int k = 0; k < 2 * REACH + 4; k++) {
        int place = k - REACH;
        int lane = place >= 0 ? place / 4 : -((3 - place) / 4); // whose it is, seen from here; a constant once the loop is unrolled
        float value = row.v[place - 4 * lane];
        window.v[k] = lane == 0 ? value : lane > 0 ? __shfl_down_sync(~0u, value, lane) : __shfl_up_sync(~0u, value, -lane);
    }
    return window;
}

// ---------------------------------------------------------------------------------------------------------------- writing

// Four elements as one vector. Rows are allocated in whole vectors: behind the last pixel there is room for what is written with it.
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

// A blurred row as Sobel reads it: this lane's four pixels and one more to either side. Beyond the left and the right border that is the
// border pixel (also when mirrored, one step outside), or the constant.
typedef Window<1> Six;
__device__ Six as_sobel_reads(const Four &row, int x, int width) {
    Six six = with_neighbours<1>(row);
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
    constexpr int STAGES = STAGED<Sample, CHANNELS> ? WARPS : 1;
    __shared__ alignas(8) u32 staged[STAGES][STAGES > 1 ? 32 * WORDS<Sample, CHANNELS> : 1]; // each warp's own words of a row
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
                Four grey = load_grey<Sample, CHANNELS>(reinterpret_cast<const Sample *>(source + (size_t)y * source_pitch), x, width, staged[STAGES > 1 ? warp : 0]);
                Window<RADIUS> window = with_neighbours<RADIUS>(grey);
#pragma unroll
                for (int k = 0; k < 4; k++)
                    blurred.v[k] = weighted([&](int tap) { return window.v[k + tap + RADIUS]; });
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
            below = as_sobel_reads(blurred, x, width);
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
