// The whole edge pipeline in one pass over memory: the samples are read once, the 8-bit edges written once, the histogram counted on
// the way. Between them nothing leaves the registers of a warp.
//
// A warp takes a strip of the image, 128 pixels wide, and marches down it, row by row. Lane l holds the four neighbours 4 l .. 4 l + 3 of a
// row, so that a row of edges is one 32-bit store a lane, neighbouring lanes at neighbouring words. The outermost MARGIN / 4 lanes of each
// side are the halo: they hold what the blur and Sobel of the lanes between need, and write nothing. For each row:
//
//   load    the words of the row after it, so that memory answers while this row is computed
//   grey    and the blur along the row: neighbours come from other lanes' registers, by shuffles
//   blur    down the columns: each row is added to the sums of the 2 RADIUS + 1 rows that it belongs to, the oldest of which is then complete
//   Sobel   of the row before; the blurred rows it needs are kept
//   out     four edges packed into a word, and counted in the block's own histogram
//
// Nothing waits at a barrier between the first row and the last. A strip's first and last rows are computed by its neighbours, too: the
// host makes strips as long as they can be while every multiprocessor has the same number of them (one_pass.py).
// Rows of source, edges and output hold whole groups of four pixels, so that vectors are aligned in every row; their length is the pitch.

#include "pixels.cuh"

constexpr int PIXELS = 4;                               // of a lane
constexpr int HALO = RADIUS + 1;                        // Sobel needs the blurred neighbours, and those RADIUS pixels more
constexpr int MARGIN = (HALO + 3) / 4 * 4;              // the halo in whole lanes
constexpr int STRIP_COLUMNS = 32 * PIXELS - 2 * MARGIN; // pixels of a row that a warp writes
constexpr int TAPS = 2 * RADIUS + 1;
constexpr int WARPS = RADIUS <= 2 ? 24 : RADIUS <= 5 ? 16 : 8; // of a block; with more taps a thread needs more registers

struct Four {
    float v[PIXELS];
};

// Where a warp is. All its lanes agree on everything but `x` and `writes`.
struct Place {
    int x;          // this lane's first pixel; below 0 or beyond the row in the halo of the outermost strips
    bool writes;    // whether this lane's pixels are the strip's own
    int begin;      // the strip's first pixel, lane 0's
    int width;
    bool at_border; // whether pixels beyond the left or right border are among the strip's
    bool ragged;    // whether a lane writes fewer pixels than it holds
};

// ---------------------------------------------------------------------------------------------------------------- reading

// The samples of a lane's pixels, as 32-bit words.
template <typename Sample, int CHANNELS> struct Words {
    static constexpr int COUNT = PIXELS * CHANNELS * sizeof(Sample) / 4;
    alignas(16) u32 v[COUNT];
};

// `from` is this lane's first sample in the row.
template <typename Sample, int CHANNELS> __device__ Words<Sample, CHANNELS> load_words(const Sample *from) {
    Words<Sample, CHANNELS> words;
    constexpr int COUNT = words.COUNT;
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int k = 0; k < COUNT / 4; k++) // 512 bytes a warp; or 1,024 in two loads, the second of which finds its sectors in the cache
            reinterpret_cast<uint4 *>(words.v)[k] = reinterpret_cast<const uint4 *>(from)[k];
    } else if constexpr (COUNT % 2 == 0) {
#pragma unroll
        for (int k = 0; k < COUNT / 2; k++) // 256 bytes a warp; or 768 in three loads that share their sectors
            reinterpret_cast<uint2 *>(words.v)[k] = reinterpret_cast<const uint2 *>(from)[k];
    } else {
#pragma unroll
        for (int k = 0; k < COUNT; k++) // 128 bytes a warp; or 384 in three loads that share their sectors
            words.v[k] = reinterpret_cast<const u32 *>(from)[k];
    }
    return words;
}

