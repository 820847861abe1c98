"""A fault that native code recorded, told for people: which kernel, line, thread, buffer and element."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gridstride.errors import KernelFault
from gridstride.findings import Dim3, Finding, Site
from gridstride.isa.windows import LOCAL_WINDOW, SHARED_WINDOW, split_shared_address
from gridstride.lower.records import BARRIER_MISUSES, FAULTS

if TYPE_CHECKING:
    from gridstride.machine.launch import _Launch
    from gridstride.machine.memory import Allocation
    from gridstride.machine.record_view import RecordView

FAR = 1 << 32  # bytes from a buffer at which an address no longer has to do with it
_CODES = {
    "out-of-bounds": "GS101",
    "misaligned": "GS102",
    "trap": "GS103",
    "assert": "GS104",
    "deadlock": "GS105",
    "budget": "GS106",
    "interrupted": "GS107",
    "unsupported": "GS108",
    "barrier-misuse": "GS109",
}
_MISUSES = {
    "arrives-twice": ("arrives at the cluster's barrier a second time and has not waited in between", "let every arrival be followed by one wait of the same thread"),
    "waits-unarrived": ("waits at the cluster's barrier, at which it has not arrived", "let every wait come after one arrival of the same thread"),
    "not-initialised": (
        "uses an mbarrier that is not initialised",
        "let one thread initialise it, and let the others meet that thread before they use it; after mbarrier.inval it is to be initialised anew",
    ),
    "bad-count": ("gives an mbarrier a number of arrivals that is not between 1 and 1,048,575", "count at least one arrival, and no more than that"),
    "too-many-arrivals": (
        "arrives at an mbarrier more often than its phase still awaits",
        "initialise the mbarrier with the number of arrivals of one phase, and let nobody arrive for the next one before this one is complete",
    ),
    "too-many-bytes": (
        "brings the bytes that an mbarrier awaits beyond 1,048,575, or as many below zero",
        "expect just the bytes that are brought in one phase",
    ),
    "completes": ("completes the phase of an mbarrier by an arrival that must not (.noComplete)", "let another arrival be the last one"),
    "elsewhere": (
        "reaches for an mbarrier that is not in its block's own shared memory",
        "keep mbarriers in shared memory; those of other blocks of the cluster are for arrivals through .shared::cluster addresses only",
    ),
}


def _innermost_file(run: _Launch, line: int | None) -> str:
    """The file whose code stands at a line of the PTX, headers of the toolkit included; empty where nothing tells."""
    for text in reversed(run.program.module.text.splitlines()[:line]) if line else ():
        if text.lstrip().startswith(".loc"):
            return run.program.file_names.get(int(text.split()[1]), "")
    return ""


def explain_fault(run: _Launch, kernel: str, worker: RecordView, names: Mapping[int, str], assertion: str) -> KernelFault:
    """The exception for the fault in `worker`'s record."""
    code = FAULTS[worker["fault_code"]]
    stack_is_full = code == "stack-overflow"
    if stack_is_full:
        code = "out-of-bounds"  # of local memory
    if code == "interrupted":
        raise KeyboardInterrupt
    lanes = worker["fault_lanes"] & 0xFFFFFFFF
    lane = (lanes & -lanes).bit_length() - 1 if lanes else 0
    block = _unravel(worker["fault_block"], run.grid)
    thread = _unravel((worker["fault_warp"] & 0xFFFFFFFF) * 32 + lane, run.block)
    sites, number = run.code.sites, worker["fault_site"]
    known = code in ("out-of-bounds", "misaligned", "trap", "assert", "deadlock", "unsupported", "barrier-misuse") and 0 <= number < len(sites)
    line, file, source_line, opcode, space, size = sites[number][:6] if known else (None, None, None, "", "", 0)
    if known and worker["fault_bytes"]:  # not by the instruction itself: a host function on its behalf
        opcode, space, size = "ld", "generic", worker["fault_bytes"]
    name = run.program.file_names.get(file) if file is not None else None
    site = Site(name, source_line, line, block, thread)
    address = int(worker.array("fault_address")[lane]) & (2**64 - 1)
    buffer: str | None = None
    index: int | None = None
    if stack_is_full:
        space, address = "local", 0
        what = f"the call stack is full: calls are nested deeper than the {run.shape.frame:,} bytes of a warp's stack and the {run.code.local_bytes:,} bytes of a thread's local memory hold"
        advice = "look for a recursion that does not end, or turn the recursion into a loop"
    elif code in ("out-of-bounds", "misaligned"):
        space, what, buffer, index, advice = _address_story(run, number, code, opcode, space, size, address, names, block)
    elif code == "deadlock":
        what, advice = _deadlock_story(opcode)
    elif code == "barrier-misuse":
        what, advice = _MISUSES[BARRIER_MISUSES[worker["fault_detail"]]]
    elif code == "assert":
        what, advice = assertion, "the condition in the source is false for this thread"
    elif code == "trap":
        what, advice = "the kernel ran into a trap instruction", "look for __trap() or an unreachable path that was reached"
        if not run.options.cooperative and "cooperative_groups" in _innermost_file(run, line):
            advice = "a grid synchronises in a cooperative launch only: --cooperative, or cooperative=True in Python"
    elif code == "budget":
        what = f"the launch ran more than {run.options.budget:,} loop iterations, its budget"
        advice = "look for a loop that does not end, or raise the budget"
        site = Site()
    else:
        what = "lanes of a warp exchange values from two different places of the kernel, which is not supported"
        advice = "let all lanes that a mask names come to the same shuffle, vote, match or reduction"
    where = place_of(site)
    finding = Finding(
        code=_CODES[code],
        kind=code,
        severity="error",
        message=f"{what}{f' ({where})' if where else ''}",
        advice=advice,
        kernel=kernel,
        site=site,
        space=space or None,
        buffer=buffer,
        index=index,
        address=address if code in ("out-of-bounds", "misaligned") and not stack_is_full else None,
        count=lanes.bit_count() or 1,
    )
    return KernelFault(f"kernel `{kernel}`: {finding.message}", code, finding)


