"""The contracts of the image pipeline's kernels, proved: each pixel of an output has its one thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.pipeline import one_pass
from gridstride.pipeline.parameters import Parameters

KERNELS = files("gridstride.pipeline") / "kernels"
OTHERS = ["blur_rows", "blur_columns", "sobel", "edges_and_histogram", "output"]


@cache
def program(file: str, parameters: Parameters) -> gs.Module:
    return gs.device("sim").compile(str(KERNELS / file), defines=parameters.defines)


def noise(device: gs.Device, shape: tuple[int, ...], dtype: Any) -> gs.Array:
    values = np.random.default_rng(sum(shape)).integers(0, 256, shape)
    return device.array(values.astype(dtype))


def arguments_of(kernel: str, output: Any) -> Callable[..., list[Any]]:
    """What makes the arguments of a kernel for an image of a size (of `pixels` where the place in the image does not matter)."""

    def make(device: gs.Device, width: int, height: int = 1) -> list[Any]:
        if kernel.startswith("grey"):
            _, kind, channels = kernel.split("_")
            samples = noise(device, (height, width * int(channels)), np.uint8 if kind == "u8" else np.uint16)
            return [samples, device.empty((height, width)), width, height]
        if kernel == "edges_and_histogram":
            return [noise(device, (width,), np.float32), device.empty(width, np.uint8), device.zeros(256, np.uint32), width]
        if kernel == "output":
            return [noise(device, (width,), np.float32), device.empty(width, output), width]
        return [noise(device, (height, width), np.float32), device.empty((height, width)), width, height]

    return make


@pytest.mark.parametrize(
    ("file", "kernel"),
    [
        *(("edges.cu", kernel) for kernel in ("grey_u8_3", "grey_u16_1", "grey_u16_4", *OTHERS)),
        *(("cub.cu", kernel) for kernel in ("grey_u8_3", *OTHERS[:-1])),
    ],
)
def test_kernels_of_a_stage_each(file: str, kernel: str) -> None:
    parameters = Parameters(output="grey", depth=16) if kernel == "output" else Parameters()
    proved = program(file, parameters)[kernel]
    blocks = [(256, 1)] if kernel == "output" else []
    proof = proved.prove(arguments=arguments_of(kernel, np.uint16), blocks=blocks)
    assert proof.passed and proof.warnings == (), proof
    assert len(proof.sizes) >= 10 and sum(proof.covered.values()) > 10_000 and "double-write" in proof.checks


@pytest.mark.parametrize("kernel", ["grey", *OTHERS])
def test_kernels_in_python(kernel: str) -> None:
    from gridstride.pipeline.python_kernels import kernels

    device = gs.device("sim")
    proved = device.compile(kernels(Parameters(output="grey", depth=16))[kernel])
    if kernel in ("edges_and_histogram", "output"):
        of_rows = arguments_of(kernel, np.uint16)

        def arguments(device: gs.Device, pixels: int) -> list[Any]:
            return [array.reshape((1, pixels)) if isinstance(array, gs.Array) and array.size == pixels else array for array in of_rows(device, pixels)]
    else:
        arguments = arguments_of("grey_u8_3" if kernel == "grey" else kernel, None)
    proof = proved.prove(arguments=arguments, blocks=[(256, 1)] if kernel == "output" else [])
    assert proof.passed and proof.warnings == (), proof


@pytest.mark.parametrize("border", ["reflect", "constant"])
def test_other_borders(border: Any) -> None:
    parameters = Parameters(sigma=2.0, border=border)
    for kernel in ("blur_rows", "sobel"):
        proof = program("edges.cu", parameters)[kernel].prove(arguments=arguments_of(kernel, None), boundaries=False, sizes=[(33, 9), (1, 1), (5, 17)])
        assert proof.passed, proof


@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [("fused_u8_3", Parameters()), ("fused_u16_1", Parameters(sigma=2.0, radius=6, output="blurred", depth=16))],
    ids=["plain", "with output"],
)
def test_the_fused_kernel(kernel: str, parameters: Parameters) -> None:
    _, kind, channels = kernel.split("_")
    dtype, samples = (np.uint8 if kind == "u8" else np.uint16), int(channels)
    columns, rows = one_pass.strip_columns(parameters), 8

    def make(device: gs.Device, strips: int) -> list[Any]:
        """So many strips, the last of each row and column ragged."""
        beside = 2 if strips % 2 == 0 else 1
        width, height = beside * columns - 3, strips // beside * rows - 1
        stored = -(-width // 4) * 4
        source, edges = noise(device, (height, stored * samples), dtype), device.empty((height, stored), np.uint8)
        output = edges if parameters.plain else device.empty((height, stored), parameters.output_type)
        buffers = (source, source.strides[0], edges, edges.strides[0], device.empty(256, np.uint32), device.zeros(257, np.uint32))
        return [*buffers, output, output.strides[0], width, height, rows]

    module = program("fused.cu", parameters).declare(one_pass.contracts(parameters))
    most = one_pass.warps(parameters)
    proof = module[kernel].prove(arguments=make, sizes=[1, 2, most, most + 1], boundaries=False)
    assert proof.passed and proof.warnings == () and all(proof.covered.values()), proof


MUTANTS = [
    ("edges.cu", "sobel", "if (x >= width) // no pixel for this thread\n        return;\n    int left", "int left", "out-of-bounds"),
    ("edges.cu", "sobel", "out[y * width + x] = length", "out[y * height + x] = length", "double-write"),
    ("edges.cu", "blur_rows", "int row_step() { return gridDim.y * blockDim.y; }", "int row_step() { return blockDim.y; }", "double-write"),
    ("edges.cu", "edges_and_histogram", "group < (pixels + 3) / 4", "group < pixels / 4", "double-write"),
]


@pytest.mark.parametrize(("file", "kernel", "old", "new", "kind"), MUTANTS, ids=[mutant[1] for mutant in MUTANTS])
def test_mutants(file: str, kernel: str, old: str, new: str, kind: str) -> None:
    text = (KERNELS / file).read_text(encoding="utf-8")
    assert old in text
    module = gs.device("sim").compile(text.replace(old, new), include_dirs=[str(KERNELS)], defines=Parameters().defines)
    proof = module[kernel].prove(arguments=arguments_of(kernel, None))
    assert proof.counterexample is not None, proof
    assert proof.counterexample.finding.kind in (kind, "out-of-bounds")
