"""f32 and f64 instructions give, on all operands measured, the bits that a real H200 gave; approximations included."""

from __future__ import annotations

import functools
import importlib.util
import json
import pathlib
from typing import Any

import numpy as np
import pytest

from opcodes.harness import Batch, Bits, Case, form_case, meaning_of, parse, truth_case

HERE = pathlib.Path(__file__).parent
CONFORMANCE = HERE.parent / "truth" / "conformance"
NAMES = ("approximate", "approximate64", "float32", "float64", "floatcompare")
MODULES = {f"gridstride.isa.{name}" for name in NAMES}

# Which of several NaN operands stays is left to the host in these, which are single machine instructions.
FREE_NAN = {f"{name}.rn.f64" for name in ("add", "sub", "mul", "fma")}


@functools.cache
def generator() -> Any:
    spec = importlib.util.spec_from_file_location("truth_operands", CONFORMANCE / "operands.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _is_ours(form: dict[str, Any]) -> bool:
    text = form["ptx"].split()[0]
    parts = text.split(".")
    return parts[-1] in ("f32", "f64") and parts[0] not in ("cvt", "slct", "selp") and "f16" not in text


FORMS = [form for form in json.loads((CONFORMANCE / "forms.json").read_text()) if _is_ours(form)]
MEASURED: dict[str, dict[str, Bits]] = {}
for key, array in np.load(HERE / "measured" / "float_results.npz").items():
    MEASURED.setdefault(key.split("/")[0], {})[key.split("/")[1]] = array


@functools.cache
def native() -> Batch:
    return Batch([*(truth_case(form) for form in FORMS), *map(form_case, MEASURED)])


@functools.cache
def results() -> Any:
    return np.load(CONFORMANCE / "results.npz")


def _same(source: str, case: Case, arrays: list[Bits], got: Bits, expected: Bits) -> None:
    wrong = np.flatnonzero(got != expected)
    assert not wrong.size, (
        f"{source} of {case.ptx}: {wrong.size} differ, first {[hex(a[wrong[0]]) for a in arrays]}:"
        f" {got[wrong[0]]:#x}, measured {expected[wrong[0]]:#x}"
    )


def test_the_set_has_the_float_forms() -> None:
    assert len(FORMS) == 224
    modules = {statement.form.operation.module for form in FORMS for statement in parse(truth_case(form).ptx)}
    assert modules >= MODULES


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["ptx"].split(" ")[0] + "-" + form["id"])
def test_conformance(form: dict[str, Any]) -> None:
    case = truth_case(form)
    arrays = [generator().operands(kind, slot, 1024, 1) for slot, kind in enumerate(form["args"])]
    expected = results()[form["id"]]
    _same("lowering", case, arrays, native().run(case, *arrays)[0], expected)
    _same("meaning", case, arrays, meaning_of(case, *arrays)[0], expected)


@pytest.mark.parametrize("text", MEASURED)
def test_measured(text: str) -> None:
    case, columns = form_case(text), MEASURED[text]
    arrays = [columns[f"a{k}"] for k in range(len(case.inputs))]
    expected = columns["d0"]
    few = slice(None, None, 1 + len(expected) // 1500)  # of the slow meanings
    _same("meaning", case, arrays, meaning_of(case, *(a[few] for a in arrays))[0], expected[few])
    if text in FREE_NAN:
        nans = sum(np.isnan(a.view(np.float64)).astype(int) for a in arrays)
        arrays, expected = [a[nans < 2] for a in arrays], expected[nans < 2]
    _same("lowering", case, arrays, native().run(case, *arrays)[0], expected)
