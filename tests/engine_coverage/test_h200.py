"""Device features and the math library of CUDA C++: every bit as an H200 has it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import gridstride as gs

sys.path.insert(0, str(Path(__file__).parent))
import cases  # noqa: E402

pytest.importorskip("cuda.bindings.nvrtc")


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
            have, want = row.view(np.uint64 if double else np.uint32), measured[f"{label}.{name}"]
            differ = np.flatnonzero(have != want)
            if differ.size:
                k = int(differ[0])
                wrong.append((name, differ.size, float(inputs[0][k]), float(inputs[1][k]), float(row[k]), float(want[k : k + 1].view(row.dtype)[0])))
    assert not wrong, f"(function, how many, x, y, have, H200): {wrong}"
