"""Device features and the math library of CUDA C++: every bit as an H200 has it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import gridstride as gs

sys.path.insert(0, str(Path(__file__).parent))
import cases

pytest.importorskip("cuda.bindings.nvrtc")

# Their PTX has mul.f32 and sub.f32 without rounding, which ptxas may make one fma of (PTX ISA 9.7.3.4), and does.
CONTRACTED = {"single.jn", "single.yn"}


@pytest.fixture(scope="module")
def measured() -> dict[str, npt.NDArray[np.generic]]:
    with np.load(Path(__file__).parent / "h200.npz") as saved:
        return dict(saved)


@pytest.fixture(scope="module")
def features() -> gs.Module:
    return gs.device("sim:h200").compile(cases.FEATURES)


def launched(module: gs.Module, kernel: str, inputs: tuple[npt.NDArray[np.generic], ...], count: int, dtype: type[np.generic]) -> npt.NDArray[np.generic]:
    out = module.device.zeros(count, dtype)
    module[kernel][cases.N // 32, 32](*(module.device.array(i) for i in inputs), out)
    return out.numpy()


def assert_same_bits(have: npt.NDArray[np.generic], want: npt.NDArray[np.generic], inputs: tuple[npt.NDArray[np.generic], ...]) -> None:
    wrong = np.flatnonzero(have.view(np.uint8).reshape(have.size, -1) != want.view(np.uint8).reshape(want.size, -1)) // have.itemsize
    where = [(int(k), have[k], want[k], *(i[k % cases.N] for i in inputs)) for k in np.unique(wrong)[:4]]
    assert not wrong.size, f"{np.unique(wrong).size} of {want.size} differ; (place, have, H200, inputs): {where}"


@pytest.mark.parametrize("name", cases.feature_cases())
def test_features(name: str, features: gs.Module, measured: dict[str, npt.NDArray[np.generic]]) -> None:
    case = cases.feature_cases()[name]
    assert_same_bits(launched(features, name, case.inputs, *case.output), measured[name], case.inputs)


@pytest.mark.parametrize("label", ["single", "double"])
def test_math(label: str, measured: dict[str, npt.NDArray[np.generic]]) -> None:
    double = label == "double"
    module, inputs = gs.device("sim:h200").compile(cases.math_source(double)), cases.math_inputs(double)
    wrong = []
    for number, names in enumerate(cases.groups(double)):
        rows = launched(module, f"math{number}", inputs, len(names) * cases.N, np.float64 if double else np.float32).reshape(len(names), -1)
        for name, row in zip(names, rows, strict=True):
            want = measured[f"{label}.{name}"].view(row.dtype)
            # PTX leaves the payload of an f64 NaN open; an f32 NaN's it gives (PTX ISA 9.7.3)
            same = (row.view(f"u{row.itemsize}") == want.view(f"u{row.itemsize}")) | (double & np.isnan(row) & np.isnan(want))
            if f"{label}.{name}" in CONTRACTED:
                same = np.isclose(row, want, rtol=1e-6, equal_nan=True)
            for k in np.flatnonzero(~same)[:1]:
                wrong.append((name, int(np.sum(~same)), float(inputs[0][k]), float(inputs[1][k]), float(row[k]), float(want[k])))
    assert not wrong, f"(function, how many, x, y, have, H200): {wrong}"
