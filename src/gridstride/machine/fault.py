"""A fault that native code recorded, told for people: which kernel, line, thread, buffer and element."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gridstride.errors import KernelFault
from gridstride.findings import Dim3, Finding, Site
from gridstride.isa.windows import LOCAL_WINDOW, SHARED_WINDOW
from gridstride.lower.records import FAULTS

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
    known = code in ("out-of-bounds", "misaligned", "trap", "assert", "deadlock", "unsupported") and 0 <= number < len(sites)
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
        space, what, buffer, index, advice = _address_story(run, number, code, opcode, space, size, address, names)
    elif code == "deadlock":
        what = "no thread of the launch can go on: those that are left wait for something that nobody brings"
        advice = "let every thread of the block reach the same barrier, and let whatever a loop waits for be set by a thread that can run"
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
    run: _Launch, number: int, code: str, opcode: str, space: str, size: int, address: int, names: Mapping[int, str]
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