// Sample `index` of those in the words, times `weight`, rounded once.
template <typename Sample> __device__ float weighed_sample(const u32 *words, int index, float weight) {
    // The sample's bits become the last ones of a float: 2^23 + sample. The multiply-add takes weight * 2^23 off again, which is exact:
    // conversion and product in one instruction, and none for the units that convert, of which there are few.
    int place = index * (int)sizeof(Sample) % 4;
    u32 choice = sizeof(Sample) == 1 ? 0x7440 + place : 0x7410 + place * 0x11;
    float shifted = __uint_as_float(__byte_perm(words[index * sizeof(Sample) / 4], 0x4b000000, choice));
    return __fmaf_rn(weight, shifted, -weight * 8388608.0f);
}

// The grey values of a lane's pixels.
template <typename Sample, int CHANNELS> __device__ Four grey_of(const Words<Sample, CHANNELS> &words) {
    Four grey;
#pragma unroll
    for (int k = 0; k < PIXELS; k++) {
        int first = k * CHANNELS;
        float value;
        if constexpr (CHANNELS == 1)
            value = weighed_sample<Sample>(words.v, first, 1.0f);
        else // alpha is not used
            value = sum_of_colours(weighed_sample<Sample>(words.v, first, RED), weighed_sample<Sample>(words.v, first + 1, GREEN),
                                   weighed_sample<Sample>(words.v, first + 2, BLUE));
        grey.v[k] = to_eight_bit_scale(value, Sample());
    }
    return grey;
}

// A row of pixels from REACH left of this lane's first to REACH right of its last: those of other lanes by shuffles, each once. Lanes
// without such a neighbour get a value of their own; they lie in the halo, where it is not used.
template <int REACH> struct Window {
    float v[2 * REACH + PIXELS];
};
template <int REACH> __device__ Window<REACH> with_neighbours(const Four &row) {
    Window<REACH> window;
#pragma unroll
    for (int k = 0; k < 2 * REACH + PIXELS; k++) {
        int place = k - REACH;
        int lane = place >= 0 ? place / PIXELS : -((PIXELS - 1 - place) / PIXELS); // whose it is, seen from here; known once unrolled
        float value = row.v[place - PIXELS * lane];
        window.v[k] = lane == 0 ? value : lane > 0 ? __shfl_down_sync(~0u, value, lane) : __shfl_up_sync(~0u, value, -lane);
    }
    return window;
}

// A row of a strip at the border, with what the blur finds beyond it. Lanes beyond the border hold the first or the last pixels of the row.
__device__ void put_border_into(Four &row, const Place &at) {
    if constexpr (BORDER == BORDER_REFLECT) {
        Four all;
#pragma unroll
        for (int k = 0; k < PIXELS; k++) { // every pixel that is found is one of the strip, of some lane
            int place = inside(min(at.x + k, at.width + HALO - 1), at.width); // lanes beyond the halo take its last pixel
            int offset = max(place - at.begin, 0);
#pragma unroll
            for (int element = 0; element < PIXELS; element++) {
                float value = __shfl_sync(~0u, row.v[element], offset / PIXELS);
                all.v[k] = element == 0 || offset % PIXELS == element ? value : all.v[k];
            }
        }
        row = all;
    } else {
        float left = row.v[0], right = row.v[0]; // of replicated pixels, for lanes that hold the first or the last ones
#pragma unroll
        for (int k = 1; k < PIXELS; k++)
            right = (at.width - 1) % PIXELS == k ? row.v[k] : right;
        if (BORDER == BORDER_CONSTANT)
            left = right = BORDER_VALUE;
#pragma unroll
        for (int k = 0; k < PIXELS; k++)
            row.v[k] = at.x < 0 ? left : at.x + k >= at.width ? right : row.v[k];
    }
}

// ---------------------------------------------------------------------------------------------------------------- writing

// The elements of a lane as one vector. Rows are allocated in whole vectors: behind the last pixel there is room for what is written with it.
__device__ void store(u8 *to, const u32 *four) {
    u32 low = __byte_perm(four[0], four[1], 0x0040), high = __byte_perm(four[2], four[3], 0x0040); // the first byte of each
    *reinterpret_cast<u32 *>(to) = __byte_perm(low, high, 0x5410);
}
__device__ void store(u16 *to, const u32 *four) { *reinterpret_cast<uint2 *>(to) = make_uint2(four[0] | four[1] << 16, four[2] | four[3] << 16); }
__device__ void store(float *to, const float *four) { *reinterpret_cast<float4 *>(to) = make_float4(four[0], four[1], four[2], four[3]); }

