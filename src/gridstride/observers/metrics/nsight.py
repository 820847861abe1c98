"""The counters under Nsight Compute's names, each with a mark that says what it is worth.

`COUNTERS` is the one table of them: the JSON result, the documentation (docs/metrics.md) and the tests are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gridstride.machine.occupancy import shared_allocated
from gridstride.observers.metrics.derived import GLOBAL, Metrics
from gridstride.observers.metrics.flops import OPERATIONS, WIDTHS, Operation, Width
from gridstride.observers.metrics.launch_metrics import LaunchMetrics


class Mark(StrEnum):
    """exact: equal to the hardware's on the truth set. modelled: from a rule that is known to miss some cases.
    estimated: a prediction with an error."""

    EXACT = "exact"
    MODELLED = "modelled"
    ESTIMATED = "estimated"


@dataclass(frozen=True)
class Counter:
    """One counter. `value` gives None where a launch does not have it (registers that nobody knows, say);
    `caveat` weakens the mark to modelled for launches it holds for."""

    plain: str
    nsight: str
    mark: Mark
    rule: str
    value: Callable[[LaunchMetrics], float | None]
    caveat: Callable[[LaunchMetrics], bool] = lambda launch: False

    def mark_for(self, launch: LaunchMetrics) -> Mark:
        """The mark for one launch: exact becomes modelled where the launch ran what the counter is known to miss."""
        return Mark.MODELLED if self.mark is Mark.EXACT and self.caveat(launch) else self.mark


def _changed(access: str, *spaces: str) -> Callable[[LaunchMetrics], bool]:
    """Whether the machine compiler changed one of these accesses."""
    return lambda launch: any(i.line in (launch.changed_lines or {}) and i.executions for i in launch.where(access, *spaces))


def _changed_or_remote(access: str) -> Callable[[LaunchMetrics], bool]:
    """The same of accesses to shared memory, or whether one went through .shared::cluster: nobody has measured what the machine makes of those."""
    changed = _changed(access, "shared")
    return lambda launch: changed(launch) or any("shared::cluster" in i.opcode and i.executions for i in launch.where(access, "shared"))


def _access(name: str, access: str, quantity: str, rule: str, mark: Mark = Mark.EXACT) -> Counter:
    plain = f"global {name} {quantity}"
    suffix = {"load": "ld", "store": "st", "reduction": "red", "atomic": "atom"}[access]
    nsight = f"l1tex__t_{quantity}_pipe_lsu_mem_global_op_{suffix}.sum"
    return Counter(plain, nsight, mark, rule, lambda launch: sum(getattr(i, quantity) for i in launch.where(access, *GLOBAL)), _changed(access, *GLOBAL))


def _local(access: str, quantity: str, rule: str) -> Counter:
    suffix = {"load": "ld", "store": "st"}[access]
    nsight = f"l1tex__t_{quantity}_pipe_lsu_mem_local_op_{suffix}.sum"
    return Counter(
        f"local {access} {quantity}",
        nsight,
        Mark.EXACT,
        rule,
        lambda launch: sum(getattr(i, quantity) for i in launch.where(access, "local")),
        _changed(access, "local"),
    )


def _instructions(space: str, access: str, suffix: str, rule: str, mark: Mark = Mark.EXACT) -> Counter:
    spaces = GLOBAL if space == "global" else (space,)
    return Counter(
        f"{space} {access} instructions",
        f"smsp__sass_inst_executed_op_{space}_{suffix}.sum",
        mark,
        rule,
        lambda launch: sum(i.executions for i in launch.where(access, *spaces)),
        _changed_or_remote(access) if space == "shared" else _changed(access, *spaces),
    )


def _conflicts(access: str) -> Callable[[Metrics], int]:
    return lambda launch: sum(i.wavefronts - i.ideal_wavefronts for i in launch.where(access, "shared"))


def _floating(width: Width, operation: Operation) -> Counter:
    letter = {"h": "half", "f": "single", "d": "double"}[width]
    return Counter(
        f"{letter}-precision {operation}",
        f"smsp__sass_thread_inst_executed_op_{width}{operation}_pred_on.sum",
        Mark.MODELLED if width == "h" else Mark.EXACT,
        "threads that ran a PTX instruction of the kind, packed or not"
        + ("; ptxas makes a part of the packed ones fused multiply-adds" if width == "h" else "; modelled where the machine expands division, roots or reciprocals"),
        lambda launch: launch.floating.of(width, operation),
        lambda launch: bool(launch.floating.expanded),
    )


def _launch(plain: str, nsight: str, rule: str, value: Callable[[LaunchMetrics], float | None], mark: Mark = Mark.EXACT) -> Counter:
    return Counter(plain, nsight, mark, rule, value)


_REQUEST = "one per warp-level instruction with an active lane"
_SECTORS = "distinct 32-byte sectors of the active lanes of one request"
_ATOMIC = "in each 32-byte sector the most lanes on any one address, summed over the sectors"
_WAVES = "the busiest bank's distinct 4-byte words; the warp in halves at 8 bytes, in quarters at 16"
_LOCAL = "one a word of 4 bytes with an active lane"
_LOCAL_SECTORS = "distinct sectors, neighbouring lanes' words being neighbours"
KERNEL_START_US = 2.0
"""What Nsight Compute shows for a kernel that does nothing, about: over the truth set's 66 launches, 0.1 to 2.2 µs of work, the median
error is then 8 %."""

COUNTERS: tuple[Counter, ...] = (
    _access("load", "load", "requests", _REQUEST),
    _access("load", "load", "sectors", _SECTORS),
    _access("store", "store", "requests", _REQUEST),
    _access("store", "store", "sectors", _SECTORS),
    _access("reduction", "reduction", "requests", f"{_REQUEST}; an atomic whose old value nobody reads"),
    _access("reduction", "reduction", "sectors", _ATOMIC, Mark.MODELLED),
    _access("atomic", "atomic", "requests", f"{_REQUEST}; an atomic whose old value is read"),
    _access("atomic", "atomic", "sectors", _ATOMIC, Mark.MODELLED),
    _local("load", "requests", _LOCAL),
    _local("load", "sectors", _LOCAL_SECTORS),
    _local("store", "requests", _LOCAL),
    _local("store", "sectors", _LOCAL_SECTORS),
    _instructions("global", "load", "ld", "warp-level loads"),
    _instructions("global", "store", "st", "warp-level stores"),
    _instructions("local", "load", "ld", "warp-level loads, a vector of words counting once"),
    _instructions("local", "store", "st", "warp-level stores, a vector of words counting once"),
    _instructions("shared", "load", "ld", "warp-level loads"),
    _instructions("shared", "store", "st", "warp-level stores"),
    Counter(
        "shared atomic instructions",
        "smsp__sass_inst_executed_op_shared_atom.sum",
        Mark.MODELLED,
        "warp-level atomics and reductions; the machine makes loops of some of them",
        lambda launch: sum(i.executions for access in ("atomic", "reduction") for i in launch.where(access, "shared")),
    ),
    Counter(
        "shared load wavefronts",
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        Mark.EXACT,
        f"{_WAVES}; two halves or quarters go together where their few addresses do not conflict",
        lambda launch: launch.shared_load_wavefronts,
        _changed_or_remote("load"),
    ),
    Counter(
        "shared store wavefronts",
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        Mark.EXACT,
        _WAVES,
        lambda launch: launch.shared_store_wavefronts,
        _changed_or_remote("store"),
    ),
    Counter(
        "bank conflicts of shared loads",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        Mark.MODELLED,
        "wavefronts above the fewest that the bytes allow; the hardware's counter holds conflicts with other traffic of its cache too",
        _conflicts("load"),
    ),
    Counter(
        "bank conflicts of shared stores",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        Mark.MODELLED,
        "as for loads",
        _conflicts("store"),
    ),
    Counter(
        "branches",
        "smsp__sass_branch_targets.sum",
        Mark.MODELLED,
        "conditional branches of PTX that warps ran; the machine replaces many by predicates and adds others",
        lambda launch: launch.branches,
    ),
    Counter(
        "divergent branches",
        "smsp__sass_branch_targets_threads_divergent.sum",
        Mark.MODELLED,
        "executions of PTX branches at which lanes went different ways",
        lambda launch: launch.divergent_branches,
    ),
    Counter(
        "uniform branches",
        "smsp__sass_branch_targets_threads_uniform.sum",
        Mark.MODELLED,
        "the other executions of PTX branches",
        lambda launch: launch.branches - launch.divergent_branches,
    ),
    Counter(
        "half-precision instructions",
        "smsp__sass_thread_inst_executed_op_fp16_pred_on.sum",
        Mark.MODELLED,
        "the three below together; ptxas packs two scalar ones into one where it can",
        lambda launch: sum(launch.floating.of("h", operation) for operation in OPERATIONS),
    ),
    *(_floating(width, operation) for width in reversed(WIDTHS) for operation in OPERATIONS),
    _launch("blocks", "launch__grid_size", "blocks of the grid", lambda launch: launch.profile.blocks),
    _launch("threads a block", "launch__block_size", "threads of a block", lambda launch: launch.profile.threads_per_block),
    _launch("threads", "launch__thread_count", "blocks × threads a block", lambda launch: launch.profile.blocks * launch.profile.threads_per_block),
    _launch("registers a thread", "launch__registers_per_thread", "as the machine-code compiler reports them", lambda launch: launch.profile.registers),
    _launch(
        "static shared memory", "launch__shared_mem_per_block_static", "bytes a block, declared by the kernel", lambda launch: launch.profile.shared_static
    ),
    _launch(
        "dynamic shared memory", "launch__shared_mem_per_block_dynamic", "bytes a block, given by the launch", lambda launch: launch.profile.shared_dynamic
    ),
    _launch(
        "reserved shared memory",
        "launch__shared_mem_per_block_driver",
        "bytes a block that the system takes",
        lambda launch: launch.spec.architecture.reserved_shared_per_block,
    ),
    _launch(
        "allocated shared memory",
        "launch__shared_mem_per_block_allocated",
        "all three, rounded up to the granularity",
        lambda launch: shared_allocated(launch.spec.architecture, launch.shared_bytes),
    ),
    _launch("limit of blocks", "launch__occupancy_limit_blocks", "blocks a multiprocessor may hold", lambda launch: launch.occupancy.limit_blocks),
    _launch(
        "limit by registers",
        "launch__occupancy_limit_registers",
        "blocks whose registers fit",
        lambda launch: None if launch.profile.registers is None else launch.occupancy.limit_registers,
    ),
    _launch(
        "limit by shared memory",
        "launch__occupancy_limit_shared_mem",
        "blocks whose shared memory fits the largest carve-out; a driver may choose a smaller one, which then allows fewer",
        lambda launch: launch.occupancy.limit_shared,
        Mark.MODELLED,
    ),
    _launch("limit by warps", "launch__occupancy_limit_warps", "blocks whose warps fit", lambda launch: launch.occupancy.limit_warps),
    _launch(
        "theoretical occupancy",
        "sm__maximum_warps_per_active_cycle_pct",
        "warps of the blocks that the least limit allows, of those that fit, in percent",
        lambda launch: None if launch.profile.registers is None else launch.occupancy.percent,
    ),
    _launch(
        "waves",
        "launch__waves_per_multiprocessor",
        "blocks ÷ blocks that the whole device holds at once",
        lambda launch: None if launch.profile.registers is None else launch.waves,
        Mark.EXACT,
    ),
    Counter(
        "DRAM bytes read", "dram__bytes_read.sum", Mark.MODELLED, "what is touched, once, from caches that are empty", lambda launch: launch.first_reads
    ),
    Counter(
        "DRAM bytes written",
        "dram__bytes_write.sum",
        Mark.MODELLED,
        "none where the buffers fit into L2, else what is written, once",
        lambda launch: launch.estimate.traffic.dram_written,
    ),
    Counter(
        "L2 sectors", "lts__t_sectors.sum", Mark.MODELLED, "sectors that L1 does not have, those of atomics included", lambda launch: launch.estimate.l2_sectors
    ),
    Counter(
        "time",
        "gpu__time_duration.sum",
        Mark.ESTIMATED,
        "nanoseconds; the estimate (docs/estimates.md) with the kernel's start alone in place of the host's launch",
        lambda launch: 1000 * (launch.estimate_us - launch.estimate.parts["launch"] + KERNEL_START_US),
    ),
)

BY_NAME: Mapping[str, Counter] = {counter.nsight: counter for counter in COUNTERS}


def nsight_counters(launch: LaunchMetrics) -> dict[str, float]:
    """Every counter that the launch has, under Nsight's name; counts are whole numbers."""
    values = ((counter.nsight, counter.value(launch)) for counter in COUNTERS)
    return {name: value for name, value in values if value is not None}


def nsight_marks(launch: LaunchMetrics) -> dict[str, str]:
    """Nsight's name → exact, modelled or estimated, for the counters that the launch has."""
    return {counter.nsight: counter.mark_for(launch).value for counter in COUNTERS if counter.value(launch) is not None}


def counters_table() -> str:
    """The table of all counters in Markdown, for the documentation."""
    lines = ["| plain name | Nsight name | | rule |", "|---|---|---|---|"]
    lines += [f"| {c.plain} | `{c.nsight}` | {c.mark} | {c.rule} |" for c in COUNTERS]
    return "\n".join(lines) + "\n"
