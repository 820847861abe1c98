// Sum every row of a matrix of height x width floats, in row-major order.
extern "C" __global__ void row_sums(const float *in, float *out, int height, int width) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;   // one thread a row
    if (row < height) {
        float sum = 0;
        for (int column = 0; column < width; column++)
            sum += in[row * width + column];            // neighbouring threads are a whole row apart
        out[row] = sum;
    }
}
