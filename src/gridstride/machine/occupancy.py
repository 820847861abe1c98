"""Theoretical occupancy: how many blocks of a kernel a multiprocessor can hold at once, and what keeps it from holding more.

The rules are those of NVIDIA's occupancy calculator; they reproduce what the driver of an H200 answers for 12,870 combinations of
registers, block size and shared memory (tests/machine/occupancy_h200.json).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gridstride.errors import UsageError
from gridstride.machine.devices import Architecture, DeviceSpec
from gridstride.machine.limits import warps_for_registers


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks a multiprocessor by each resource (as Nsight's `launch__occupancy_limit_*`), and what follows."""

    limit_warps: int
    limit_registers: int
    limit_shared: int
    limit_blocks: int
    warps_per_block: int
    warps_per_multiprocessor: int
    registers: int | None

    @property
    def limits(self) -> dict[str, int]:
        return {"registers": self.limit_registers, "shared": self.limit_shared, "warps": self.limit_warps, "blocks": self.limit_blocks}

    @property
    def blocks(self) -> int:
        """Blocks resident on one multiprocessor; 0 where the kernel cannot run at all."""
        return min(self.limits.values())

    @property
    def limiters(self) -> tuple[str, ...]:
        """Every resource that would have to grow for one more block to fit: those with the least limit. Registers only where they are known."""
        named = (name for name, limit in self.limits.items() if limit == self.blocks)
        return tuple(name for name in named if name != "registers" or self.registers is not None)

    @property
    def limiter(self) -> str:
        """The limiter to name first: warps where they are among them, for then no saving of registers or memory helps, only another block size."""
        return "warps" if "warps" in self.limiters else self.limiters[0]

    @property
    def warps(self) -> int:
        """Warps resident on one multiprocessor."""
        return self.blocks * self.warps_per_block

    @property
    def percent(self) -> float:
        """Resident warps of those the multiprocessor could hold (Nsight's `sm__maximum_warps_per_active_cycle_pct`)."""
        return 100 * self.warps / self.warps_per_multiprocessor

    def as_json(self) -> dict[str, Any]:
        """The `occupancy` object of the published result schema."""
        return {"registers": self.registers, "theoretical_pct": round(self.percent, 2), "limits": self.limits, "limiter": self.limiter}


def shared_allocated(architecture: Architecture, shared_bytes: int) -> int:
    """What a block that uses `shared_bytes` takes from its multiprocessor: the system's part added, rounded up to the granularity."""
    granularity = architecture.shared_granularity
    return -(-(shared_bytes + architecture.reserved_shared_per_block) // granularity) * granularity


def occupancy(
    spec: DeviceSpec,
    threads_per_block: int,
    registers: int | None = None,
    shared_bytes: int = 0,
    carveout: int | None = None,
) -> Occupancy:
    """The occupancy of a kernel on `spec`.

    `threads_per_block`  threads of a block, all dimensions together; the limits of a launch are not checked here (see `check_launch`).
    `registers`          registers a thread as the compiler reported them; None where not known: then they limit nothing.
    `shared_bytes`       a block's static and dynamic shared memory together, without what the system reserves.
    `carveout`           bytes of shared memory the multiprocessor is set to; the largest by default, as a driver would choose
                         when shared memory binds.
    """
    if threads_per_block < 1:
        raise UsageError(f"a block must have at least 1 thread, not {threads_per_block}")
    architecture = spec.architecture
    if carveout is not None and not 0 < carveout <= architecture.shared_per_multiprocessor:
        raise UsageError(f"{carveout:,} bytes is no shared-memory size of {spec.name}, which has up to {architecture.shared_per_multiprocessor:,}")
    warps_per_block = -(-threads_per_block // architecture.warp_size)
    limit_blocks = architecture.blocks_per_multiprocessor
    allocated = shared_allocated(architecture, shared_bytes)
    return Occupancy(
        limit_warps=architecture.warps_per_multiprocessor // warps_per_block,
        limit_registers=limit_blocks if registers is None else warps_for_registers(architecture, registers) // warps_per_block,
        limit_shared=(carveout or architecture.shared_per_multiprocessor) // allocated if allocated else limit_blocks,
        limit_blocks=limit_blocks,
        warps_per_block=warps_per_block,
        warps_per_multiprocessor=architecture.warps_per_multiprocessor,
        registers=registers,
    )
