"""Floating-point operations, counted from PTX opcodes as Nsight Compute counts them from machine instructions.

One PTX `add`, `sub`, `mul`, `fma` or `mad` of 32 or 64 bits becomes one machine instruction of the same kind, so the threads
that ran it are Nsight's `smsp__sass_thread_inst_executed_op_{f,d}{add,mul,fma}_pred_on.sum`. Packed halves count once there,
too (two FLOPs), and of theirs ptxas makes every other addition or multiplication a fused multiply-add, to use both pipes;
it also packs two scalar halves into one instruction where it can (tests/metrics/half_counts_h200.json). What has no such
counterpart counts nothing here although the machine makes several additions and multiplications of it: division,
square roots, reciprocals and the like. A launch that ran one of those has `expanded` set, and its counts are a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from gridstride.observers.metrics.profile import InstructionCounts

Width = Literal["h", "f", "d"]
Operation = Literal["add", "mul", "fma"]
WIDTHS: tuple[Width, ...] = ("h", "f", "d")
OPERATIONS: tuple[Operation, ...] = ("add", "mul", "fma")

_OPERATION: dict[str, Operation] = {"add": "add", "sub": "add", "mul": "mul", "fma": "fma", "mad": "fma"}
# type of PTX → (width, values side by side in one register)
_TYPES: dict[str, tuple[Width, int]] = {
    "f16": ("h", 1),
    "bf16": ("h", 1),
    "f16x2": ("h", 2),
    "bf16x2": ("h", 2),
    "f32": ("f", 1),
    "f32x2": ("f", 2),
    "f64": ("d", 1),
}
# PTX that the machine has no single instruction for: ptxas puts additions and multiplications in its place.
_EXPANDED = frozenset({"div", "sqrt", "rcp", "rsqrt"})


@dataclass(frozen=True)
class FloatingKind:
    """What one execution of an instruction is for one thread: `values` operations of a kind and width."""

    operation: Operation
    width: Width
    values: int


@lru_cache(maxsize=4096)
def floating_kind(opcode: str) -> FloatingKind | None:
    """The kind of a PTX opcode such as `fma.rn.ftz.f32`; None for one that is no addition, multiplication or fma of floats.

    Where an instruction names two types (`add.f32.f16`: PTX ISA, mixed precision), the first is the one it computes in.
    """
    head, *parts = opcode.split(".")
    operation = _OPERATION.get(head)
    kind = next((_TYPES[part] for part in parts if part in _TYPES), None)
    return FloatingKind(operation, *kind) if operation and kind else None


@lru_cache(maxsize=4096)
def is_expanded(opcode: str) -> bool:
    """Whether the machine makes several floating-point instructions of this one, which the count does not hold.

    The approximate forms of `.f32` are one instruction of the special-function unit (with a scaling for subnormal numbers
    that hardly ever runs); everything rounded, and everything of 64 bits, is a routine.
    """
    head, *parts = opcode.split(".")
    return head in _EXPANDED and any(part in _TYPES for part in parts) and ("approx" not in parts or "f64" in parts or head in ("div", "sqrt"))


@dataclass(frozen=True)
class FloatingCounts:
    """By kind and width: threads that ran an instruction (as Nsight counts), and operations, of which packed instructions make two.
    `expanded`: opcodes that ran and are not in the counts."""

    threads: dict[tuple[Width, Operation], int] = field(default_factory=dict)
    operations: dict[tuple[Width, Operation], int] = field(default_factory=dict)
    expanded: tuple[str, ...] = ()

    def of(self, width: Width, operation: Operation) -> int:
        """Threads that ran such an instruction."""
        return self.threads.get((width, operation), 0)

    @property
    def flops(self) -> int:
        """All operations, a fused multiply-add counting two."""
        return sum(self.flops_of(width) for width in WIDTHS)

    def flops_of(self, width: Width) -> int:
        return sum(self.operations.get((width, operation), 0) * (2 if operation == "fma" else 1) for operation in OPERATIONS)


def count_floating(instructions: Iterable[InstructionCounts]) -> FloatingCounts:
    """The floating-point operations of some instructions."""
    threads: dict[tuple[Width, Operation], int] = {}
    operations: dict[tuple[Width, Operation], int] = {}
    expanded: dict[str, None] = {}
    for instruction in instructions:
        kind = floating_kind(instruction.opcode)
        if kind is not None and instruction.lanes:
            key = (kind.width, kind.operation)
            threads[key] = threads.get(key, 0) + instruction.lanes
            operations[key] = operations.get(key, 0) + kind.values * instruction.lanes
        elif instruction.lanes and is_expanded(instruction.opcode):
            expanded[instruction.opcode] = None
    return FloatingCounts(threads, operations, tuple(expanded))
