"""Kernels that go wrong: what is said, that the device goes on, and that nothing beside is touched."""

from __future__ import annotations

import numpy as np
import pytest

import gridstride as gs
from engine.kernels import HEADER, Kernels, fault_of

SOURCE = r"""
extern "C" __global__ void fill(int *out, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i <= n) out[i] = i; }
extern "C" __global__ void read_far(const float *in, float *out, int offset) { int i = threadIdx.x; out[i] = in[i + offset]; }
extern "C" __global__ void indirect(const int *index, double *data) { data[index[blockIdx.x * blockDim.x + threadIdx.x]] = 1.0; }
extern "C" __global__ void update(int *counters, int k) { atomicAdd(counters + (threadIdx.x == 21 ? k : 0), 1); }
extern "C" __global__ void update_value(int *counters, int k, int *out) { out[threadIdx.x] = atomicExch(counters + (threadIdx.x == 21 ? k : 0), 1); }
extern "C" __global__ void uniform_read(const int *in, int *out, int k) { out[threadIdx.x] = in[k]; }
extern "C" __global__ void uniform_write(int *out, int k) { out[k] = 1; }
extern "C" __global__ void shared_read(int *out, int k) { __shared__ int s[64]; s[threadIdx.x] = threadIdx.x; __syncthreads(); out[threadIdx.x] = s[threadIdx.x + k]; }
extern "C" __global__ void shared_write(int k) { __shared__ volatile int s[64]; s[threadIdx.x * k] = 1; }
extern "C" __global__ void shared_dynamic(int *out, int k) { extern __shared__ int s[]; s[threadIdx.x] = 1; __syncthreads(); out[0] = s[k]; }
extern "C" __global__ void local_read(int *out, int k) { int a[8]; for (int i = 0; i < 8; i++) a[i] = i * k; out[threadIdx.x] = a[(threadIdx.x + k) * 1]; }
extern "C" __global__ void null_read(const int *in, int *out) { out[threadIdx.x] = in[threadIdx.x]; }
extern "C" __global__ void null_write(int *out) { if (threadIdx.x == 9) *out = 1; }
extern "C" __global__ void misaligned_read(const char *in, int *out, int k) { out[threadIdx.x] = *(const int *)(in + 4 * threadIdx.x + k); }
extern "C" __global__ void misaligned_write(char *out, int k) { if (threadIdx.x >= 5) *(double *)(out + 8 * threadIdx.x + k) = 1.0; }
extern "C" __global__ void misaligned_vector(const float *in, float4 *out, int k) { out[threadIdx.x] = *(const float4 *)(in + 4 * threadIdx.x + k); }
extern "C" __global__ void misaligned_atomic(char *out) { atomicAdd((int *)(out + (threadIdx.x == 3 ? 2 : 4)), 1); }
extern "C" __global__ void misaligned_shared(int *out, int k) { __shared__ char s[256]; s[threadIdx.x] = 1; __syncthreads(); out[threadIdx.x] = *(volatile int *)(s + threadIdx.x * 4 + k); }
extern "C" __global__ void through_generic(int *out, int k) { __shared__ int s[32]; s[threadIdx.x] = 1; int *p = (threadIdx.x & 1) ? s : out; __syncthreads(); p[threadIdx.x * k] = 2; }
__constant__ int table[16] = {1};
extern "C" __global__ void constant_read(int *out, int k) { out[threadIdx.x] = table[threadIdx.x + k]; }
__device__ int variable[10];
extern "C" __global__ void variable_write(int k) { variable[k] = 1; }
__device__ __noinline__ void deep(int *p, int k) { p[k] = 1; }
extern "C" __global__ void in_a_function(int *out, int k) {
    deep(out, k);
}
extern "C" __global__ void endless(volatile int *go) { while (true) { if (*go == 12345) break; } }
extern "C" __global__ void endless_counting(int *out) { int i = 0; while (true) { i++; if (i == 0) i = 1; if (out[0] == 7) break; } out[1] = i; }
extern "C" __global__ void endless_in_one_lane(int *out) { int t = threadIdx.x; unsigned x = t == 11 ? 1u : 0u; while (x) { x = x * 5 | 1; } out[t] = 1; }
extern "C" __global__ void endless_storing(volatile int *out) { while (true) out[0] = out[0] + 1; }
extern "C" __global__ void never_set(volatile int *flag, int *out) { if (threadIdx.x == 0) while (*flag == 0) { } __syncthreads(); out[threadIdx.x] = 1; }
extern "C" __global__ void lock_twice(int *lock) { while (atomicCAS(lock, 0, 1)) { } while (atomicCAS(lock, 0, 1)) { } }
extern "C" __global__ void half_at_a_barrier(int *out) { if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;"); else asm volatile("bar.sync 2, 64;"); out[threadIdx.x] = 1; }
extern "C" __global__ void too_few_arrive(int *out) { if (threadIdx.x < 64) asm volatile("bar.sync 1, 96;" ::: "memory"); out[threadIdx.x] = 1; }
extern "C" __global__ void barrier_while_another_spins(volatile int *flag) { if (threadIdx.x < 32) __syncthreads(); else while (*flag == 0) { } }
extern "C" __global__ void last_element(int *out, int n) { if (threadIdx.x == 0) { out[n - 1] = 5; out[0] = 6; } }
"""
program = Kernels(SOURCE)
LINES = SOURCE.splitlines()


