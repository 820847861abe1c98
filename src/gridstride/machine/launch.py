"""Launching a kernel: records filled in, native code run on worker threads, faults explained."""

from __future__ import annotations

import functools
import mmap
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import LaunchError
from gridstride.findings import Dim3
from gridstride.lower.counting import NOTHING_REMEMBERED, PER_BLOCK, PER_SITE
from gridstride.lower.kernel import KernelCode
from gridstride.lower.records import (
    BLOCK,
    FAULT_INTERRUPTED,
    FINDING,
    FINDINGS_LIMIT,
    ORIGIN,
    POOL,
    RACE,
    RUNTIME_FUNCTIONS,
    SCHEDULE,
    WARP,
    WORKER,
)
from gridstride.machine.clusters import Cluster, check_cooperative, cluster_of, resident_blocks
from gridstride.machine.covered_outputs import CoveredOutputs
from gridstride.machine.detectors import RACES, quiet_sites, race_planes, read_findings, shared_shadow, trusted_sites
from gridstride.machine.devices import DeviceSpec
from gridstride.machine.fault import explain_fault
from gridstride.machine.host_requests import HostRequests, WorkerView
from gridstride.machine.launch_options import Counts, LaunchOptions, LaunchOutcome
from gridstride.machine.memory import Allocation, Memory
from gridstride.machine.occupancy import occupancy
from gridstride.machine.orders import affine_order_of, order_of
from gridstride.machine.program import Program
from gridstride.machine.raw_findings import CheckReceipt
from gridstride.machine.record_view import RecordView, column, new_record
from gridstride.machine.reserve import reserve
from gridstride.machine.shared_code import SharedCode, shared_functions
from gridstride.machine.workers import run_to_the_end
from gridstride.passes.analyse_shapes import LaneLayout

POLL_INTERVAL = 1024  # loop iterations between two looks at the stop flag
WAITING_INTERVAL = 16  # where each costs a request to the host, which keeps what fences carry
WORTH_SHARING = 1 << 16  # threads of a launch from which several cores are worth their start
MARGIN = 4096  # readable bytes around shared and local memory
GRID_WORKSPACE_BYTES = 8
STACK_BYTES = 16 << 20  # of a worker thread, apart from the kernel's own frame
STACK_PER_CODE = 8  # no instruction of the kernel's writes more bytes of its frame for each of its own: 64 with at least 8
MAX_GROUPS = 32  # groups that a warp's lanes can split into
MAX_POOL_BYTES = 8 << 30  # address space for blocks in flight; only touched pages take memory


@dataclass
class _Worker:
    """What one host thread needs to run blocks."""

    record: RecordView
    pool: RecordView
    memory: mmap.mmap
    counters: npt.NDArray[np.int64]
    findings: npt.NDArray[np.uint8]
    keep: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class _Shape:
    """Sizes of one block in flight."""

    threads: int
    warps: int
    frame: int
    shared: int
    local: int  # bytes of one thread
    races: bool = False
    defined: bool = False

    @property
    def frames(self) -> int:
        return self.frame * self.warps * MAX_GROUPS

    @property
    def locals(self) -> int:
        return self.local * 32 * self.warps

    @property
    def shadows(self) -> int:
        """Bytes of the race detector: the order of the block's accesses, and the planes of its shared memory."""
        races = RACE.size + sum(shared_shadow(self.shared).values()) if self.races else 0
        return races + (self.shared + self.locals + 3 * MARGIN if self.defined else 0)

    @property
    def stride(self) -> int:
        size = BLOCK.size + self.frames + self.shared + self.locals + self.shadows + 4 * MARGIN
        return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def launch(
    program: Program,
    entry_name: str,
    *,
    grid: Dim3,
    block: Dim3,
    parameters: bytes,
    shared_bytes: int = 0,
    memory: Memory,
    device: DeviceSpec,
    options: LaunchOptions | None = None,
    buffer_names: Mapping[int, str] | None = None,
    extents: Mapping[int, tuple[int, int]] | None = None,
    stdout: Callable[[str], object] = print,
) -> LaunchOutcome:
    """Run one kernel to its end.

    extents: offset of a pointer parameter → first address and end of the array it was given for; a checked launch
    holds accesses through that pointer to it.
    Raises KernelFault with the finding when the kernel is stopped, LaunchError when it cannot start.
    """
    options = options or LaunchOptions()
    entry = program.entry(entry_name)
    if len(parameters) != entry.parameter_bytes:
        raise LaunchError(f"kernel `{entry.name}` takes {entry.parameter_bytes} bytes of parameters, {len(parameters)} were given")
    cluster = cluster_of(entry.name, entry.function.directives, options.cluster, grid, device)
    if entry.required_threads is not None and entry.required_threads != block:
        raise LaunchError(f"kernel `{entry.name}` must be launched with blocks of {entry.required_threads} (.reqntid), not {block}")
    shared = shared_functions()
    layout = LaneLayout.of(block)
    trusted = trusted_sites(entry.provenance, parameters, memory) if "uninitialised" in options.checks else ()
    loaded = entry.code(layout, options.profile, options.checks, trusted)
    run = _Launch(program, loaded.code, loaded.address, grid, block, shared_bytes, memory, device, options, shared)
    run.cluster = cluster
    run.extents = dict(extents or {}) if options.checks else {}
    run.parallel = options.threads is None and options.seed is None and options.order is None and entry.independent(loaded.code.traits, parameters, memory, grid, block)
    return run.execute(entry.name, parameters, dict(buffer_names or {}), stdout)


