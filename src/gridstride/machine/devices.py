"""The device table: what each GPU is made of, as data.

Limits that follow from the compute capability (`Architecture`) are those of the tables "Technical Specifications per Compute Capability"
and "Feature Support" of NVIDIA's CUDA C++ Programming Guide, and of the occupancy calculator that ships with Nsight Compute; sizes and
rates of a product (`DeviceSpec`) are those of NVIDIA's architecture white papers and data sheets, named beside each entry. What a driver
reports for the H200 was read from one and agrees.

Units are in the field names: bytes, MHz, GB/s (10^9 bytes a second), TFLOP/s (10^12 operations a second, a fused multiply-add counting two).
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from gridstride.errors import UsageError

KIB = 1024
MIB = 1024 * 1024


@dataclass(frozen=True)
class Architecture:
    """What every GPU of one compute capability has in common."""

    name: str
    compute_capability: tuple[int, int]
    warps_per_multiprocessor: int
    blocks_per_multiprocessor: int
    shared_per_multiprocessor: int
    """Bytes of shared memory a multiprocessor can give to blocks: the largest carve-out of its L1 cache."""
    shared_per_block_optin: int
    """Bytes a block may have once the program has asked for more than the default of 48 KB."""
    shared_granularity: int
    """A block's shared memory is given out in multiples of this many bytes."""
    reserved_shared_per_block: int
    """Bytes that the system takes for itself from the multiprocessor's shared memory for every block."""
    shared_carveouts: tuple[int, ...]
    """Sizes that the driver may set shared memory to, in bytes, rising."""
    l1_and_shared: int
    """Bytes of the memory that L1 cache and shared memory divide."""
    fp32_lanes: int
    """Single-precision fused multiply-adds that a multiprocessor starts each cycle."""
    fp64_lanes: int
    registers_per_multiprocessor: int = 64 * KIB
    registers_per_block: int = 64 * KIB
    registers_per_thread: int = 255
    register_granularity: int = 256
    """A warp's registers are given out in multiples of this many."""
    subpartitions: int = 4
    """Parts of a multiprocessor that each have a share of the registers and of the warps."""
    threads_per_block: int = 1024
    shared_per_block: int = 48 * KIB
    warp_size: int = 32

    @property
    def threads_per_multiprocessor(self) -> int:
        return self.warps_per_multiprocessor * self.warp_size


def _kib(*sizes: int) -> tuple[int, ...]:
    return tuple(size * KIB for size in sizes)