// The chosen output, if `STAGE` is it.
template <int STAGE> __device__ void put_out(unsigned char *output, int pitch, int x, int y, const Four &values) {
    if constexpr (OUTPUT == STAGE) {
        decltype(OutputElement() + 0u) elements[PIXELS]; // each in a whole register: u32, or float
#pragma unroll
        for (int k = 0; k < PIXELS; k++)
            elements[k] = to_output(values.v[k]);
        store(reinterpret_cast<OutputElement *>(output + (size_t)y * pitch) + x, elements);
    }
}

// ---------------------------------------------------------------------------------------------------------------- Sobel

// A blurred row as Sobel reads it: this lane's pixels and one more to either side; and the horizontal 1 2 1 of each pixel.
struct SobelRow {
    float v[PIXELS + 2];
    float across[PIXELS];
};

// Beyond the left and the right border there is the border pixel (also when mirrored, one step outside), or the constant.
__device__ SobelRow as_sobel_reads(const Four &blurred, const Place &at) {
    Window<1> window = with_neighbours<1>(blurred);
    SobelRow row;
#pragma unroll
    for (int k = 0; k < PIXELS + 2; k++)
        row.v[k] = window.v[k];
    if (at.at_border) {
        if (at.x == 0)
            row.v[0] = BORDER == BORDER_CONSTANT ? BORDER_VALUE : row.v[1];
#pragma unroll
        for (int k = 0; k < PIXELS; k++) // the right neighbour of the row's last pixel
            if (at.x + k == at.width - 1)
                row.v[k + 2] = BORDER == BORDER_CONSTANT ? BORDER_VALUE : row.v[k + 1];
    }
#pragma unroll
    for (int k = 0; k < PIXELS; k++)
        row.across[k] = side(row.v[k], row.v[k + 1], row.v[k + 2]);
    return row;
}

// The row that Sobel finds above the first row of the image and below the last one.
__device__ SobelRow beyond(const SobelRow &border) {
    if constexpr (BORDER != BORDER_CONSTANT)
        return border; // also when mirrored
    SobelRow row;
#pragma unroll
    for (int k = 0; k < PIXELS + 2; k++)
        row.v[k] = BORDER_VALUE;
#pragma unroll
    for (int k = 0; k < PIXELS; k++)
        row.across[k] = side(BORDER_VALUE, BORDER_VALUE, BORDER_VALUE);
    return row;
}

// The 8-bit level of the gradient whose length is the root of `square`; the length itself where it is asked for.
__device__ u32 level_of(float square, float *length) {
    if constexpr (OUTPUT == OUTPUT_MAGNITUDE || OUTPUT == OUTPUT_THRESHOLDED) {
        *length = __fsqrt_rn(square);
        return to_eight_bits(*length);
    } else {
        // The correctly rounded root, too, as __fsqrt_rn finds it, but without its branch for numbers that are very small: there the result
        // is not a number, or wrong, and the level 0 in any case.
        float guess;
        asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(guess) : "f"(square));
        float root = square * guess;
        root = __fmaf_rn(__fmaf_rn(-root, root, square), guess * 0.5f, root);
        u32 whole;
        asm("cvt.rzi.u8.f32 %0, %1;" : "=r"(whole) : "f"(__fadd_rn(root, HALF))); // as `rounded`; saturates, and makes 0 of what is no number
        return whole;
    }
}

// ---------------------------------------------------------------------------------------------------------------- the kernel

constexpr int BINS = 256;

// The blocks' histograms added up, and how many blocks are through; all 0 before and after each launch.
struct Totals {
    u32 counts[BINS];
    u32 arrived;
};

