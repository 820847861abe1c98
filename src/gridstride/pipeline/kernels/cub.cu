// The edge pipeline on NVIDIA's device libraries: CUB's block primitives load, store and count, libcu++ has the views of images, the arrays
// in registers and the atomics. A kernel a stage, as in edges.cu, and the same arithmetic (pixels.cuh), so the bits are the same.
//
// Image kernels: a block of 128 threads makes 512 neighbouring pixels of one row, four a thread, striped: thread t has pixels t, t + 128,
// t + 256, t + 384, so that in every access a warp touches 32 neighbouring pixels.

#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/mdspan>

#include "output.cuh"

constexpr int THREADS = 128;
constexpr int ITEMS = 4;
constexpr int SEGMENT = THREADS * ITEMS;

// A view of an image: view(y, x).
typedef cuda::std::mdspan<const float, cuda::std::dextents<int, 2>> View;

// Writes the segment of a row that a block has made. Striped: item j of thread t goes to j * 128 + t; nothing goes beyond `valid`.
typedef cub::BlockStore<float, THREADS, ITEMS, cub::BLOCK_STORE_STRIPED> StoreSegment;

// ---------------------------------------------------------------------------------------------------------------- grey

template <typename Sample, int CHANNELS> struct Pixel {
    Sample samples[CHANNELS];
};

// One-dimensional: the position in the image does not matter.
template <typename Sample, int CHANNELS> __device__ void grey(const Sample *samples, float *out, int width, int height) {
    typedef Pixel<Sample, CHANNELS> P;
    // Whole pixels, a warp's side by side: the loads are striped, and pixels of 1 to 8 bytes change hands in shared memory so that each
    // thread has four neighbours.
    typedef cub::BlockLoad<P, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE> Load;
    typedef cub::BlockStore<float, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE> Store;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } storage;
    int pixels = width * height;
    const P *from = reinterpret_cast<const P *>(samples);
    for (int begin = blockIdx.x * SEGMENT; begin < pixels; begin += gridDim.x * SEGMENT) {
        P pixel[ITEMS];
        Load(storage.load).Load(from + begin, pixel, pixels - begin, P{}); // beyond the last pixel: zeros
        cuda::std::array<float, ITEMS> value;
        for (int k = 0; k < ITEMS; k++) {
            if constexpr (CHANNELS == 1)
                value[k] = pixel[k].samples[0];
            else
                value[k] = luma(pixel[k].samples[0], pixel[k].samples[1], pixel[k].samples[2]); // alpha is not used
            value[k] = to_eight_bit_scale(value[k], Sample());
        }
        __syncthreads(); // the store uses the memory of the load, which every thread must have left
        Store(storage.store).Store(out + begin, reinterpret_cast<float(&)[ITEMS]>(value), pixels - begin);
        __syncthreads(); // and the next load that of the store
    }
}

#define GREY_KERNEL(NAME, SAMPLE, CHANNELS)                                                                                           \
    extern "C" __global__ void __launch_bounds__(128) NAME(const SAMPLE *samples, float *out, int width, int height) {                \
        grey<SAMPLE, CHANNELS>(samples, out, width, height);                                                                          \
    }
// p0 is samples, p1 out, p2 width, p3 height. Pixels are taken as one row.
// gridstride: contract kernel=grey_u8_1,grey_u16_1 extent=p2*p3 block=128 elements_per_thread=4 grid_stride covers=p1 extents=p0:p2*p3 distinct=p0,p1
// gridstride: contract kernel=grey_u8_3,grey_u16_3 extent=p2*p3 block=128 elements_per_thread=4 grid_stride covers=p1 extents=p0:3*p2*p3 distinct=p0,p1
// gridstride: contract kernel=grey_u8_4,grey_u16_4 extent=p2*p3 block=128 elements_per_thread=4 grid_stride covers=p1 extents=p0:4*p2*p3 distinct=p0,p1
GREY_KERNEL(grey_u8_1, u8, 1)
GREY_KERNEL(grey_u8_3, u8, 3)
GREY_KERNEL(grey_u8_4, u8, 4)
GREY_KERNEL(grey_u16_1, u16, 1)
GREY_KERNEL(grey_u16_3, u16, 3)
GREY_KERNEL(grey_u16_4, u16, 4)

// ---------------------------------------------------------------------------------------------------------------- blur and Sobel

