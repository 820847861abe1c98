"""Halves and conversions against what an H200 gave, bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gridstride.isa import halfmath
from opcodes.half_cases import HERE, arguments, batches, operands, own_entries, sampled_case, spellings, truth_forms, truth_results
from opcodes.harness import Batch, Case, form_case, meaning_of, truth_case

_COUNT, _SEED = 1024, 1
# Measured beside the truth set, for forms that it lacks: 512 tuples of seed 7 (see half_h200.json), and operands
# round the least normal number (edge_…).
_EXTRA_SEED, _EXTRA_COUNT = 7, 512
_EXTRA_CASES = [(form["id"], truth_case(form)) for form in json.loads((HERE / "half_h200.json").read_text())]


def _extra_arguments(case: Case) -> list[np.ndarray]:
    return [operands(kind, slot, 2048, _EXTRA_SEED)[:_EXTRA_COUNT] for slot, (_, kind) in enumerate(case.inputs)]


@pytest.mark.parametrize("kind", ["half", "cvt"])
@pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])
def test_native_code_gives_the_bits_of_the_h200(kind: str, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        monkeypatch.setattr(halfmath, "converts_half", lambda: False)
    forms = [(name, case) for name, case in truth_forms(kind) if native or "f16" in case.ptx or "e4m3" in case.ptx or "e5m2" in case.ptx]
    assert len(forms) > 100
    results = truth_results()
    names = {case: name for name, case in forms}
    wrong = []
    for batch, cases in batches(list(names)):
        for case in cases:
            (got,) = batch.run(case, *arguments(case, _COUNT, _SEED))
            if np.any(got != results[names[case]]):
                wrong.append(case.ptx)
    assert not wrong


@pytest.mark.parametrize("kind", ["half", "cvt"])
def test_python_meanings_give_the_bits_of_the_h200(kind: str) -> None:
    results = truth_results()
    for name, case in truth_forms(kind):
        rows = slice(None, None, 5)
        (got,) = meaning_of(case, *(a[rows] for a in arguments(case, _COUNT, _SEED)))
        assert np.array_equal(got, results[name][rows]), case.ptx


def test_every_truth_form_is_registered() -> None:
    assert len(truth_forms("cvt")) == 512
    assert len(truth_forms("half")) == 138


def test_forms_beside_the_truth_set_give_the_bits_of_the_h200() -> None:
    results = np.load(HERE / "half_h200.npz")
    names = {case: name for name, case in _EXTRA_CASES}
    assert len(names) > 150
    for batch, cases in batches(list(names)):
        for case in cases:
            inputs = _extra_arguments(case)
            (got,) = batch.run(case, *inputs)
            assert np.array_equal(got, results[names[case]]), case.ptx
            (meant,) = meaning_of(case, *(a[::7] for a in inputs)) if "%g" not in case.ptx else (got[::7],)
            assert np.array_equal(meant, got[::7]), case.ptx


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("mul.rn.ftz.f16", ("edge_a", "edge_b")),
        ("mul.rn.f16", ("edge_a", "edge_b")),
        ("fma.rn.ftz.f16", ("edge_a", "edge_b", "edge_c")),
        ("cvt.rn.ftz.f32.f64", ("edge_x",)),
        ("cvt.rp.ftz.f32.f64", ("edge_x",)),
        ("cvt.rz.ftz.f32.f64", ("edge_x",)),
        ("cvt.rn.f32.f64", ("edge_x",)),
    ],
)
def test_flushing_round_the_least_normal_number_is_the_hardware_s(text: str, names: tuple[str, ...]) -> None:
    results = np.load(HERE / "half_h200.npz")
    case = form_case(text)
    inputs = [results[name] for name in names]
    wanted = results[f"edge_{text}"]
    (got,) = Batch([case]).run(case, *inputs)
    assert np.array_equal(got, wanted)
    (meant,) = meaning_of(case, *(a[::5] for a in inputs))
    assert np.array_equal(meant, wanted[::5])


def test_every_entry_has_a_meaning_that_its_code_agrees_with() -> None:
    entries = own_entries()
    assert len(entries) > 50
    texts = []
    for entry in entries:
        assert entry.meaning is not None and entry.lower is not None, entry.syntax
        texts += [text for text in spellings(entry)]
    cases = list(dict.fromkeys(sampled_case(text) for text in texts))
    assert len(cases) > 700
    for batch, part in batches(cases):
        for case in part:
            inputs = arguments(case, 160, 11)
            got, meant = batch.run(case, *inputs), meaning_of(case, *inputs)
            for one, other in zip(got, meant, strict=True):
                assert np.array_equal(one, other), case.ptx
