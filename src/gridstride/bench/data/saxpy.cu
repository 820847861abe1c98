// The launch on which simulators are compared: one thread per element. saxpy.ptx is this file compiled by NVRTC for sm_90.
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
