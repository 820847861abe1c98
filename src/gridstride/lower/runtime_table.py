"""Calling the shared functions from a kernel: through the worker's table, so that native code holds no address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from gridstride.lower.native import POINTER, call_pointer, native_type
from gridstride.lower.records import RUNTIME_FUNCTIONS, WORKER

if TYPE_CHECKING:
    from gridstride.lower.emitter import Emitter

_NUMBERS = {name: number for number, name in enumerate(RUNTIME_FUNCTIONS)}


def call_runtime(e: Emitter, name: str, arguments: list[ir.Value]) -> ir.Value:
    """Call shared function `name` at the emitter's place."""
    result, kinds = RUNTIME_FUNCTIONS[name]
    signature = ir.FunctionType(native_type(result), [native_type(k) for k in kinds])
    i64, i8 = ir.IntType(64), ir.IntType(8)
    table = e.b.load(e.b.gep(e.worker, [ir.Constant(i64, WORKER.offset("runtime"))], source_etype=i8), typ=POINTER)
    pointer = e.b.load(e.b.gep(table, [ir.Constant(i64, 8 * _NUMBERS[name])], source_etype=i8), typ=POINTER)
    return call_pointer(e.b, pointer, signature, arguments)
