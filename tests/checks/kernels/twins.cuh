// FAULT(…) stands in the faulty build only, REPAIR(…) in the repaired one; all else is the same in both.
// /*!*/ marks the lines on which the fault may be reported.
#pragma once
#ifdef REPAIRED
#define FAULT(...)
#define REPAIR(...) __VA_ARGS__
#else
#define FAULT(...) __VA_ARGS__
#define REPAIR(...)
#endif
#define GID (int)(blockIdx.x * blockDim.x + threadIdx.x)
#define TID (int)threadIdx.x
typedef unsigned u32;
typedef unsigned short u16;
typedef unsigned char u8;
