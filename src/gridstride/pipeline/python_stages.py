"""The implementation `python`: a kernel a stage, as `cuda`, written in Python for numba.cuda."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

import gridstride as gs
from gridstride.errors import UnsupportedError
from gridstride.pipeline.frames import Frame, Kernel, Kind, Program
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.stages import image_grids, make_staged_frame


def python_missing() -> str | None:
    """Why kernels in Python cannot be used here, if they cannot."""
    if find_spec("numba_cuda") is None:
        return "its kernels need numba-cuda, which is not installed here: run `pip install 'gridstride[python]'`"
    return None


def compile_python(device: gs.Device, parameters: Parameters) -> Mapping[str, Kernel]:
    """The kernels by the names that a frame asks for. Each is specialised for the types of its arguments when it is launched, so one serves
    all kinds of samples. Raises UnsupportedError without Numba."""
    missing = python_missing()
    if missing is not None:
        raise UnsupportedError(f"the implementation `python` cannot be used: {missing}")
    from gridstride.pipeline.python_kernels import kernels

    compiled = {name: device.compile(kernel) for name, kernel in kernels(parameters).items()}
    return compiled | {f"grey_u{bits}_{channels}": compiled["grey"] for bits in (8, 16) for channels in (1, 3, 4)}


def make_frame(device: gs.Device, program: Program, kind: Kind, parameters: Parameters) -> Frame:
    """The frame of `python`."""
    return make_staged_frame(device, program, kind, parameters, image_grids(kind), "python")