TURING = Architecture(
    name="Turing",
    compute_capability=(7, 5),
    warps_per_multiprocessor=32,
    blocks_per_multiprocessor=16,
    shared_per_multiprocessor=64 * KIB,
    shared_per_block_optin=64 * KIB,
    shared_granularity=256,
    reserved_shared_per_block=0,
    shared_carveouts=_kib(32, 64),
    l1_and_shared=96 * KIB,
    fp32_lanes=64,
    fp64_lanes=2,
)
AMPERE_DATACENTER = Architecture(
    name="Ampere",
    compute_capability=(8, 0),
    warps_per_multiprocessor=64,
    blocks_per_multiprocessor=32,
    shared_per_multiprocessor=164 * KIB,
    shared_per_block_optin=163 * KIB,
    shared_granularity=128,
    reserved_shared_per_block=1 * KIB,
    shared_carveouts=_kib(0, 8, 16, 32, 64, 100, 132, 164),
    l1_and_shared=192 * KIB,
    fp32_lanes=64,
    fp64_lanes=32,
)
AMPERE_CONSUMER = Architecture(
    name="Ampere",
    compute_capability=(8, 6),
    warps_per_multiprocessor=48,
    blocks_per_multiprocessor=16,
    shared_per_multiprocessor=100 * KIB,
    shared_per_block_optin=99 * KIB,
    shared_granularity=128,
    reserved_shared_per_block=1 * KIB,
    shared_carveouts=_kib(0, 8, 16, 32, 64, 100),
    l1_and_shared=128 * KIB,
    fp32_lanes=128,
    fp64_lanes=2,
)
ADA = Architecture(
    name="Ada",
    compute_capability=(8, 9),
    warps_per_multiprocessor=48,
    blocks_per_multiprocessor=24,
    shared_per_multiprocessor=100 * KIB,
    shared_per_block_optin=99 * KIB,
    shared_granularity=128,
    reserved_shared_per_block=1 * KIB,
    shared_carveouts=_kib(0, 8, 16, 32, 64, 100),
    l1_and_shared=128 * KIB,
    fp32_lanes=128,
    fp64_lanes=2,
)
HOPPER = Architecture(
    name="Hopper",
    compute_capability=(9, 0),
    warps_per_multiprocessor=64,
    blocks_per_multiprocessor=32,
    shared_per_multiprocessor=228 * KIB,
    shared_per_block_optin=227 * KIB,
    shared_granularity=128,
    reserved_shared_per_block=1 * KIB,
    shared_carveouts=_kib(0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
    l1_and_shared=256 * KIB,
    fp32_lanes=128,
    fp64_lanes=64,
)
BLACKWELL_DATACENTER = Architecture(
    name="Blackwell",
    compute_capability=(10, 0),
    warps_per_multiprocessor=64,
    blocks_per_multiprocessor=32,
    shared_per_multiprocessor=228 * KIB,
    shared_per_block_optin=227 * KIB,
    shared_granularity=128,
    reserved_shared_per_block=1 * KIB,
    shared_carveouts=_kib(0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
    l1_and_shared=256 * KIB,
    fp32_lanes=128,
    fp64_lanes=64,
)


@dataclass(frozen=True)
class DeviceSpec:
    """One GPU as a product."""

    key: str
    """Its short name, as in `--device sim:KEY`."""
    name: str
    architecture: Architecture
    multiprocessors: int
    boost_clock_mhz: int
    memory_bandwidth_gbs: float
    memory_bytes: int
    l2_bytes: int
    source: str
    """Where the product's numbers were published."""
    aliases: tuple[str, ...] = ()

    @property
    def compute_capability(self) -> tuple[int, int]:
        return self.architecture.compute_capability

    @property
    def target(self) -> str:
        """The PTX target of this device, such as `sm_90`."""
        major, minor = self.compute_capability
        return f"sm_{major}{minor}"

    @property
    def fp32_tflops(self) -> float:
        """Single-precision peak: lanes × multiprocessors × two operations × boost clock."""
        return self.architecture.fp32_lanes * self.multiprocessors * 2 * self.boost_clock_mhz / 1e6

    @property
    def fp64_tflops(self) -> float:
        """Double-precision peak outside the tensor cores."""
        return self.architecture.fp64_lanes * self.multiprocessors * 2 * self.boost_clock_mhz / 1e6


GIB = 1024 * MIB
DEVICES: tuple[DeviceSpec, ...] = (
    DeviceSpec("t4", "Tesla T4", TURING, 40, 1590, 320, 16 * GIB, 4 * MIB, "NVIDIA T4 data sheet; Turing architecture white paper"),
    DeviceSpec(
        "a100", "A100 SXM 80GB", AMPERE_DATACENTER, 108, 1410, 2039, 80 * GIB, 40 * MIB,
        "NVIDIA A100 data sheet; Ampere architecture white paper", aliases=("a100-sxm", "a100-sxm-80gb", "a100-80gb"),
    ),
    DeviceSpec(
        "a100-pcie-40gb", "A100 PCIe 40GB", AMPERE_DATACENTER, 108, 1410, 1555, 40 * GIB, 40 * MIB,
        "NVIDIA A100 data sheet; Ampere architecture white paper", aliases=("a100-40gb", "a100-pcie"),
    ),
    DeviceSpec("l4", "L4", ADA, 58, 2040, 300, 24 * GIB, 48 * MIB, "NVIDIA L4 data sheet; Ada architecture white paper"),
    DeviceSpec(
        "rtx3060", "GeForce RTX 3060", AMPERE_CONSUMER, 28, 1777, 360, 12 * GIB, 3 * MIB, "NVIDIA GA10x architecture white paper, GeForce RTX 3060 page",
        aliases=("3060",),
    ),
    DeviceSpec(
        "rtx3090", "GeForce RTX 3090", AMPERE_CONSUMER, 82, 1695, 936, 24 * GIB, 6 * MIB, "NVIDIA GA10x architecture white paper", aliases=("3090",),
    ),
    DeviceSpec("rtx4090", "GeForce RTX 4090", ADA, 128, 2520, 1008, 24 * GIB, 72 * MIB, "NVIDIA Ada architecture white paper", aliases=("4090",)),
    DeviceSpec(
        "h100-pcie", "H100 PCIe 80GB", HOPPER, 114, 1755, 2039, 80 * GIB, 50 * MIB, "NVIDIA H100 data sheet; Hopper architecture white paper",
        aliases=("h100-pcie-80gb",),
    ),
    DeviceSpec(
        "h100", "H100 SXM 80GB", HOPPER, 132, 1980, 3352, 80 * GIB, 50 * MIB, "NVIDIA H100 data sheet; Hopper architecture white paper",
        aliases=("h100-sxm", "h100-sxm5", "h100-sxm-80gb"),
    ),
    DeviceSpec(
        "h200", "H200 SXM 141GB", HOPPER, 132, 1980, 4800, 141 * GIB, 60 * MIB, "NVIDIA H200 data sheet; L2 size as its driver reports it",
        aliases=("h200-sxm", "h200-141gb"),
    ),
    DeviceSpec(
        "b200", "B200 SXM 180GB", BLACKWELL_DATACENTER, 148, 1965, 8000, 180 * GIB, 126 * MIB,
        "NVIDIA Blackwell data sheet (HGX B200, an eighth of its peak); L2 size from published device queries", aliases=("b200-sxm", "gb200"),
    ),
)

DEFAULT_DEVICE = "h200"


def _folded(name: str) -> str:
    """The name with what people vary left out: case, spaces, dashes, the maker and the product line."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return re.sub(r"^(nvidia)?(geforce|tesla)?", "", plain)


_BY_NAME: dict[str, DeviceSpec] = {_folded(name): spec for spec in DEVICES for name in (spec.key, spec.name, *spec.aliases)}


def find_device(name: str) -> DeviceSpec:
    """The device called `name`; case, spaces and dashes do not matter (`RTX 4090`, `rtx-4090`, `4090`).

    Raises UsageError with the nearest names where there is none.
    """
    spec = _BY_NAME.get(_folded(name))
    if spec is not None:
        return spec
    near = difflib.get_close_matches(_folded(name), _BY_NAME, n=3, cutoff=0.5)
    keys = list(dict.fromkeys(_BY_NAME[match].key for match in near))
    if keys:
        raise UsageError(f"there is no device `{name}` in the table; did you mean {' or '.join(keys)}? `gridstride devices` lists all")
    raise UsageError(f"there is no device `{name}` in the table; known are {', '.join(spec.key for spec in DEVICES)}")
