"""Who wrote each element of an output that a launch contract gives to one thread an element: native code, and what it leaves behind.

A cell for each element keeps the first thread that wrote it, and where. A second thread is a finding at once; what nobody wrote is read off the
cells when the launch has ended (`runtime/contracts/coverage.py`).
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.race_cells import BLOCK_SHIFT, TIME_BITS, block_number
from gridstride.lower.records import COVER, COVER_CELL, WARP, WORKER, finding_code


def build_cover(module: ir.Module, note: ir.Function) -> None:
    """cover_write(worker, block, warp, site, addresses, lanes, bytes): lanes write so many bytes each. An owner has the form of a race cell's
    block and thread, which `note_finding` reads."""
    f = NativeFunction(module, "cover_write", "void", ["ptr", "ptr", "ptr", "i32", "32xi64", "i32", "i32"], attributes=("noinline",))
    worker, block, warp, site, addresses, lanes, size = f.args
    rows = f.variable("32xi64", addresses)
    number = block_number(f, worker, block) << BLOCK_SHIFT
    first_thread = f.get(WARP, warp, "index") * 32
    with f.count_to(f.get(WORKER, worker, "covered_count")) as k:
        entry = f.get(WORKER, worker, "covered") + k.to("i64") * COVER.size
        low, high, unit, cells = (f.get(COVER, entry, name) for name in ("low", "high", "unit", "cells"))
        with f.each_lane(lanes) as lane:
            address = f.load("i64", Native(f, rows.slot), lane.to("i64") * 8)
            end = address + size.to("i64")
            with f.if_((address < high) & (end > low)):
                start = (address > low).select(address - low, 0) // unit
                behind = ((end < high).select(end, high) - low + unit - 1) // unit
                thread = first_thread + lane
                me = number | (thread.to("i64") << TIME_BITS)
                with f.count_to(behind - start) as n:
                    element = start + n
                    cell = cells + element * COVER_CELL
                    owner = f.load("i64", cell)
                    with f.if_(owner.eq(0)):
                        f.store(me, cell)
                        f.store(site, cell, 8)
                    with f.if_(owner.ne(0) & owner.ne(me)):
                        what = f.const("i32", finding_code("double-write", "error", "two-threads"))
                        f.call(note, worker, block, what, site, f.load("i32", cell, 8), thread, owner, low + element * unit)
    f.ret()
