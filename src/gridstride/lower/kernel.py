"""From a parsed module to native code: the passes in their order, the emission, the cache."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
from llvmlite import ir

from gridstride.cache import DiskCache, key_of
from gridstride.errors import GridstrideError, ParseError, UnsupportedError
from gridstride.ir.nodes import AddressOf, Const, Function, Kind, Op, Reg, Site
from gridstride.lower import access, calls
from gridstride.lower.emitter import Emitter, SymbolTable
from gridstride.lower.flow import Flow
from gridstride.lower.host import compile_object, host_cpu, host_features
from gridstride.passes.analyse_shapes import LaneLayout, ShapeAnalysis
from gridstride.passes.drop_unused_results import drop_unused_results
from gridstride.passes.find_speculated_loads import find_speculated_loads
from gridstride.passes.find_waiting import find_waiting, gather_before_exchanges, may_split
from gridstride.passes.order_blocks import order_blocks
from gridstride.passes.select_operations import select_operations
from gridstride.passes.select_real_calls import analyse_calls
from gridstride.passes.split_webs import liveness, split_webs
from gridstride.passes.trace_provenance import UNKNOWN, Provenance, trace_provenance
from gridstride.passes.track_definedness import track_definedness
from gridstride.ptx.nodes import Module, Variable
from gridstride.ptx.places import user_location

DYNAMIC_SHARED_ALIGNMENT = 16
GOOD_CODE_UP_TO = 7_000  # lines of LLVM IR
PASSES_UP_TO = 12_000  # with more, making values of all registers at all joins takes minutes and megabytes
FRAME_STACK_BYTES = 256 << 10  # of one group of lanes, where functions are called for real
LOCAL_STACK_BYTES = 64 << 10  # of one thread


@dataclass(frozen=True)
class KernelCode:
    """Native code of one kernel for one lane layout, and what the launch must know about it.

    sites: (PTX line, source file index, source line, opcode, space, bytes, inlined: list of (file, line)) of every
    access, barrier and trap, by number. symbols: names whose addresses the worker's table holds.
    """

    image: bytes
    frame_bytes: int
    local_bytes: int
    static_shared: int
    wait_start: int
    wait_count: int
    symbols: list[str]
    sites: list[list[Any]]
    provenance: list[list[Any]]  # of each site: parameter offset of the pointer (-1: unknown), variable name, whether it writes
    suspends: bool
    calls: bool
    merge: list[tuple[int, int]]
    instructions: list[list[list[Any]]]  # of each block: PTX line, file, line, opcode, site (-1: none), kind; only if it counts
    steady: list[list[int]]  # counts that follow from a block's: block, site, counter; how much an execution, and an active lane
    traits: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {**self.__dict__, "image": base64.b64encode(self.image).decode()}

    @staticmethod
    def from_json(data: dict[str, Any]) -> KernelCode:
        return KernelCode(**{**data, "image": base64.b64decode(data["image"])})


def parameter_layout(parameters: list[Variable]) -> tuple[dict[str, int], int]:
    """Offsets of a kernel's parameters, each aligned to its own type, and the bytes of them all."""
    offsets, end = {}, 0
    for parameter in parameters:
        start = -(-end // parameter.align) * parameter.align
        offsets[parameter.name] = start
        end = start + (parameter.size or 0)
    return offsets, end


def shared_layout(shared: Mapping[str, Variable]) -> tuple[dict[str, int], int]:
    """Offsets of shared variables; dynamic ones come after all others."""
    offsets, end = {}, 0
    static = [(n, v) for n, v in shared.items() if v.size is not None and not (v.extern and v.size == 0)]
    for name, variable in static:
        start = -(-end // variable.align) * variable.align
        offsets[name] = start
        end = start + (variable.size or 0)
    dynamic = [(n, v) for n, v in shared.items() if n not in offsets]
    if dynamic:
        align = max([DYNAMIC_SHARED_ALIGNMENT, *(v.align for _, v in dynamic)])
        end = -(-end // align) * align
        for name, _ in dynamic:
            offsets[name] = end
    return offsets, end


def compile_kernel(module: Module, name: str, layout: LaneLayout, profile: bool = False, checks: frozenset[str] = frozenset(), trusted: tuple[int, ...] = ()) -> KernelCode:
    """Native code of entry `name`, from the cache or made anew. `profile`: it counts."""
    cache = DiskCache("native", limit_bytes=512 << 20)
    key = key_of(hashlib.sha256(module.text.encode()).hexdigest(), name, layout.name, profile, sorted(checks), trusted, host_cpu(), host_features(), llvmlite.__version__, code_fingerprint())
    kept = cache.get(key)
    if kept is not None:
        return KernelCode.from_json(kept)
    try:
        code = _compile(module, name, layout, profile, checks, trusted)
    except GridstrideError:
        raise
    except Exception as error:  # a defect of ours, LLVM's complaints among them, ends one kernel and not the caller
        what = f"{type(error).__name__}: {error}"
        raise UnsupportedError(f"kernel `{name}` could not be turned into native code; this is a defect of Gridstride, please report it ({what})") from error
    cache.put(key, code.as_json())
    return code


@functools.cache
def code_fingerprint() -> str:
    """A hash of the code that makes native code: a change of it makes cached code stale."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for room in ("isa", "ptx", "ir", "passes", "lower"):
        for path in sorted((root / room).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _compile(module: Module, name: str, layout: LaneLayout, profile: bool, checks: frozenset[str], trusted: tuple[int, ...]) -> KernelCode:
    code, text = lower_to_llvm(module, name, layout, profile, checks, trusted)
    # what counts is straight and keeps no values: it does not make the passes slow, and the limits are those of the kernel without it
    lines = text.count("\n") * (2 if profile else 3) // 3
    # the code generator's quick mode makes large kernels in a third of the time; they run up to twice as long. Those
    # without any pass, too, and are made in a tenth to a hundredth of it
    image = compile_object(text, level=2 if lines < PASSES_UP_TO else None, codegen=2 if lines < GOOD_CODE_UP_TO else 0)
    return KernelCode(image, **code)


def lower_to_llvm(module: Module, name: str, layout: LaneLayout, profile: bool = False, checks: frozenset[str] = frozenset(), trusted: tuple[int, ...] = ()) -> tuple[dict[str, Any], str]:
    """All fields of the kernel's code but the image, and its LLVM IR as text."""
    functions = select_with_callees(module, name)
    # a call through a pointer leaves the kernel even where no function's address is taken
    stack = len(functions) > 1 or any(op.form is not None and op.form.text == "call.function" for b in functions[0].blocks for op in b.ops)
    shared = {n: v for f in functions for n, v in f.shared.items()}
    shared_offsets, static_shared = shared_layout(shared)
    names = sorted({a.name for f in functions for b in f.blocks for op in b.ops for a in op.args if isinstance(a, AddressOf) and a.space in ("global", "const")})
    numbers = function_numbers(module)
    indices = {n: k for k, n in enumerate(names)}
    llvm_module = ir.Module(name)
    flows, made = [], {}
    provenance: dict[int, Provenance] = {}  # unknown where functions are called for real
    instructions: list[list[list[Any]]] = []
    traits = dict.fromkeys(TRAITS, False)
    for function in functions:
        symbols = SymbolTable(indices, shared_offsets, *parameter_layout(function.parameters), numbers)
        native = f"function.{function.name}" if stack else "kernel"
        flow, own = _lower_function(function, layout, symbols, llvm_module, native, stack, profile, len(instructions), checks, trusted)
        flows.append(flow)
        if not stack:
            provenance = trace_provenance(function)
        instructions += [_instructions(block.ops, module.files) for block in function.blocks]
        traits = {k: v or own[k] for k, v in traits.items()}
        made[0 if function.entry else numbers[function.name]] = native
    frames = [-(-f.frame_bytes // 64) * 64 for f in flows]
    local = -(-functions[0].local_bytes // 16) * 16
    if stack:
        for function, size in zip(functions, frames, strict=True):
            calls.set_constant(llvm_module, f"frame.{function.name}", size)
        calls.set_constant(llvm_module, "frame.largest", max(frames))
        calls.set_constant(llvm_module, "local.largest", max(-(-f.local_bytes // 16) * 16 for f in functions))
        calls.build_dispatcher(llvm_module, made)
    places = sorted(flows[0].wait_places.values())
    fields = {
        "frame_bytes": FRAME_STACK_BYTES if stack else frames[0],
        "local_bytes": local + LOCAL_STACK_BYTES if stack else local,
        "static_shared": static_shared,
        "wait_start": places[0] if places and not stack else 0,
        "wait_count": len(places) if not stack else 0,
        "symbols": names,
        "sites": [_site(s, module.files) for s in functions[0].sites],
        "provenance": _provenance(provenance, functions[0], len(functions[0].sites)),
        "suspends": stack or bool(flows[0].resumes),
        "calls": stack,
        "instructions": instructions if profile else [],
        "steady": [list(entry) for flow in flows for entry in flow.e.steady],
        "merge": [] if stack else flows[0].merge_table() if flows[0].splits else [],
        "traits": traits,
    }
    return fields, str(llvm_module)


def function_numbers(module: Module) -> dict[str, int]:
    """What stands for each function in its address; 0 is the kernel that runs."""
    return {name: number for number, name in enumerate(module.functions, 1)}


def select_with_callees(module: Module, name: str) -> list[Function]:
    """The kernel and every function that it calls for real, directly or not. They number their sites together."""
    graph = analyse_calls(module)
    functions = [select_operations(module, name, graph)]
    wanted, known = sorted(functions[0].calls), {name}
    while wanted:
        callee = wanted.pop()
        if callee not in known:
            known.add(callee)
            functions.append(select_operations(module, callee, graph, functions[0].sites))
            wanted += sorted(functions[-1].calls)
    return functions


def _lower_function(
    function: Function, layout: LaneLayout, symbols: SymbolTable, llvm_module: ir.Module, native: str, stack: bool, profile: bool, first_number: int, checks: frozenset[str], trusted: tuple[int, ...]
) -> tuple[Flow, dict[str, Any]]:
    drop_unused_results(function)
    if "race-shared" in checks:
        find_speculated_loads(function)
    if "uninitialised" in checks:
        track_definedness(function, frozenset(trusted))
    loops = order_blocks(function)
    webs = split_webs(function)
    live = liveness(function)
    latches = {loop.latch.index for loop in loops if loop.latch is not None and loop.latch.index >= 0}
    spinning = _spinning_latches(function, loops)
    splits = bool(spinning) or stack
    shapes = ShapeAnalysis(function, webs, live, loops, layout, independent=splits).run()
    pending = find_waiting(function.blocks, shapes.divergent, latches)
    if may_split(function, pending) or splits:
        splits = True
        gather_before_exchanges(function)
        loops = order_blocks(function)
        webs = split_webs(function)
        live = liveness(function)
        latches = {loop.latch.index for loop in loops if loop.latch is not None and loop.latch.index >= 0}
        spinning = _spinning_latches(function, loops)
        shapes = ShapeAnalysis(function, webs, live, loops, layout, independent=True).run()
        pending = find_waiting(function.blocks, shapes.divergent, latches)
    emitter = Emitter(function, shapes, live, layout, symbols, llvm_module, native, stack, profile, checks)
    traits = _traits(function, bool(spinning))
    emitter.splits = splits
    emitter.orders = traits["fences"] and bool(checks & {"race-shared", "race-global"})
    _fix_parameters(emitter, function)
    flow = Flow(emitter, lambda op: lower_operation(emitter, op), spinning, latches, pending, splits, first_number)
    flow.run()
    return flow, traits


def access_provenance(module: Module, name: str) -> list[list[Any]]:
    """Of every access of a kernel where its address comes from, without making code (see KernelCode.provenance)."""
    functions = select_with_callees(module, name)
    drop_unused_results(functions[0])
    found = trace_provenance(functions[0]) if len(functions) == 1 else {}
    return _provenance(found, functions[0], len(functions[0].sites))


def _provenance(found: Mapping[int, Provenance], function: Function, count: int) -> list[list[Any]]:
    """Per site: the offset among the kernel's parameters of the pointer that the address was made from (-1: unknown,
    -2: a module variable), the variable's name, and whether the site writes."""
    offsets, _ = parameter_layout(function.parameters)
    writes = {
        op.site for b in function.blocks for op in b.ops if op.kind in (Kind.STORE, Kind.ATOMIC) and op.access is not None and op.access.space not in ("shared", "local")
    }
    table: list[list[Any]] = []
    for site in range(count):
        name, offset = found.get(site, UNKNOWN)
        place = offsets[name] + offset if name in offsets and offset >= 0 else -2 if offset == -2 else -1
        table.append([place, name if place == -2 else "", site in writes])
    return table


def _instructions(ops: list[Op], files: Mapping[int, str]) -> list[list[Any]]:
    """PTX line, source file and line, opcode, site, and "unused" for an atomic whose old value nobody reads."""
    found = []
    for op in ops:
        if op.line and not op.added and (op.form is not None or op.kind is Kind.BRANCH):
            text = op.form.text if op.form is not None else "bra"
            unused = op.kind is Kind.ATOMIC and (not op.results or op.results[0] is None)
            loc, _ = user_location(op.loc, files)
            found.append([op.line, loc.file if loc else None, loc.line if loc else None, text, op.site, "unused" if unused else ""])
    return found


def _site(site: Site, files: Mapping[int, str]) -> list[Any]:
    loc, calls_ = user_location(site.loc, files)
    inlined = [[call.file, call.line] for call in calls_]
    return [site.line, loc.file if loc else None, loc.line if loc else None, site.text, site.space, site.bytes, inlined]


def lower_operation(e: Emitter, op: Op) -> None:
    """Everything that is not control flow."""
    if op.results and op.results[0] in e.fixed and len(op.results) == 1:
        return
    try:
        if op.kind is Kind.COMPUTE:
            e.compute(op)
        elif op.kind is Kind.MOVE:
            e.move(op)
        elif op.kind is Kind.LOAD:
            access.load(e, op)
        elif op.kind is Kind.STORE:
            access.store(e, op)
        else:
            assert op.form is not None and op.form.operation.lower is not None
            op.form.operation.lower(e, op)
    except (UnsupportedError, ParseError) as error:
        if "PTX line" in str(error):
            raise
        text = op.form.text if op.form is not None else "an instruction"
        raise type(error)(f"PTX line {op.line}: `{text}`: {error}") from None


def _fix_parameters(e: Emitter, function: Function) -> None:
    """Registers that hold a parameter or a special register are made in the prologue, at every entry: nothing to save."""
    count: dict[int, int] = {}
    for block in function.blocks:
        for op in block.ops:
            for result in op.results:
                if result is not None:
                    count[result] = count.get(result, 0) + 1
    main, e.b = e.b, e.prologue
    e.values.b = e.values.scalar.b = e.values.warp.b = e.prologue
    for block in function.blocks:
        for op in block.ops:
            if len(op.results) != 1 or op.results[0] is None or count[op.results[0]] != 1 or op.guard is not None:
                continue
            value = _constant_over_launch(e, op)
            if value is not None:
                result = op.results[0]
                e.fixed[result] = e.values.coerce(value, e.shape(result)) if value.shape != e.shape(result) else value
    e.b = main
    e.values.b = e.values.scalar.b = e.values.warp.b = main


def _constant_over_launch(e: Emitter, op: Op) -> Any:
    from gridstride.ir.nodes import SpecialRegister
    from gridstride.isa.lanes import scalar_type
    from gridstride.lower.values import uniform

    result = op.results[0]
    assert result is not None
    if op.kind is Kind.LOAD and op.access is not None and op.access.space == "param" and op.access.count == 1 and op.access.element.bits <= 64:
        base = op.args[0]
        if isinstance(base, AddressOf) and base.space == "param":
            size = op.access.element.bytes
            offset = e.symbols.parameter_offsets[base.name] + base.offset
            if offset >= 0 and offset + size <= e.symbols.parameter_bytes and offset % size == 0:
                start = e.once("parameters", _worker(), e.worker, "parameters")
                place = e.prologue.gep(start, [ir.Constant(ir.IntType(64), offset)], source_etype=ir.IntType(8))
                loaded = e.prologue.load(place, typ=scalar_type(f"i{size * 8}"), align=size)
                return e.values.convert(uniform(f"i{size * 8}", loaded), e.storage(result), op.access.element.signed)
    if op.kind is Kind.MOVE and len(op.args) == 1 and isinstance(op.args[0], SpecialRegister):
        name = op.args[0].name
        if not name.startswith(("%clock", "%globaltimer")) or name.startswith("%cluster"):
            return e.values.convert(e.special(name), e.storage(result))
    return None


def _worker() -> Any:
    from gridstride.lower.records import WORKER

    return WORKER


def _spinning_latches(function: Function, loops: list[Any]) -> set[int]:
    """Latches of loops in which a thread may wait for another: they read memory that others may write."""
    found = set()
    for loop in loops:
        if loop.latch is None or loop.latch.index < 0:
            continue
        inside = [b for b in function.blocks if id(b) in loop.body]
        if any(_may_observe(op) for b in inside for op in b.ops) and _may_leave_by_it(inside, loop):
            found.add(loop.latch.index)
    return found


def _may_observe(op: Op) -> bool:
    if op.kind is Kind.ATOMIC:
        return bool(op.results) and op.results[0] is not None
    if op.kind is Kind.LOAD and op.access is not None:
        return op.access.ordering != "weak"
    return False


def _may_leave_by_it(inside: list[Any], loop: Any) -> bool:
    """Whether an exit of the loop may depend on what is observed in it (a forward slice over registers)."""
    tainted: set[int] = set()
    changed = True
    while changed:
        changed = False
        for block in inside:
            for op in block.ops:
                if _may_observe(op) or any(isinstance(a, Reg) and a.id in tainted for a in op.args) or (op.guard is not None and op.guard.id in tainted):
                    for result in op.results:
                        if result is not None and result not in tainted:
                            tainted.add(result)
                            changed = True
    # a branch on an observed value decides what else is assigned, so any tainted branch inside counts
    return any(
        b.ops[-1].kind is Kind.BRANCH and isinstance(b.ops[-1].args[0], Reg) and b.ops[-1].args[0].id in tainted for b in inside
    )


TRAITS = ("spins", "ordered", "atomics_used", "float_atomics", "barriers", "named_barriers", "partial_syncs", "cluster_barriers", "remote_shared", "fences")


def _traits(function: Function, spins: bool) -> dict[str, Any]:
    """What the launch must know to choose how to run blocks, and the race detector to judge."""
    ordered = atomics_used = float_atomics = barriers = named = partial = clusters = remote = fences = False
    for block in function.blocks:
        for op in block.ops:
            if op.kind is Kind.ATOMIC and op.access is not None:
                if op.access.space != "shared":
                    atomics_used |= bool(op.results) and op.results[0] is not None
                    float_atomics |= op.access.element.kind in "fh"
            elif op.access is not None and op.access.space not in ("shared", "local", "param") and op.access.ordering not in ("weak",):
                ordered = True
            elif op.info == "suspends":
                barriers = True
                plain = op.form is not None and ("warp" in op.form or op.form.operation.opcode == "call" or op.args == [Const(0)])
                named |= not plain
            if op.form is not None and op.form.operation.opcode == "warp_synced":
                partial |= op.args[0] not in (Const(0xFFFFFFFF), Const(-1))
            remote |= op.form is not None and op.form.operation.opcode == "mapa"
            if op.form is not None and op.form.operation.opcode in ("fence", "membar", "mbarrier"):
                fences = True
            if op.form is not None and op.form.operation.opcode == "barrier" and "cluster" in op.form:
                clusters = fences = True
            if op.access is not None and op.access.ordering in ("acquire", "release", "acq_rel"):
                fences = True
    found = (spins, ordered, atomics_used, float_atomics, barriers, named, partial, clusters, remote, fences)
    return dict(zip(TRAITS, found, strict=True))
