// Sum every row of a matrix of height x width floats, in row-major order: a warp a row.
extern "C" __global__ void row_sums(const float *in, float *out, int height, int width) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= height) return;                          // a whole warp leaves, so no lane is missing below
    float sum = 0;
    for (int column = lane; column < width; column += 32)
        sum += in[(long long)row * width + column];     // the lanes read neighbours: 4 sectors for 128 bytes
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, step); // five exchanges leave the sum in lane 0
    if (lane == 0) out[row] = sum;
}
