"""What a kernel asks of the host: printf, assert, malloc, free; and trap."""

from __future__ import annotations

from llvmlite import ir

from gridstride.ir.nodes import Op
from gridstride.isa.lanes import vector_type
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.records import FAULT_TRAP, HOST_REQUESTS, WORKER
from gridstride.lower.runtime_table import call_runtime
from gridstride.lower.values import uniform, varying


def trap(e: Emitter, op: Op) -> None:
    call_runtime(e, "fault", [e.worker, e.block, e.warp, ir.Constant(I32, op.site), ir.Constant(I32, FAULT_TRAP), e.active])
    e.stop_if_faulted()


def lower(e: Emitter, op: Op) -> None:
    """The arguments of all lanes go to the worker's record; the host reads them there and answers there."""
    assert op.form is not None
    request = op.form.one_of(*HOST_REQUESTS)
    for k, arg in enumerate(op.args):
        vector = e.values.vector(e.read(arg, "i64"))
        place = e.b.gep(e.worker, [ir.Constant(I64, WORKER.offset("host_arguments") + 256 * k)], source_etype=I8)
        e.b.store(vector, place, align=64)
    arguments = [e.worker, e.block, e.warp, ir.Constant(I32, HOST_REQUESTS.index(request)), ir.Constant(I32, op.site), e.active]
    call_runtime(e, "host", arguments)
    e.stop_if_faulted()
    if op.results and op.results[0] is not None:
        place = e.b.gep(e.worker, [ir.Constant(I64, WORKER.offset("host_arguments"))], source_etype=I8)
        answers = varying("i64", e.b.load(place, typ=vector_type("i64"), align=64))
        e.set(op.results[0], e.values.convert(answers, "i64" if request == "malloc" else "i32"), op)


def no_policy(e: Emitter, op: Op) -> None:
    """createpolicy: 0."""
    if op.results[0] is not None:
        e.set(op.results[0], uniform("i64", ir.Constant(I64, 0)), op)
