"""What the threads of a warp tell each other, and of a block: against NumPy over the lanes."""

import numpy as np
from numba import cuda
from numba.cuda import types

FULL = 0xFFFFFFFF
LANES = np.arange(32)


def test_shuffles(run):
    @cuda.jit
    def shuffle(values, out):
        t = cuda.threadIdx.x
        v = values[t]
        out[0, t] = cuda.shfl_sync(0xFFFFFFFF, v, 5)
        out[1, t] = cuda.shfl_up_sync(0xFFFFFFFF, v, 3)
        out[2, t] = cuda.shfl_down_sync(0xFFFFFFFF, v, 4)
        out[3, t] = cuda.shfl_xor_sync(0xFFFFFFFF, v, 16)

    for dtype in (np.int32, np.int64, np.float32, np.float64):
        values = (LANES * 3 + 1).astype(dtype)
        out = run(shuffle, 1, 32, values, np.zeros((4, 32), dtype))[1]
        assert np.array_equal(out[0], np.full(32, values[5]))
        assert np.array_equal(out[1], np.where(LANES >= 3, np.roll(values, 3), values))
        assert np.array_equal(out[2], np.where(LANES < 28, np.roll(values, -4), values))
        assert np.array_equal(out[3], values[LANES ^ 16])


def test_votes_and_ballot(run):
    @cuda.jit
    def vote(values, out, bits):
        t = cuda.threadIdx.x
        odd = values[t] % 2 == 1
        out[0, t] = cuda.all_sync(0xFFFFFFFF, odd)
        out[1, t] = cuda.any_sync(0xFFFFFFFF, odd)
        out[2, t] = cuda.eq_sync(0xFFFFFFFF, odd)
        bits[t] = cuda.ballot_sync(0xFFFFFFFF, odd)

    for values in (np.zeros(32, np.int32), np.ones(32, np.int32), LANES.astype(np.int32)):
        out, bits = run(vote, 1, 32, values, np.zeros((3, 32), np.int32), np.zeros(32, np.uint32))[1:]
        odd = values % 2 == 1
        assert out[0].tolist() == [odd.all()] * 32
        assert out[1].tolist() == [odd.any()] * 32
        assert out[2].tolist() == [odd.all() or not odd.any()] * 32
        assert set(bits.tolist()) == {sum(1 << int(k) for k in LANES if odd[k])}


def test_match(run):
    @cuda.jit
    def match(values, any_out, all_out, all_same):
        t = cuda.threadIdx.x
        any_out[t] = cuda.match_any_sync(0xFFFFFFFF, values[t])
        mask, same = cuda.match_all_sync(0xFFFFFFFF, values[t])
        all_out[t] = mask
        all_same[t] = same

    values = (LANES % 5).astype(np.int32)
    outs = [np.zeros(32, np.uint32), np.zeros(32, np.uint32), np.zeros(32, np.int32)]
    _, any_out, all_out, all_same = run(match, 1, 32, values, *outs)
    assert any_out.tolist() == [sum(1 << int(k) for k in LANES if values[k] == v) for v in values]
    assert not all_out.any() and not all_same.any()
    _, _, all_out, all_same = run(match, 1, 32, np.full(32, 9, np.int32), *outs)
    assert set(all_out.tolist()) == {FULL} and all_same.all()


def test_active_lanes_and_lane_masks(run):
    @cuda.jit
    def lanes(out):
        t = cuda.threadIdx.x
        out[0, t] = cuda.activemask()
        out[1, t] = cuda.lanemask_lt()
        out[2, t] = cuda.laneid
        out[3, t] = cuda.warpsize

    out = run(lanes, 1, 20, np.zeros((4, 20), np.int64))
    assert set(out[0].tolist()) == {(1 << 20) - 1}
    assert out[1].tolist() == [(1 << k) - 1 for k in range(20)]
    assert out[2].tolist() == list(range(20))
    assert set(out[3].tolist()) == {32}


def test_a_part_of_a_warp_in_a_branch(run):
    @cuda.jit
    def part(out):
        t = cuda.threadIdx.x
        if t < 16:
            v = t
            for step in (8, 4, 2, 1):
                v += cuda.shfl_xor_sync(0xFFFF, v, step)
            out[t] = v
        cuda.syncwarp()
        out[t] += 1

    out = run(part, 1, 32, np.zeros(32, np.int32))
    assert (out[:16] == sum(range(16)) + 1).all()
    assert (out[16:] == 1).all()


