"""The implementations by name, behind one interface, and the two ways in: `edges` for one array, `EdgePipeline` for many."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any, Protocol, Unpack, overload

import numpy as np
import numpy.typing as npt

import gridstride as gs
from gridstride.errors import GridstrideError, LaunchError, UsageError
from gridstride.pipeline import library, one_pass, python_stages, reference, stages
from gridstride.pipeline.frames import Frame, Kind, Program
from gridstride.pipeline.images import MAX_PIXELS, Samples
from gridstride.pipeline.memory import memory_limit
from gridstride.pipeline.parameters import DEFAULT, Choices, Parameters
from gridstride.pipeline.results import LIBRARY, STAGES, DeviceEdges, EdgeResult, PipelineRun, StageRun
from gridstride.pipeline.tiled import run_in_tiles
from gridstride.pipeline.tiles import tile_size


@dataclass(frozen=True)
class OnDevice:
    """An implementation in kernels: what compiles them, what makes a frame of them, and why it cannot be used here, if so."""

    compile: Callable[[gs.Device, Parameters], Program]
    make_frame: Callable[[gs.Device, Program, Kind, Parameters], Frame]
    missing: Callable[[], str | None] = lambda: None


Contracts = Callable[[Parameters], dict[str, gs.Contract]]


def _cuda_cpp(name: str, contracts: Contracts | None = None) -> Callable[[gs.Device, Parameters], gs.Module]:
    """contracts: of the kernels, where they depend on the parameters and cannot stand in the file."""

    def compiled(device: gs.Device, parameters: Parameters) -> gs.Module:
        with as_file(files("gridstride.pipeline") / "kernels" / name) as source:
            return device.compile(source, defines=parameters.defines, contracts=contracts(parameters) if contracts is not None else {})

    return compiled


ON_DEVICE = {
    "cuda": OnDevice(_cuda_cpp("edges.cu"), stages.make_cuda_frame),
    "fused": OnDevice(_cuda_cpp("fused.cu", one_pass.contracts), one_pass.make_frame),
    "cub": OnDevice(_cuda_cpp("cub.cu"), stages.make_cub_frame),
    "python": OnDevice(python_stages.compile_python, python_stages.make_frame, python_stages.python_missing),
}
IMPLEMENTATIONS = (*ON_DEVICE, "reference")
"""The names that `impl` takes on every device."""

ALL = "all"
"""On the command line: every implementation, one after the other."""

_DLPACK_CUDA = 2  # kDLCUDA

ARRAY_BYTES = 48
"""Bytes a pixel that array programs take at most, the reference and the library's: four stages and their padded copies and sums."""


