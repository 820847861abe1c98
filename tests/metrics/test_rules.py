"""The rules of one warp access against what Nsight Compute counted on an H200: the truth set's accesses and those of access.json."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstride.observers.metrics import rules

HERE = Path(__file__).parent
TRUTH = HERE.parent / "truth"
FULL = 0xFFFFFFFF
SIZES = {"u8": 1, "u16": 2, "u64": 8, "b64": 8, "f64": 8, "v2u32": 8, "v2f32": 8, "v4u32": 16, "v4f32": 16}


def size_of(op):
    return next((size for name, size in SIZES.items() if op.removesuffix("_loads").endswith(name)), 4)


def atomic_kind(op):
    if op == "shared_red_add_one":
        return "increment"
    if "cas" in op:
        return "cas"
    return "loop" if "f32" in op or "f64" in op or "add_u64" in op else "native"


def counts(op, addresses, mask):
    """(what the rules say, requests or instructions) for an operation of measure_on_gpu.py."""
    size = size_of(op)
    if op == "ld_const_u32":
        return rules.constant_requests(addresses, mask), 1
    if "_local_" in op:
        return rules.local_sectors(addresses, mask, size), rules.local_requests(mask, size)
    if op.startswith("shared_"):
        rounds = rules.shared_atomic_loop(addresses, mask, size) if atomic_kind(op) == "loop" else None
        if op.endswith("_loads"):
            return rounds.load_wavefronts, rounds.rounds
        return rules.shared_atomic_wavefronts(addresses, mask, size, atomic_kind(op)), rounds.rounds if rounds else 1
    if op.startswith("red_"):
        return rules.reduction_sectors(addresses, mask, size), 1
    if op.startswith("atom_"):
        return rules.atomic_sectors(addresses, mask, size), 1
    if op.startswith("ld_shared"):
        return rules.shared_wavefronts_load(addresses, mask, size), 1
    if op.startswith("st_shared"):
        return rules.shared_wavefronts_store(addresses, mask, size), 1
    return rules.sectors(addresses, mask, size), 1


def measured():
    """operation -> [(addresses, mask, count, requests)]; a far access has its offsets in words."""
    for op, rows in json.loads((HERE / "access.json").read_text()).items():
        accesses = []
        for mask_text, offsets_text, count, requests in rows:
            mask, offsets = int(mask_text, 16), iter(int(o) for o in offsets_text.split())
            scale = 4 if "far" in op else 1
            accesses.append(([next(offsets) * scale if mask >> lane & 1 else -1 for lane in range(32)], mask, count, requests))
        yield op, accesses


MEASURED = dict(measured())


@pytest.mark.parametrize("op", [op for op in MEASURED if "atom_cas" not in op or op.startswith("shared")])
def test_equal_to_what_was_measured(op):
    wrong = [(a, hex(m), c, counts(op, a, m)) for a, m, c, requests in MEASURED[op] if counts(op, a, m) != (c, requests)]
    assert wrong == []


@pytest.mark.parametrize("op", ["atom_cas_b32", "atom_cas_b64"])
def test_compare_and_swap_is_a_model_that_is_at_most_one_off(op):
    """access.json holds many variations of a few accesses that go wrong, so their share here is no error rate."""
    errors = [counts(op, a, m)[0] - c for a, m, c, _ in MEASURED[op]]
    assert set(errors) <= {-1, 0, 1}
    assert any(errors)


def test_every_access_of_the_truth_set():
    accesses = json.loads((TRUTH / "access" / "access.json").read_text())
    assert len(accesses) == 2450
    rule = {"ld_global": rules.sectors, "st_global": rules.sectors, "ld_shared": rules.shared_wavefronts_load,
            "st_shared": rules.shared_wavefronts_store, "atom_add_global": rules.atomic_sectors}  # fmt: skip
    wrong = []
    for x in accesses:
        got = rule.get(x["op"], rules.reduction_sectors)(x["offsets"], x["mask"], x["width"])
        if got != x.get("sectors", x.get("wavefronts")):
            wrong.append((x["op"], x["width"], x["pattern"], got))
    assert wrong == []


def test_a_histogram_in_global_memory():
    """Case hist_global of the truth set: 3,125 warps of reductions onto 256 random bins."""
    counters = json.loads((TRUTH / "counters.json").read_text())["hist_global"]
    bins = np.random.default_rng(10).integers(0, 256, 100_000)
    total = sum(rules.reduction_sectors(warp * 4, FULL, 4) for warp in bins.reshape(-1, 32))
    assert total == counters["l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"]


LANES = np.arange(32)


@pytest.mark.parametrize(("stride", "expected"), [(1, 4), (2, 8), (4, 16), (8, 32), (32, 32), (0, 1)])
def test_sectors_of_strided_floats(stride, expected):
    assert rules.sectors(LANES * stride * 4, FULL, 4) == expected


def test_sectors_of_an_offset_and_of_float4():
    assert rules.sectors(LANES * 4 + 4, FULL, 4) == 5
    assert rules.sectors(LANES * 16, FULL, 16) == 16
    assert rules.sectors(LANES * 1024 * 4, FULL, 16) == 32


@pytest.mark.parametrize(("pitch", "row", "column"), [(32, 1, 32), (33, 1, 1), (64, 1, 32), (31, 1, 1)])
def test_bank_passes_of_a_tile(pitch, row, column):
    for rule in (rules.shared_wavefronts_load, rules.shared_wavefronts_store):
        assert rule(LANES * 4, FULL, 4) == row
        assert rule(LANES * pitch * 4, FULL, 4) == column
        assert rule(LANES * 0, FULL, 4) == 1


def test_ideal_wavefronts():
    assert rules.ideal_wavefronts(LANES * 128, FULL, 4) == 1
    assert rules.ideal_wavefronts(LANES * 8, FULL, 8) == 2
    assert rules.ideal_wavefronts(LANES * 0, FULL, 16) == 1


def test_no_lane_costs_nothing():
    for rule in (rules.sectors, rules.reduction_sectors, rules.atomic_sectors, rules.shared_wavefronts_load,
                 rules.shared_wavefronts_store, rules.ideal_wavefronts, rules.shared_atomic_wavefronts, rules.local_sectors):  # fmt: skip
        for size in (4, 8, 16):
            assert rule(LANES * 4, 0, size) == 0
    assert rules.local_requests(0, 16) == 0
    assert rules.shared_atomic_loop(LANES * 4, 0, 4) == rules.AtomicLoop(0, 0, 0)


def most_lanes_on_an_address(addresses, mask):
    lanes_on = {}
    for lane, address in enumerate(addresses):
        if mask >> lane & 1:
            counts = lanes_on.setdefault(address // 32, {})
            counts[address] = counts.get(address, 0) + 1
    return sum(max(counts.values()) for counts in lanes_on.values())


@given(st.lists(st.integers(0, 4095), min_size=32, max_size=32), st.integers(0, FULL))
def test_reductions_cost_at_least_the_simple_count_and_just_that_within_four_lines(words, mask):
    near = [word % 128 * 4 for word in words]
    assert rules.reduction_sectors(near, mask, 4) == most_lanes_on_an_address(near, mask)
    far = [word * 4 for word in words]
    assert most_lanes_on_an_address(far, mask) <= rules.reduction_sectors(far, mask, 4) <= mask.bit_count()


@given(st.lists(st.integers(0, 255), min_size=32, max_size=32), st.integers(0, FULL), st.sampled_from([4, 8, 16]))
def test_sharing_a_pass_never_costs_more_than_separate_ones(elements, mask, size):
    addresses = [element * size for element in elements]
    load = rules.shared_wavefronts_load(addresses, mask, size)
    assert rules.ideal_wavefronts(addresses, mask, size) <= load <= rules.shared_wavefronts_store(addresses, mask, size)
