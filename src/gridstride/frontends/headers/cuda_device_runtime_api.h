// Stand-in for a part of the runtime that the compiler itself declares.
#pragma once
#include <cuda_runtime.h>
