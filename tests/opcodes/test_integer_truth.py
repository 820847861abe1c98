"""Integer instructions give, on all operands measured, the bits that a real H200 gave."""

from __future__ import annotations

import functools
import importlib.util
import json
import pathlib
from typing import Any

import numpy as np
import pytest

from opcodes.harness import Batch, Case, meaning_of, parse, truth_case

HERE = pathlib.Path(__file__).parent
CONFORMANCE = HERE.parent / "truth" / "conformance"
MODULES = {f"gridstride.isa.{name}" for name in ("bits", "carry", "divide", "integer", "logic", "multiply", "select", "video")}


@functools.cache
def generator() -> Any:
    spec = importlib.util.spec_from_file_location("truth_operands", CONFORMANCE / "operands.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def operands(form: dict[str, Any], count: int, seed: int) -> list[Any]:
    return [generator().operands(kind, slot, count, seed) for slot, kind in enumerate(form["args"])]


def _is_integer(form: dict[str, Any]) -> bool:
    """Whether the form is made of instructions of the integer families alone (selections of floats included)."""
    opcodes = [line.split()[0] for line in form["ptx"].split(";") if line.strip()]
    if any(opcode.split(".")[0] in ("cvt", "testp") for opcode in opcodes):
        return False
    integer = {"b16", "b32", "b64", "sh"}
    return integer.issuperset(form["args"]) or opcodes[0].startswith("slct")


FORMS = [form for form in json.loads((CONFORMANCE / "forms.json").read_text()) if _is_integer(form)]
MEASURED = json.loads((HERE / "measured" / "integer_forms.json").read_text())


@functools.cache
def batch(measured: bool) -> tuple[Batch, Any]:
    forms = MEASURED if measured else FORMS
    path = HERE / "measured" / "integer_results.npz" if measured else CONFORMANCE / "results.npz"
    return Batch([truth_case(form) for form in forms]), np.load(path)


def _check(form: dict[str, Any], measured: bool, count: int, seed: int) -> None:
    native, results = batch(measured)
    case, arrays = truth_case(form), operands(form, count, seed)
    expected = results[form["id"]]
    if not form.get("deviates"):
        for source, (got,) in (("lowering", native.run(case, *arrays)), ("meaning", meaning_of(case, *arrays))):
            wrong = np.flatnonzero(got != expected)
            assert not wrong.size, (
                f"{source} of {case.ptx}: {wrong.size} differ, first {[hex(a[wrong[0]]) for a in arrays]}:"
                f" {got[wrong[0]]:#x}, measured {expected[wrong[0]]:#x}"
            )
    else:  # the PTX text is followed; the machine really does something else
        (got,), (text) = native.run(case, *arrays), meaning_of(case, *arrays)[0]
        assert (got == text).all()
        assert (got != expected).any(), f"{case.ptx} is marked as deviating, and does not"


def test_the_set_has_the_integer_forms() -> None:
    assert len(FORMS) >= 250
    assert {statement.form.operation.module for form in FORMS for statement in parse(truth_case(form).ptx)} == MODULES


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["ptx"].split(" ")[0] + "-" + form["id"])
def test_conformance(form: dict[str, Any]) -> None:
    _check(form, False, 1024, 1)


@pytest.mark.parametrize("form", MEASURED, ids=lambda form: form["ptx"].split(" ")[0] + "-" + form["id"])
def test_measured(form: dict[str, Any]) -> None:
    _check(form, True, 256, 5)


def test_a_wrong_result_is_noticed() -> None:
    """The comparison itself can fail: subtraction is not addition."""
    case = Case("sub.s32 {d}, {a}, {b};", (("a", "b32"), ("b", "b32")), (("d", "b32"),))
    form = next(form for form in FORMS if form["ptx"].startswith("add.s32"))
    (got,) = Batch([case]).run(case, *operands(form, 1024, 1))
    assert (got != batch(False)[1][form["id"]]).any()
