#include <cub/block/block_load.cuh>
#include <cub/block/block_reduce.cuh>

// == cub: NVIDIA's own block reduction
extern "C" __global__ void __launch_bounds__(256) sum_cub(const float *x, float *out, int n) {
    using Load = cub::BlockLoad<float, 256, 16, cub::BLOCK_LOAD_STRIPED>;   // 16 elements a thread, neighbours in neighbouring lanes
    using Reduce = cub::BlockReduce<float, 256>;                            // warps by shuffles, then the warps' sums
    __shared__ typename Reduce::TempStorage scratch;
    float sum = 0;
    for (int base = blockIdx.x * 4096; base < n; base += gridDim.x * 4096) {
        float items[16];
        Load().Load(x + base, items, min(4096, n - base), 0.0f);            // zeros behind the end
#pragma unroll
        for (int k = 0; k < 16; k++)
            sum += items[k];
    }
    sum = Reduce(scratch).Sum(sum);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}
