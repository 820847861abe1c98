// The sum of each segment of an array: segment s has the elements from starts[s] to starts[s + 1]. Segments are of any length, zero too.

// == thread-each: a thread for each segment
extern "C" __global__ void segments_thread(const float *x, const int *starts, float *out, int segments) {
    int s = blockIdx.x * 256 + threadIdx.x;
    if (s >= segments)
        return;
    float sum = 0;
    for (int i = starts[s]; i < starts[s + 1]; i++)   // neighbouring lanes are in different segments: far apart, and not done at the same time
        sum += x[i];
    out[s] = sum;
}

// == warp-each: a warp for each segment
extern "C" __global__ void segments_warp(const float *x, const int *starts, float *out, int segments) {
    int s = (blockIdx.x * 256 + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (s >= segments)
        return;                                        // whole warps
    float sum = 0;
    for (int i = starts[s] + lane; i < starts[s + 1]; i += 32)   // side by side; short segments leave lanes idle
        sum += x[i];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, step);
    if (lane == 0)
        out[s] = sum;
}

// == group-each: eight lanes for each segment
extern "C" __global__ void segments_group(const float *x, const int *starts, float *out, int segments) {
    int s = (blockIdx.x * 256 + threadIdx.x) / 8, lane = threadIdx.x % 8;
    float sum = 0;
    if (s < segments)                                  // no return: the shuffles below want all lanes of the warp
        for (int i = starts[s] + lane; i < starts[s + 1]; i += 8)   // eight floats are a sector
            sum += x[i];
    for (int step = 4; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, step, 8);          // four groups at once
    if (s < segments && lane == 0)
        out[s] = sum;
}
