"""Access patterns: the textbook's sectors, bank passes, layouts and reads, and what an H200 counted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gridstride.errors import UsageError
from gridstride.observers.metrics.index_expression import parse_index
from gridstride.observers.metrics.pattern import (
    AccessPattern,
    ReadCounter,
    bank_passes_of_pitch,
    reads_per_element,
    thread_values,
    warp_slices,
)

TRUTH = Path(__file__).parents[2] / "truth"


def strided(stride: int, size: int = 4, offset: int = 0) -> AccessPattern:
    return AccessPattern.of_lanes([(lane * stride + offset) * size for lane in range(32)], size)


def test_sectors_of_one_warp_access() -> None:
    assert [strided(s).sectors for s in (1, 2, 4, 8, 32)] == [4, 8, 16, 32, 32]
    assert strided(1, offset=1).sectors == 5
    assert strided(0).sectors == 1
    assert strided(1, 16).sectors == 16
    assert strided(1024, 16).sectors == 32
    assert (strided(8).efficiency, strided(1).efficiency, strided(0).efficiency) == (1 / 8, 1, 1 / 8)


def test_bank_passes() -> None:
    assert [bank_passes_of_pitch(pitch) for pitch in (32, 33, 64, 31)] == [(1, 32), (1, 1), (1, 32), (1, 1)]
    assert AccessPattern.of_lanes([128] * 32, 4, "shared").passes == 1


def test_layouts_of_a_record() -> None:
    # Eight floats a record, one field of four records, moved in pieces of 16 bytes.
    of_structs = AccessPattern.of_lanes([lane * 32 for lane in range(4)], 4)
    of_arrays = AccessPattern.of_lanes([lane * 4 for lane in range(4)], 4)
    assert (of_structs.transactions(16), of_structs.bytes_needed / (4 * 16)) == (4, 0.25)
    assert (of_arrays.transactions(16), of_arrays.bytes_needed / 16) == (1, 1)


@pytest.mark.parametrize("op", ["ld_global", "st_global", "ld_shared", "st_shared"])
def test_what_the_hardware_counted(op: str) -> None:
    measured = [entry for entry in json.loads((TRUTH / "access" / "access.json").read_text()) if entry["op"] == op]
    wrong = []
    for entry in measured:
        kind, space = ("load" if op.startswith("ld") else "store"), op.split("_")[1]
        pattern = AccessPattern(tuple(entry["offsets"]), entry["mask"], entry["width"], space, kind)  # type: ignore[arg-type]
        ours = pattern.sectors if space == "global" else pattern.passes
        if ours != entry["sectors" if space == "global" else "wavefronts"]:
            wrong.append((entry["pattern"], entry["width"]))
    assert len(measured) == 490
    # The one access whose rule the truth set's README leaves open.
    assert set(wrong) <= {("pairs_odd", 16)}


def test_warps_do_not_cross_blocks() -> None:
    assert warp_slices(2 * 40, 40) == [slice(0, 32), slice(32, 40), slice(40, 72), slice(72, 80)]


def test_threads_see_cudas_variables() -> None:
    values = thread_values((2, 1, 1), (4, 2, 1))
    assert values["threadIdx.x"].tolist() == [0, 1, 2, 3] * 4
    assert values["threadIdx.y"].tolist() == ([0] * 4 + [1] * 4) * 2
    assert values["blockIdx.x"].tolist() == [0] * 8 + [1] * 8
    assert values["i"].tolist() == [0, 1, 2, 3] * 2 + [4, 5, 6, 7] * 2
    assert values["lane"].tolist() == list(range(8)) * 2
    assert set(values["blockDim.y"].tolist()) == {2}


def test_reads_of_a_convolution() -> None:
    naive = reads_per_element(parse_index("in[(threadIdx.y + a) * 4 + threadIdx.x + b]"), 16, thread_values((1, 1, 1), (2, 2, 1)), {"a": 3, "b": 3})
    assert naive.reshape(4, 4).tolist() == [[1, 2, 2, 1], [2, 4, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]]
    assert naive.sum() == 36
    tiled = reads_per_element(parse_index("in[threadIdx.y][threadIdx.x]"), 16, thread_values((1, 1, 1), (4, 4, 1)), pitch=4)
    assert tiled.tolist() == [1] * 16


def test_reads_are_fed_piece_by_piece() -> None:
    counter = ReadCounter(10)
    counter.record(np.array([[0, 1], [1, 2]]))
    counter.record([9, 5], [True, False])
    counter.of_addresses([1000, 1004, 1011], base=1000, element_bytes=4)
    assert counter.counts.tolist() == [2, 3, 2, 0, 0, 0, 0, 0, 0, 1]
    assert (counter.reads, counter.elements_read, counter.reads_per_element) == (8, 4, 2)
    assert ReadCounter(0).reads_per_element == 0
    for index in (10, -1):
        with pytest.raises(UsageError) as caught:
            counter.record([0, index])
        assert str(caught.value) == f"element {index} is outside of the buffer, which has 10"


def test_naive_convolution_reads_each_inner_element_nine_times() -> None:
    # Against a direct count in Python, for an image of 12 × 9 and its valid 10 × 7 outputs in blocks of 8 × 4.
    values = thread_values((2, 2, 1), (8, 4, 1))
    where = parse_index("blockIdx.x * 8 + threadIdx.x < 10 && blockIdx.y * 4 + threadIdx.y < 7")
    expression = parse_index("in[blockIdx.y * 4 + threadIdx.y + a][blockIdx.x * 8 + threadIdx.x + b]")
    ours = reads_per_element(expression, 12 * 9, values, {"a": 3, "b": 3}, where, pitch=12)
    direct = np.zeros((9, 12), dtype=int)
    for y in range(7):
        for x in range(10):
            direct[y : y + 3, x : x + 3] += 1
    assert (ours.reshape(9, 12) == direct).all()


def test_pattern_wrong() -> None:
    for addresses, size, message in (
        ([2], 4, "lane 0 accesses 4 bytes at 2, which is no multiple of 4"),
        ([0], 3, "an access is 1, 2, 4, 8 or 16 bytes wide, not 3"),
        ([], 4, "a warp has 1 to 32 addresses, not 0"),
        ([0] * 33, 4, "a warp has 1 to 32 addresses, not 33"),
    ):
        with pytest.raises(UsageError) as caught:
            AccessPattern.of_lanes(addresses, size)
        assert str(caught.value) == message
