"""How long a launch would take on a GPU, estimated from its counters.

Every resource that a launch uses has a time: what it has to do, over how fast the device does it. The launch takes as long as
the busiest of them, a little more where several are busy (a norm of high order), and what starting it costs. Rates are those of the
device table; `Coefficients` holds what no data sheet says. All but those marked otherwise were fitted to the 36 timed launches
of the truth set; docs/estimates.md has every one of them with its error, and the errors on launches outside the fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gridstride.machine.devices import DeviceSpec
from gridstride.machine.occupancy import occupancy
from gridstride.observers.metrics.cache import SECTOR, Traffic, traffic
from gridstride.observers.metrics.profile import InstructionCounts, LaunchProfile

MEASURED_DEVICE = "h200"
MEDIAN_ERROR = 0.110
"""Median error on the 36 timed launches of the truth set, each estimated with coefficients fitted to the other 35."""
OTHER_KERNELS_ERROR = 0.194
"""Median error on 19 launches of kernels that the truth set does not have."""


@dataclass(frozen=True)
class Coefficients:
    """Cycles are those of a multiprocessor at its boost clock."""

    launch_us: float = 6.5
    """From one event to the next around a launch that does next to nothing. Not fitted: measured."""
    dram_share: float = 0.966
    """Of the published bandwidth, what kernels reach."""
    l2_bytes: float = 21.0
    """Bytes a cycle that each multiprocessor's share of L2 gives or takes. Not fitted: set by hand, 5.5 TB/s in all."""
    scattered_store: float = 2.4
    """Cycles of a multiprocessor more for each sector written in part."""
    atomic_sector: float = 0.7
    """Cycles of the whole device for each sector of a reduction or atomic: L2 executes those on neighbouring addresses one by one.
    Not fitted: measured on a sum into one address and a histogram of 256."""
    atomic_request: float = 0.8
    """Cycles of the whole device for each request of them, likewise."""
    block_start: float = 160.0
    """Cycles between two blocks that one multiprocessor is given. Not fitted: measured with blocks of 64 and 128 threads."""
    lsu_share: float = 0.95
    """Of one wavefront or cache line a cycle."""
    constant_word: float = 2.4
    """Cycles for each distinct word of a request to constant memory."""
    shared_atomic: float = 1.35
    """Cycles for each wavefront of a shared atomic."""
    issue_share: float = 0.85
    """Of one instruction a cycle in each part of the multiprocessor."""
    block_gap: float = 585.0
    """Cycles from a block's end until the next one's first instruction, and to read what every thread needs at its start."""
    warp_gap: float = 21.0
    """Cycles more for each warp of the block."""
    dependent: float = 2.0
    """Cycles from an instruction to the next of its warp, on average."""
    special: float = 17.0
    """Cycles more after one of the special-function unit."""
    shared_latency: float = 28.0
    barrier: float = 32.0
    l1_latency: float = 40.0
    """Not fitted."""
    l2_latency: float = 400.0
    dram_latency: float = 760.0
    norm: float = 3.2
    """Order of the norm by which the resources' times are combined; infinite: the greatest alone."""


FITTED = Coefficients()
# Machine instructions that ptxas makes of one PTX instruction, on average over the truth set (smsp__inst_executed), by kind; a warp
# has PROLOGUE more: reading its parameters and indices, and its end.
PROLOGUE = 10.0
_FREE = ("mov", "cvta")
_SPECIAL = ("rsqrt", "rcp", "sqrt", "ex2", "lg2", "sin", "cos", "tanh", "div")
_INTEGER, _BRANCH, _BARRIER, _APPROXIMATE, _EXACT_F32, _EXACT_F64, _INTEGER_DIVISION = 0.77, 1.9, 2.0, 4.0, 20.0, 45.0, 25.0
_LOADS_AT_ONCE = 8
"""Loads that a warp has under way before it waits for the first."""
_ALU_LANES = 64
"""Integer, comparison and conversion lanes of a multiprocessor."""
_SPECIAL_LANES = 16


@dataclass(frozen=True)
class Estimate:
    """microseconds: as events around the launch would measure, on buffers used before. parts: microseconds by resource, `launch` added
    to what the others come to together. bound: the greatest of them. All of it is estimated, `statement` says how well."""

    microseconds: float
    parts: Mapping[str, float]
    bound: str
    traffic: Traffic
    device: str

    @property
    def dram_bytes(self) -> float:
        return self.traffic.dram_bytes

    @property
    def l2_sectors(self) -> float:
        return self.traffic.l2_sectors + self.traffic.atomic_sectors

    @property
    def statement(self) -> str:
        """What to print beside the number."""
        text = f"estimated; median error on an H200 {MEDIAN_ERROR:.0%} for 36 known launches, {OTHER_KERNELS_ERROR:.0%} for other kernels"
        return text if self.device == MEASURED_DEVICE else f"{text}; no measurement for this device"


def estimate(profile: LaunchProfile, device: DeviceSpec, coefficients: Coefficients = FITTED) -> Estimate:
    """The time of one launch on `device`, repeated on the same buffers."""
    moved = traffic(profile, device)
    parts = {"launch": coefficients.launch_us, **_resources(profile, device, moved, coefficients)}
    busy = [us for part, us in parts.items() if part != "launch"]
    greatest = max(busy)
    together = greatest * sum((us / greatest) ** coefficients.norm for us in busy) ** (1 / coefficients.norm) if greatest else 0.0
    return Estimate(parts["launch"] + together, parts, max(parts, key=lambda part: parts[part]), moved, device.key)


