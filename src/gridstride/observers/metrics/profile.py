"""`LaunchProfile`: what one launch did, instruction by instruction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from gridstride.findings import Dim3


@dataclass(frozen=True)
class InstructionCounts:
    """One PTX instruction over a whole launch.

    executions: times a warp ran it with at least one lane; lanes: threads that ran it, over all executions.
    space: "global", "shared", "local", "const", "generic" (as the instruction says) or "" where it accesses none.
    access: "load", "store", "reduction" (an atomic whose old value nobody reads), "atomic", or "".
    bytes: what one thread asks for in one execution.
    requests, sectors: of global and local memory, 32-byte sectors. wavefronts: passes of shared memory over the banks;
    ideal_wavefronts: the fewest that the widths and the active lanes allow. divergent: executions of a branch at
    which lanes went different ways.
    """

    ptx_line: int
    file: str | None
    line: int | None
    opcode: str
    executions: int
    lanes: int
    space: str = ""
    access: str = ""
    bytes: int = 0
    requests: int = 0
    sectors: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    divergent: int = 0


@dataclass(frozen=True)
class BufferLoads:
    """What threads loaded from the array that a pointer parameter was given: `loaded` of its `bytes`, what is loaded again counting again.
    An empty name holds what was loaded through pointers that may come from any parameter."""

    name: str
    bytes: int
    loaded: int

    @property
    def reads_of_each(self) -> float:
        """How often each element is read in the mean: by threads, whether a cache or a neighbouring lane helps or not."""
        return self.loaded / self.bytes if self.bytes else math.nan


@dataclass(frozen=True)
class LaunchProfile:
    """Counters of one launch. shared_static, shared_dynamic: bytes a block; registers: a thread, None if unknown;
    seconds: the simulator's own time, which says nothing about a GPU."""

    kernel: str
    device: str
    grid: Dim3
    block: Dim3
    shared_static: int
    shared_dynamic: int
    registers: int | None
    seconds: float
    instructions: tuple[InstructionCounts, ...] = field(repr=False)
    footprint_bytes: int = 0
    """Bytes of the buffers that the kernel was given."""
    buffers: tuple[BufferLoads, ...] = ()
    """Loads from global memory by buffer, those that were loaded from."""

    @property
    def blocks(self) -> int:
        x, y, z = self.grid
        return x * y * z

    @property
    def threads_per_block(self) -> int:
        x, y, z = self.block
        return x * y * z

    @property
    def warps(self) -> int:
        return self.blocks * -(-self.threads_per_block // 32)

    def accesses(self, access: str, *spaces: str) -> Iterator[InstructionCounts]:
        """Instructions of one kind of access to the given spaces; a generic access counts as global."""
        wanted = {*spaces, "generic"} if "global" in spaces else set(spaces)
        return (i for i in self.instructions if i.access == access and i.space in wanted)
