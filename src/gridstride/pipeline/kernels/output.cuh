// The chosen stage in the chosen depth, for implementations that keep the stages.

#pragma once

#include "pixels.cuh"

// Lane k of a warp takes pixel + k: 4 sectors are read, and 1, 2 or 4 written.
// gridstride: contract extent=pixels grid_stride covers=out extents=stage:pixels distinct=stage,out
extern "C" __global__ void output(const float *stage, OutputElement *out, u32 pixels) {
    u32 step = gridDim.x * blockDim.x;
    for (u32 pixel = blockIdx.x * blockDim.x + threadIdx.x; pixel < pixels; pixel += step)
        out[pixel] = to_output(stage[pixel]);
}
