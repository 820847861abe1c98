"""Native code that keeps what orders the accesses of a block: barriers, __syncwarp, the beginning and the end of warps."""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.race_cells import TIME_MASK
from gridstride.lower.race_readers import clear_list_area
from gridstride.lower.records import BLOCK, RACE, WARP


def known_row(f: NativeFunction, race: Native, field: str, index: Native) -> Native:
    return race + (index.to("i64") * 128 + RACE.offset(field))


def _maximum(f: NativeFunction, a: Native, b: Native) -> Native:
    return Native(f, f.b.select(f.b.icmp_unsigned(">", a.v, b.v), a.v, b.v))


def tick(f: NativeFunction, race: Native) -> Native:
    """The time of a synchronisation; what comes after has a later one."""
    now = f.get(RACE, race, "event")
    f.put(RACE, race, "event", now + 1)
    return now


def _update_floor(f: NativeFunction, race: Native, index: Native, row: Native) -> None:
    least = f.intrinsic("llvm.vector.reduce.umin.v32i32", "i32", row)
    together = f.get(RACE, race, "together", index.to("i64"))
    f.put(RACE, race, "floor", (least < together).select(least, together), index.to("i64"))


def _restart(f: NativeFunction, race: Native) -> None:
    """Before times run out they begin anew: those of earlier blocks mean nothing to this one."""
    with f.if_(f.get(RACE, race, "event") > TIME_MASK >> 1):
        f.intrinsic("llvm.memset.p0.i64", "void", race, f.const("i8", 0), f.const("i64", RACE.size), f.const("i1", 0))
        f.put(RACE, race, "event", 1)


def build_warp_sync(module: ir.Module) -> None:
    """race_warp_sync(block, warp, mask, lanes): `lanes` go on after a __syncwarp of `mask`."""
    f = NativeFunction(module, "race_warp_sync", "void", ["ptr", "ptr", "i32", "i32"])
    block, warp, mask, lanes = f.args
    race, index = f.get(BLOCK, block, "race"), f.get(WARP, warp, "index")
    now = tick(f, race)
    everyone = f.get(WARP, warp, "alive") | f.get(WARP, warp, "others")
    with f.if_((everyone & ~mask).eq(0) & (lanes.eq(everyone) | lanes.eq(mask))):
        f.put(RACE, race, "together", now, index.to("i64"))
        _update_floor(f, race, index, f.load("32xi32", known_row(f, race, "known", index)))
        f.ret()
        f.b.position_at_end(f.block("dead"))
    joined = mask.to("32xi1").select(f.splat(now), f.const("32xi32", 0))
    with f.each_lane(lanes & mask) as lane:
        row = race + (((index * 32 + lane) * 128).to("i64") + RACE.offset("lanes"))
        f.store(_maximum(f, f.load("32xi32", row), joined), row)
    f.ret()


def build_arrive(module: ir.Module) -> None:
    """race_arrive(block, warp): the warp has come to barrier `barrier` of its record; what it knows is left there."""
    f = NativeFunction(module, "race_arrive", "void", ["ptr", "ptr"])
    block, warp = f.args
    race, index = f.get(BLOCK, block, "race"), f.get(WARP, warp, "index")
    now = tick(f, race)
    own = Native(f, f.b.icmp_unsigned("==", f.lanes("i32").v, f.splat(index).v))
    knows = own.select(f.splat(now), f.load("32xi32", known_row(f, race, "known", index)))
    place = known_row(f, race, "left", f.get(WARP, warp, "barrier"))
    f.store(_maximum(f, f.load("32xi32", place), knows), place)
    f.put(RACE, race, "together", now, index.to("i64"))
    f.ret()


def build_release(module: ir.Module) -> None:
    """race_release(block, warp): the warp goes on after its barrier, knowing what was left there."""
    f = NativeFunction(module, "race_release", "void", ["ptr", "ptr"])
    block, warp = f.args
    race, index = f.get(BLOCK, block, "race"), f.get(WARP, warp, "index")
    left = f.load("32xi32", known_row(f, race, "left", f.get(WARP, warp, "barrier")))
    place = known_row(f, race, "known", index)
    row = _maximum(f, f.load("32xi32", place), left)
    # a barrier of the whole block: nobody has done anything since, so all that was done is known, by warps that have ended too
    whole = f.get(WARP, warp, "barrier_count").eq(0)
    ended = f.load("32xi32", race, RACE.offset("ended"))
    row = _maximum(f, row, Native(f, f.b.select(whole.v, ended.v, f.const("32xi32", 0).v)))
    past = f.get(RACE, race, "event") - 1
    with f.if_(whole):
        f.put(RACE, race, "together", past, index.to("i64"))
    row = _maximum(f, row, f.splat(whole.select(past, f.const("i32", 0))))
    f.store(row, place)
    _update_floor(f, race, index, row)
    f.ret()


def build_begin(module: ir.Module) -> None:
    """race_begin(block, warps): a block starts; whatever ran here before is past."""
    f = NativeFunction(module, "race_begin", "void", ["ptr", "i32"])
    block, warps = f.args
    race = f.get(BLOCK, block, "race")
    _restart(f, race)
    clear_list_area(f, f.get(BLOCK, block, "shared_lists"))
    now = tick(f, race)
    past = f.splat(now)
    absent = Native(f, f.b.icmp_unsigned(">=", f.lanes("i32").v, f.splat(warps).v))
    row = absent.select(f.const("32xi32", 0x7FFFFFFF), past)
    with f.count_to(warps) as k:
        f.store(row, known_row(f, race, "known", k))
    with f.count_to(f.const("i32", 18)) as k:
        f.store(past, known_row(f, race, "left", k))
    f.store(past, race, RACE.offset("together"))
    f.store(past, race, RACE.offset("floor"))
    f.store(past, race, RACE.offset("ended"))
    f.ret()


def build_exit(module: ir.Module) -> None:
    """race_exit(block, warp): a warp has ended; barriers that complete without it order its accesses all the same."""
    f = NativeFunction(module, "race_exit", "void", ["ptr", "ptr"])
    block, warp = f.args
    race, index = f.get(BLOCK, block, "race"), f.get(WARP, warp, "index")
    now = tick(f, race)
    own = Native(f, f.b.icmp_unsigned("==", f.lanes("i32").v, f.splat(index).v))
    knows = own.select(f.splat(now), f.load("32xi32", known_row(f, race, "known", index)))
    place = race + RACE.offset("ended")
    f.store(_maximum(f, f.load("32xi32", place), knows), place)
    f.ret()