def _deadlock_story(opcode: str) -> tuple[str, str]:
    """Sentence and advice, from what the first of those that are left waits at."""
    if opcode.startswith("barrier.cluster"):
        return (
            "the cluster's barrier cannot fill: threads of the cluster have not arrived, and none of them can go on",
            "let every thread of every block of the cluster arrive at the cluster's barrier as often as the others, or end",
        )
    if opcode.startswith("mbarrier"):
        return (
            "no thread of the launch can go on: the phase of an mbarrier that is waited for lacks arrivals or bytes that nobody brings",
            "initialise the mbarrier with the number of arrivals that come in a phase, and look for whoever should arrive",
        )
    return (
        "no thread of the launch can go on: those that are left wait for something that nobody brings",
        "let every thread of the block reach the same barrier, and let whatever a loop waits for be set by a thread that can run",
    )


def place_of(site: Site) -> str:
    """ "file:line, block (x,y,z), thread (x,y,z)" of what is known."""
    parts = []
    if site.file and site.line:
        parts.append(f"{os.path.basename(site.file)}:{site.line}")
    elif site.ptx_line:
        parts.append(f"PTX line {site.ptx_line}")
    if site.block is not None:
        parts.append("block ({},{},{})".format(*site.block))
    if site.thread is not None:
        parts.append("thread ({},{},{})".format(*site.thread))
    return ", ".join(parts)


def _unravel(linear: int, extents: Dim3) -> Dim3:
    x, y, _ = extents
    return linear % x, linear // x % y, linear // (x * y)


