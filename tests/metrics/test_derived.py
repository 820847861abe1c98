"""Metrics under plain names, on counts made up by hand; the expected values are worked out beside them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gridstride.observers.metrics.derived import Metrics, by_ptx_line, by_source_line, merged
from gridstride.observers.metrics.launch_metrics import KernelMetrics, LaunchMetrics
from gridstride.observers.metrics.mix import group_of
from gridstride.observers.metrics.profile import InstructionCounts, LaunchProfile


def count(ptx_line: int, opcode: str, executions: int, lanes: int, line: int | None = None, **more: object) -> InstructionCounts:
    return InstructionCounts(ptx_line, "k.cu" if line is not None else None, line, opcode, executions, lanes, **more)  # type: ignore[arg-type]


def launch(*instructions: InstructionCounts, block: int = 256, blocks: int = 1, registers: int | None = 32, shared: int = 0, footprint: int = 0, device: str = "h200") -> LaunchMetrics:
    return LaunchMetrics.of(LaunchProfile("k", device, (blocks, 1, 1), (block, 1, 1), shared, 0, registers, 0.0, instructions, footprint))


VECTOR_ADD = (  # 1,024 elements, 32 warps
    count(10, "ld.global.f32", 32, 1024, 3, space="global", access="load", bytes=4, requests=32, sectors=128),
    count(11, "ld.global.f32", 32, 1024, 3, space="global", access="load", bytes=4, requests=32, sectors=128),
    count(12, "add.f32", 32, 1024, 3),
    count(13, "st.global.f32", 32, 1024, 4, space="global", access="store", bytes=4, requests=32, sectors=128),
)


def test_vector_addition() -> None:
    metrics = launch(*VECTOR_ADD, blocks=4, footprint=3 * 4096)
    assert (metrics.load_requests, metrics.load_sectors, metrics.store_requests, metrics.store_sectors) == (64, 256, 32, 128)
    assert metrics.sectors_per_load == metrics.sectors_per_store == 4
    assert metrics.load_efficiency == metrics.store_efficiency == 1
    assert metrics.bytes_asked == metrics.bytes_moved == metrics.bytes_needed == 12288
    assert metrics.algorithmic_intensity == metrics.sector_intensity == pytest.approx(1 / 12)  # FLOP/byte of a vector addition
    assert metrics.roofline.bound == "memory"
    assert metrics.roofline.attainable_tflops == pytest.approx(4.8 / 12)  # 4,800 GB/s
    assert metrics.lanes_per_instruction == 32
    assert metrics.reads_per_byte == 1


def test_matrix_product_has_a_sixth_of_its_size() -> None:
    n = 4096
    product = count(1, "fma.rn.f32", n**3 // 32, n**3)
    loads = count(2, "ld.global.f32", n**3 // 16, 2 * n**3, space="global", access="load", bytes=4, requests=n**3 // 16, sectors=n**3 // 4)
    store = count(3, "st.global.f32", n * n // 32, n * n, space="global", access="store", bytes=4, requests=n * n // 32, sectors=n * n // 8)
    metrics = launch(product, loads, store, footprint=3 * 4 * n * n)
    assert metrics.algorithmic_intensity == pytest.approx(n / 6)
    assert round(metrics.algorithmic_intensity) == 683
    assert metrics.flops == 2 * n**3


def test_reads_of_a_convolution() -> None:
    """A naive 3×3 convolution of 4×4 values without padding makes 36 reads of 16 values; through a tile it makes 16."""
    def reads(lanes: int) -> float:
        load = count(1, "ld.global.f32", 9, lanes, space="global", access="load", bytes=4, requests=9, sectors=18)
        store = count(2, "st.global.f32", 1, 4, space="global", access="store", bytes=4, requests=1, sectors=1)
        return launch(load, store, footprint=16 * 4 + 4 * 4).reads_per_byte

    assert reads(36) == 36 / 16
    assert reads(16) == 1


def test_nothing_of_the_kind_is_nan() -> None:
    metrics = Metrics((count(1, "add.s32", 1, 32),))
    for ratio in (metrics.sectors_per_load, metrics.sectors_per_store, metrics.load_efficiency, metrics.constant_words_per_load):
        assert math.isnan(ratio)
    assert math.isnan(Metrics(()).lanes_per_instruction)
    assert not Metrics(()).sectors_per_load <= 4  # an assertion on what never happened does not pass


def test_arithmetic_without_memory_is_bound_by_arithmetic() -> None:
    metrics = launch(count(1, "fma.rn.f64", 10, 320))
    assert metrics.roofline.intensity == math.inf
    assert metrics.roofline.bound == "compute"
    assert metrics.roofline.attainable_tflops == pytest.approx(64 * 132 * 2 * 1980 / 1e6)  # 64 lanes of double precision


@pytest.mark.parametrize(("registers", "blocks", "percent"), [(32, 8, 100), (64, 4, 50), (128, 2, 25)])
def test_occupancy_of_blocks_of_256(registers: int, blocks: int, percent: int) -> None:
    metrics = launch(registers=registers, blocks=4000)
    assert metrics.occupancy.blocks == blocks
    assert metrics.occupancy_percent == percent
    assert metrics.resident_blocks == 132 * blocks
    assert metrics.waves == pytest.approx(4000 / (132 * blocks))


def test_a_tail() -> None:
    metrics = launch(blocks=1162)
    assert metrics.waves == pytest.approx(1162 / 1056)
    assert metrics.tail_efficiency == pytest.approx(1162 / 2112)
    assert launch(blocks=1056).tail_efficiency == 1


def test_lanes_without_a_thread() -> None:
    assert launch(block=100, blocks=10).lanes_of_a_full_warp == 25  # 100 threads in 4 warps
    assert launch(block=96).lanes_of_a_full_warp == 32


def test_lines() -> None:
    lines = by_source_line(VECTOR_ADD)
    assert [(line.file, line.line, line.ptx_lines) for line in lines] == [("k.cu", 3, (10, 11, 12)), ("k.cu", 4, (13,))]
    assert [line.load_sectors for line in lines] == [256, 0]
    assert [line.flops for line in lines] == [1024, 0]
    assert [line.ptx_lines for line in by_ptx_line(VECTOR_ADD)] == [(10,), (11,), (12,), (13,)]
    assert [line.line for line in by_source_line([count(5, "ret", 1, 32), *VECTOR_ADD])] == [None, 3, 4]


def test_launches_of_a_kernel_add_up() -> None:
    one = launch(*VECTOR_ADD)
    longer = launch(*(replace(i, executions=2 * i.executions, sectors=2 * i.sectors, requests=2 * i.requests) for i in VECTOR_ADD))
    kernel = KernelMetrics.of("k", [one, longer])
    assert len(kernel.launches) == 2
    assert len(kernel.instructions) == len(VECTOR_ADD)
    assert kernel.load_requests == 3 * 64
    assert kernel.sectors_per_load == 4
    assert sum(line.load_sectors for line in kernel.lines) == kernel.load_sectors == 3 * 256
    assert sum(line.load_sectors for line in kernel.ptx_lines) == kernel.load_sectors


def test_merging_keeps_different_instructions_apart() -> None:
    other = replace(VECTOR_ADD[0], opcode="ld.global.nc.f32")
    assert len(merged([VECTOR_ADD[0], other, VECTOR_ADD[0]])) == 2


@pytest.mark.parametrize(
    ("opcode", "group"),
    [
        ("fma.rn.f32", "float"),
        ("add.s32", "integer"),
        ("mad.lo.s32", "integer"),
        ("shl.b32", "integer"),
        ("and.pred", "integer"),
        ("setp.lt.f32", "compare"),
        ("mov.u32", "move"),
        ("selp.f32", "move"),
        ("cvt.rn.f32.s32", "convert"),
        ("ld.global.v4.f32", "memory"),
        ("st.shared.f32", "memory"),
        ("atom.global.add.u32", "atomic"),
        ("red.shared.add.f32", "atomic"),
        ("bra", "branch"),
        ("bar.sync", "barrier"),
        ("barrier.cta.sync.aligned", "barrier"),
        ("bar.warp.sync", "fence"),
        ("membar.gl", "fence"),
        ("shfl.sync.down.b32", "shuffle"),
        ("vote.sync.ballot.b32", "vote"),
        ("redux.sync.add.s32", "vote"),
        ("div.rn.f32", "special"),
        ("div.s32", "integer"),
        ("ex2.approx.ftz.f32", "special"),
        ("nanosleep.u32", "other"),
    ],
)
def test_groups_of_the_instruction_mix(opcode: str, group: str) -> None:
    assert group_of(opcode) == group
