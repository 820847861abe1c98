#include <cub/block/block_histogram.cuh>

// == cub: NVIDIA's own block histogram
extern "C" __global__ void __launch_bounds__(256) histogram_cub(const unsigned char *data, unsigned int *bins, int n) {
    using Histogram = cub::BlockHistogram<unsigned char, 256, 16, 256, cub::BLOCK_HISTO_ATOMIC>;
    __shared__ typename Histogram::TempStorage scratch;
    __shared__ unsigned int mine[256];
    Histogram(scratch).InitHistogram(mine);
    __syncthreads();
    int me = blockIdx.x * 256 + threadIdx.x;
    for (int base = blockIdx.x * 256; base < n / 16; base += gridDim.x * 256) {
        int i = base + threadIdx.x;                              // sixteen bytes a thread; threads behind the end take part with none
        if (base + 256 <= n / 16) {
            alignas(16) unsigned char items[16];
            *reinterpret_cast<uint4 *>(items) = reinterpret_cast<const uint4 *>(data)[i];
            Histogram(scratch).Composite(items, mine);
        } else if (i < n / 16) {
            for (int k = 0; k < 16; k++)
                atomicAdd(&mine[data[16 * i + k]], 1);
        }
    }
    if (n / 16 * 16 + me < n)
        atomicAdd(&mine[data[n / 16 * 16 + me]], 1);
    __syncthreads();
    if (mine[threadIdx.x])
        atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}
