"""The records that native code and Python share: field names, types and offsets, in one place.

  worker   one for each host thread that runs blocks: launch constants, fault, poll counters
  block    one for each block in flight
  warp     one for each group of lanes that runs together; its saved registers follow the header
"""

from __future__ import annotations

from dataclasses import dataclass

_SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "f32": 4, "f64": 8, "ptr": 8}


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    offset: int
    count: int


class Record:
    """A C-like structure. `fields` are "name:type" or "name:type*count" strings."""

    def __init__(self, name: str, *fields: str) -> None:
        self.name = name
        self.fields: dict[str, Field] = {}
        offset = 0
        for text in fields:
            field, _, rest = text.partition(":")
            kind, _, count = rest.partition("*")
            number = int(count or 1)
            align = 64 if number >= 32 else _SIZES[kind]
            offset = -(-offset // align) * align
            self.fields[field] = Field(field, kind, offset, number)
            offset += _SIZES[kind] * number
        self.size = -(-offset // 64) * 64

    def offset(self, name: str) -> int:
        return self.fields[name].offset


WORKER = Record(
    "worker",
    "polls:i64",  # loop iterations until the next look at the stop flag
    "executed:i64",  # loop iterations granted so far
    "budget:i64",  # most loop iterations of this worker; -1: no limit
    "poll_interval:i64",
    "stop:ptr",  # i32: nonzero asks to stop
    "runtime:ptr",  # addresses of the shared functions, in the order of RUNTIME_FUNCTIONS
    "parameters:ptr",
    "symbols:ptr",  # i64 a symbol: addresses of module variables and functions
    "meant:ptr",  # two i64 a memory access: where the buffer that its pointer was given for begins and ends
    "slots:ptr",  # two i64 a memory access: the allocation it hit last, [low, high)
    "allocations:ptr",  # two i64 an allocation, ascending: [start, end)
    "allocation_count:i64",
    "ntid_x:i32",
    "ntid_y:i32",
    "ntid_z:i32",
    "nctaid_x:i32",
    "nctaid_y:i32",
    "nctaid_z:i32",
    "shared_bytes:i64",  # static and dynamic
    "dynamic_bytes:i64",
    "local_bytes:i64",  # of one thread
    "cluster_nctaid_x:i32",
    "cluster_nctaid_y:i32",
    "cluster_nctaid_z:i32",
    "cluster_size:i32",  # blocks of a cluster; 1 in a launch without clusters
    "explicit_cluster:i32",
    "block_stride:i64",  # from one block in flight to the next; those of a cluster are neighbours
    "exclusive:i32",  # nonzero: this is the only worker, atomics need no lock
    "smid:i32",
    "nsmid:i32",
    "clock:i64",
    "gridid:i64",
    "fault_code:i32",
    "fault_site:i32",
    "fault_lanes:i32",
    "fault_warp:i32",
    "fault_block:i64",
    "fault_detail:i32",  # of a barrier that is misused: what is wrong (see BARRIER_MISUSES)
    "fault_bytes:i32",
    "fault_address:i64*32",
    "host_arguments:i64*160",  # up to five arguments a lane, and the answers
    "print_buffer:ptr",
    "print_used:i64",
    "print_capacity:i64",
    "heap:ptr",  # two i64: next free device-heap address, end
    "callback:ptr",  # called when a warp needs the host: (worker, block, warp, what) -> i32
    "changes:i64",  # counts memory changes by atomics, to tell spinning from progress
    "cooperative:i64",
    "frame_bytes:i64",
    "threads_done:i64",
    "findings:ptr",  # FINDING records
    "finding_count:i64",
    "fences:i32",  # the kernel has fences: the host knows what they carry between blocks
    "order_callback:ptr",  # (worker, block, warp, lane, cell) -> 1 if that access is known to come before
    "quiet:ptr",  # i8 a site: whatever it reads is written by nobody in this launch
    "first_block:i64",  # number of the first block of this launch among all that its shadow has seen
    "race_writes:ptr",  # shadow planes of global memory, each so that the place of address a is base + (a >> 2) * size
    "race_reads:ptr",
    "race_write_meta:ptr",
    "race_read_meta:ptr",
    "race_other:ptr",
    "race_byte_writes:ptr",  # of single bytes (see lower/race_bytes.py), those of address a at base + a * 4
    "race_byte_reads:ptr",
    "race_records:ptr",
    "race_next:i32",  # number of the next record
    "race_lists:ptr",  # lists of readers of global memory (see lower/race_readers.py)
    "races_exact:i32",  # the kernel has means by which some threads know of others that not all know of
    "race_addresses:i64*32",  # of the access that is looked at now, and what it writes, a row of lanes a word
    "race_values:i32*256",
    "defined:i64",  # distance from global memory to its shadow
    "origins:ptr",  # an ORIGIN record a site
    "covered:ptr",  # COVER records: the outputs of which each element belongs to one thread
    "covered_count:i32",
    "accesses:i64",  # warp accesses that checks have looked at, and their bytes
    "access_bytes:i64",
    "remembered:ptr",  # i64 an access: a pattern of its lanes, and what it counted then (see lower/counting.py)
    "counters:ptr",  # i64: three an access or branch, then two a block of the kernel (see lower/counting.py)
)

BLOCK = Record(
    "block",
    "ctaid_x:i32",
    "ctaid_y:i32",
    "ctaid_z:i32",
    "state:i32",  # 0 free, 1 running, 2 done
    "linear:i64",
    "shared:ptr",
    "warps:ptr",  # the first warp; contexts lie one frame apart
    "locals:ptr",
    "warp_count:i32",  # warps of the block
    "context_count:i32",  # groups of lanes, at least one a warp
    "context_limit:i32",
    "live_threads:i32",
    "progress:i64",
    "fast:i32",  # 1: all warps are whole, the kernel goes from warp to warp by itself; 2: and some have ended; 0: it does not
    "current:ptr",  # the warp that runs, or ran last
    "cluster:ptr",  # the block of rank 0 of this one's cluster
    "cluster_rank:i32",
    "cluster_phase:i32",  # in the block of rank 0: how often the cluster's barrier has been complete
    "cluster_waiting:i32",  # groups of lanes that wait at the cluster's barrier
    "ended_after_work:i32",  # groups of lanes that ended other than by leaving at a branch
    "ended_early:i32",  # that left at a branch
    "shared_defined:ptr",  # shadow of shared memory (see lower/definedness.py)
    "local_defined:i64",  # distance from local memory to its shadow
    "locals_bytes:i64",
    "race:ptr",  # a RACE record
    "shared_writes:ptr",  # shadow planes of shared memory
    "shared_reads:ptr",
    "shared_write_meta:ptr",
    "shared_read_meta:ptr",
    "shared_other:ptr",
    "shared_byte_writes:ptr",  # of single bytes
    "shared_byte_reads:ptr",
    "shared_lists:ptr",
    "bar_arrived:i32*16",
    "bar_expected:i32*16",
    "bar_and:i32*16",
    "bar_or:i32*16",
    "bar_popc:i32*16",
    "bar_result:i32*16",
)

WARP = Record(
    "warp",
    "resume:i32",
    "active:i32",  # lanes that go on at `resume`
    "alive:i32",  # lanes of this group that have not ended
    "pending:i32",  # lanes that wait in other blocks of the kernel
    # what a barrier writes lies together, so that it is one store
    "barrier:i32",  # the barrier waited at
    "barrier_mode:i32",  # 0 sync, 1 arrive, 2 and, 3 or, 4 popc
    "barrier_count:i32",  # expected threads, 0: all of the block
    "site:i32",  # the operation waited at
    "state:i32",  # DONE, BARRIER…, RUNNABLE
    "index:i32",  # of the warp in its block
    "tid_x:i32",
    "tid_y:i32",
    "tid_z:i32",
    "barrier_mask:i32",  # lanes whose predicate holds
    "result:i32",  # of a reducing barrier
    "sync_mask:i32",
    "others:i32",  # lanes of this warp in other groups
    "cluster_arrived:i32*2",  # lanes that have arrived at the cluster's barrier, in its even and in its odd phases
    # only where functions are called for real (see lower/calls.py):
    "function:i32",  # that runs
    "lanes:i32",  # that belong to this group, in whichever function they are
    "exited:i32",  # lanes whose thread has ended inside a called function
    "frame:i64",  # offset of its frame from this record
    "spins:i64",
    "local:ptr",
    "signature:i64",
    # values that lanes exchange, where they may have become groups that run apart:
    "present:i32",  # lanes that have come to the exchange
    "published:i64*32",  # in the record of the warp's first group: what each lane has brought
    "received:i64*32",  # what all had brought when the exchange took place
    "tid_x_lanes:i32*32",
    "tid_y_lanes:i32*32",
    "tid_z_lanes:i32*32",
)

SCHEDULE = Record(
    "schedule",
    "kernel:ptr",
    "next:i64",  # place in the order of the next block to start; all workers draw from it
    "total:i64",
    "steps:i64",  # of all blocks; its low bits count workers of whose blocks none has moved since (see `_run`)
    "finished:i64",  # workers that have no more blocks
    "workers:i32",
    "order:ptr",  # i64 a block: the order in which they start; null: ascending
    "order_factor:i64",  # not zero: the order is (place * factor + shift) % total, where a table would be too long
    "order_shift:i64",
    "warp_order:ptr",  # i32 a warp: the order in which a block's warps run; null: ascending
    "last_alive:i32",  # lanes of a block's last warp
    "threads:i32",  # of one block
    "warps:i32",  # of one block
    "frame_bytes:i64",
    "shared_clear:i64",  # bytes to clear before a block starts
    "locals_clear:i64",
    "wait_count:i32",  # places in a frame that hold lanes waiting for a block of the kernel
    "calls:i32",  # functions are called for real: frames have to be made
    "hash_bytes:i64",  # of a frame, to tell whether a group is still where it was
    "undefined_shared:i64",  # bytes of shared and local memory that are undefined when a block starts
    "undefined_locals:i64",
    "barrier_check:i32",  # the check of divergent barriers is on
    "mask_check:i32",  # and that of lanes named in masks
    "note_finding:ptr",
    "races:i32",  # the race detector is on
    "race_begin:ptr",
    "race_arrive:ptr",
    "race_release:ptr",
    "race_exit:ptr",
    "merge:ptr",  # two i64 a place of a frame that differs between lanes: offset, bytes of a lane (0: a mask)
    "merge_count:i32",  # 0: groups of lanes are never merged
    "lockstep:i32",  # lanes of a warp never run apart, as before Volta
    "cluster_size:i32",  # blocks that start together, in neighbouring places; 1 without clusters
    "straight:i32",  # the kernel never suspends: one call runs all warps of a block
    "cluster_barriers:i32",  # the kernel has barriers of the cluster
    "wait_start:i64",
)

POOL = Record(
    "pool",  # the blocks that one worker can have in flight
    "first:ptr",
    "stride:i64",
    "limit:i32",
    "open:i32",
)

FRAME = Record(
    "frame",  # begins the frame of a function where functions are called for real; its saved registers follow
    "previous:i64",  # offset of the caller's frame from the warp's record
    "local_base:i64",  # where the function's local variables begin
    "function:i32",
    "resume:i32",
    "active:i32",
    "alive:i32",
)

RACE = Record(
    "race",  # the order of one block's accesses (see lower/races.py); times are counts of synchronisations
    "event:i32",  # now
    "known:i32*1024",  # [warp][other warp]: up to when a warp knows another's accesses
    "left:i32*576",  # [barrier][warp]: what those who have arrived know; two more are those of the cluster (see clusters.py)
    "ended:i32*32",  # the same of warps that have ended
    "together:i32*32",  # [warp]: up to when all its lanes know each other's
    "floor:i32*32",  # [warp]: up to when it knows all of the block's
    "lanes:i32*32768",  # [warp][lane][other lane]
)

FINDING = Record(
    "finding",
    "what:i32",  # kind, severity and detail
    "site:i32",
    "other_site:i32",
    "thread:i32",
    "other_thread:i32",
    "block:i64",
    "other_block:i64",
    "address:i64",
    "count:i64",
)
FINDINGS_LIMIT = 256

COVER = Record(
    "cover",  # an output of a launch contract, and who wrote it (see lower/coverage.py)
    "low:i64",
    "high:i64",
    "unit:i64",  # bytes of an element
    "cells:ptr",
)
COVER_CELL = 16  # bytes an element: who wrote it first (i64, 0: nobody), and at which site (i32)

REGISTER = -2  # in the place of a site that an undefined value was loaded at: a register that nothing was assigned to
ORIGIN = Record(
    "origin",  # what a load of undefined bytes read last, where a warp came to it
    "block:i64",
    "warp:i32",
    "lanes:i32",  # that read undefined bytes
    "address:i64*32",  # the first of each lane's, as the thread sees it
)

# What a finding is, by number (see machine/raw_findings.py).
FINDING_KINDS = {
    "race-shared": ("write-write", "read-write", "write-read", "atomic-plain", "same-value", "unordered-volatile"),
    "race-global": ("write-write", "read-write", "write-read", "atomic-plain", "same-value", "unordered-volatile"),
    "warp-mask": ("reads-absent-lane", "caller-not-in-mask", "lane-elsewhere", "lane-in-the-tail", "waits-for-ever"),
    "divergent-barrier": ("goes-on", "waits-elsewhere", "exited", "waits-for-ever"),
    "uninitialised": ("branch", "address", "output", "decision", "update"),
    "double-write": ("two-threads",),
}
FINDING_SEVERITIES = ("error", "warning", "note")


def finding_code(kind: str, severity: str, detail: str) -> int:
    """Kind, severity and detail of a finding as native code writes them."""
    number = list(FINDING_KINDS).index(kind)
    return number | FINDING_SEVERITIES.index(severity) << 4 | FINDING_KINDS[kind].index(detail) << 8


# What a kernel function returns, and the state its warp is then in.
DONE, BARRIER, YIELD, STOPPED, WARP_SYNC, RUNNABLE, CALL, CLUSTER = range(8)

# Functions shared by all kernels (see lower/runtime.py), in the order of the worker's table.
RUNTIME_FUNCTIONS = {
    "poll": ("i32", ("ptr",)),
    "resolve": ("32xi64", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i64", "i64", "i32")),
    "resolve_one": ("i64", ("ptr", "ptr", "ptr", "i32", "i64", "i32", "i64", "i64", "i32")),
    "slow_load8": ("32xi8", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i64", "i64", "i32")),
    "slow_load16": ("32xi16", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i64", "i64", "i32")),
    "slow_load32": ("32xi32", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i64", "i64", "i32")),
    "slow_load64": ("32xi64", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i64", "i64", "i32")),
    "slow_store8": ("void", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i64", "i64", "i32", "32xi8")),
    "slow_store16": ("void", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i64", "i64", "i32", "32xi16")),
    "slow_store32": ("void", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i64", "i64", "i32", "32xi32")),
    "slow_store64": ("void", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i64", "i64", "i32", "32xi64")),
    "mbarrier_init": ("void", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "32xi32")),
    "mbarrier_inval": ("void", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32")),
    "mbarrier_arrive": ("32xi64", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "32xi32", "32xi32", "i32")),
    "mbarrier_bytes": ("void", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "32xi32")),
    "mbarrier_wait": ("i32", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "32xi32")),
    "gather8": ("32xi8", ("32xi64", "i32")),
    "gather16": ("32xi16", ("32xi64", "i32")),
    "gather32": ("32xi32", ("32xi64", "i32")),
    "gather64": ("32xi64", ("32xi64", "i32")),
    "scatter8": ("void", ("32xi64", "i32", "32xi8")),
    "scatter16": ("void", ("32xi64", "i32", "32xi16")),
    "scatter32": ("void", ("32xi64", "i32", "32xi32")),
    "scatter64": ("void", ("32xi64", "i32", "32xi64")),
    "race_access": ("void", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i32", "i32")),
    "race_warp_sync": ("void", ("ptr", "ptr", "i32", "i32")),
    "race_arrive": ("void", ("ptr", "ptr")),
    "cover_write": ("void", ("ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i32")),
    "note_finding": ("void", ("ptr", "ptr", "i32", "i32", "i32", "i32", "i64", "i64")),
    "fault": ("void", ("ptr", "ptr", "ptr", "i32", "i32", "i32")),
    "host": ("i32", ("ptr", "ptr", "ptr", "i32", "i32", "i32")),
}

# What a kernel may ask of the host, in the order of their numbers.
ORDER_REQUESTS = (
    "fence.cta", "fence.gpu", "order.read", "order.write", "order.update", "cluster.arrive", "cluster.wait",
    "mbarrier.arrive.cta", "mbarrier.arrive.cluster", "mbarrier.wait.cta", "mbarrier.wait.cluster",
)  # fmt: skip
HOST_REQUESTS = (*ORDER_REQUESTS, "vprintf", "__assertfail", "malloc", "free")

# Faults
FAULTS = {
    1: "out-of-bounds",
    2: "misaligned",
    3: "trap",
    4: "assert",
    5: "budget",
    6: "interrupted",
    7: "deadlock",
    8: "unsupported",
    9: "stack-overflow",
    10: "barrier-misuse",
}
FAULT_BOUNDS, FAULT_MISALIGNED, FAULT_TRAP, FAULT_ASSERT, FAULT_BUDGET, FAULT_INTERRUPTED, FAULT_DEADLOCK, FAULT_UNSUPPORTED, FAULT_STACK, FAULT_MISUSE = range(1, 11)
# What can be wrong with the use of a cluster's barrier or an mbarrier, by number.
BARRIER_MISUSES = ("arrives-twice", "waits-unarrived", "not-initialised", "bad-count", "too-many-arrivals", "too-many-bytes", "completes", "elsewhere")
SPACES = ("global", "shared", "local", "const", "param", "generic", "shared::cluster")

# Addresses of functions: a window of their own, beside those of shared and local memory.
FUNCTION_WINDOW = 0x0400_0000_0000_0000
FUNCTION_STEP = 16  # addresses from one function to the next