class OnGpu(Protocol):
    """Any library's array in a GPU's memory."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


@overload
def edges(image: OnGpu, device: gs.Device | str | None = None, *, impl: str = "cuda", memory: int | None = None, **choices: Unpack[Choices]) -> DeviceEdges: ...


@overload
def edges(
    image: npt.ArrayLike, device: gs.Device | str | None = None, *, impl: str = "cuda", memory: int | None = None, **choices: Unpack[Choices]
) -> EdgeResult: ...


def edges(
    image: Any, device: gs.Device | str | None = None, *, impl: str = "cuda", memory: int | None = None, **choices: Unpack[Choices]
) -> EdgeResult | DeviceEdges:
    """Find the edges of `image` on `device` (a name as in `gs.device`, a device, or None for `gs.device()`).

    image: uint8 or uint16, shape (height, width) or (height, width, channels) with 1 (grey), 3 (RGB) or 4 (RGBA; alpha is not
    used) channels, at least one pixel and at most 2**28. The choices (sigma, radius, border, border_value, output, depth,
    threshold) are those of `Parameters`; impl: one of `IMPLEMENTATIONS`, or `library`.
    memory: bytes that may be taken on the device; an image that needs more is done in tiles, with the same edges, histogram and output, of
    which no stages are kept. None: what the device, and the simulator's host, have.
    An image that lies in a device's memory (a `gs.Array`, a GPU's array of CuPy, PyTorch, Numba …) is done there, and its edges stay there, as
    `DeviceEdges`; `device` is then that device if it is not named.
    Raises `UsageError` for anything else.
    A named device is opened and the kernels are compiled once; for many images on a device of your own, keep an `EdgePipeline`.
    """
    parameters = Parameters(**choices)
    there = place_of(image)
    device = device or there or "auto"
    pipeline = (
        EdgePipeline(device, parameters, impl, memory) if isinstance(device, gs.Device) else _named_pipeline(device, parameters, impl, memory)
    )
    if there is None:
        return pipeline.run(np.asarray(image)).result
    if str(pipeline.device) != str(there):
        raise UsageError(f"the image lies in the memory of {there}, not of {pipeline.device}: copy it to the host first, or leave the device out")
    return pipeline.run_there(image)


def place_of(image: Any) -> gs.Device | str | None:
    """The device in whose memory an image lies, or a GPU's name; None for the host's."""
    if isinstance(image, gs.Array):
        device: gs.Device = image.device
        return device
    if isinstance(image, np.ndarray):
        return None
    kind, index = image.__dlpack_device__() if hasattr(image, "__dlpack_device__") else (_DLPACK_CUDA, 0)
    if hasattr(image, "__cuda_array_interface__") or (hasattr(image, "__dlpack__") and kind == _DLPACK_CUDA):
        return f"gpu:{int(index)}"
    return None


@lru_cache(maxsize=8)
def _named_pipeline(name: str, parameters: Parameters, impl: str, memory: int | None) -> EdgePipeline:
    return EdgePipeline(_named_device(name), parameters, impl, memory)


@lru_cache(maxsize=2)
def _named_device(name: str) -> gs.Device:
    return gs.device(name)


class EdgePipeline:
    """One implementation on one device, compiled for one set of parameters.

    memory: bytes that an image may take on the device, beyond which it is done in tiles; None for `memory_limit`.
    """

    def __init__(self, device: gs.Device, parameters: Parameters = DEFAULT, impl: str = "cuda", memory: int | None = None) -> None:
        require_known(impl)
        if memory is not None and memory < 1:
            raise UsageError(f"memory is a number of bytes, at least 1, not {memory}")
        self.device = device
        self.parameters = parameters
        self.impl = impl
        self.memory = memory
        self._chosen = ON_DEVICE.get(impl)
        self._libraries = library.libraries(device) if impl == LIBRARY else None
        if self._chosen is not None:
            self._program = self._chosen.compile(device, parameters)

    def warm_up(self, image: Samples) -> float:
        """Have the machine code made for images like `image`, by a run on one pixel of it. Returns the seconds this took."""
        start = time.perf_counter()
        self._run_whole(checked(image[:1, :1]))
        return time.perf_counter() - start

    def run(self, image: npt.NDArray[Any]) -> PipelineRun:
        """All stages, one after the other, each timed by itself; in tiles where memory is short. Device memory is freed at the end."""
        samples = checked(image)
        kind = Kind.of(samples)
        if self.frames_that_fit(kind):
            try:
                return self._run_whole(samples)
            except LaunchError:  # no room after all: somebody else uses the device, too
                if self.memory is not None:
                    raise
        limit = self._limit
        while True:
            size = tile_size(kind.height, kind.width, self.parameters.halo, limit, lambda width: self._row_bytes(kind, width))
            try:
                return run_in_tiles(samples, self.parameters, size, self._run_whole)
            except LaunchError:
                if self.memory is not None:
                    raise
                limit //= 2

    def run_there(self, image: Any) -> DeviceEdges:
        """As `run`, for an image in the memory of this device, or of its GPU and another library's, whose edges stay there.

        It is done as a whole. Raises `UsageError` for what the pipeline cannot take, and for implementations without kernels.
        """
        require_image(image.shape, np.dtype(image.dtype.name if hasattr(image.dtype, "name") else str(image.dtype).rpartition(".")[2]))
        source = image if isinstance(image, gs.Array) and image.device is self.device else self.device.array(image)
        if not source.contiguous:
            source = self.device.empty(source.shape, source.dtype).copy_from(source)
        kind = Kind(source.shape[0], source.shape[1], source.shape[2] if source.ndim == 3 else 1, source.dtype)
        frame = self.frame(kind)
        try:
            frame.source.copy_from(source.reshape(kind.rows))
            frame.histogram.fill(0)
            for step in frame.steps:
                step.launch()
            self.device.synchronize()
        except BaseException:
            with suppress(GridstrideError):
                frame.free()
            raise
        output = frame.edges if frame.output is None else frame.output
        frame.free(keep=("edges", "histogram", "output"))
        return DeviceEdges(frame.edges, frame.histogram, output, self.impl)

    @property
    def on_device(self) -> bool:
        """Whether it is kernels in frames, as streaming needs."""
        return self._chosen is not None

    def frames_that_fit(self, kind: Kind) -> int:
        """How many images of this kind fit the memory at once; 0 where one has to be done in tiles."""
        return self._limit // (kind.height * self._row_bytes(kind, kind.width))

    @property
    def _limit(self) -> int:
        return memory_limit(self.device) if self.memory is None else self.memory

    def _row_bytes(self, kind: Kind, width: int) -> int:
        """Bytes that a row more takes of an image that wide; the kilobytes that each image takes whatever its size are left out of account."""
        if self._chosen is None:
            return width * ARRAY_BYTES
        heights, taken = (1, 9), []
        for height in heights:
            frame = self.frame(replace(kind, height=height, width=width))
            taken.append(frame.nbytes)
            frame.free()
        return max(1, -(-(taken[1] - taken[0]) // (heights[1] - heights[0])))

    def _run_whole(self, samples: Samples) -> PipelineRun:
        if self._libraries is not None:
            return library.run(samples, self.parameters, self._libraries)
        if self._chosen is None:
            return _run_reference(samples, self.parameters)
        frame = self.frame(Kind.of(samples))
        try:
            return frame.run(samples)
        finally:
            frame.free()

    def frame(self, kind: Kind) -> Frame:
        """Device memory and launches for images of one kind. Raises `UsageError` for the reference and the library's, which are no kernels of ours."""
        if self._chosen is None:
            raise UsageError(f"`{self.impl}` runs in {'CuPy' if self.impl == LIBRARY else 'NumPy'} and has no frame on a device")
        return self._chosen.make_frame(self.device, self._program, kind, self.parameters)