def _resources(profile: LaunchProfile, device: DeviceSpec, moved: Traffic, c: Coefficients) -> dict[str, float]:
    """Microseconds that each resource is busy."""
    count = device.multiprocessors
    most_blocks = math.ceil(profile.blocks / count)  # on the multiprocessor that has the most of them: it ends last
    us = 1 / device.boost_clock_mhz  # of a cycle

    def on_multiprocessors(cycles: float) -> float:
        return cycles * most_blocks / profile.blocks * us

    shared = [i for i in profile.instructions if i.space == "shared"]
    wavefronts = sum(i.wavefronts * (c.shared_atomic if i.access in ("atomic", "reduction") else 1) for i in shared)
    constant_words = sum(_constant_words(i) for i in profile.instructions if i.space == "const")
    return {
        "dram": moved.dram_bytes / (device.memory_bandwidth_gbs * 1e3 * c.dram_share),
        "l2": (moved.l2_sectors * SECTOR / c.l2_bytes + moved.scattered_stores * c.scattered_store) / count * us,
        "l1": on_multiprocessors((wavefronts + moved.lines) / c.lsu_share),
        "constant": on_multiprocessors(constant_words * c.constant_word),
        "compute": on_multiprocessors(_issue_cycles(profile, device, c)),
        "latency": _latency_cycles(profile, device, moved, c) * us,
        "blocks": most_blocks * c.block_start * us,
        "atomics": (moved.atomic_sectors * c.atomic_sector + moved.atomic_requests * c.atomic_request) / moved.atomic_spread * us,
    }


def _constant_words(i: InstructionCounts) -> int:
    """Distinct words of its requests; where all lie in one sector they are taken to be one."""
    return i.sectors if i.sectors <= i.requests else min(i.sectors * (SECTOR // 4), i.lanes)


# ---- instructions --------------------------------------------------------------------------------------------------


def machine_instructions(i: InstructionCounts) -> float:
    """Machine instructions for one execution of a PTX instruction, on average."""
    parts = i.opcode.split(".")
    head, kind = parts[0], parts[-1]
    if head in _FREE or i.space == "param":
        return 0.0
    if head == "bra":
        return _BRANCH
    if head in ("bar", "barrier"):
        return _BARRIER
    if head in ("div", "rem") and kind[0] in "su":
        return _INTEGER_DIVISION
    if head in _SPECIAL:
        exact = any(p in parts for p in ("rn", "rz", "rm", "rp"))
        return (_EXACT_F64 if kind == "f64" else _EXACT_F32) if exact else _APPROXIMATE
    if head == "setp" or kind == "pred":
        return 0.0  # ptxas folds most into the branches and selections that use them
    if i.access or (kind in ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64") and head != "cvt"):
        return 1.0
    return _INTEGER


def _issue_cycles(profile: LaunchProfile, device: DeviceSpec, c: Coefficients) -> float:
    """Cycles of one multiprocessor, had it all warps to itself: the scheduler's, or those of the busiest kind of lanes."""
    architecture = device.architecture
    issued = PROLOGUE * profile.warps
    doubles = singles = specials = 0.0
    for i in profile.instructions:
        made = machine_instructions(i) * i.executions
        issued += made
        head, kind = i.opcode.split(".", 1)[0], i.opcode.rsplit(".", 1)[-1]
        if head in _SPECIAL and kind[0] == "f":
            specials += i.executions
        if i.access:
            continue
        if kind == "f64":
            doubles += made
        elif kind == "f32":
            singles += made
    warp = architecture.warp_size
    return max(
        issued / architecture.subpartitions,
        doubles * warp / architecture.fp64_lanes,
        singles * warp / architecture.fp32_lanes,
        specials * warp / _SPECIAL_LANES,
    ) / c.issue_share


def _latency_cycles(profile: LaunchProfile, device: DeviceSpec, moved: Traffic, c: Coefficients) -> float:
    """Cycles until the last block has ended, were nothing but latency in the way: blocks follow each other in the places that the
    occupancy gives, and each takes as long as its warps wait for one instruction after the other.

    Loads that run equally often stand in the same piece of code and are under way together (Little's law: more of them hide more).
    In a block with barriers all warps wait for the longest, so an instruction that only some run counts once.
    """
    resident = max(1, occupancy(device, profile.threads_per_block, profile.registers, profile.shared_static + profile.shared_dynamic).blocks)
    in_step = any(i.opcode.startswith("bar") for i in profile.instructions)

    def each_warp(executions: int) -> float:
        share = executions / profile.warps
        return max(1.0, share) if in_step and executions else share

    together: dict[tuple[bool, int], int] = {}
    cycles = PROLOGUE * c.dependent
    for i in profile.instructions:
        share = each_warp(i.executions)
        cycles += share * machine_instructions(i) * c.dependent
        head = i.opcode.split(".", 1)[0]
        if head in ("bar", "barrier"):
            cycles += share * c.barrier
        elif head in _SPECIAL:
            cycles += share * c.special
        if i.access in ("load", "atomic") and i.space in ("global", "generic", "local", "shared"):
            key = (i.space == "shared", i.executions)
            together[key] = together.get(key, 0) + 1
    miss = c.l2_latency if moved.resident else c.dram_latency
    beyond = (miss + (moved.reuse - 1) * c.l1_latency) / moved.reuse
    for (is_shared, executions), loads in together.items():
        cycles += each_warp(executions) * math.ceil(loads / _LOADS_AT_ONCE) * (c.shared_latency if is_shared else beyond)
    warps_per_block = -(-profile.threads_per_block // device.architecture.warp_size)
    waves = max(1.0, profile.blocks / (device.multiprocessors * resident))
    return waves * (cycles + c.block_gap + c.warp_gap * warps_per_block)
