"""Calls that are not inlined: recursion, function pointers.

A call is a suspension. The caller saves what is alive in its frame, makes a frame for the callee behind it and
returns CALL; the dispatcher, which is what the scheduler calls, goes on with the function that is then on top. So
barriers, yields and divergence work in a called function as they do in the kernel. Arguments and results lie in
local memory, where the callee's part begins behind the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from gridstride.ir.nodes import Block, Op
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.native import POINTER, NativeFunction
from gridstride.lower.records import CALL, FAULT_STACK, FAULT_TRAP, FRAME, FUNCTION_STEP, FUNCTION_WINDOW, WARP, WORKER
from gridstride.lower.runtime_table import call_runtime

if TYPE_CHECKING:
    from gridstride.lower.flow import Flow

def frame_size_constant(module: ir.Module, name: str) -> ir.GlobalVariable:
    """The constant that will hold the bytes of a function's frame, once its code is made."""
    known = module.globals.get(name)
    if known is None:
        known = ir.GlobalVariable(module, I64, name)
        known.linkage = "internal"
        known.global_constant = True
        known.type = POINTER
    return known


def set_constant(module: ir.Module, name: str, value: int) -> None:
    frame_size_constant(module, name).initializer = ir.Constant(I64, value)


def _constant(e: Emitter, name: str) -> ir.Value:
    slot = frame_size_constant(e.module, name)
    return e.b.load(slot, typ=I64)


def call(flow: Flow, op: Op, block: Block) -> None:
    """Leave the caller for the function whose address the operation has."""
    e = flow.e
    b = e.b
    address = _target(e, op)
    distance = b.sub(address, ir.Constant(I64, FUNCTION_WINDOW))
    whole = b.lshr(distance, ir.Constant(I64, FUNCTION_STEP.bit_length() - 1))
    # number 0 is the kernel, which has no address; what is between two functions' addresses is none either
    aligned = b.icmp_unsigned("==", b.and_(distance, ir.Constant(I64, FUNCTION_STEP - 1)), ir.Constant(I64, 0))
    good = b.and_(aligned, b.icmp_unsigned("<", b.sub(whole, ir.Constant(I64, 1)), ir.Constant(I64, 1 << 31)))
    number = b.select(good, b.trunc(whole, I32), ir.Constant(I32, -1))
    start = e.field(b, WARP, e.warp, "frame")
    new = b.add(start, _constant(e, f"frame.{e.function.name}"))
    local_base = b.add(e.field(b, FRAME, e.frame, "local_base"), ir.Constant(I64, callee_local_start(e)))
    room = b.icmp_unsigned("<=", b.add(new, _constant(e, "frame.largest")), e.field(b, WORKER, e.worker, "frame_bytes"))
    local_room = b.icmp_unsigned("<=", b.add(local_base, _constant(e, "local.largest")), e.field(b, WORKER, e.worker, "local_bytes"))
    fits, overflow = e.native.append_basic_block("call"), e.native.append_basic_block("stack overflow")
    b.cbranch(b.and_(room, local_room), fits, overflow)
    b.position_at_end(overflow)
    call_runtime(e, "fault", [e.worker, e.block, e.warp, ir.Constant(I32, op.site), ir.Constant(I32, FAULT_STACK), e.active])
    b.branch(e.stopped)
    b.position_at_end(fits)
    target = block.targets[0].index
    resume = flow.save(block, target)
    e.put_field(FRAME, e.frame, "resume", ir.Constant(I32, resume))
    e.put_field(FRAME, e.frame, "function", ir.Constant(I32, 0 if e.function.entry else e.symbols.function_ids[e.function.name]))
    e.put_field(FRAME, e.frame, "active", e.active)
    e.put_field(FRAME, e.frame, "alive", b.load(flow.alive, typ=I32))
    frame = b.gep(e.warp, [new], source_etype=I8)
    e.put_field(FRAME, frame, "previous", start)
    e.put_field(FRAME, frame, "local_base", local_base)
    e.put_field(WARP, e.warp, "frame", new)
    e.put_field(WARP, e.warp, "function", number)
    e.put_field(WARP, e.warp, "alive", e.active)
    e.put_field(WARP, e.warp, "active", e.active)
    e.put_field(WARP, e.warp, "resume", ir.Constant(I32, 0))
    b.ret(ir.Constant(I32, CALL))


def _target(e: Emitter, op: Op) -> ir.Value:
    from gridstride.passes.analyse_shapes import UNIFORM

    value = e.read(op.args[0], "i64")
    if value.shape == UNIFORM:
        return value.parts[0]
    return first_active(e, e.values.vector(value))


def first_active(e: Emitter, vector: ir.Value) -> ir.Value:
    """The element of the lowest active lane."""
    name = "llvm.cttz.i32"
    function = e.module.globals.get(name) or ir.Function(e.module, ir.FunctionType(I32, [I32, ir.IntType(1)]), name)
    lane = e.b.and_(e.b.call(function, [e.active, ir.Constant(ir.IntType(1), 0)]), ir.Constant(I32, 31))
    return e.b.extract_element(vector, lane)


def callee_local_start(e: Emitter) -> int:
    """Where a callee's local memory begins, from the beginning of this function's."""
    return -(-e.function.local_bytes // 16) * 16


def leave_function(flow: Flow) -> None:
    """All lanes have returned (or ended): go back to the caller."""
    e = flow.e
    b = e.b
    previous = e.field(b, FRAME, e.frame, "previous")
    caller = b.gep(e.warp, [previous], source_etype=I8)
    staying = b.and_(e.field(b, WARP, e.warp, "lanes"), b.not_(e.field(b, WARP, e.warp, "exited")))
    e.put_field(WARP, e.warp, "frame", previous)
    e.put_field(WARP, e.warp, "function", e.field(b, FRAME, caller, "function"))
    e.put_field(WARP, e.warp, "resume", e.field(b, FRAME, caller, "resume"))
    e.put_field(WARP, e.warp, "active", b.and_(e.field(b, FRAME, caller, "active"), staying))
    e.put_field(WARP, e.warp, "alive", b.and_(e.field(b, FRAME, caller, "alive"), staying))
    e.put_field(WARP, e.warp, "pending", ir.Constant(I32, 0))
    b.ret(ir.Constant(I32, CALL))


def build_dispatcher(module: ir.Module, functions: dict[int, str]) -> None:
    """`kernel(worker, block, warp)`: run the function on top until the warp waits, ends or stops."""
    f = NativeFunction(module, "kernel", "i32", ["ptr", "ptr", "ptr"])
    worker, block, warp = f.args
    with f.loop():
        number = f.get(WARP, warp, "function")
        state = f.variable("i32", CALL)
        state.set(CALL)
        unknown, after = f.block("unknown"), f.block("after")
        switch = f.b.switch(number.v, unknown)
        for key, name in functions.items():
            case = f.block(f"function{key}")
            switch.add_case(ir.Constant(I32, key), case)
            f.b.position_at_end(case)
            state.set(f.call(module.globals[name], worker, block, warp))
            f.b.branch(after)
        f.b.position_at_end(unknown)  # a pointer that is no function's address
        f.put(WORKER, worker, "fault_code", FAULT_TRAP)
        f.put(WORKER, worker, "fault_site", f.get(WARP, warp, "site"))
        f.put(WORKER, worker, "fault_lanes", f.get(WARP, warp, "active"))
        f.put(WORKER, worker, "fault_warp", f.get(WARP, warp, "index"))
        f.ret(3)
        f.b.position_at_end(after)
        f.ret_if(state.get().ne(CALL), state.get())
    f.b.unreachable()
