"""The truth set's kernels, compiled by NVRTC for other targets and with other options, give what the H200 gave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gridstride as gs
from gridstride.cases import read_cases, run_case

pytest.importorskip("cuda.bindings.nvrtc")
TRUTH = Path(__file__).parent.parent / "truth"
NAMES = {
    "vec_add", "saxpy_gridstride", "saxpy_vec4", "transpose_pad", "reduce_tree", "scan_blelloch", "hist_private", "sgemm_tiled", "conv2d_tiled",
    "rgb_to_gray", "sobel", "local_array", "shared_bytes", "ballot_compact", "volume3d", "bitonic_block", "hash64", "int_divmod", "dyn_shared",
}  # fmt: skip
CASES = [case for case in read_cases(TRUTH / "cases.json") if case.name in NAMES]
# What the compiler fuses, or not, into fma changes the last bits.
UNFUSED = 1e-6


@pytest.fixture(scope="module")
def truth() -> dict[str, np.ndarray]:
    with np.load(TRUTH / "outputs.npz") as saved:
        return dict(saved)


@pytest.mark.parametrize(
    ("arch", "options", "tolerance"),
    [
        ("sm_75", (), 0.0),
        ("sm_80", ("-lineinfo", "--maxrregcount=32", "--ptxas-options=-dlcm=cg"), 0.0),
        ("sm_100", (), 0.0),
        ("sm_120", ("--std=c++20",), 0.0),
        ("sm_90", ("-G",), UNFUSED),
        ("sm_120", ("-G",), UNFUSED),
        ("sm_90", ("--fmad=false",), UNFUSED),
    ],
)
def test_targets_and_options(arch: str, options: tuple[str, ...], tolerance: float, truth: dict[str, np.ndarray]) -> None:
    module = gs.device("sim:h200").compile(TRUTH / "kernels.cu", arch=arch, options=options, line_info="-G" not in options)
    for case in CASES:
        result = run_case(case, module.fresh())
        assert result.failure is None, f"{case.name}: {result.failure}"
        for position, have in result.outputs.items():
            want = truth[f"{case.name}.{position}"]
            if tolerance and want.dtype.kind == "f":
                assert np.abs(have - want).max() <= tolerance * np.abs(want).max(), case.name
            else:
                assert np.array_equal(have.view(np.uint8), want.view(np.uint8)), case.name


def test_the_cases_are_there() -> None:
    assert {case.name for case in CASES} == NAMES