def _address_story(
    run: _Launch, number: int, code: str, opcode: str, space: str, size: int, address: int, names: Mapping[int, str], block: Dim3
) -> tuple[str, str, str | None, int | None, str]:
    """Space, sentence, buffer, element index and advice of a bad address."""
    verb = "writes" if opcode.startswith(("st", "red")) else "reads" if opcode.startswith("ld") else "updates"
    if space == "generic":
        if address >> 56 == SHARED_WINDOW >> 56:
            space, address = "shared", address - SHARED_WINDOW
        elif address >> 56 == LOCAL_WINDOW >> 56:
            space, address = "local", address - LOCAL_WINDOW
        else:
            space = "global"
    if code == "misaligned":
        buffer, index, _ = _element(run, number, space, size, address, names)
        what = f"{verb} {size} bytes at {space} address {address:#x}, which is not a multiple of {size}"
        return space, what + (f" (in `{buffer}`)" if buffer else ""), buffer, index, f"align the address to {size} bytes, or use narrower accesses"
    if space == "shared" and (rank := split_shared_address(address)[0]) is not None:
        what, index, advice = _remote_story(run, verb, opcode, size, address, rank, block)
        return space, what, space, index, advice
    if space in ("shared", "local"):
        limit = run.shared_bytes if space == "shared" else run.code.local_bytes
        of = "the block" if space == "shared" else "the thread"
        signed = address - (1 << 64) if address >> 63 else address - (1 << 32) if address >> 31 == 1 else address
        what = f"{verb} {size} bytes at {space} offset {signed:,}, but {of} has {limit:,} bytes of {space} memory"
        advice = f"keep the index inside the {space} array"
        if space == "shared" and limit == 0:
            advice = "give the launch the dynamic shared memory that the kernel uses: --shared BYTES, or shared=BYTES in Python"
        return space, what, space, operator.floordiv(signed, max(size, 1)), advice
    if address < 65536:
        what = f"{verb} {size} bytes through a null pointer" + (f" (address {address:#x})" if address else "")
        return space, what, None, None, "pass a pointer to allocated memory, and test it before use"
    buffer, index, elements = _element(run, number, space, size, address, names)
    if buffer is None:
        return space, f"{verb} {size} bytes at address {address:#x}, where nothing is allocated", None, None, "check the pointer and the index it is used with"
    what = f"{verb} {size} bytes at `{buffer}`[{index:,}], outside its {elements:,} elements of {size} bytes"
    return space, what, buffer, index, "guard the access with the buffer's length, or make the buffer as large as the grid reaches"


def _remote_story(run: _Launch, verb: str, opcode: str, size: int, address: int, rank: int, block: Dim3) -> tuple[str, int, str]:
    """Sentence, element index and advice of an address that leads, or should lead, into another block's shared memory."""
    _, offset = split_shared_address(address)
    index = operator.floordiv(offset, max(size, 1))
    what = f"{verb} {size} bytes at shared offset {offset:,} of the cluster's block of rank {rank}"
    if rank >= run.cluster.size:
        blocks = "block" if run.cluster.size == 1 else "blocks"
        return f"{what}, but a cluster has {run.cluster.size} {blocks} in this launch", index, "launch with clusters that are large enough, or keep the rank below their number of blocks"
    x, y, _ = run.cluster.extents
    inside = (rank % x, rank // x % y, rank // (x * y))
    other = tuple(b // n * n + k for b, n, k in zip(block, run.cluster.extents, inside, strict=True))
    what += ", block ({},{},{})".format(*other)
    if not 0 <= offset <= run.shared_bytes - size:
        return f"{what}, which has {run.shared_bytes:,} bytes of shared memory", index, "keep the index inside the shared array"
    if opcode.split(".")[0] in ("ld", "st", "atom", "red", "mbarrier") and "shared" in opcode and "shared::cluster" not in opcode:
        return f"{what}, by an instruction that reaches its own block's only", index, "use a generic address, or the .shared::cluster form of the instruction"
    return f"{what}, which has ended", index, "let all blocks of the cluster meet (cluster.sync()) before any of them ends"


def _meant(run: _Launch, site: int) -> Allocation | None:
    """The buffer that the access at `site` was meant for: the one of the pointer that its address was made from."""
    if not 0 <= site < len(run.code.provenance):
        return None
    offset, variable, _ = run.code.provenance[site]
    if offset == -2:
        return run.program.globals(run.memory).get(variable)
    if offset < 0:
        return None
    return run.memory.find(int.from_bytes(run.parameters[offset : offset + 8], "little"))


def _element(run: _Launch, number: int, space: str, size: int, address: int, names: Mapping[int, str]) -> tuple[str | None, int | None, int]:
    """Name of the buffer that an address belongs to (or is nearest to), the element's index, and its elements."""
    if space in ("shared", "local"):
        return space, address // max(size, 1), 0
    allocation = _meant(run, number)
    if allocation is None:
        allocation = run.memory.find(address) or run.memory.nearest(address)
        if allocation is None or not allocation.address - FAR < address < allocation.address + allocation.size + FAR:
            return None, None, 0
    name = names.get(allocation.address) or allocation.name or f"{allocation.address:#x}"
    start, end = allocation.address, allocation.address + allocation.size
    if 0 <= number < len(run.code.provenance):
        start, end = run.extents.get(run.code.provenance[number][0], (start, end))
    return name, (address - start) // max(size, 1), (end - start) // max(size, 1)
