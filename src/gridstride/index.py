"""Which elements a thread has, with the guard in it, for kernels written in Python: ranges to go through with `for`.

    from gridstride.index import elements, mine, mine_y

    @cuda.jit
    def saxpy(a, x, y):
        for i in mine(y.size):          # this thread's element, or none beyond the end
            y[i] = a * x[i]

    @cuda.jit
    def image(out):
        for row in mine_y(out.shape[0]):
            for column in mine(out.shape[1]):
                out[row, column] = 0

    @cuda.jit
    def any_grid(a, x, y):
        for i in elements(y.size):      # this thread's elements, in steps of the whole grid
            y[i] = a * x[i]

They are device functions of numba-cuda, which compiles them into the kernel, on the simulator as on a GPU. `gridstride/index.cuh` is the same for CUDA C++.
"""

from __future__ import annotations

from numba import cuda

__all__ = ["elements", "elements_y", "elements_z", "mine", "mine_y", "mine_z"]


@cuda.jit(device=True, inline="always")
def mine(n: int) -> range:
    """The number of this thread along x as a range of one; an empty range from n on."""
    first = cuda.grid(1)
    return range(first, first + (first < n))


@cuda.jit(device=True, inline="always")
def mine_y(n: int) -> range:
    """The same along y."""
    first = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    return range(first, first + (first < n))


@cuda.jit(device=True, inline="always")
def mine_z(n: int) -> range:
    """The same along z."""
    first = cuda.blockIdx.z * cuda.blockDim.z + cuda.threadIdx.z
    return range(first, first + (first < n))


@cuda.jit(device=True, inline="always")
def elements(n: int) -> range:
    """From the number of this thread along x to n, in steps of the threads of the grid along x."""
    return range(cuda.grid(1), n, cuda.gridsize(1))


@cuda.jit(device=True, inline="always")
def elements_y(n: int) -> range:
    """The same along y."""
    return range(cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y, n, cuda.gridDim.y * cuda.blockDim.y)


@cuda.jit(device=True, inline="always")
def elements_z(n: int) -> range:
    """The same along z."""
    return range(cuda.blockIdx.z * cuda.blockDim.z + cuda.threadIdx.z, n, cuda.gridDim.z * cuda.blockDim.z)
