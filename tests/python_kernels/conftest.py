"""The devices that Python kernels are tested on (the simulator, and a GPU where there is one), and launches that must find nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gridstride as gs

pytest.importorskip("numba.cuda")


@pytest.fixture(scope="session", params=["sim", "gpu"])
def device(request: pytest.FixtureRequest) -> Any:
    try:
        return gs.device(request.param, blocking=True)
    except gs.UnsupportedError as error:
        pytest.skip(str(error))


@pytest.fixture
def run(device: Any) -> Callable[..., Any]:
    """`run(kernel, grid, block, *arguments, shared=0)`: with all checks on, no finding allowed. Gives the NumPy arrays among the arguments."""

    def launch(kernel: Any, grid: Any, block: Any, *arguments: Any, shared: int = 0) -> Any:
        with gs.checking() as findings:
            device.compile(kernel)[grid, block](*arguments, shared=shared)
        assert not findings, "\n".join(str(finding.message) for finding in findings)
        arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
        return arrays[0] if len(arrays) == 1 else arrays

    return launch