template <typename Sample, int CHANNELS>
__device__ void fused(const unsigned char *source, int source_pitch, u8 *edges, int edges_pitch, u32 *histogram, Totals *totals,
                      unsigned char *output, int output_pitch, int width, int height, int strip_rows) {
    __shared__ u32 counts[BINS]; // the block's own histogram
    int lane = threadIdx.x, thread = threadIdx.y * 32 + lane;

    // Warps are dealt out along the rows of strips. The shuffle tells the compiler that all lanes agree on this, and on what follows from it.
    int strip = blockIdx.x * WARPS + __shfl_sync(~0u, threadIdx.y, 0);
    int strips = (width + STRIP_COLUMNS - 1) / STRIP_COLUMNS; // side by side
    int top = strip / strips * strip_rows;                    // the first row that this warp writes
    int bottom = min(top + strip_rows, height);               // and the one after its last
    Place at;
    at.begin = strip % strips * STRIP_COLUMNS - MARGIN;
    at.x = at.begin + PIXELS * lane;
    at.width = width;
    at.writes = lane >= MARGIN / PIXELS && lane < 32 - MARGIN / PIXELS && at.x < width;
    at.at_border = at.begin < 0 || at.begin + 32 * PIXELS > width;
    at.ragged = at.at_border && width % PIXELS != 0;

    // Lanes outside of the row load its first or last pixels. Rows are stored in whole groups of four pixels.
    int from = min(max(at.x, 0), (width - 1) / PIXELS * PIXELS);
    const unsigned char *column = source + (size_t)from * (CHANNELS * sizeof(Sample));
    // The words of row y, or of what stands for it beyond the border. Rows beyond the halo are of no use, but must stay inside the memory.
    auto load = [&](int y) {
        int row = max(inside(min(y, height + HALO - 1), height), 0);
        return load_words<Sample, CHANNELS>(reinterpret_cast<const Sample *>(column + (size_t)row * source_pitch));
    };

    auto words = load(top - HALO);
    for (int bin = thread; bin < BINS; bin += 32 * WARPS)
        counts[bin] = 0;
    // Barrier 1: counters are cleared by other warps than those that count.
    __syncthreads();

    Four sums[TAPS] = {}; // sums[k]: the blurred row k below the next that will be complete, as far as its rows have come

    // Take in row y of the image; the blurred row y - RADIUS, which is complete with it.
    auto next_blurred = [&](int y) {
        auto coming = load(y + 1);
        Four grey = grey_of<Sample, CHANNELS>(words);
        words = coming;
        if (at.at_border)
            put_border_into(grey, at);
        Window<RADIUS> window = with_neighbours<RADIUS>(grey);
        Four blurred;
#pragma unroll
        for (int k = 0; k < PIXELS; k++)
            blurred.v[k] = weighted([&](int tap) { return window.v[k + tap + RADIUS]; });
        if (BORDER == BORDER_CONSTANT && (y < 0 || y >= height)) {
#pragma unroll
            for (int k = 0; k < PIXELS; k++)
                blurred.v[k] = BORDER_VALUE; // the constant stands for the blurred row, too: each filter finds it beyond the border
        }
        if (at.writes && y >= top && y < bottom) { // each pixel once, not as another strip's halo
            put_out<OUTPUT_GREY>(output, output_pitch, at.x, y, grey);
            put_out<OUTPUT_BLURRED_ROWS>(output, output_pitch, at.x, y, blurred);
        }
        // Down the columns: each sum gets this row with its weight, from above to below as `weighted` adds, and moves up by one.
        constexpr float weights[] = {WEIGHTS};
#pragma unroll
        for (int k = 0; k < PIXELS; k++) {
#pragma unroll
            for (int row = 0; row < TAPS - 1; row++)
                sums[row].v[k] = __fmaf_rn(weights[TAPS - 1 - row], blurred.v[k], sums[row].v[k]);
            sums[TAPS - 1].v[k] = __fmul_rn(weights[0], blurred.v[k]);
        }
        Four done = sums[0];
#pragma unroll
        for (int row = 0; row < TAPS - 1; row++)
            sums[row] = sums[row + 1]; // a change of names, since the loop is unrolled
        if (at.writes && y - RADIUS >= top && y - RADIUS < bottom)
            put_out<OUTPUT_BLURRED>(output, output_pitch, at.x, y - RADIUS, done);
        return as_sobel_reads(done, at);
    };

    u32 counters = __cvta_generic_to_shared(counts); // computed once: the compiler would do it again for every pixel
    asm volatile("" : "+r"(counters));
    auto count = [&](u32 level) { asm volatile("red.shared.add.u32 [%0], 1;" : : "r"(counters + 4 * level) : "memory"); };

    // Row y of the edges, of the blurred row `here` and its neighbours.
    auto write_edges = [&](int y, const SobelRow &above, const SobelRow &here, const SobelRow &below) {
        float columns[PIXELS + 2]; // 1 2 1 down each column, which two pixels share
#pragma unroll
        for (int k = 0; k < PIXELS + 2; k++)
            columns[k] = side(above.v[k], here.v[k], below.v[k]);
        Four magnitude;
        u32 levels[PIXELS];
#pragma unroll
        for (int k = 0; k < PIXELS; k++)
            levels[k] = level_of(square_of_length(__fsub_rn(columns[k + 2], columns[k]), __fsub_rn(below.across[k], above.across[k])), &magnitude.v[k]);
        if (!at.writes)
            return;
        if (!at.ragged) {
#pragma unroll
            for (int k = 0; k < PIXELS; k++)
                count(levels[k]); // lanes with the same level take turns
        } else {
#pragma unroll
            for (int k = 0; k < PIXELS; k++)
                if (at.x + k < width)
                    count(levels[k]);
        }
        store(edges + (size_t)y * edges_pitch + at.x, levels); // a word a lane, neighbouring lanes side by side
        put_out<OUTPUT_MAGNITUDE>(output, output_pitch, at.x, y, magnitude);
        put_out<OUTPUT_THRESHOLDED>(output, output_pitch, at.x, y, magnitude);
    };

    if (top < bottom) { // the last block may have more warps than there are strips
        // The rows above the strip, and its first one.
        SobelRow above, here;
#pragma unroll 1
        for (int y = top - HALO; y <= top + RADIUS; y++) {
            above = here;
            here = next_blurred(y);
        }
        if (top == 0)
            above = beyond(here);
        // Every row of the strip but the last row of the image, which has none below.
        int stop = min(bottom, height - 1);
#pragma unroll 2
        for (int y = top; y < stop; y++) {
            SobelRow below = next_blurred(y + HALO);
            write_edges(y, above, here, below);
            above = here;
            here = below;
        }
        if (bottom == height)
            write_edges(height - 1, above, here, beyond(here));
    }

    // Barrier 2: every counter of the block is complete. Integer sums have no rounding, so the order of the blocks does not matter.
    __syncthreads();
    for (int bin = thread; bin < BINS; bin += 32 * WARPS) // neighbouring threads, neighbouring bins
        if (counts[bin] != 0)
            atomicAdd(&totals->counts[bin], counts[bin]);
    __syncthreads(); // barrier 3: every thread of the block has added
    // The block that comes last hands the sums on, and leaves them at 0 for the next image. It sees the sums of the others: the fences stand
    // between a block's sums and its arrival, and between the last arrival and the reading.
    __shared__ bool last;
    if (thread == 0) {
        __threadfence();
        last = atomicAdd(&totals->arrived, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads(); // barrier 4: `last` is known
    if (!last)
        return;
    for (int bin = thread; bin < BINS; bin += 32 * WARPS) {
        histogram[bin] = __ldcg(&totals->counts[bin]); // from the L2 cache, where the sums are
        totals->counts[bin] = 0;
    }
    if (thread == 0)
        totals->arrived = 0;
}

// 64 K registers a multiprocessor: 80 a thread with 24 warps.
#define FUSED_KERNEL(NAME, SAMPLE, CHANNELS)                                                                                             \
    extern "C" __global__ void __launch_bounds__(32 * WARPS)                                                                             \
        NAME(const unsigned char *source, int source_pitch, u8 *edges, int edges_pitch, u32 *histogram, Totals *totals,                  \
             unsigned char *output, int output_pitch, int width, int height, int strip_rows) {                                           \
        fused<SAMPLE, CHANNELS>(source, source_pitch, edges, edges_pitch, histogram, totals, output, output_pitch, width, height,        \
                                strip_rows);                                                                                             \
    }
FUSED_KERNEL(fused_u8_1, u8, 1)
FUSED_KERNEL(fused_u8_3, u8, 3)
FUSED_KERNEL(fused_u8_4, u8, 4)
FUSED_KERNEL(fused_u16_1, u16, 1)
FUSED_KERNEL(fused_u16_3, u16, 3)
FUSED_KERNEL(fused_u16_4, u16, 4)
