"""The device table: against the driver of a real H200, and against the peaks on NVIDIA's data sheets."""

import json
import pathlib

import pytest

from gridstride.errors import UsageError
from gridstride.machine.devices import DEVICES, find_device

# TFLOP/s outside the tensor cores as the data sheets and white papers give them (single, double; None: not published).
PUBLISHED_PEAKS = {
    "t4": (8.1, None),
    "a100": (19.5, 9.7),
    "a100-pcie-40gb": (19.5, 9.7),
    "l4": (30.3, None),
    "rtx3060": (12.7, None),
    "rtx3090": (35.6, None),
    "rtx4090": (82.6, None),
    "h100-pcie": (51.2, 25.6),
    "h100": (66.9, 33.5),
    "h200": (66.9, 33.5),
    "b200": (75, 37),
}


@pytest.mark.parametrize("key", PUBLISHED_PEAKS)
def test_peaks_follow_from_lanes_and_clock(key: str) -> None:
    spec = find_device(key)
    single, double = PUBLISHED_PEAKS[key]
    assert spec.fp32_tflops == pytest.approx(single, rel=0.01)
    if double is not None:
        assert spec.fp64_tflops == pytest.approx(double, rel=0.01)


def test_every_device_has_a_published_peak_to_answer_to() -> None:
    assert {spec.key for spec in DEVICES} == set(PUBLISHED_PEAKS)


def test_the_h200_is_what_its_driver_reports() -> None:
    reported = json.loads((pathlib.Path(__file__).parent / "occupancy_h200.json").read_text())["attributes"]
    spec = find_device("h200")
    architecture = spec.architecture
    assert {
        "max_threads_per_block": architecture.threads_per_block,
        "shared_per_block": architecture.shared_per_block,
        "warp_size": architecture.warp_size,
        "registers_per_block": architecture.registers_per_block,
        "clock_khz": spec.boost_clock_mhz * 1000,
        "multiprocessors": spec.multiprocessors,
        "l2_bytes": spec.l2_bytes,
        "threads_per_multiprocessor": architecture.threads_per_multiprocessor,
        "shared_per_multiprocessor": architecture.shared_per_multiprocessor,
        "registers_per_multiprocessor": architecture.registers_per_multiprocessor,
        "shared_per_block_optin": architecture.shared_per_block_optin,
        "blocks_per_multiprocessor": architecture.blocks_per_multiprocessor,
        "reserved_shared_per_block": architecture.reserved_shared_per_block,
        "compute_capability_major": spec.compute_capability[0],
        "compute_capability_minor": spec.compute_capability[1],
    } == {key: value for key, value in reported.items() if not key.startswith("memory_")}
    # Two transfers a memory clock over the whole bus: within 3 % of the data sheet's rounded 4.8 TB/s.
    bandwidth = 2 * reported["memory_clock_khz"] * 1e3 * reported["memory_bus_bits"] / 8 / 1e9
    assert spec.memory_bandwidth_gbs == pytest.approx(bandwidth, rel=0.03)


def test_carveouts_end_with_all_of_it() -> None:
    for spec in DEVICES:
        assert spec.architecture.shared_carveouts[-1] == spec.architecture.shared_per_multiprocessor
        assert list(spec.architecture.shared_carveouts) == sorted(spec.architecture.shared_carveouts)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("H200", "h200"), ("nvidia h200", "h200"), ("h100-sxm", "h100"), ("H100 SXM", "h100"), ("H100_PCIe", "h100-pcie"), ("RTX 4090", "rtx4090"),
        ("geforce-rtx-3060", "rtx3060"), ("NVIDIA GeForce RTX 3090", "rtx3090"), ("3090", "rtx3090"), ("Tesla T4", "t4"), ("t4", "t4"),
        ("a100-sxm-80gb", "a100"), ("A100 40GB", "a100-pcie-40gb"), ("L4", "l4"), ("b200", "b200"),
    ],
)  # fmt: skip
def test_names_are_found_however_they_are_written(name: str, key: str) -> None:
    assert find_device(name).key == key


def test_unknown_device_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        find_device("h20")
    assert str(caught.value) == "there is no device `h20` in the table; did you mean h200 or h100? `gridstride devices` lists all"
    with pytest.raises(UsageError) as caught:
        find_device("voodoo")
    assert str(caught.value) == (
        "there is no device `voodoo` in the table; known are t4, a100, a100-pcie-40gb, l4, rtx3060, rtx3090, rtx4090, h100-pcie, h100, h200, b200"
    )