def test_barriers_that_count(run):
    @cuda.jit
    def counts(values, out):
        t = cuda.threadIdx.x
        out[0, t] = cuda.syncthreads_count(1 if values[t] > 10 else 0)
        out[1, t] = cuda.syncthreads_and(1 if values[t] > 10 else 0)
        out[2, t] = cuda.syncthreads_or(1 if values[t] > 10 else 0)

    values = np.random.default_rng(3).integers(0, 30, 96).astype(np.int32)
    out = run(counts, 1, 96, values, np.zeros((3, 96), np.int32))[1]
    assert set(out[0].tolist()) == {int((values > 10).sum())}
    assert not out[1].any() and out[2].all()


def test_bits_of_integers(run):
    @cuda.jit
    def bits(values, out):
        i = cuda.grid(1)
        v = values[i]
        out[0, i] = cuda.popc(v)
        out[1, i] = cuda.clz(v)
        out[2, i] = cuda.ffs(v)
        out[3, i] = cuda.brev(v)

    for dtype in (np.uint32, np.uint64):
        width = 8 * np.dtype(dtype).itemsize
        values = np.array([0, 1, 2, 3, 1 << (width - 1), (1 << width) - 1, 0b10110000, 12345], dtype)
        out = run(bits, 1, 8, values, np.zeros((4, 8), dtype))[1]
        texts = [f"{int(v):0{width}b}" for v in values]
        assert out[0].tolist() == [t.count("1") for t in texts]
        assert out[1].tolist() == [width - len(t.lstrip("0")) for t in texts]
        assert out[2].tolist() == [0 if "1" not in t else width - t.rindex("1") for t in texts]
        assert out[3].tolist() == [int(t[::-1], 2) for t in texts]


def test_fma_cbrt_and_selection(run):
    @cuda.jit
    def several(a, b, c, out):
        i = cuda.grid(1)
        out[0, i] = cuda.fma(a[i], b[i], c[i])
        out[1, i] = cuda.cbrt(a[i])
        out[2, i] = cuda.selp(i % 2 == 0, a[i], b[i])

    a, b, c = np.random.default_rng(4).uniform(0.5, 2, (3, 32))
    out = run(several, 1, 32, a, b, c, np.zeros((3, 32)))[3]
    from fractions import Fraction

    assert out[0].tolist() == [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert np.allclose(out[1], np.cbrt(a), rtol=1e-15)
    assert np.array_equal(out[2], np.where(LANES % 2 == 0, a, b))


def test_a_reduction_by_shuffles(run):
    @cuda.jit
    def total(values, out):
        partial = cuda.shared.array(4, types.float64)
        t = cuda.threadIdx.x
        v = values[cuda.grid(1)]
        offset = 16
        while offset > 0:
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, offset)
            offset //= 2
        if t % 32 == 0:
            partial[t // 32] = v
        cuda.syncthreads()
        if t == 0:
            out[cuda.blockIdx.x] = partial[0] + partial[1] + partial[2] + partial[3]

    values = np.random.default_rng(5).integers(0, 100, 512).astype(np.float64)
    assert np.array_equal(run(total, 4, 128, values, np.zeros(4))[1], values.reshape(4, 128).sum(axis=1))


def test_fences_and_a_last_block(run):
    @cuda.jit
    def last(values, partial, ticket, out):
        is_last = cuda.shared.array(1, types.boolean)
        t = cuda.threadIdx.x
        if t == 0:
            total = 0
            for k in range(cuda.blockDim.x):
                total += values[cuda.blockIdx.x * cuda.blockDim.x + k]
            cuda.atomic.exch(partial, cuda.blockIdx.x, total)
            cuda.threadfence()
            is_last[0] = cuda.atomic.add(ticket, 0, 1) == cuda.gridDim.x - 1
            cuda.threadfence()
        cuda.syncthreads()
        if is_last[0] and t == 0:
            total = 0
            for block in range(cuda.gridDim.x):
                total += cuda.atomic.add(partial, block, 0)
            out[0] = total
        cuda.threadfence_block()
        cuda.threadfence_system()

    values = np.arange(256)
    assert run(last, 8, 32, values, np.zeros(8, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int64))[3][0] == values.sum()