def line_of(text: str) -> int:
    return next(k for k, line in enumerate(LINES, 1) if text in line)


def still_works() -> None:
    (out,) = program.once("fill", 1, 64, np.zeros(33, np.int32), 32)
    np.testing.assert_array_equal(out, np.arange(33))


def fault(name: str, grid: int, block: int, *arguments: object, **options: object) -> gs.KernelFault:
    found = fault_of(lambda: program.once(name, grid, block, *arguments, **options))  # type: ignore[arg-type]
    still_works()
    return found


def test_a_store_past_the_end() -> None:
    found = fault("fill", 4, 32, np.zeros(100, np.int32), 100)
    where = line_of("void fill")
    assert found.code == "out-of-bounds" and found.fault.code == "GS101"
    assert found.fault.kernel == "fill" and found.fault.space == "global" and found.fault.index == 100
    assert found.fault.site.line == where and found.fault.site.block == (3, 0, 0) and found.fault.site.thread == (4, 0, 0)
    assert str(found) == (
        f"kernel `fill`: writes 4 bytes at `{found.fault.buffer}`[100], outside its 100 elements of 4 bytes "
        f"(kernel.cu:{where}, block (3,0,0), thread (4,0,0))"
    )


def test_the_buffer_is_called_by_its_name() -> None:
    device = program.device
    device.seed = device.threads = device.budget = None
    prices = device.array(np.zeros(10, np.int32))
    found = fault_of(lambda: program.module["fill"][1, 32](prices, 31))
    assert found.fault.buffer == "prices" and "`prices`[10]" in str(found)
    named = device.array(np.zeros(10, np.int32), name="ledger")
    found = fault_of(lambda: program.module["fill"][1, 32](named, 31))
    assert found.fault.buffer == "ledger"


@pytest.mark.parametrize(("offset", "index", "thread"), ((70, 100, 30), (-1, -1, 0), (-5, -5, 0), (5000, 5000, 0), (99, 100, 1)))
def test_a_load_outside(offset: int, index: int, thread: int) -> None:
    found = fault("read_far", 1, 32, np.zeros(100, np.float32), np.zeros(32, np.float32), offset)
    assert found.code == "out-of-bounds" and found.fault.site.thread == (thread, 0, 0) and "reads 4 bytes" in str(found)
    if abs(offset) < 1000:
        assert found.fault.index == index


def test_an_index_from_memory() -> None:
    index = np.arange(96, dtype=np.int32)
    index[77] = 96
    found = fault("indirect", 3, 32, index, np.zeros(96))
    assert found.fault.index == 96 and found.fault.site.block == (2, 0, 0) and found.fault.site.thread == (13, 0, 0) and found.fault.count == 1
    index[77], index[70], index[71] = 3, -1, 1000
    found = fault("indirect", 3, 32, index, np.zeros(96))
    assert found.fault.index == -1 and found.fault.site.thread == (6, 0, 0) and found.fault.count == 2


