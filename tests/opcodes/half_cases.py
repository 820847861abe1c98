"""What the tests of halves and conversions share: truth forms, operands, and every form of a registry entry."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gridstride.isa.registry import Operation, lookup, operations
from opcodes.harness import Batch, Bits, Case, form_case, kind_bits, truth_case

TRUTH = Path(__file__).parent.parent / "truth" / "conformance"
HERE = Path(__file__).parent
FAMILIES = ("half", "half_approx", "half_compare", "convert", "convert_float")

_spec = importlib.util.spec_from_file_location("conformance_operands", TRUTH / "operands.py")
assert _spec is not None and _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
operands: Callable[[str, int, int, int], Bits] = _module.operands

# The truth set's operand generators for PTX types.
_GENERATORS = {"f16": "h16", "bf16": "g16", "f16x2": "h32", "bf16x2": "g32", "f32": "f32", "f64": "f64", "tf32": "f32"}
_HALVES = {"h16", "h32", "g16", "g32"}


def truth_forms(kind: str) -> list[tuple[str, Case]]:
    """(id, case) of the truth set's forms: kind "half" those with halves but no cvt, "cvt" those with one."""
    forms = json.loads((TRUTH / "forms.json").read_text())
    chosen = []
    for form in forms:
        is_cvt = "cvt." in form["ptx"]
        if is_cvt if kind == "cvt" else not is_cvt and _HALVES & {form["d"], *form["args"]}:
            chosen.append((form["id"], truth_case(form)))
    return chosen


def truth_results() -> Any:
    return np.load(TRUTH / "results.npz")


def arguments(case: Case, count: int, seed: int) -> list[Bits]:
    """Operand arrays of a truth case or of a form's case."""
    return [_operand(kind, slot, count, seed) for slot, (_, kind) in enumerate(case.inputs)]


def _operand(kind: str, slot: int, count: int, seed: int) -> Bits:
    if kind == "pred":
        return (np.arange(count) % 3 == 0).astype(np.uint8)
    if kind in _HALVES or kind in ("b16", "b32", "b64", "f32", "f64", "sh"):
        return operands(kind, slot, count, seed)
    if kind in _GENERATORS:
        return operands(_GENERATORS[kind], slot, count, seed)
    bits = kind_bits(kind)
    return operands(f"b{max(bits, 16)}", slot, count, seed).astype({8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits])


def batches(cases: Sequence[Case], size: int = 50) -> Iterator[tuple[Batch, Sequence[Case]]]:
    for start in range(0, len(cases), size):
        part = cases[start : start + size]
        yield Batch(part), part


def spellings(entry: Operation, limit: int = 12) -> list[str]:
    """Opcode texts of an entry: for each of its types all choices of modifiers, or `limit` spread over them."""
    choices = [[*sorted(group.alternatives), *([""] if group.optional else [])] for group in entry.modifiers]
    total = math.prod(len(c) for c in choices)
    stride = max(1, total // limit) | 1
    texts = []
    for types in entry.types:
        for number, words in enumerate(itertools.product(*choices)):
            if total <= limit or number % stride == 0:
                texts.append(".".join((entry.opcode, *filter(None, words), *(t.name for t in types))))
    return texts


def own_entries() -> list[Operation]:
    return [entry for entry in operations() if entry.module.rpartition(".")[2] in FAMILIES]


def sampled_case(text: str) -> Case:
    """The case of a form. A comparison without a boolean operation has no third operand."""
    form = lookup(text)
    boolean = form.one_of("and", "or", "xor")
    return form_case(text, leave_out=1 if form.operation.opcode in ("set", "setp") and not boolean else 0)