class _Launch:
    def __init__(
        self,
        program: Program,
        code: KernelCode,
        address: int,
        grid: Dim3,
        block: Dim3,
        dynamic_shared: int,
        memory: Memory,
        device: DeviceSpec,
        options: LaunchOptions,
        shared: SharedCode,
    ) -> None:
        self.program, self.code, self.address = program, code, address
        self.grid, self.block = grid, block
        self.memory, self.device, self.options, self.functions = memory, device, options, shared
        threads = prod(block)
        self.races = bool(options.checks & RACES)
        self.defined = "uninitialised" in options.checks
        self.dynamic_shared = dynamic_shared
        self.shared_bytes = code.static_shared + dynamic_shared
        self.shape = _Shape(threads, -(-threads // 32), code.frame_bytes, -(-self.shared_bytes // 64) * 64, code.local_bytes, self.races, self.defined)
        self.blocks = prod(grid)
        self.cluster = Cluster()
        self.stop = np.zeros(16, np.int32)
        self.extents: dict[int, tuple[int, int]] = {}
        self.parallel = False  # blocks may share the cores without anybody noticing

    def execute(self, kernel: str, parameters: bytes, names: dict[int, str], stdout: Callable[[str], object]) -> LaunchOutcome:
        self.parameters = parameters
        globals_ = self.program.globals(self.memory)
        symbols = np.array([globals_[n].address for n in self.code.symbols] or [0], dtype=np.int64)
        held = self.memory.allocate(max(len(parameters), 16), name="the kernel's parameters", align=256)
        self.memory.bytes_view(held.address, len(parameters))[...] = np.frombuffer(parameters, np.uint8)
        workspace = self._workspace()
        self.memory.mark_written(held.address, held.size)
        if not self.defined:
            self.memory.assume_written()  # nobody will know what this launch wrote
        host = HostRequests(self.program, self.memory, self.block)
        self.outputs = CoveredOutputs(self.options.covered)
        try:
            table = np.ascontiguousarray(self.memory.table())
            count = self._worker_count()
            schedule = self._schedule()
            schedule["workers"] = count
            if self.races:
                host.order.first_block = race_planes(self.memory).begin(self.blocks)
            workers = [self._worker(k, count, held.address, symbols, table, host) for k in range(count)]
            for worker in workers:
                worker.record["cooperative"] = 0 if workspace is None else workspace.address
            started = time.perf_counter()
            self._run(workers, schedule)
            seconds = time.perf_counter() - started
            host.flush(stdout)
            # a worker with a fault stops the others: theirs is then only the interruption
            faults = [w for w in workers if w.record["fault_code"]]
            found = [r for w in workers for r in read_findings(self.code, w.findings, w.record["finding_count"], self.options.covered)]
            faulty = min(faults, key=lambda w: w.record["fault_code"] == FAULT_INTERRUPTED, default=None)
            if faulty is not None:
                names = {**{a.address: n for n, a in globals_.items()}, **names}
                fault = explain_fault(self, kernel, faulty.record, names, host.assertion)
                fault.raw_findings = tuple(found)
                raise fault
            counts = self._counts(workers) if self.options.profile else None
            receipt = None
            if self.options.checks:
                accesses, size = (sum(w.record[n] for w in workers) for n in ("accesses", "access_bytes"))
                receipt = CheckReceipt(accesses, size, tuple(sorted(self.options.checks)), self._skipped())
            writers = self.outputs.writers(workers[0].record["first_block"])
            threads = self.blocks * self.shape.threads
            return LaunchOutcome(seconds, self.blocks, self.blocks * self.shape.warps, threads, counts, tuple(found), receipt, writers)
        finally:
            host.close()
            self.memory.free(held)
            if workspace is not None:
                self.memory.free(workspace)

    def _skipped(self) -> tuple[str, ...]:
        """What no detector looks at in this launch."""
        if "race-shared" in self.options.checks and self.cluster.size > 1 and self.code.traits["remote_shared"]:
            return ("race-shared: accesses to the shared memory of other blocks of the cluster",)
        return ()

    def _workspace(self) -> Allocation | None:
        """What grid.sync() of cooperative groups counts in, for a cooperative launch: its size and its barrier."""
        if not self.options.cooperative:
            return None
        check_cooperative(self.device, self.grid, self.shape.threads, self.options.registers, self.shared_bytes, self.cluster)
        workspace = self.memory.allocate(GRID_WORKSPACE_BYTES, name="the grid's workspace")
        self.memory.bytes_view(workspace.address, GRID_WORKSPACE_BYTES)[...] = np.array([GRID_WORKSPACE_BYTES, 0], np.uint32).view(np.uint8)
        self.memory.mark_written(workspace.address, GRID_WORKSPACE_BYTES)
        return workspace

    def _counts(self, workers: list[_Worker]) -> Counts:
        total = np.sum([w.counters for w in workers], axis=0)
        border = len(self.code.sites) * PER_SITE
        sites, blocks = total[:border].reshape(-1, PER_SITE), total[border:].reshape(-1, PER_BLOCK)
        for block, site, counter, execution, lane in self.code.steady:
            sites[site, counter] += blocks[block] @ (execution, lane)
        return Counts(self.code, self.program.file_names, sites, blocks)

    # ---- records ---------------------------------------------------------------------------------------------

    def _worker_count(self) -> int:
        if self.options.checks:
            return 1  # detectors follow one order of blocks
        wanted = self.options.threads
        if wanted is None:
            wanted = _cores() if self.parallel and self.blocks * self.shape.threads >= WORTH_SHARING else 1
        return max(1, min(wanted, self.units))

    def _schedule(self) -> RecordView:
        shape = self.shape
        schedule = new_record(SCHEDULE)
        schedule["kernel"] = self.address
        schedule["total"] = self.units
        schedule["cluster_size"] = self.cluster.size
        schedule["cluster_barriers"] = int(self.code.traits["cluster_barriers"])
        rest = shape.threads % 32
        schedule["last_alive"] = -1 if rest == 0 else (1 << rest) - 1
        schedule["threads"], schedule["warps"] = shape.threads, shape.warps
        schedule["frame_bytes"] = shape.frame
        schedule["calls"] = int(self.code.calls)
        schedule["hash_bytes"] = min(shape.frame, 16384)
        schedule["shared_clear"] = shape.shared
        schedule["locals_clear"] = 0 if self.code.calls else shape.locals
        schedule["races"] = int(self.races)
        if self.defined:
            schedule["undefined_shared"], schedule["undefined_locals"] = shape.shared, shape.locals
        schedule["barrier_check"] = int("divergent-barrier" in self.options.checks)
        schedule["mask_check"] = int("warp-mask" in self.options.checks)
        for name, address in self.functions.races.items():
            schedule[name] = address
        schedule["lockstep"] = int(self.options.lockstep)
        schedule["straight"] = int(not self.code.suspends)
        schedule["wait_count"], schedule["wait_start"] = self.code.wait_count, self.code.wait_start
        self.merge = np.array(self.code.merge or [(0, 0)], dtype=np.int64)
        schedule["merge"], schedule["merge_count"] = self.merge.ctypes.data, len(self.code.merge)
        self._arrange(schedule)
        return schedule

    def _arrange(self, schedule: RecordView) -> None:
        """The order of blocks and warps, where it is not the usual one."""
        seed, order = self.options.seed, self.options.order
        if order is None and seed is None:
            return
        if order is not None and len(order.blocks) != self.units:
            raise LaunchError(f"an order of {len(order.blocks):,} blocks for a launch in which {self.units:,} blocks or clusters start")
        arranged = order or order_of(seed, self.units, self.shape.warps)
        if arranged is not None:
            self.block_order = arranged.blocks
            schedule["order"] = self.block_order.ctypes.data
            self.warp_order = arranged.warps
        else:
            assert seed is not None
            affine = affine_order_of(seed, self.units, self.shape.warps)
            schedule["order_factor"], schedule["order_shift"] = affine.factor, affine.shift
            self.warp_order = affine.warps
        schedule["warp_order"] = self.warp_order.ctypes.data

    def _worker(
        self, number: int, count: int, parameters: int, symbols: npt.NDArray[np.int64], table: npt.NDArray[np.int64], host: HostRequests
    ) -> _Worker:
        record = new_record(WORKER)
        slots = np.zeros((len(self.code.sites) + 1, 2), np.int64)
        slots[:, 0] = -1  # the largest address: nothing is inside yet
        asks_while_waiting = self.races and self.code.traits["spins"] and self.code.traits["fences"]
        record["polls"] = record["poll_interval"] = WAITING_INTERVAL if asks_while_waiting else POLL_INTERVAL
        record["budget"] = -1 if self.options.budget is None else self.options.budget
        record["stop"] = self.stop.ctypes.data
        runtime = self.functions.table.copy()
        runtime[list(RUNTIME_FUNCTIONS).index("host")] = host.callback_address
        record["runtime"] = runtime.ctypes.data
        record["parameters"], record["symbols"] = parameters, symbols.ctypes.data
        meant = self._meant()
        record["meant"] = meant.ctypes.data
        record["slots"], record["allocations"], record["allocation_count"] = slots.ctypes.data, table.ctypes.data, len(table)
        for axis, n, g in zip("xyz", self.block, self.grid, strict=True):
            record[f"ntid_{axis}"], record[f"nctaid_{axis}"] = n, g
        for axis, n in zip("xyz", self.cluster.extents, strict=True):
            record[f"cluster_nctaid_{axis}"] = n
        record["cluster_size"], record["explicit_cluster"] = self.cluster.size, int(self.cluster.explicit)
        record["block_stride"] = self.shape.stride
        record["shared_bytes"], record["dynamic_bytes"] = self.shared_bytes, self.dynamic_shared
        record["local_bytes"], record["frame_bytes"] = self.code.local_bytes, self.shape.frame
        record["exclusive"], record["smid"], record["nsmid"] = int(count == 1), number, self.device.multiprocessors
        findings = np.zeros(FINDING.size * FINDINGS_LIMIT, np.uint8)
        record["findings"] = findings.ctypes.data
        origins = np.zeros(ORIGIN.size * len(self.code.sites) if self.defined else 0, np.uint8)
        if self.defined:
            record["defined"] = self.memory.definedness().distance
            record["origins"] = origins.ctypes.data
        self.outputs.give_to(record)
        record["first_block"] = 1  # 0 would not tell thread 0 of the first block from nobody
        if self.races:
            record["races_exact"] = int(self._some_know_more())
            record["order_callback"] = host.order_address
            record["fences"] = int(self.code.traits["fences"])
            planes = race_planes(self.memory)
            for name, address in planes.addresses().items():
                record[name] = address
            record["race_next"] = 1
            record["first_block"] = host.order.first_block
            self.quiet = quiet_sites(self.code.provenance, self.parameters, self.memory)
            if self.options.trace:
                self.quiet[:] = 0
            record["quiet"] = self.quiet.ctypes.data
        host.views.append(WorkerView(record.array("allocations"), record.array("allocation_count"), slots))
        limit = self._blocks_in_flight(count)
        pool = new_record(POOL)
        area = reserve(self.shape.stride * limit)
        data = np.frombuffer(area, np.uint8)
        pool["first"], pool["stride"], pool["limit"] = data.ctypes.data, self.shape.stride, limit
        counters = np.zeros(len(self.code.sites) * PER_SITE + len(self.code.instructions) * PER_BLOCK, np.int64)
        record["counters"] = counters.ctypes.data
        remembered = np.full(len(self.code.sites) + 1, NOTHING_REMEMBERED, np.int64)
        record["remembered"] = remembered.ctypes.data
        worker = _Worker(record, pool, area, counters, findings, [meant, slots, runtime, data, table, symbols, remembered])
        self._prepare_blocks(data, limit)
        return worker

    def _some_know_more(self) -> bool:
        """Whether there are other ways to order threads than barriers of the whole block or the whole warp."""
        return any(self.code.traits[name] for name in ("named_barriers", "partial_syncs", "fences"))

    @property
    def units(self) -> int:
        """What starts at once: clusters, of one block each where the launch has none."""
        return self.blocks // self.cluster.size

    def _meant(self) -> npt.NDArray[np.int64]:
        """For each access the bounds of the array that its pointer was given for; everything where that is unknown."""
        table = np.zeros((len(self.code.sites) + 1, 2), np.int64)
        table[:, 1] = -1  # the largest address
        if self.options.checks:
            for site, (offset, variable, _) in enumerate(self.code.provenance):
                bounds = self.extents.get(offset)
                # a parameter read from two bytes before its place has this offset too, and is no variable of the module
                if offset == -2 and (allocation := self.program.globals(self.memory).get(variable)) is not None:
                    bounds = (allocation.address, allocation.address + allocation.size)
                if bounds is not None:
                    table[site] = bounds
        return table

    def _blocks_in_flight(self, workers: int) -> int:
        """As many as the device could hold at once, shared out among the workers; at least one cluster."""
        size = self.cluster.size
        clusters = 1
        if self.code.traits["spins"] or self.code.traits["ordered"]:
            occupied = occupancy(self.device, self.shape.threads, self.options.registers, self.shared_bytes)
            clusters = min(resident_blocks(self.device, occupied, self.cluster), self.blocks) // size
        share = -(-clusters // workers)
        return max(1, min(share, MAX_POOL_BYTES // (self.shape.stride * size))) * size

    def _prepare_blocks(self, data: npt.NDArray[np.uint8], limit: int) -> None:
        """Fill in what stays the same for every block that runs in a place: addresses and thread indices."""
        shape, base = self.shape, int(data.ctypes.data)
        starts = base + np.arange(limit, dtype=np.int64) * shape.stride
        shared = BLOCK.size + shape.frames + MARGIN
        local = shared + shape.shared + MARGIN
        blocks = np.lib.stride_tricks.as_strided(data, (limit, BLOCK.size), (shape.stride, 1))
        for name, offset in (("warps", BLOCK.size), ("shared", shared), ("locals", local)):
            column(blocks, BLOCK, name)[...] = starts + offset
        column(blocks, BLOCK, "warp_count")[...] = shape.warps
        places = np.arange(limit)
        column(blocks, BLOCK, "cluster_rank")[...] = places % self.cluster.size
        column(blocks, BLOCK, "cluster")[...] = starts[places - places % self.cluster.size]
        column(blocks, BLOCK, "fast")[...] = 0
        frames = np.lib.stride_tricks.as_strided(data[BLOCK.size :], (limit, shape.warps, WARP.size), (shape.stride, shape.frame, 1))
        index = np.arange(shape.warps, dtype=np.int64)
        column(frames, WARP, "index")[...] = index
        column(frames, WARP, "alive")[...] = -1
        if shape.threads % 32:
            column(frames, WARP, "alive")[:, -1] = (1 << shape.threads % 32) - 1
        column(frames, WARP, "local")[...] = starts[:, None] + local + index * (shape.local * 32)
        for axis, lanes in zip("xyz", self._thread_indices(), strict=True):
            by_warp = lanes.reshape(shape.warps, 32)
            column(frames, WARP, f"tid_{axis}")[...] = by_warp[:, 0]
            column(frames, WARP, f"tid_{axis}_lanes", whole=True)[...] = by_warp
        column(blocks, BLOCK, "locals_bytes")[...] = shape.locals
        if self.defined:
            place = local + shape.locals + MARGIN
            column(blocks, BLOCK, "shared_defined")[...] = starts + place
            column(blocks, BLOCK, "local_defined")[...] = place + shape.shared + MARGIN - local
            local += shape.shared + shape.locals + 2 * MARGIN
        if self.races:
            place = -(-(local + shape.locals + MARGIN) // 64) * 64
            column(blocks, BLOCK, "race")[...] = starts + place
            place += RACE.size
            for name, size in shared_shadow(shape.shared).items():
                column(blocks, BLOCK, name)[...] = starts + place
                place += size

    def _thread_indices(self) -> npt.NDArray[np.int32]:
        x, y, _ = self.block
        linear = np.arange(self.shape.warps * 32)
        return np.array([linear % x, linear // x % y, linear // (x * y)], np.int32)

    # ---- running ---------------------------------------------------------------------------------------------

    def _run(self, workers: list[_Worker], schedule: RecordView) -> None:
        """Native code runs on threads of its own, so that an interrupt reaches this one."""
        run = self.functions.run
        if self.blocks == 0:
            return

        def work(worker: _Worker) -> None:
            if run(worker.record.address, schedule.address, worker.pool.address):
                self.stop[0] = 1

        def stop() -> None:
            self.stop[0] = 1

        run_to_the_end([functools.partial(work, w) for w in workers], STACK_BYTES + STACK_PER_CODE * len(self.code.image), stop)
