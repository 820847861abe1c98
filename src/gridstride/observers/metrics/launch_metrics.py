"""Metrics of a launch, which knows its device (`LaunchMetrics`), and of all launches of a kernel (`KernelMetrics`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gridstride.machine.devices import DeviceSpec, find_device
from gridstride.machine.occupancy import Occupancy, occupancy
from gridstride.observers.metrics.derived import GLOBAL, SECTOR_BYTES, LineMetrics, Metrics, by_ptx_line, by_source_line, merged, ratio
from gridstride.observers.metrics.estimate import FITTED, Estimate, estimate
from gridstride.observers.metrics.profile import LaunchProfile
from gridstride.observers.metrics.roof import Roofline, intensity_by_sectors

SHORTEST_KERNEL_US = 0.5
"""Microseconds of a kernel that does nothing, from its start to its end on the device: 1,000 of them in a graph took 0.55 µs each on an H200."""


@dataclass(frozen=True)
class LaunchMetrics(Metrics):
    """One launch. registers are those of the profile; without them they limit nothing.

    spill_bytes: bytes of registers that the compiler keeps in local memory, a thread; 0 where nobody said.
    changed_lines: source lines whose memory accesses the machine compiler changed, with their number in PTX and in the machine code:
    their counts are not the hardware's. None where nobody compared the two.
    """

    profile: LaunchProfile
    spec: DeviceSpec
    spill_bytes: int = 0
    changed_lines: Mapping[int, tuple[int, int]] | None = None

    @classmethod
    def of(cls, profile: LaunchProfile, *, spill_bytes: int = 0) -> LaunchMetrics:
        """The metrics of a profile, for the device that it names (`sim:h200` or `h200`)."""
        return cls(profile.instructions, profile, find_device(profile.device.removeprefix("sim:")), spill_bytes)

    @cached_property
    def lines(self) -> tuple[LineMetrics, ...]:
        return by_source_line(self.instructions)

    @cached_property
    def ptx_lines(self) -> tuple[LineMetrics, ...]:
        return by_ptx_line(self.instructions)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, without what the system reserves."""
        return self.profile.shared_static + self.profile.shared_dynamic

    @cached_property
    def occupancy(self) -> Occupancy:
        return occupancy(self.spec, self.profile.threads_per_block, self.profile.registers, self.shared_bytes)

    @property
    def occupancy_percent(self) -> float:
        """Theoretical occupancy."""
        return self.occupancy.percent

    @property
    def resident_blocks(self) -> int:
        """Blocks that the whole device holds at once."""
        return self.occupancy.blocks * self.spec.multiprocessors

    @property
    def waves(self) -> float:
        """How often the launch fills the device."""
        return ratio(self.profile.blocks, self.resident_blocks)

    @property
    def tail_efficiency(self) -> float:
        """Of the places for blocks in all waves, how many have a block: waves ÷ waves rounded up."""
        return ratio(self.waves, math.ceil(self.waves))

    @property
    def lanes_of_a_full_warp(self) -> float:
        """Threads ÷ warps of the launch: 32 unless the block's size is no multiple of 32."""
        return self.profile.blocks * self.profile.threads_per_block / self.profile.warps

    @cached_property
    def estimate(self) -> Estimate:
        """How long the launch would take on the device, and what for."""
        return estimate(self.profile, self.spec)

    @property
    def estimate_us(self) -> float:
        """The estimated time in microseconds."""
        return self.estimate.microseconds

    @cached_property
    def kernel_us(self) -> float:
        """The estimated time without what starting a launch costs, as where others follow it."""
        return max(self.estimate.microseconds - FITTED.launch_us, SHORTEST_KERNEL_US)

    @property
    def busy_multiprocessors(self) -> int:
        """Multiprocessors that get at least one block."""
        return min(self.profile.blocks, self.spec.multiprocessors)

    @property
    def first_reads(self) -> int:
        """Bytes that are read from DRAM where no cache holds anything yet, as when Nsight Compute runs a kernel: what is touched, once."""
        asked, footprint = self.load_bytes_asked, self.profile.footprint_bytes
        moved = SECTOR_BYTES * self.load_sectors
        once = max(asked if asked <= footprint else 0, footprint - min(self.store_bytes_asked, footprint // 2))
        return min(moved, once) if footprint else moved

    @property
    def bytes_asked(self) -> int:
        """Bytes that threads asked for in global memory, those of atomics included."""
        atomics = sum(i.lanes * i.bytes for access in ("atomic", "reduction") for i in self.where(access, *GLOBAL))
        return self.load_bytes_asked + self.store_bytes_asked + atomics

    @property
    def bytes_needed(self) -> int:
        """The least that must be moved: the bytes asked for, but where more is loaded than the kernel's buffers hold, each byte of
        these once (which is too few for buffers that are both read and written)."""
        footprint = self.profile.footprint_bytes
        return footprint if 0 < footprint < self.load_bytes_asked else self.bytes_asked

    @property
    def bytes_to_read(self) -> int:
        """The least that must be loaded where every byte is loaded once: the kernel's buffers less what is written (half of
        them at least: what is written is often read too)."""
        asked = self.load_bytes_asked
        footprint = self.profile.footprint_bytes
        return max(footprint - self.store_bytes_asked, footprint // 2) if 0 < footprint < asked else asked

    @property
    def reads_per_byte(self) -> float:
        """How often a byte is loaded, over the whole launch; lanes of one warp that load the same word together count once."""
        used = sum(min(SECTOR_BYTES * i.sectors, i.lanes * i.bytes) for i in self.where("load", *GLOBAL))
        return ratio(used, self.bytes_to_read)

    @property
    def algorithmic_intensity(self) -> float:
        """FLOPs ÷ bytes that must be moved."""
        return ratio(self.flops, self.bytes_needed)

    @property
    def sector_intensity(self) -> float:
        """FLOPs ÷ bytes of the sectors that were asked for; infinite where there is arithmetic and no such byte."""
        return intensity_by_sectors(self.flops, self.bytes_moved)

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), **{name: getattr(self, name) for name in LAUNCH_METRICS}}

    @cached_property
    def roofline(self) -> Roofline:
        """Where the launch stands under the device's roofs, by the sectors it moves."""
        return Roofline.of(self.spec, self.floating, self.sector_intensity)


LAUNCH_METRICS = tuple(name for name, member in vars(LaunchMetrics).items() if isinstance(member, property))


@dataclass(frozen=True)
class KernelMetrics(Metrics):
    """All profiled launches of one kernel together."""

    name: str = ""
    launches: tuple[LaunchMetrics, ...] = ()

    @classmethod
    def of(cls, name: str, launches: Sequence[LaunchMetrics]) -> KernelMetrics:
        return cls(merged(i for launch in launches for i in launch.instructions), name, tuple(launches))

    @cached_property
    def lines(self) -> tuple[LineMetrics, ...]:
        return by_source_line(self.instructions)

    @cached_property
    def ptx_lines(self) -> tuple[LineMetrics, ...]:
        return by_ptx_line(self.instructions)
