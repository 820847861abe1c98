"""Functions shared by all kernels: address resolution, gathers and scatters, polling, faults.

They are made once a processor and kept in the native-code cache. Kernels reach them through the worker's table.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa.windows import LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW
from gridstride.lower.mbarrier_runtime import build_mbarriers
from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.records import (
    BLOCK,
    FAULT_BOUNDS,
    FAULT_BUDGET,
    FAULT_INTERRUPTED,
    FAULT_MISALIGNED,
    RUNTIME_FUNCTIONS,
    SPACES,
    WARP,
    WORKER,
)
from gridstride.lower.vector_memory import has_gather, has_scatter

SPACE = {name: number for number, name in enumerate(SPACES)}


def build_runtime() -> ir.Module:
    """The LLVM module of all shared functions but `host`, which Python provides."""
    module = ir.Module("runtime")
    _poll(module)
    find, shared_of = _find(module), _shared_of(module)
    host_of = _host_of(module, find, shared_of)
    _resolve_one(module, host_of)
    resolve = _resolve(module, host_of, shared_of)
    for bits in (8, 16, 32, 64):
        gather, scatter = _gather(module, bits), _scatter(module, bits)
        _slow_load(module, bits, resolve, gather)
        _slow_store(module, bits, resolve, scatter)
    _fault(module)
    build_mbarriers(module)
    return module


def _function(module: ir.Module, name: str) -> NativeFunction:
    result, arguments = RUNTIME_FUNCTIONS[name]
    return NativeFunction(module, name, result, list(arguments))


def poll_body(f: NativeFunction, worker: Native) -> Native:
    """Grant the next loop iterations; the result is 1 where the kernel has to stop."""
    interval = f.get(WORKER, worker, "poll_interval")
    executed = f.add_to(WORKER, worker, "executed", interval)
    budget = f.get(WORKER, worker, "budget")
    f.put(WORKER, worker, "polls", interval)
    asked = f.load("i32", f.get(WORKER, worker, "stop")).ne(0)
    over = executed > budget  # unsigned: no budget is the largest number
    fault = f.get(WORKER, worker, "fault_code")
    new = asked.select(f.const("i32", FAULT_INTERRUPTED), over.select(f.const("i32", FAULT_BUDGET), fault))
    f.put(WORKER, worker, "fault_code", fault.eq(0).select(new, fault))
    return (asked | over | fault.ne(0)).to("i32")


def _poll(module: ir.Module) -> None:
    f = _function(module, "poll")
    f.ret(poll_body(f, f.args[0]))


def _find(module: ir.Module) -> ir.Function:
    """find(worker, address) -> index of the last allocation that starts at or below address, or -1."""
    f = NativeFunction(module, "find", "i64", ["ptr", "i64"], attributes=("noinline",))
    worker, address = f.args
    table = f.get(WORKER, worker, "allocations")
    low = f.variable("i64", 0)
    high = f.variable("i64", f.get(WORKER, worker, "allocation_count"))
    with f.loop():
        a, b = low.get(), high.get()
        f.break_if(a >= b)
        middle = (a + b) >> 1
        below = f.load("i64", table, middle * 16) <= address
        low.set(below.select(middle + 1, a))
        high.set(below.select(b, middle))
    f.ret(low.get() - 1)
    return f.function


def _shared_of(module: ir.Module) -> ir.Function:
    """shared_of(worker, block, rank field of an address) -> where that block's shared memory begins on the host; 0 if there
    is none: no such rank, or the block has ended."""
    f = NativeFunction(module, "shared_of", "i64", ["ptr", "ptr", "i64"], attributes=("noinline",))
    worker, block, rank = f.args
    f.ret_if(rank.eq(0), f.get(BLOCK, block, "shared").to("i64"))
    f.ret_if(rank > f.get(WORKER, worker, "cluster_size").to("i64"), f.const("i64", 0))
    other = f.get(BLOCK, block, "cluster") + (rank - 1) * f.get(WORKER, worker, "block_stride")
    f.ret(f.get(BLOCK, other, "state").ne(0).select(f.get(BLOCK, other, "shared").to("i64"), f.const("i64", 0)))
    return f.function


def _rank_and_offset(address: Native) -> tuple[Native, Native]:
    """The rank field of an address in the shared memory of a cluster, and the offset in that block (see isa/windows.py)."""
    rank = (address + (1 << RANK_SHIFT - 1)) >> RANK_SHIFT
    return rank, address - (rank << RANK_SHIFT)


def _host_of(module: ir.Module, find: ir.Function, shared_of: ir.Function) -> ir.Function:
    """host_of(worker, block, warp, site, address, lane, bytes, space) -> host address, 0 if out of bounds.

    Remembers the allocation in the site's slot.
    """
    f = NativeFunction(module, "host_of", "i64", ["ptr", "ptr", "ptr", "i32", "i64", "i32", "i64", "i32"], attributes=("noinline",))
    worker, block, warp, site, address, lane, size, space = f.args
    shared_bytes = f.get(WORKER, worker, "shared_bytes")
    window = address & (0xFF << 56)
    generic = space.eq(SPACE["generic"])
    offset = f.variable("i64", address)
    of_cluster = space.eq(SPACE["shared::cluster"]) | (generic & window.eq(SHARED_WINDOW))
    is_shared = space.eq(SPACE["shared"]) | of_cluster
    is_local = space.eq(SPACE["local"]) | (generic & window.eq(LOCAL_WINDOW))
    with f.if_(generic):
        offset.set(address & ((1 << 56) - 1))
    with f.if_(is_shared):
        where = offset.get()
        fits = (where < shared_bytes) & (where + size <= shared_bytes)
        f.ret_if(fits, f.get(BLOCK, block, "shared").to("i64") + where)
        f.ret_if(~of_cluster, f.const("i64", 0))
        rank, place = _rank_and_offset(where)
        fits = (place < shared_bytes) & (place + size <= shared_bytes)
        f.ret_if(~fits, f.const("i64", 0))
        base = f.call(shared_of, worker, block, rank)
        f.ret(base.eq(0).select(base, base + place))
        f.b.position_at_end(f.block("dead"))
    with f.if_(is_local):
        where = offset.get()
        limit = f.get(WORKER, worker, "local_bytes")
        fits = (where < limit) & (where + size <= limit)
        f.ret_if(~fits, f.const("i64", 0))
        word = where & ~3 & ((1 << 64) - 1)
        f.ret(f.get(WARP, warp, "local").to("i64") + word * 32 + lane.to("i64") * 4 + (where & 3))
        f.b.position_at_end(f.block("dead"))
    index = f.call(find, worker, address)
    f.ret_if(index.eq((1 << 64) - 1), f.const("i64", 0))
    table = f.get(WORKER, worker, "allocations")
    start, end = f.load("i64", table, index * 16), f.load("i64", table, index * 16 + 8)
    # the part of it that the access's own pointer was given for
    meant = f.get(WORKER, worker, "meant") + site.to("i64") * 16
    low, high = f.load("i64", meant), f.load("i64", meant, 8)
    start, end = (start > low).select(start, low), (end < high).select(end, high)
    fits = (address >= start) & (address < end) & (address + size <= end)
    f.ret_if(~fits, f.const("i64", 0))
    slot = f.get(WORKER, worker, "slots") + site.to("i64") * 16
    f.store(start, slot)
    f.store(end, slot, 8)
    f.ret(address)
    return f.function


def _record_fault(f: NativeFunction, worker: Native, block: Native, warp: Native, site: Native, code: Native | int, lanes: Native) -> None:
    f.put(WORKER, worker, "fault_code", code)
    f.put(WORKER, worker, "fault_site", site)
    f.put(WORKER, worker, "fault_lanes", lanes)
    f.put(WORKER, worker, "fault_warp", f.get(WARP, warp, "index"))
    f.put(WORKER, worker, "fault_block", f.get(BLOCK, block, "linear"))


def _resolve_one(module: ir.Module, host_of: ir.Function) -> None:
    f = _function(module, "resolve_one")
    worker, block, warp, site, address, mask, size, align, space = f.args
    lane = f.first_lane(mask)
    misaligned = (address & (align - 1)).ne(0)
    with f.if_(misaligned):
        _record_fault(f, worker, block, warp, site, FAULT_MISALIGNED, mask)
        f.put(WORKER, worker, "fault_address", address, lane.to("i64"))
    host = f.call(host_of, worker, block, warp, site, address, lane, size, space)
    with f.if_(host.eq(0)):
        _record_fault(f, worker, block, warp, site, FAULT_BOUNDS, mask)
        f.put(WORKER, worker, "fault_address", address, lane.to("i64"))
    f.ret(host)


def _slow_load(module: ir.Module, bits: int, resolve: ir.Function, gather: ir.Function) -> None:
    """resolve and gather in one; after a fault the result is zero."""
    f = _function(module, f"slow_load{bits}")
    hosts = f.call(resolve, *f.args)
    f.ret_if(f.get(WORKER, f.args[0], "fault_code").ne(0), f.const(f"32xi{bits}", 0))
    f.ret(f.call(gather, hosts, f.args[5]))


def _slow_store(module: ir.Module, bits: int, resolve: ir.Function, scatter: ir.Function) -> None:
    """resolve and scatter in one; after a fault nothing is written."""
    f = _function(module, f"slow_store{bits}")
    hosts = f.call(resolve, *f.args[:-1])
    f.ret_if(f.get(WORKER, f.args[0], "fault_code").ne(0))
    f.call(scatter, hosts, f.args[5], f.args[-1])
    f.ret()


def _resolve(module: ir.Module, host_of: ir.Function, shared_of: ir.Function) -> ir.Function:
    f = _function(module, "resolve")
    worker, block, warp, site, addresses, mask, size, align, space = f.args
    # all lanes in the allocation that this site hit last
    slot = f.get(WORKER, worker, "slots") + site.to("i64") * 16
    low, high = f.load("i64", slot), f.load("i64", slot, 8)
    flat = (space.eq(SPACE["global"]) | space.eq(SPACE["const"]) | space.eq(SPACE["generic"])) & (low + size <= high) & (low < high)
    span = high - size - low
    outside = Native(f, f.b.icmp_unsigned(">", (addresses - f.splat(low)).v, f.splat(span).v))
    outside = outside | Native(f, f.b.icmp_unsigned("!=", (addresses & f.splat(align - 1)).v, f.const("32xi64", 0).v))
    none = (outside.to("i32") & mask).eq(0)
    f.ret_if(flat & none, addresses)
    limit = f.get(WORKER, worker, "shared_bytes")
    shared = space.eq(SPACE["shared"]) & (size <= limit)
    beyond = Native(f, f.b.icmp_unsigned(">", addresses.v, f.splat(limit - size).v))
    beyond = beyond | Native(f, f.b.icmp_unsigned("!=", (addresses & f.splat(align - 1)).v, f.const("32xi64", 0).v))
    f.ret_if(shared & (beyond.to("i32") & mask).eq(0), addresses + f.splat(f.get(BLOCK, block, "shared").to("i64")))
    _resolve_in_cluster(f, shared_of)
    hosts = f.variable("32xi64", addresses)
    bad = f.variable("i32", 0)
    code = f.variable("i32", FAULT_BOUNDS)
    stored = f.variable("32xi64", addresses)
    with f.each_lane(mask) as lane:
        address = f.load("i64", Native(f, stored.slot), lane.to("i64") * 8)
        host = f.call(host_of, worker, block, warp, site, address, lane, size, space)
        f.store(host, Native(f, hosts.slot), lane.to("i64") * 8)
        misaligned = (address & (align - 1)).ne(0)
        with f.if_(misaligned | host.eq(0)):
            with f.if_(bad.get().eq(0)):
                code.set(misaligned.select(f.const("i32", FAULT_MISALIGNED), f.const("i32", FAULT_BOUNDS)))
            bad.set(bad.get() | (f.const("i32", 1) << lane))
    with f.if_(bad.get().ne(0)):
        _record_fault(f, worker, block, warp, site, code.get(), bad.get())
        f.store(addresses, worker, WORKER.offset("fault_address"), align=64)
    f.ret(hosts.get())
    return f.function


def _resolve_in_cluster(f: NativeFunction, shared_of: ir.Function) -> None:
    """All lanes at shared memory of one block, be it this one's or another one's of the cluster: return from `resolve`."""
    worker, block, _, _, addresses, mask, size, align, space = f.args
    generic = space.eq(SPACE["generic"])
    window = generic.select(f.const("i64", SHARED_WINDOW), f.const("i64", 0))
    limit = f.get(WORKER, worker, "shared_bytes")
    able = (generic | space.eq(SPACE["shared::cluster"])) & (size <= limit) & mask.ne(0)
    with f.if_(able):
        first = f.element(addresses, f.first_lane(mask)) - window
        rank, _ = _rank_and_offset(first)
        with f.if_(first < 1 << 32):
            base = f.call(shared_of, worker, block, rank)
            places = addresses - f.splat(window + (rank << RANK_SHIFT))
            beyond = Native(f, f.b.icmp_unsigned(">", places.v, f.splat(limit - size).v))
            beyond = beyond | Native(f, f.b.icmp_unsigned("!=", (addresses & f.splat(align - 1)).v, f.const("32xi64", 0).v))
            f.ret_if(base.ne(0) & (beyond.to("i32") & mask).eq(0), places + f.splat(base))


def _gather(module: ir.Module, bits: int) -> ir.Function:
    f = _function(module, f"gather{bits}")
    addresses, mask = f.args
    size = bits // 8
    vector = f"32xi{bits}"
    # neighbouring lanes at neighbouring elements: one contiguous load
    first = f.element(addresses, 0)
    expected = f.splat(first) + f.lanes("i64") * size
    differs = Native(f, f.b.icmp_unsigned("!=", addresses.v, expected.v)).to("i32") & mask
    with f.if_(differs.eq(0)):
        name = f"llvm.masked.load.v32i{bits}.p0"
        f.ret(f.intrinsic(name, vector, first.to("ptr"), f.const("i32", size), mask.to("32xi1"), f.const(vector, 0)))
        f.b.position_at_end(f.block("dead"))
    if has_gather():
        wide = max(bits, 32)  # processors gather words: smaller elements are taken out of them
        aligned = addresses if bits >= 32 else addresses & (-4 & (1 << 64) - 1)
        pointers = Native(f, f.b.inttoptr(aligned.v, ir.VectorType(ir.PointerType(), 32)))
        name = f"llvm.masked.gather.v32i{wide}.v32p0"
        words = f.intrinsic(name, f"32xi{wide}", pointers, f.const("i32", wide // 8), mask.to("32xi1"), f.const(f"32xi{wide}", 0))
        f.ret(words if bits >= 32 else (words >> ((addresses & 3) << 3).to("32xi32")).to(vector))
        return f.function
    stored = f.variable("32xi64", addresses)
    result = f.variable(vector, 0)
    result.set(f.const(vector, 0))
    with f.each_lane(mask) as lane:
        at = f.load("i64", Native(f, stored.slot), lane.to("i64") * 8)
        f.store(f.load(f"i{bits}", at.to("ptr"), align=1), Native(f, result.slot), lane.to("i64") * size)
    f.ret(result.get())
    return f.function


def _scatter(module: ir.Module, bits: int) -> ir.Function:
    f = _function(module, f"scatter{bits}")
    addresses, mask, values = f.args
    size = bits // 8
    first = f.element(addresses, 0)
    expected = f.splat(first) + f.lanes("i64") * size
    differs = Native(f, f.b.icmp_unsigned("!=", addresses.v, expected.v)).to("i32") & mask
    with f.if_(differs.eq(0)):
        f.intrinsic(f"llvm.masked.store.v32i{bits}.p0", "void", values, first.to("ptr"), f.const("i32", size), mask.to("32xi1"))
        f.ret()
        f.b.position_at_end(f.block("dead"))
    if bits >= 32 and has_scatter():
        pointers = Native(f, f.b.inttoptr(addresses.v, ir.VectorType(ir.PointerType(), 32)))
        f.intrinsic(f"llvm.masked.scatter.v32i{bits}.v32p0", "void", values, pointers, f.const("i32", size), mask.to("32xi1"))
        f.ret()
        return f.function
    stored = f.variable("32xi64", addresses)
    source = f.variable(f"32xi{bits}", values)
    with f.each_lane(mask) as lane:
        at = f.load("i64", Native(f, stored.slot), lane.to("i64") * 8)
        f.store(f.load(f"i{bits}", Native(f, source.slot), lane.to("i64") * size), at.to("ptr"), align=1)
    f.ret()
    return f.function


def _fault(module: ir.Module) -> None:
    f = _function(module, "fault")
    worker, block, warp, site, code, lanes = f.args
    with f.if_(f.get(WORKER, worker, "fault_code").eq(0)):
        _record_fault(f, worker, block, warp, site, code, lanes)
    f.ret()
