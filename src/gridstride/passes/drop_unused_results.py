"""Forget results that nobody reads: an atomic without a reader of its old value is a reduction."""

from __future__ import annotations

from gridstride.ir.nodes import Function, Kind


def drop_unused_results(function: Function) -> None:
    """Results of atomics whose register is read nowhere become None."""
    read: set[int] = set()
    for block in function.blocks:
        for op in block.ops:
            read.update(op.uses())
    for block in function.blocks:
        for op in block.ops:
            if op.kind is Kind.ATOMIC:
                op.results = [r if r in read else None for r in op.results]
