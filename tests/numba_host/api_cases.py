"""What numba.cuda promises its users, one function each, run on the simulator in one process: `python api_cases.py [NAME…]` prints JSON, the name of
each case with its traceback or null. The same functions held on an H200 with numba-cuda 0.30.4, each in a process of its own, but for those that say
otherwise."""

import asyncio
import collections
import contextlib
import enum
import io
import json
import math
import sys
import tempfile
import threading
import traceback
import warnings
from pathlib import Path

import numpy as np

import gridstride.numba  # isort: split

from numba import cuda, float32, float64, int32, vectorize, void
from numba.core.errors import NumbaPerformanceWarning as _OfNumba
from numba.cuda.cudadrv.driver import CudaAPIError
from numba.cuda.cudadrv.error import CudaSupportError

warnings.simplefilter("ignore", _OfNumba)
warnings.filterwarnings("ignore", message=".*(under-utilization|copy overhead).*")
SIMULATED = gridstride.numba.current() is not None and gridstride.numba.current().name.startswith("sim")


def raises(kind, function, *words):
    """The exception that `function` raises, which must be of a kind and have these words."""
    try:
        function()
    except kind as error:
        for word in words:
            assert word in str(error), str(error)
        return error
    raise AssertionError(f"nothing raised {kind.__name__}")


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@cuda.jit
def copy_2d(source, target):
    i, j = cuda.grid(2)
    if i < source.shape[0] and j < source.shape[1]:
        target[i, j] = source[i, j]


# ---- the device ------------------------------------------------------------------------------------------------------


def case_devices():
    assert cuda.is_available()
    assert cuda.cuda_error() is None
    assert cuda.is_supported_version()
    assert len(cuda.gpus) == len(cuda.list_devices()) >= 1
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert cuda.detect()
    assert "[SUPPORTED]" in printed.getvalue()
    device = cuda.select_device(0)
    assert device == cuda.get_current_device()
    assert isinstance(device.name, str)
    assert device.compute_capability >= (7, 5)
    assert device.WARP_SIZE == 32
    assert device.MAX_THREADS_PER_BLOCK == 1024
    assert device.MAX_GRID_DIM_X == 2**31 - 1
    assert device.MULTIPROCESSOR_COUNT > 0
    assert device.compute_capability[0] == device.COMPUTE_CAPABILITY_MAJOR
    assert device.supports_float16
    with cuda.gpus[0]:
        assert cuda.current_context().device.id == 0
    if SIMULATED:
        assert "H200" in device.name and device.MULTIPROCESSOR_COUNT == 132
        raises(CudaAPIError, lambda: device.MAXIMUM_TEXTURE1D_WIDTH, "the simulator does not model CU_DEVICE_ATTRIBUTE_MAXIMUM")


def case_memory_info():
    before = cuda.current_context().get_memory_info()
    kept = cuda.device_array(1 << 20, np.uint8)
    after = cuda.current_context().get_memory_info()
    assert after.total == before.total
    assert before.free - after.free >= kept.nbytes


def case_out_of_memory():
    error = raises(CudaAPIError, lambda: cuda.device_array(1 << 60, np.uint8), "CUDA_ERROR_OUT_OF_MEMORY")
    assert int(error.code) == 2


def case_close_and_begin_again():
    """Only on the simulator: on a GPU numba-cuda 0.30 finds its context destroyed from then on, in a process where others use the GPU too."""
    if not SIMULATED:
        return
    x = cuda.to_device(np.zeros(10))
    add_one[1, 32](x)
    assert (x.copy_to_host() == 1).all()
    cuda.close()
    y = cuda.to_device(np.zeros(10))
    add_one[1, 32](y)
    assert (y.copy_to_host() == 1).all()


