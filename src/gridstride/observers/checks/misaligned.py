"""A thread accesses an address that is not a multiple of the access's width, and is stopped.

Hardware takes an access of 2, 4, 8 or 16 bytes only where the address is a multiple of that. A `float4` load, for one, needs 16.

Bad:

    __global__ void copy(const float* a, float4* b) {
        b[threadIdx.x] = *(const float4*)(a + 1 + 4 * threadIdx.x);  // one float past a multiple of 16 bytes
    }

Good:

    __global__ void copy(const float4* a, float4* b) {
        b[threadIdx.x] = a[threadIdx.x];
    }

What to do:
Keep vector accesses on multiples of the vector, give rows of two-dimensional data a padded pitch, or use narrower accesses for the odd ends.
"""

from __future__ import annotations

from gridstride.observers.checks.check import Check

CHECK = Check("GS102", "misaligned", ("error",), __doc__ or "", always=True, stops=True)