@pytest.mark.parametrize("name", ("update", "update_value"))
def test_an_atomic_outside(name: str) -> None:
    found = fault(name, 1, 32, np.zeros(8, np.int32), 8, *([np.zeros(32, np.int32)] if name == "update_value" else []))
    assert found.code == "out-of-bounds" and found.fault.index == 8 and found.fault.site.thread == (21, 0, 0) and "updates 4 bytes" in str(found)


def test_one_address_for_all_lanes() -> None:
    found = fault("uniform_read", 2, 64, np.zeros(16, np.int32), np.zeros(64, np.int32), 16)
    assert found.fault.index == 16 and found.fault.site.thread == (0, 0, 0) and found.fault.site.block == (0, 0, 0)
    found = fault("uniform_write", 2, 64, np.zeros(16, np.int32), -1)
    assert found.fault.index == -1 and "writes" in str(found)


@pytest.mark.parametrize(("k", "thread"), ((1, 63), (40, 24), (-1, 0), (2**20, 0)))
def test_shared_memory_outside(k: int, thread: int) -> None:
    found = fault("shared_read", 1, 64, np.zeros(64, np.int32), k)
    assert found.code == "out-of-bounds" and found.fault.space == "shared" and found.fault.site.thread == (thread, 0, 0)
    assert found.fault.index == thread + k and "the block has 256 bytes of shared memory" in str(found)
    assert f"offset {4 * (thread + k):,}" in str(found)


def test_a_store_to_shared_memory_outside() -> None:
    found = fault("shared_write", 1, 64, 3)
    assert found.fault.space == "shared" and found.fault.site.thread == (22, 0, 0) and "writes 4 bytes" in str(found)


def test_dynamic_shared_memory_ends_where_the_launch_says() -> None:
    program.once("shared_dynamic", 1, 32, np.zeros(1, np.int32), 31, shared=128)
    found = fault("shared_dynamic", 1, 32, np.zeros(1, np.int32), 32, shared=128)
    assert found.fault.space == "shared" and found.fault.index == 32
    found = fault("shared_dynamic", 1, 32, np.zeros(1, np.int32), 0, shared=0)
    assert found.fault.space == "shared" and "0 bytes of shared memory" in str(found)


def test_local_memory_outside() -> None:
    found = fault("local_read", 1, 32, np.zeros(32, np.int32), 1000)
    assert found.code == "out-of-bounds" and found.fault.space == "local" and found.fault.site.thread == (0, 0, 0)


def test_null_pointers() -> None:
    found = fault("null_read", 1, 32, gs.pointer(0), np.zeros(32, np.int32))
    assert found.code == "out-of-bounds" and "null pointer" in str(found)
    found = fault("null_write", 1, 32, gs.pointer(0))
    assert "writes 4 bytes through a null pointer" in str(found) and found.fault.site.thread == (9, 0, 0)


def test_pointers_to_nowhere() -> None:
    for address in (1 << 47, 1 << 63, (1 << 64) - 4, 0x1234567890, 0x7FFFFFFFFFF0):
        found = fault("null_read", 1, 32, gs.pointer(address), np.zeros(32, np.int32))
        assert found.code == "out-of-bounds", hex(address)


def test_memory_that_was_freed() -> None:
    device = program.device
    device.seed = device.threads = device.budget = None
    array = device.array(np.zeros(1000, np.int32))
    address = array.address
    array.free()
    found = fault("null_read", 1, 32, gs.pointer(address), np.zeros(32, np.int32))
    assert found.code == "out-of-bounds"