def case_other_calls():
    with cuda.defer_cleanup():
        for _ in range(3):
            cuda.device_array(10)
    cuda.profile_start()
    cuda.profile_stop()
    with cuda.profiling():
        pass
    cuda.synchronize()
    assert cuda.cudadrv.driver.get_version() >= (12, 0)
    assert cuda.runtime.get_version() >= (12, 0)


# ---- arrays ----------------------------------------------------------------------------------------------------------


def case_element_types():
    for dtype in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[ms]"):
        values = np.arange(24).astype(dtype).reshape(4, 6)
        there = cuda.to_device(values)
        assert there.dtype == values.dtype and there.nbytes == values.nbytes
        assert np.array_equal(there.copy_to_host(), values), dtype
    for dtype in ("i1", "u2", "i4", "u8", "f4", "f8", "c8"):
        x = np.zeros(40, dtype)
        add_one[2, 32](x)
        assert (x == 1).all(), dtype


def case_layouts():
    values = np.arange(35.0).reshape(5, 7)
    for order in "CF":
        source = np.asarray(values, order=order)
        there = cuda.to_device(source)
        assert there.strides == source.strides
        target = cuda.device_array_like(source)
        copy_2d[(1, 1), (8, 8)](there, target)
        assert np.array_equal(target.copy_to_host(), values)
    assert cuda.device_array((3, 4), np.int16, order="F").strides == (2, 6)
    raises(ValueError, lambda: cuda.to_device(values[:, ::2]), "non-contiguous")
    target = np.zeros((5, 4))
    raises(ValueError, lambda: copy_2d[(1, 1), (8, 8)](values[:, ::2], target), "non-contiguous" if SIMULATED else "")