// Every pixel of an image from a function of its place. Images taller than the grid are taken in several rounds.
template <typename Make> __device__ void each_pixel(float *out, int width, int height, Make make) {
    __shared__ typename StoreSegment::TempStorage storage;
    int begin = blockIdx.x * SEGMENT;
    for (int y = blockIdx.y; y < height; y += gridDim.y) {
        float made[ITEMS];
        for (int k = 0; k < ITEMS; k++) {
            int x = min(begin + k * THREADS + (int)threadIdx.x, width - 1); // beyond the row: its last pixel again, which is not stored
            made[k] = make(y, x);
        }
        StoreSegment(storage).Store(out + y * width + begin, made, width - begin);
    }
}

// The image at a place that may lie beyond its border.
__device__ float found(const View &image, int y, int x) {
    int row = inside(y, image.extent(0)), column = inside(x, image.extent(1));
    return BORDER == BORDER_CONSTANT && (row < 0 || column < 0) ? BORDER_VALUE : image(row, column);
}

// gridstride: contract extent=width,height block=128 tile=512,1 grid_stride=y nonempty covers=out extents=in:width,height distinct=in,out
extern "C" __global__ void __launch_bounds__(128) blur_rows(const float *in, float *out, int width, int height) {
    View image(in, height, width);
    each_pixel(out, width, height, [&](int y, int x) { return weighted([&](int k) { return found(image, y, x + k); }); });
}

// gridstride: contract extent=width,height block=128 tile=512,1 grid_stride=y nonempty covers=out extents=in:width,height distinct=in,out
extern "C" __global__ void __launch_bounds__(128) blur_columns(const float *in, float *out, int width, int height) {
    View image(in, height, width);
    each_pixel(out, width, height, [&](int y, int x) { return weighted([&](int k) { return found(image, y + k, x); }); });
}

// gridstride: contract extent=width,height block=128 tile=512,1 grid_stride=y nonempty covers=out extents=in:width,height distinct=in,out
extern "C" __global__ void __launch_bounds__(128) sobel(const float *in, float *out, int width, int height) {
    View image(in, height, width);
    each_pixel(out, width, height, [&](int y, int x) {
        cuda::std::array<float, 9> n; // the neighbours, row by row; the middle one is not used
        for (int k = 0; k < 9; k++)
            n[k] = found(image, y + k / 3 - 1, x + k % 3 - 1);
        float across = __fsub_rn(side(n[2], n[5], n[8]), side(n[0], n[3], n[6])); // right - left
        float down = __fsub_rn(side(n[6], n[7], n[8]), side(n[0], n[1], n[2]));   // bottom - top
        return length(across, down);
    });
}

// ---------------------------------------------------------------------------------------------------------------- histogram

// Blocks of 256 threads, one for each bin; four pixels a thread.
// gridstride: contract extent=pixels block=256 elements_per_thread=4 grid_stride covers=edges
// gridstride: contract extents=magnitude:pixels|histogram:256 distinct=magnitude,edges,histogram
extern "C" __global__ void __launch_bounds__(256) edges_and_histogram(const float *magnitude, u8 *edges, u32 *histogram, u32 pixels) {
    constexpr int BINS = 256, TILE = BINS * ITEMS;
    typedef cub::BlockLoad<float, BINS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE> Load;
    typedef cub::BlockStore<u8, BINS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE> Store;
    typedef cub::BlockHistogram<u8, BINS, ITEMS, BINS, cub::BLOCK_HISTO_ATOMIC> Histogram;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Histogram::TempStorage histogram;
    } storage;
    __shared__ u32 counts[BINS];
    Histogram(storage.histogram).InitHistogram(counts);
    __syncthreads(); // no thread may count before every counter is clear
    u32 spare = 0;   // pixels beyond the last one, which were counted as edges of 0
    for (u32 begin = blockIdx.x * TILE; begin < pixels; begin += gridDim.x * TILE) {
        float value[ITEMS];
        u8 level[ITEMS];
        Load(storage.load).Load(magnitude + begin, value, pixels - begin, 0.0f);
        for (int k = 0; k < ITEMS; k++)
            level[k] = to_eight_bits(value[k]);
        __syncthreads(); // the store uses the memory of the load
        Store(storage.store).Store(edges + begin, level, pixels - begin);
        __syncthreads(); // and the histogram that of the store
        Histogram(storage.histogram).Composite(level, counts);
        spare += begin + TILE > pixels ? begin + TILE - pixels : 0;
        __syncthreads(); // every pixel of the tile is counted before the next one is loaded, and at the end before the sums are taken
    }
    u32 count = counts[threadIdx.x] - (threadIdx.x == 0 ? spare : 0);
    if (count != 0) // relaxed: integer sums have no order, and nothing else is told by them
        cuda::atomic_ref<u32, cuda::thread_scope_device>(histogram[threadIdx.x]).fetch_add(count, cuda::memory_order_relaxed);
}
