"""What a checked kernel does beside its work: tell the detectors of each access and each meeting of lanes."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gridstride.ir.nodes import Arg, Kind, Op
from gridstride.isa.lanes import vector_type
from gridstride.isa.windows import LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.race_cells import ATOMIC, SIZE_SHIFT, VALUES_KNOWN, VOLATILE, WRITES
from gridstride.lower.records import BLOCK, HOST_REQUESTS, SPACES, WARP, WORKER, finding_code
from gridstride.lower.runtime_table import call_runtime
from gridstride.lower.target import Target, halves, resolved


def check_access(e: Emitter, t: Target, values: list[ir.Value]) -> None:
    """Before an access: the exact bounds (its shadow lies at the same place), then the detectors that are on.

    values: what a store will write, a vector an element."""
    if t.space == "local" or t.op.access is None or t.op.access.space in ("const", "param"):
        return
    covers = "double-write" in e.checks and t.space == "flat" and t.op.kind is not Kind.LOAD
    races = bool(e.checks & {"race-shared", "race-global"})
    if covers or races:
        _tally(e, t)
    if covers:  # addresses of shared and local memory are in none of the outputs
        call_runtime(e, "cover_write", [e.worker, e.block, e.warp, ir.Constant(I32, t.op.site), e.values.vector(t.address), e.active, ir.Constant(I32, t.bytes)])
    if not races:
        return
    if t.op.kind is Kind.LOAD and t.space == "flat" and (not e.orders or t.op.access.ordering == "weak"):
        quiet = e.b.load(e.b.gep(e.once("quiet", WORKER, e.worker, "quiet"), [ir.Constant(I64, t.op.site)], source_etype=I8), typ=I8)
        look, done = e.native.append_basic_block("look at"), e.native.append_basic_block("looked at")
        e.b.cbranch(e.b.icmp_unsigned("==", quiet, ir.Constant(I8, 0)), look, done)
        e.b.position_at_end(look)
        _check_races(e, t, values)
        e.b.branch(done)
        e.b.position_at_end(done)
        return
    _check_races(e, t, values)


def _check_races(e: Emitter, t: Target, values: list[ir.Value]) -> None:
    assert t.op.access is not None
    order_access(e, t, resolved(e, t))
    addresses = e.values.vector(t.address)
    if t.op.access.space != "generic":
        space = "shared" if t.space == "shared" else "global"
        if f"race-{space}" in e.checks:
            if t.op.access.cluster:
                _tell_some(e, t, addresses, space, values, e.b.and_(e.active, _own_shared(e, addresses, 0)))
            else:
                _tell(e, t, addresses, space, values, _in_earnest(e, t))
        return
    # each lane's generic address may be of another space
    top = e.b.lshr(addresses, e.values.warp.const("i64", 56))
    of_shared, of_local = (
        e.b.bitcast(e.b.icmp_unsigned("==", top, e.values.warp.const("i64", window >> 56)), I32) for window in (SHARED_WINDOW, LOCAL_WINDOW)
    )
    inside = e.b.sub(addresses, e.values.warp.const("i64", SHARED_WINDOW))
    for space, places, lanes in (
        ("shared", inside, e.b.and_(e.active, _own_shared(e, addresses, SHARED_WINDOW))),
        ("global", addresses, e.b.and_(e.active, e.b.not_(e.b.or_(of_shared, of_local)))),
    ):
        if f"race-{space}" in e.checks:
            _tell_some(e, t, places, space, values, lanes)


def _in_earnest(e: Emitter, t: Target) -> ir.Value:
    """The active lanes, without those that read something of which the value cannot matter (`passes/find_speculated_loads.py`)."""
    if t.op.kind is not Kind.LOAD or len(t.op.args) == 1:
        return e.active
    return e.b.and_(e.active, e.b.bitcast(e.values.vector(e.predicate(t.op.args[1])), I32))


def _own_shared(e: Emitter, addresses: ir.Value, window: int) -> ir.Value:
    """Lanes whose address is in the block's own shared memory: the shadow of another block's is not looked at."""
    above = e.b.lshr(addresses, e.values.warp.const("i64", RANK_SHIFT))
    return e.b.bitcast(e.b.icmp_unsigned("==", above, e.values.warp.const("i64", window >> RANK_SHIFT)), I32)


def _tell_some(e: Emitter, t: Target, addresses: ir.Value, space: str, values: list[ir.Value], lanes: ir.Value) -> None:
    """`_tell`, of lanes of which there may be none."""
    some, done = e.native.append_basic_block(f"some.{space}"), e.native.append_basic_block("told")
    e.b.cbranch(e.b.icmp_unsigned("!=", lanes, ir.Constant(I32, 0)), some, done)
    e.b.position_at_end(some)
    _tell(e, t, addresses, space, values, lanes)
    e.b.branch(done)
    e.b.position_at_end(done)


def _tally(e: Emitter, t: Target) -> None:
    """For the receipt: accesses and bytes looked at."""
    function = e.module.globals.get("llvm.ctpop.i32") or ir.Function(e.module, ir.FunctionType(I32, [I32]), "llvm.ctpop.i32")
    lanes = e.b.zext(e.b.call(function, [e.active]), I64)
    for field, amount in (("accesses", ir.Constant(I64, 1)), ("access_bytes", e.b.mul(lanes, ir.Constant(I64, t.bytes)))):
        place = e.b.gep(e.worker, [ir.Constant(I64, WORKER.offset(field))], source_etype=I8)
        e.b.store(e.b.add(e.b.load(place, typ=I64), amount), place)


def _tell(e: Emitter, t: Target, addresses: ir.Value, space: str, values: list[ir.Value], lanes: ir.Value) -> None:
    """One call of the race detector for the access by `lanes`."""
    op = t.op
    assert op.access is not None
    how = t.bytes << SIZE_SHIFT
    how |= ATOMIC if op.kind is Kind.ATOMIC else VOLATILE if op.access.ordering != "weak" else 0
    if op.kind is not Kind.LOAD:
        how |= WRITES
    if op.kind is Kind.STORE and op.access.ordering == "weak" and values:
        how |= VALUES_KNOWN
        for number, word in enumerate(_words(e, t, values)):
            place = e.b.gep(e.worker, [ir.Constant(I64, WORKER.offset("race_values") + 128 * number)], source_etype=I8)
            e.b.store(word, place, align=64)
    arguments = [e.worker, e.block, e.warp, ir.Constant(I32, op.site), addresses, lanes, ir.Constant(I32, how), ir.Constant(I32, SPACES.index(space))]
    call_runtime(e, "race_access", arguments)


def _words(e: Emitter, t: Target, values: list[ir.Value]) -> list[ir.Value]:
    """What a store writes, in 32-bit words."""
    word = vector_type("i32")
    if t.bits == 64:
        return [half for value in values for half in halves(e, value)]
    if t.bits == 32:
        return values
    words: list[ir.Value] = []
    per_word = 32 // t.bits
    for number, value in enumerate(values):
        wide = e.b.zext(value, word)
        if number % per_word == 0:
            words.append(wide)
        else:
            words[-1] = e.b.or_(words[-1], e.b.shl(wide, e.values.warp.const("i32", t.bits * (number % per_word))))
    return words


def check_shuffle(e: Emitter, op: Op, sources: ir.Value, inside: ir.Value) -> None:
    """A lane may only read lanes that are here and named. sources: the lane each one reads; inside: whether it reads
    another lane at all (PTX ISA 9.7.9.6)."""
    if "warp-mask" not in e.checks or op.form is None or "sync" not in op.form:
        return
    b = e.b
    named = e.values.vector(e.read(op.args[-1], "i32"))
    here = b.and_(named, e.splat(e.present_lanes()))
    present = b.and_(b.lshr(here, sources), e.values.warp.const("i32", 1))
    absent = b.and_(inside, b.icmp_unsigned("==", present, e.values.warp.const("i32", 0)))
    note_lanes(e, op, absent, "warp-mask", "reads-absent-lane")


def check_membership(e: Emitter, op: Op, mask: Arg) -> None:
    """A lane that calls a warp-wide operation must be named in its mask."""
    if "warp-mask" not in e.checks:
        return
    b = e.b
    named = e.values.vector(e.read(mask, "i32"))
    own = ir.Constant(vector_type("i32"), [ir.Constant(I32, 1 << k) for k in range(32)])
    missing = b.icmp_unsigned("==", b.and_(named, own), e.values.warp.const("i32", 0))
    note_lanes(e, op, missing, "warp-mask", "caller-not-in-mask")


def note_lanes(e: Emitter, op: Op, lanes: ir.Value, kind: str, detail: str, find: Callable[[ir.Value], tuple[ir.Value, ir.Value]] | None = None) -> None:
    """A finding for the lowest of the active lanes in which the condition holds. find: emits code that finds another site and an
    address for a lane."""
    b = e.b
    bad = b.and_(b.bitcast(lanes, I32), e.active)
    found, clean = e.native.append_basic_block("found"), e.native.append_basic_block("clean")
    b.cbranch(b.icmp_unsigned("!=", bad, ir.Constant(I32, 0)), found, clean).set_weights([1, 100_000])
    b.position_at_end(found)
    name = "llvm.cttz.i32"
    function = e.module.globals.get(name) or ir.Function(e.module, ir.FunctionType(I32, [I32, ir.IntType(1)]), name)
    lane = b.call(function, [bad, ir.Constant(ir.IntType(1), 0)])
    thread = b.add(b.mul(e.field(b, WARP, e.warp, "index"), ir.Constant(I32, 32)), lane)
    other_site, where = find(lane) if find is not None else (ir.Constant(I32, -1), ir.Constant(I64, 0))
    code = ir.Constant(I32, finding_code(kind, "error", detail))
    call_runtime(e, "note_finding", [e.worker, e.block, code, ir.Constant(I32, op.site), other_site, thread, ir.Constant(I64, 0), where])
    b.branch(clean)
    b.position_at_end(clean)


def note_ending(e: Emitter, early: bool) -> None:
    """Lanes end: at a branch that leaves the kernel, or after whatever else there was to do."""
    if "divergent-barrier" in e.checks:
        place = e.b.gep(e.block, [ir.Constant(I64, BLOCK.offset("ended_early" if early else "ended_after_work"))], source_etype=I8)
        e.b.store(e.b.add(e.b.load(place, typ=I32), ir.Constant(I32, 1)), place)


def order_access(e: Emitter, t: Target, hosts: ir.Value) -> None:
    """Tell the host of an operation by which threads may pass on what they know."""
    op = t.op
    assert op.access is not None
    ordering = op.access.ordering
    if ordering == "weak" or not e.orders:
        return
    if ordering in ("release", "acq_rel"):
        fence(e, op.access.scope, op.site)
    what = {Kind.LOAD: "order.read", Kind.STORE: "order.write"}.get(op.kind, "order.update")
    _say_where(e, hosts)
    _ask(e, what, op.site)
    if ordering in ("acquire", "acq_rel"):
        fence(e, op.access.scope, op.site)


def mbarrier_arrives(e: Emitter, t: Target, hosts: ir.Value) -> None:
    """The active lanes arrive at mbarriers and leave there what they know."""
    assert t.op.access is not None
    if e.orders:
        _say_where(e, hosts)
        _ask(e, f"mbarrier.arrive.{t.op.access.scope}", t.op.site)


def mbarrier_waited(e: Emitter, t: Target, hosts: ir.Value, lanes: ir.Value) -> None:
    """`lanes` (there may be none) have found the phase that they wait for complete."""
    if not e.orders:
        return
    assert t.op.access is not None
    some, done = e.native.append_basic_block("acquires"), e.native.append_basic_block("acquired")
    e.b.cbranch(e.b.icmp_unsigned("!=", lanes, ir.Constant(I32, 0)), some, done)
    e.b.position_at_end(some)
    _say_where(e, hosts)
    _ask(e, f"mbarrier.wait.{t.op.access.scope}", t.op.site, lanes)
    e.b.branch(done)
    e.b.position_at_end(done)


def fence(e: Emitter, scope: str, site: int) -> None:
    """A fence, or the half of one that an acquire or a release is."""
    if e.orders:
        _ask(e, "fence.cta" if scope == "cta" else "fence.gpu", site)


def _say_where(e: Emitter, hosts: ir.Value) -> None:
    """The host addresses that the next request is about: a shared address alone does not say whose it is."""
    place = e.b.gep(e.worker, [ir.Constant(I64, WORKER.offset("host_arguments"))], source_etype=I8)
    e.b.store(hosts, place, align=64)


def _ask(e: Emitter, what: str, site: int, lanes: ir.Value | None = None) -> None:
    constants = [ir.Constant(I32, HOST_REQUESTS.index(what)), ir.Constant(I32, site)]
    call_runtime(e, "host", [e.worker, e.block, e.warp, *constants, e.active if lanes is None else lanes])


def cluster_arrive(e: Emitter, op: Op, barrier: ir.Value) -> None:
    """The active lanes arrive at the cluster's barrier; `barrier` is its number among those that the detector knows."""
    if not e.checks & {"race-shared", "race-global"}:
        return
    e.put_field(WARP, e.warp, "barrier", barrier)
    call_runtime(e, "race_arrive", [e.block, e.warp])
    assert op.form is not None
    if e.orders and "relaxed" not in op.form:
        _ask(e, "cluster.arrive", op.site)