def case_views():
    values = np.arange(60).reshape(3, 4, 5)
    there = cuda.to_device(values)
    for key in (1, (2, 3), (slice(1, 3),), (slice(None), slice(None), slice(1, 5, 2)), (0, 0, 0)):
        wanted = values[key]
        found = there[key]
        if isinstance(wanted, np.ndarray) and wanted.flags.c_contiguous:
            assert np.array_equal(found.copy_to_host(), wanted), key
        elif not isinstance(wanted, np.ndarray):
            assert found == wanted, key
        else:
            assert found.shape == wanted.shape and found.strides == wanted.strides, key
    assert np.array_equal(there.reshape(12, 5).copy_to_host(), values.reshape(12, 5))
    assert np.array_equal(there.ravel().copy_to_host(), values.ravel())
    assert there.view(np.uint32).shape == (3, 4, 10)
    assert there[:1].squeeze().shape == (4, 5)
    flat = cuda.to_device(np.arange(10))
    assert [part.copy_to_host().tolist() for part in flat.split(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    add_one[1, 32](flat[3:6])
    assert flat.copy_to_host().tolist() == [0, 1, 2, 4, 5, 6, 6, 7, 8, 9]
    flat[2:5] = 50
    flat[9] = -1
    flat[::2] = np.arange(5)
    assert flat.copy_to_host().tolist() == [0, 1, 1, 50, 2, 6, 3, 7, 4, -1]
    matrix = cuda.to_device(np.arange(6).reshape(2, 3))
    assert np.array_equal(matrix.T.copy_to_host(), [[0, 3], [1, 4], [2, 5]])


def case_copies():
    values = np.arange(10.0)
    there = cuda.to_device(values)
    back = np.zeros(10)
    assert there.copy_to_host(back) is back and np.array_equal(back, values)
    other = cuda.device_array_like(there)
    other.copy_to_device(there)
    there.copy_to_device(-values)
    assert np.array_equal(other.copy_to_host(), values)
    assert np.array_equal(there.copy_to_host(), -values)
    raises(ValueError, lambda: there.copy_to_device(np.zeros(9)), "incompatible shape")
    raises(TypeError, lambda: there.copy_to_device(np.zeros(10, np.float32)), "incompatible dtype")
    assert cuda.to_device(np.zeros(0)).copy_to_host().shape == (0,)
    scalar = cuda.to_device(np.float32(2.5))
    assert scalar.copy_to_host() == 2.5


def case_argument_hints():
    x = np.zeros(8)
    add_one[1, 32](cuda.In(x))
    assert (x == 0).all()
    add_one[1, 32](cuda.InOut(x))
    assert (x == 1).all()

    @cuda.jit
    def fill(out):
        out[cuda.grid(1)] = 7

    y = np.zeros(32)
    fill[1, 32](cuda.Out(y))
    assert (y == 7).all()


def case_shared_with_the_host():
    for make in (cuda.mapped_array, cuda.managed_array):
        x = make(20, np.int32)
        x[:] = np.arange(20)
        add_one[1, 32](x)
        cuda.synchronize()
        assert np.array_equal(x, np.arange(1, 21)), make
    like = cuda.mapped_array_like(np.zeros((3, 4), order="F"))
    assert like.flags.f_contiguous
    pinned = cuda.pinned_array_like(np.zeros((3, 4), np.int8))
    assert pinned.shape == (3, 4) and pinned.dtype == np.int8
    x = np.arange(20)
    with cuda.pinned(x):
        there = cuda.to_device(x)
    with cuda.mapped(x) as seen:
        add_one[1, 32](seen)
        cuda.synchronize()
    assert np.array_equal(x, np.arange(1, 21))
    assert np.array_equal(there.copy_to_host(), np.arange(20))


def case_cuda_array_interface():
    there = cuda.to_device(np.arange(6.0))

    class Foreign:
        __cuda_array_interface__ = there.__cuda_array_interface__

    assert cuda.is_cuda_array(Foreign()) and not cuda.is_cuda_array(np.zeros(3))
    assert cuda.cudadrv.devicearray.is_cuda_ndarray(there) and not cuda.cudadrv.devicearray.is_cuda_ndarray(np.zeros(3))
    view = cuda.as_cuda_array(Foreign())
    add_one[1, 32](view)
    add_one[1, 32](Foreign())
    assert np.array_equal(there.copy_to_host(), np.arange(6.0) + 2)
    raises(TypeError, lambda: cuda.as_cuda_array(np.zeros(3)), "cuda array interface")


def case_global_device_array():
    table = cuda.to_device(np.array([10, 20, 30]))

    @cuda.jit
    def look_up(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = table[i % 3]

    out = np.zeros(7, np.int64)
    look_up[1, 32](out)
    assert out.tolist() == [10, 20, 30, 10, 20, 30, 10]


# ---- arguments -------------------------------------------------------------------------------------------------------


def case_scalars_and_tuples():
    class Colour(enum.IntEnum):
        RED = 3

    Pair = collections.namedtuple("Pair", ["x", "scale"])

    @cuda.jit
    def take(flag, small, number, z, pair, nested, colour, out):
        out[0] = 1.0 if flag else 0.0
        out[1] = small
        out[2] = number
        out[3] = z.imag
        out[4] = pair.x[1] * pair.scale
        out[5] = nested[0] + nested[1][1]
        out[6] = 1 if colour == Colour.RED else 0

    out = np.zeros(7)
    take[1, 1](True, np.int8(-5), np.float32(0.5), np.complex64(1 + 2j), Pair(np.array([3.0, 4.0]), 2), (1, (2, 30)), Colour.RED, out)
    assert out.tolist() == [1, -5, 0.5, 2, 8, 31, 1]


def case_records():
    kind = np.dtype([("a", np.int32), ("b", np.float64)], align=True)

    @cuda.jit
    def change(record, records):
        record.a += 1
        records[1].b = record.b * 2

    record = np.array([(1, 2.5)], kind)[0]
    records = np.zeros(3, kind)
    change[1, 1](record, records)
    assert records["b"].tolist() == [0, 5, 0]
    there = cuda.to_device(np.array([(4, 1.0), (5, 2.0)], kind))
    assert there[1]["a"] == 5
    assert there.copy_to_host()["b"].tolist() == [1.0, 2.0]


def case_dates():
    @cuda.jit
    def later(when, by, out):
        out[0] = when[0] + by[0]

    out = np.zeros(1, "M8[s]")
    later[1, 1](np.array(["2024-02-28T23:59:59"], "M8[s]"), np.array([2], "m8[s]"), out)
    assert out[0] == np.datetime64("2024-02-29T00:00:01")


# ---- kernels ---------------------------------------------------------------------------------------------------------


def case_signatures():
    @cuda.jit(void(float32[:], float32))
    def scale(x, by):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= by

    @cuda.jit([void(float64[:]), "void(int32[:])"])
    def twice(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    x = np.arange(5, dtype=np.float32)
    scale[1, 32](x, 3)
    assert x.tolist() == [0, 3, 6, 9, 12]
    for dtype in (np.float64, np.int32):
        y = np.arange(5, dtype=dtype)
        twice[1, 32](y)
        assert y.tolist() == [0, 2, 4, 6, 8]
    assert len(twice.overloads) == 2
    raises(TypeError, lambda: twice[1, 32](np.zeros(3, np.complex64)), "No matching definition")


def case_inspection():
    @cuda.jit
    def kernel(x):
        shared = cuda.shared.array(64, float32)
        shared[cuda.threadIdx.x] = x[cuda.threadIdx.x]
        cuda.syncthreads()
        x[cuda.threadIdx.x] = shared[63 - cuda.threadIdx.x]

    x = np.arange(64, dtype=np.float32)
    kernel[1, 64](x)
    assert x.tolist() == list(range(63, -1, -1))
    (types,) = kernel.overloads
    assert kernel.signatures == [types]
    assert all(".visible .entry" in text for text in kernel.inspect_asm().values())
    assert "define void" in kernel.inspect_llvm(types)
    printed = io.StringIO()
    kernel.inspect_types(file=printed)
    assert "x = arg(0, name=x)" in printed.getvalue()
    assert kernel.get_max_threads_per_block() == {types: 1024}
    assert kernel.get_shared_mem_per_block() == {types: 256}
    for question in (kernel.get_regs_per_thread, kernel.get_local_mem_per_thread, kernel.get_const_mem_size):
        try:
            assert question()[types] >= 0
        except CudaSupportError as error:
            assert SIMULATED and "the registers and memory of kernel are not known: " in str(error)


def case_for_all_elements():
    for n in (0, 1, 1000, 1025):
        x = cuda.to_device(np.zeros(max(n, 1)))
        add_one.forall(n)(x)
        assert x.copy_to_host().sum() == n
        add_one.forall(n, tpb=64)(x)
        assert x.copy_to_host().sum() == 2 * n
    raises(ValueError, lambda: add_one.forall(-1), "negative task count")


def case_options():
    def body(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = math.sqrt(x[i]) / 3

    for options in (
        {"fastmath": True}, {"max_registers": 32}, {"launch_bounds": 128}, {"launch_bounds": (128, 2)}, {"lineinfo": True}, {"lto": True},
        {"lto": False}, {"opt": False}, {"shared_memory_carveout": "MaxShared"}, {"forceinline": False},
    ):  # fmt: skip
        x = np.arange(9, dtype=np.float32)
        cuda.jit(**options)(body)[1, 32](x)
        np.testing.assert_allclose(x, np.sqrt(np.arange(9)) / 3, rtol=1e-5, err_msg=str(options))


def case_launch_bounds_are_kept():
    @cuda.jit(launch_bounds=64)
    def kernel(x):
        x[0] = 1

    raises(Exception, lambda: kernel[1, 128](np.zeros(1)), "64" if SIMULATED else "")


def case_exceptions_of_kernels():
    @cuda.jit(debug=True, opt=False)
    def divide(x, by):
        i = cuda.grid(1)
        if i == 3:
            raise ValueError("the third")
        x[i] //= by

    x = np.arange(2)
    raises(ZeroDivisionError, lambda: divide[1, 1](x, 0), "tid=[0, 0, 0]")
    raises(ValueError, lambda: divide[2, 2](np.zeros(4, np.int64), 1), "tid=[0, 0, 1] ctaid=[0, 0, 1]: the third")
    y = np.arange(2) * 6
    divide[1, 2](y, 3)
    assert y.tolist() == [0, 2]


def case_linked_code():
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "twice.cu"
        source.write_text('extern "C" __device__ int twice(float* result, float x) { *result = 2 * x; return 0; }')
        twice = cuda.declare_device("twice", "float32(float32)", link=[str(source)])

        @cuda.jit
        def kernel(x):
            x[0] = twice(x[0])

        x = np.array([21], np.float32)
        kernel[1, 1](x)
        assert x[0] == 42
    if SIMULATED:
        other = cuda.declare_device("other", "float32(float32)", link=cuda.Fatbin(b"\x50\xed\x55\xba", name="other.fatbin"))

        @cuda.jit
        def refused(x):
            x[0] = other(x[0])

        raises(CudaSupportError, lambda: refused[1, 1](x), "other.fatbin cannot be linked", "no machine code")


def case_cooperative():
    @cuda.jit
    def rounds(x):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        n = cuda.gridsize(1)
        for _ in range(3):
            other = x[(i + 1) % n]
            grid.sync()
            x[i] += other
            grid.sync()

    x = np.arange(64.0)
    wanted = x.copy()
    for _ in range(3):
        wanted += np.roll(wanted, -1)
    rounds[2, 32](x)
    assert np.array_equal(x, wanted)
    (kernel,) = rounds.overloads.values()
    assert kernel.cooperative
    most = kernel.max_cooperative_grid_blocks(32)
    assert most >= 132
    raises(Exception, lambda: rounds[most + 1000000, 1024](np.zeros(32)), "")


def case_shared_and_local_memory():
    @cuda.jit
    def turn(x):
        dynamic = cuda.shared.array(0, int32)
        own = cuda.local.array(4, int32)
        t = cuda.threadIdx.x
        for k in range(4):
            own[k] = x[t] * k
        dynamic[t] = own[t % 4]
        cuda.syncthreads()
        x[t] = dynamic[cuda.blockDim.x - 1 - t]

    x = np.arange(32, dtype=np.int32)
    wanted = (x * (x % 4))[::-1]
    turn[1, 32, 0, 128](x)
    assert np.array_equal(x, wanted)


def case_half_precision():
    @cuda.jit
    def axpy(a, x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = cuda.fp16.hfma(a, x[i], y[i]) + x[i]

    x, y = np.arange(8, dtype=np.float16), np.ones(8, np.float16)
    axpy[1, 32](np.float16(2), x, y)
    assert y.tolist() == [3 * k + 1 for k in range(8)]


def case_atomics_on_device_functions():
    @cuda.jit(device=True)
    def bump(counts, k, by=1):
        return cuda.atomic.add(counts, k, by)

    @cuda.jit
    def kernel(counts):
        bump(counts, cuda.threadIdx.x % 4)
        bump(counts, 0, 10)

    counts = np.zeros(4, np.int32)
    kernel[2, 32](counts)
    assert counts.tolist() == [16 + 640, 16, 16, 16]


def case_reductions():
    total = cuda.reduce(lambda a, b: a + b)
    for n in (0, 1, 5, 127, 128, 1000):
        x = np.arange(n, dtype=np.float64)
        assert total(x) == x.sum(), n
    into = cuda.to_device(np.zeros(1))
    assert total(cuda.to_device(np.arange(10.0)), res=into) is None
    assert into.copy_to_host()[0] == 45

    @vectorize(["float64(float64, float64)"], target="cuda")
    def larger(a, b):
        return max(a, b)

    assert larger.reduce(np.array([3.0, 9.0, 4.0])) == 9


def case_random_states():
    from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float64, xoroshiro128p_uniform_float64

    @cuda.jit
    def draw(states, uniform, normal):
        i = cuda.grid(1)
        uniform[i] = xoroshiro128p_uniform_float64(states, i)
        normal[i] = xoroshiro128p_normal_float64(states, i)

    uniform, normal = np.zeros(2048), np.zeros(2048)
    draw[16, 128](create_xoroshiro128p_states(2048, seed=5), uniform, normal)
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.03
    assert abs(normal.mean()) < 0.1 and abs(normal.std() - 1) < 0.1
    again = np.zeros(2048)
    draw[16, 128](create_xoroshiro128p_states(2048, seed=5), again, normal)
    assert np.array_equal(again, uniform)


def case_print():
    @cuda.jit
    def say(x):
        i = cuda.grid(1)
        if i < 2:
            print("element", i, x[i])

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        say[1, 32](cuda.to_device(np.array([1.5, 2.5])))
        cuda.synchronize()
    if SIMULATED:  # a GPU's goes to the process's own output
        assert printed.getvalue() == "element 0 1.500000\nelement 1 2.500000\n"


# ---- streams and events ----------------------------------------------------------------------------------------------


def case_streams():
    x = cuda.pinned_array(100, np.float64)
    x[:] = 0
    for stream in (cuda.stream(), cuda.default_stream(), cuda.legacy_default_stream(), cuda.per_thread_default_stream(), 0):
        there = cuda.to_device(x, stream=stream)
        add_one[4, 32, stream](there)
        there.copy_to_host(x, stream=stream)
        stream.synchronize() if stream else cuda.synchronize()
    assert (x == 5).all()
    stream = cuda.stream()
    with stream.auto_synchronize():
        bound = cuda.to_device(x, stream=stream).bind(stream)
        add_one[4, 32, stream](bound)
    assert (bound.copy_to_host() == 6).all()
    again = cuda.external_stream(int(stream))
    add_one[4, 32, again](bound)
    again.synchronize()
    assert "External" in repr(again)
    if SIMULATED:
        error = raises(CudaSupportError, lambda: cuda.external_stream(0x1234567), "0x1234567 is no stream of the simulator")
        assert error.exit_status == 3


def case_callbacks():
    """Only on the simulator: numba-cuda 0.30.4 asks a stream's handle for a `value` that it has not."""
    if not SIMULATED:
        return
    called = []
    stream = cuda.stream()
    stream.add_callback(lambda stream, status, arg: called.append((status, arg)), "first")
    stream.add_callback(lambda stream, status, arg: called.append((status, arg)), "second")
    stream.synchronize()
    assert called == [(0, "first"), (0, "second")]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        stream.add_callback(lambda stream, status, arg: 1 / 0)
        stream.synchronize()
    assert any("division by zero" in str(one.message) for one in told)

    async def wait():
        return await stream.async_done()

    assert asyncio.run(wait()) is stream


def case_events():
    stream = cuda.stream()
    begin, end = cuda.event(), cuda.event()
    x = cuda.to_device(np.zeros(1 << 16))
    begin.record(stream)
    for _ in range(4):
        add_one[256, 256, stream](x)
    end.record(stream)
    end.wait(cuda.default_stream())
    end.synchronize()
    assert begin.query() and end.query()
    took = cuda.event_elapsed_time(begin, end)
    assert took > 0 and took == begin.elapsed_time(end)
    if SIMULATED:
        assert took < 1  # milliseconds of an H200, however slow this machine is
        raises(CudaAPIError, lambda: cuda.event(timing=False).elapsed_time(end), "timing=False")
        raises(CudaAPIError, lambda: cuda.event().elapsed_time(end), "never recorded")


def case_threads_of_the_host():
    wrong = []

    def work(k):
        try:
            x = np.full(64, k)
            for _ in range(5):
                add_one[2, 32](x)
            assert (x == k + 5).all()
        except Exception as error:  # noqa: BLE001 - told below
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def case_freeing_waits_for_nobody():
    """Finalizers free memory, in whatever thread the garbage collector runs: also while another holds the device and waits for that thread."""
    if not SIMULATED:
        return
    driver = cuda.cudadrv.driver.driver
    device = gridstride.numba.current()
    before = cuda.current_context().get_memory_info().free
    addresses = [driver.cuMemAlloc(4096) for _ in range(3)]
    stream, event, host = driver.cuStreamCreate(0), driver.cuEventCreate(0), np.zeros(16)
    driver.cuMemHostRegister(host.ctypes.data, host.nbytes, 2)

    def finalize():
        for address in addresses:
            driver.cuMemFree(address)
        driver.cuStreamDestroy(stream)
        driver.cuEventDestroy(event)
        driver.cuMemHostUnregister(host.ctypes.data)

    with device._queue.lock:
        other = threading.Thread(target=finalize, daemon=True)
        other.start()
        other.join(30)
        assert not other.is_alive()
    add_one[1, 32](cuda.to_device(np.zeros(3)))
    cuda.synchronize()
    assert before - cuda.current_context().get_memory_info().free < 3 * 4096
    raises(CudaAPIError, lambda: driver.cuMemFree(addresses[0]), "nothing was allocated at", "or it was freed before")


# ---- what goes wrong -------------------------------------------------------------------------------------------------


def case_wrong_launches():
    from cuda.core._utils.cuda_utils import CUDAError

    x = cuda.to_device(np.zeros(4))
    for kind in (CudaAPIError, CUDAError) if SIMULATED else (CUDAError,):
        raises(kind, lambda: add_one[1, 2048](x), "CUDA_ERROR_INVALID_VALUE")
    if SIMULATED:
        raises(CudaAPIError, lambda: add_one[1, 32, 0, 1 << 20](x), "shared memory")
    raises(ValueError, lambda: add_one(x), "Kernel launch configuration was not specified")
    raises(ValueError, lambda: add_one[(1, 1, 1, 1), 1](x), "")
    add_one[1, 32](x)
    assert (x.copy_to_host() == 1).all()


def case_faults_stay():
    """Only on the simulator: on a GPU the process could go on with nothing after it."""
    if not SIMULATED:
        return

    @cuda.jit
    def beyond(x):
        x[cuda.grid(1) + 90] = 0

    x = cuda.to_device(np.zeros(100))
    beyond[1, 32](x)
    error = raises(
        CudaAPIError, cuda.synchronize, "CUDA_ERROR_ILLEGAL_ADDRESS", "kernel `beyond`: writes 8 bytes at `x`[100]", "api_cases.py:"
    )
    assert int(error.code) == 700
    raises(CudaAPIError, x.copy_to_host, "CUDA_ERROR_ILLEGAL_ADDRESS")
    raises(CudaAPIError, lambda: cuda.to_device(np.zeros(3)), "CUDA_ERROR_ILLEGAL_ADDRESS")
    cuda.close()
    y = np.zeros(3)
    add_one[1, 32](y)
    assert (y == 1).all()


def case_refusals():
    if not SIMULATED:
        return
    x = cuda.to_device(np.zeros(3))
    raises(CudaSupportError, x.get_ipc_handle, "memory that several processes share")
    raises(CudaSupportError, lambda: cuda.cudadrv.driver.driver.cuGraphCreate(0), "numba.cuda on the simulator has no cuGraphCreate")


CASES = {name.removeprefix("case_"): value for name, value in list(globals().items()) if name.startswith("case_")}


def main(names):
    results = {}
    for name in names or CASES:
        try:
            CASES[name]()
            results[name] = None
        except BaseException:  # noqa: BLE001 - told in the results
            results[name] = traceback.format_exc()
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