def test_misaligned_accesses() -> None:
    given = np.zeros(200, np.int8)
    found = fault("misaligned_read", 1, 32, given, np.zeros(32, np.int32), 2)
    assert found.code == "misaligned" and found.fault.code == "GS102" and found.fault.site.thread == (0, 0, 0) and "not a multiple of 4" in str(found)
    found = fault("misaligned_write", 1, 16, given, 4)
    assert found.code == "misaligned" and found.fault.site.thread == (5, 0, 0) and "not a multiple of 8" in str(found)
    found = fault("misaligned_vector", 1, 8, np.zeros(64, np.float32), np.zeros((8, 4), np.float32), 1)
    assert found.code == "misaligned" and "not a multiple of 16" in str(found)
    found = fault("misaligned_atomic", 1, 8, given)
    assert found.code == "misaligned" and found.fault.site.thread == (3, 0, 0)
    found = fault("misaligned_shared", 1, 32, np.zeros(32, np.int32), 1)
    assert found.code == "misaligned" and found.fault.space == "shared"


def test_generic_addresses_say_their_space() -> None:
    found = fault("through_generic", 1, 32, np.zeros(40, np.int32), 2)
    assert found.fault.space == "shared" and found.fault.site.thread == (17, 0, 0) and "128 bytes of shared memory" in str(found)
    found = fault("through_generic", 1, 16, np.zeros(8, np.int32), 1)
    assert found.fault.space == "global" and found.fault.index == 8 and found.fault.site.thread == (8, 0, 0)


def test_constants_and_variables_of_the_module() -> None:
    found = fault("constant_read", 1, 32, np.zeros(32, np.int32), 0)
    assert found.fault.buffer == "table" and found.fault.index == 16 and found.fault.site.thread == (16, 0, 0)
    found = fault("variable_write", 1, 1, 10)
    assert found.fault.buffer == "variable" and found.fault.index == 10


def test_a_fault_in_a_function() -> None:
    found = fault("in_a_function", 1, 1, np.zeros(4, np.int32), 4)
    assert found.fault.kernel == "in_a_function" and found.fault.site.line == line_of("void deep")


def test_neighbours_are_untouched() -> None:
    device = program.device
    device.seed = device.threads = device.budget = None
    arrays = [device.array(np.full(n, n, np.int32)) for n in (1, 7, 64, 100, 1000)]
    for victim in arrays:
        for shift in (victim.size + 1, victim.size + 1000, 4096):
            with pytest.raises(gs.KernelFault):
                program.module["last_element"][1, 32](victim, shift)
            with pytest.raises(gs.KernelFault):
                program.module["last_element"][1, 32](victim, -shift)
    for array in arrays:
        assert (array.numpy() == array.size).all()
    program.module["last_element"][1, 32](arrays[2], 64)
    assert arrays[2].numpy()[63] == 5 and (arrays[2].numpy()[1:63] == 64).all()


def test_what_was_written_before_stays() -> None:
    device = program.device
    device.seed = device.threads = device.budget = None
    out = device.array(np.full(100, -1, np.int32))
    with pytest.raises(gs.KernelFault):
        program.module["fill"][4, 32](out, 100)
    values = out.numpy()
    np.testing.assert_array_equal(values[:96], np.arange(96))


@pytest.mark.parametrize("name", ("endless", "endless_counting", "endless_in_one_lane", "endless_storing"))
@pytest.mark.parametrize("threads", (1, 2))
def test_a_budget_ends_an_endless_loop(name: str, threads: int) -> None:
    found = fault(name, 2, 64, np.zeros(64, np.int32), budget=200_000, threads=threads)
    assert found.code == "budget" or (name == "endless" and found.code == "deadlock")
    if found.code == "budget":
        assert found.fault.code == "GS106" and "200,000 loop iterations" in str(found)


@pytest.mark.parametrize("name", ("never_set", "lock_twice"))
@pytest.mark.parametrize("threads", (1, 2))
def test_waiting_for_what_never_comes(name: str, threads: int) -> None:
    found = fault(name, 3, 64, *[np.zeros(64, np.int32)] * (2 if name == "never_set" else 1), threads=threads)
    assert found.code == "deadlock" and found.fault.code == "GS105"
    assert "no thread of the launch can go on" in str(found)


