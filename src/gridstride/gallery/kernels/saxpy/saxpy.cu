// y = alpha * x + y. Two loads, one store, one fused multiply-add: 12 bytes for 2 FLOPs.
// `first` is where the work begins: a slice of an array begins anywhere, and its 16-byte groups do not.

// == plain: a thread for each element
extern "C" __global__ void saxpy_plain(float alpha, const float *x, float *y, int first, int n) {
    int i = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)                                   // the last block reaches past the end
        y[i] = alpha * x[i] + y[i];              // one fused multiply-add; lanes are neighbours, so 4 sectors for each 128 bytes
}

// == grid-stride: each thread takes several elements
extern "C" __global__ void saxpy_grid_stride(float alpha, const float *x, float *y, int first, int n) {
    int threads = gridDim.x * blockDim.x;        // the step: all threads of the grid, so that a warp's lanes stay neighbours
    for (int i = first + blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)
        y[i] = alpha * x[i] + y[i];
}

// == float4: sixteen bytes an access, and the rest one by one
__device__ __forceinline__ float4 axpy4(float alpha, float4 x, float4 y) {
    return make_float4(alpha * x.x + y.x, alpha * x.y + y.y, alpha * x.z + y.z, alpha * x.w + y.w);
}

extern "C" __global__ void saxpy_float4(float alpha, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, quads = n / 4;
    if (i < quads) {                             // needs x and y at multiples of 16 bytes: here they are whole allocations
        float4 *y4 = reinterpret_cast<float4 *>(y);
        y4[i] = axpy4(alpha, reinterpret_cast<const float4 *>(x)[i], y4[i]);
    }
    int tail = 4 * quads + i;                    // at most three elements are left
    if (tail < n)
        y[tail] = alpha * x[tail] + y[tail];
}

// == slice: the plain kernel on a slice that begins at element 1
// The same kernel as `plain`: each warp's 128 bytes now begin 4 bytes behind a sector's start, and so touch 5 sectors.

// == peeled: head, body of vectors, tail
extern "C" __global__ void saxpy_peeled(float alpha, const float *x, float *y, int first, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // x and y are misaligned alike, since both begin at `first`: elements up to the next multiple of 16 bytes are the head.
    int head = min((4 - first % 4) % 4, n - first);
    int quads = (n - first - head) / 4;          // whole vectors of the body
    if (i < head)                                // at most three elements, by the first lanes of the first warp
        y[first + i] = alpha * x[first + i] + y[first + i];
    if (i < quads) {
        const float4 *x4 = reinterpret_cast<const float4 *>(x + first + head);
        float4 *y4 = reinterpret_cast<float4 *>(y + first + head);
        y4[i] = axpy4(alpha, x4[i], y4[i]);      // aligned to 16 bytes, though not to a sector
    }
    int tail = first + head + 4 * quads + i;     // at most three elements behind the body
    if (tail < n)
        y[tail] = alpha * x[tail] + y[tail];
}