def usable() -> tuple[tuple[str, ...], dict[str, str]]:
    """The implementations that this installation can run, and for each of the others why it cannot."""
    missing = {name: reason for name, on_device in ON_DEVICE.items() if (reason := on_device.missing()) is not None}
    return tuple(name for name in IMPLEMENTATIONS if name not in missing), missing


def require_known(impl: str) -> None:
    """Raise for a name that is no implementation."""
    if impl == ALL:
        raise UsageError("`all` compares implementations on the command line; here name one, and compare results with `differences`")
    if impl not in (*IMPLEMENTATIONS, LIBRARY):
        raise UsageError(f"there is no implementation `{impl}`; there are {', '.join(IMPLEMENTATIONS)}, and {LIBRARY} on a GPU")


def _run_reference(samples: Samples, parameters: Parameters) -> PipelineRun:
    """The float32 reference as an implementation: all stages at once, without a kernel."""
    start = time.perf_counter()
    made = reference.run(samples, np.float32, parameters)
    seconds = time.perf_counter() - start
    floats = {name: getattr(made, name) for name in ("grey", "blurred_rows", "blurred", "magnitude")}
    result = EdgeResult(made.edges, made.histogram, made.output, floats, "reference")
    return PipelineRun(result, (StageRun(STAGES[-1], "NumPy", (1, 1), (1, 1), seconds),))


def checked(image: npt.NDArray[Any]) -> Samples:
    """`image` in native byte order and without gaps. Raises `UsageError` where the pipeline cannot take it."""
    native = image.dtype.newbyteorder("=")
    require_image(image.shape, native)
    return np.ascontiguousarray(image, dtype=native)


def require_image(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise `UsageError` for what is no image that the pipeline can take."""
    if dtype not in (np.uint8, np.uint16):
        raise UsageError(f"the pipeline takes 8- and 16-bit images (uint8, uint16), not {dtype}")
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] not in (1, 3, 4)):
        raise UsageError(
            f"an image has the shape (height, width) or (height, width, channels) with 1, 3 or 4 channels, not {tuple(map(int, shape))}"
        )
    height, width = shape[:2]
    if height * width == 0:
        raise UsageError(f"the image has no pixels: it is {width} x {height}")
    if height * width > MAX_PIXELS:
        raise UsageError(f"the image has {height * width:,} pixels; {MAX_PIXELS:,} is the most that can be processed")