def cluster_synced(e: Emitter, op: Op) -> None:
    """The active lanes go on after the cluster's barrier: what the detector knows of blocks beside theirs is the host's."""
    if e.orders:
        _ask(e, "cluster.wait", op.site)


def warp_synced(e: Emitter, op: Op) -> None:
    """The active lanes go on after a __syncwarp."""
    if not e.checks & {"race-shared", "race-global"}:
        return
    # for the detector, which looks there; the warp begins its next block with what was there before
    begun_with = e.field(e.b, WARP, e.warp, "alive")
    e.put_field(WARP, e.warp, "alive", e.live_lanes())
    _order_groups(e, op)
    e.put_field(WARP, e.warp, "alive", begun_with)


def _order_groups(e: Emitter, op: Op) -> None:
    """Lanes with one mask have met, and what they did before comes before what they do now."""
    mask = e.read(op.args[0], "i32")
    if mask.shape.kind == "uniform":
        call_runtime(e, "race_warp_sync", [e.block, e.warp, mask.parts[0], e.active])
        return
    # lanes with different masks meet in groups of their own, such as the tiles of a warp
    b, masks = e.b, e.values.vector(mask)
    before, head = b.block, e.native.append_basic_block("groups")
    body, done = e.native.append_basic_block("group"), e.native.append_basic_block("grouped")
    active = e.active
    b.branch(head)
    b.position_at_end(head)
    left = b.phi(I32)
    left.add_incoming(active, before)
    b.cbranch(b.icmp_unsigned("!=", left, ir.Constant(I32, 0)), body, done)
    b.position_at_end(body)
    name = "llvm.cttz.i32"
    function = e.module.globals.get(name) or ir.Function(e.module, ir.FunctionType(I32, [I32, ir.IntType(1)]), name)
    own = b.extract_element(masks, b.call(function, [left, ir.Constant(ir.IntType(1), 0)]))
    group = b.and_(b.bitcast(b.icmp_unsigned("==", masks, e.splat(own)), I32), active)
    call_runtime(e, "race_warp_sync", [e.block, e.warp, own, group])
    left.add_incoming(b.and_(left, b.not_(group)), b.block)
    b.branch(head)
    b.position_at_end(done)