@pytest.mark.parametrize("name", ("half_at_a_barrier", "too_few_arrive"))
def test_a_barrier_that_cannot_fill(name: str) -> None:
    found = fault(name, 2, 96 if name == "too_few_arrive" else 64, np.zeros(96, np.int32))
    assert found.code == "deadlock" and found.fault.site.line == line_of(f"void {name}") and found.fault.site.block == (0, 0, 0)


def test_a_barrier_while_another_warp_spins() -> None:
    found = fault("barrier_while_another_spins", 1, 64, np.zeros(1, np.int32))
    assert found.code == "deadlock"


def test_faults_under_other_schedules() -> None:
    for seed in (1, 2, 3):
        found = fault("fill", 4, 64, np.zeros(100, np.int32), 100, seed=seed)
        assert found.fault.index == 100 and found.fault.site.block == (1, 0, 0) and found.fault.site.thread == (36, 0, 0)
    found = fault("fill", 4, 64, np.zeros(100, np.int32), 100, threads=2)
    assert found.fault.index == 100


PTX = Kernels(
    HEADER
    + """
.const .align 4 .b8 little[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.visible .entry wrap(.param .u64 a) { .reg .b64 %a; .reg .b32 %x; ld.param.u64 %a, [a]; ld.global.u32 %x, [%a+-2147483648]; st.global.u32 [%a], %x; ret; }
.visible .entry wide_end(.param .u64 a) { .reg .b64 %a; .reg .b32 %x<4>; ld.param.u64 %a, [a]; ld.global.v4.u32 {%x0, %x1, %x2, %x3}, [%a+16]; st.global.u32 [%a], %x0; ret; }
.visible .entry past_parameters(.param .u64 a) { .reg .b64 %a; .reg .b32 %x, %t; ld.param.u64 %a, [a]; mov.u32 %t, %tid.x; mov.u64 %a, a; mad.wide.u32 %a, %t, 64, %a; ld.param.u32 %x, [%a]; ld.param.u64 %a, [a]; st.global.u32 [%a], %x; ret; }
.visible .entry past_constants(.param .u64 a) { .reg .b64 %a, %c; .reg .b32 %x, %t; ld.param.u64 %a, [a]; mov.u32 %t, %tid.x; mov.u64 %c, little; mad.wide.u32 %c, %t, 4, %c; ld.const.u32 %x, [%c]; st.global.u32 [%a], %x; ret; }
.visible .entry shared_none(.param .u64 a) { .reg .b64 %a; .reg .b32 %x; ld.param.u64 %a, [a]; mov.u32 %x, 0; ld.shared.u32 %x, [%x]; st.global.u32 [%a], %x; ret; }
.visible .entry local_none(.param .u64 a) { .reg .b64 %a; .reg .b32 %x; ld.param.u64 %a, [a]; mov.u32 %x, 0; st.local.u32 [%x], 1; st.global.u32 [%a], %x; ret; }
.visible .entry shared_far(.param .u64 a) { .reg .b64 %a; .reg .b32 %x, %t; .shared .b8 s[64]; ld.param.u64 %a, [a]; mov.u32 %t, %tid.x; shl.b32 %t, %t, 30; ld.shared.u32 %x, [%t]; st.global.u32 [%a], %x; ret; }
.visible .entry straddle(.param .u64 a) { .reg .b64 %a; .reg .b64 %x; ld.param.u64 %a, [a]; ld.global.u64 %x, [%a+8]; st.global.u64 [%a], %x; ret; }
"""
)


@pytest.mark.parametrize("name", ("wrap", "wide_end", "past_parameters", "past_constants", "shared_none", "local_none", "shared_far", "straddle"))
def test_hand_written_faults(name: str) -> None:
    size = 3 if name == "straddle" else 7
    found = fault_of(lambda: PTX.once(name, 1, 32, np.zeros(size, np.int32)))
    assert found.code == "out-of-bounds" and found.fault.site.ptx_line is not None
    line = (PTX.source.splitlines()[found.fault.site.ptx_line - 1]).split("(")[0]
    assert line.endswith(name)
