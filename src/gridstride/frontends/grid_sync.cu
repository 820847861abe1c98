// What Numba's `cuda.cg.this_grid().sync()` calls. NVIDIA keeps these two functions in a library of machine code (libcudadevrt); here they are
// made of the cooperative groups of CUDA C++, which do the same with what PTX has.
#include <cooperative_groups.h>

extern "C" __device__ unsigned long long cudaCGGetIntrinsicHandle(enum cudaCGScope scope) {
    return scope;
}

extern "C" __device__ cudaError_t cudaCGSynchronize(unsigned long long handle, unsigned int flags) {
    cooperative_groups::this_grid().sync();
    return cudaSuccess;
}
