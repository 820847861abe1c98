// Stand-in for the runtime's header: the compiler itself declares the device side (vector types, dim3, cudaStream_t, cudaError_t).
#pragma once
#include "nvcc_implicit.h"
