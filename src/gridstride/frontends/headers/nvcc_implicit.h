// What every source sees under nvcc without including anything: nvcc puts cuda_runtime.h, and the C headers behind it, first.
#pragma once
#include "cmath"
#include "cstdlib"
#include "cstring"
#include "cstdint"
#include "climits"
#include "utility"
