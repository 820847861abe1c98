"""Proof runs: kernels that keep their contracts are proved, each clause one; mutants give the smallest counterexample, with its threads and lines."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import ContractError, UsageError
from gridstride.runtime.contracts.sizes import boundary_extents

COPY = """extern "C" __global__ void copy(int n, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}"""
IMAGE = """extern "C" __global__ void image(int width, int height, const float* x, float* y) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c < width && r < height) y[r * width + c] = x[r * width + c];
}"""
VOLUME = """extern "C" __global__ void volume(int w, int h, int d, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, k = blockIdx.z * blockDim.z + threadIdx.z;
    if (i < w && j < h && k < d) y[(k * h + j) * w + i] = k;
}"""
FOUR = """extern "C" __global__ void four(int n, const float* x, float* y) {
    for (int k = 0; k < 4; ++k) { int i = (blockIdx.x * 4 + k) * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }
}"""
STRIDE = """extern "C" __global__ void stride(int n, const float* x, float* y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i];
}"""
ROWS = """extern "C" __global__ void rows(int width, int height, float* y) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= width) return;
    for (int r = blockIdx.y * blockDim.y + threadIdx.y; r < height; r += gridDim.y * blockDim.y) y[r * width + c] = c;
}"""
BARE = """extern "C" __global__ void bare(int n, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}"""
REVERSED = """extern "C" __global__ void reversed(int n, const float* x, float* y) {
    extern __shared__ float s[];
    int i = blockIdx.x * blockDim.x + threadIdx.x, last = min((int)blockDim.x, n - (int)(blockIdx.x * blockDim.x)) - 1;
    if (i < n) s[threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) y[i] = s[last - threadIdx.x];
}"""
INNER = """extern "C" __global__ void inner(unsigned n, float a, const float* x, float* y) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * (x[i] + x[i + 2]);
}"""
COMPACT = """__device__ unsigned taken;
extern "C" __global__ void compact(int n, const float* x, float* y, unsigned* count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.5f) y[atomicAdd(count, 1u)] = x[i];
}"""
TILE = """extern "C" __global__ void tile(int n, const float* x, float* y) {  // 30 elements a block: the outer lanes only read
    int i = (int)(blockIdx.x * 30 + threadIdx.x) - 1;
    float own = i >= 0 && i < n ? x[i] : 0, left = __shfl_up_sync(~0u, own, 1), right = __shfl_down_sync(~0u, own, 1);
    if (threadIdx.x >= 1 && threadIdx.x < 31 && i < n) y[i] = left + own + right;
}"""

LAST = """extern "C" __global__ void last(int n, const float* x, float* y) {  // threads beyond the end read the last element
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = ((const volatile float*)x)[min(i, n - 1)];
    if (i < n) y[i] = value;
}"""

PROVED: list[tuple[str, str, dict[str, Any]]] = [
    (COPY, "extent=n", {}),
    (COPY, "extent=n block=64 covers=y", {}),
    (COPY, "extent=n block_multiple_of=32 covers=y", {}),
    (COPY, "extent=n block=48 covers=y distinct=x,y", {"sizes": [500]}),
    (IMAGE, "extent=width,height block=16,4 covers=y", {}),
    (VOLUME, "extent=w,h,d block=8,4,2 covers=y", {}),
    (FOUR, "extent=n elements_per_thread=4 block=32 covers=y", {}),
    (FOUR, "extent=n tile=128 block=32 covers=y", {}),
    (STRIDE, "extent=n grid_stride block=64 covers=y", {}),
    (ROWS, "extent=width,height grid_stride=y block=32,2 covers=y", {}),
    (BARE, "extent=n unguarded block=64 covers=y", {}),
    (REVERSED, "extent=n shared=4*block covers=y", {"blocks": [64, 50]}),
    (INNER, "extent=n extents=x:n+2 block=64 covers=y", {"values": {"a": 3.0}}),
    (TILE, "extent=n tile=30 block=32 covers=y", {}),
    (LAST, "extent=n nonempty block=32 covers=y", {}),
]


def kernel_of(source: str, clauses: str) -> gs.Kernel:
    device = gs.device("sim")
    module = device.compile(f"// gridstride: contract {clauses}\n{source}", name="k.cu")
    return module[next(iter(module))]


@pytest.mark.parametrize(("source", "clauses", "options"), PROVED, ids=[clauses for _, clauses, _ in PROVED])
def test_a_kernel_that_keeps_its_contract_is_proved(source: str, clauses: str, options: dict[str, Any]) -> None:
    kernel = kernel_of(source, clauses)
    proof = kernel.prove(**options)
    assert proof.passed and proof and proof.counterexample is None and proof.warnings == (), proof
    contract = kernel.contract
    assert contract is not None
    for launch in proof.launches:
        assert launch.covered == dict.fromkeys(contract.covers if all(launch.extent) else (), int(np.prod(launch.extent)))
        each = contract.elements_of_block(launch.block)
        needed = [max(1, -(-n // m)) for n, m in zip(launch.extent, each, strict=True)]
        axes = [axis in contract.grid_stride for axis in "xyz"]
        assert all(got == want or (strided and 1 <= got < want) for got, want, strided in zip(launch.grid, needed, axes, strict=False))
    assert {"race-global", "uninitialised", "out-of-bounds"} <= set(proof.checks)
    assert ("double-write" in proof.checks) == bool(contract.covers)
    assert str(proof).startswith(f"{kernel.name}: proved for {len(proof.sizes)} sizes (") and str(proof).endswith("other arguments were not run.")


def test_sizes_lie_around_the_borders() -> None:
    proof = kernel_of(COPY, "extent=n block=64 covers=y").prove(sizes=[1000])
    assert proof.sizes == tuple((n,) for n in (0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 97, 127, 128, 129, 193, 323, 1000))
    assert proof.covered == {"y": sum(n for (n,) in proof.sizes)}
    image = kernel_of(IMAGE, "extent=width,height block=16,4 covers=y").prove()
    widths, heights = ({extent[axis] for extent in image.sizes} for axis in (0, 1))
    assert {1, 15, 16, 17, 33} <= widths and {1, 3, 4, 5, 9} <= heights
    assert {(0, 4), (16, 0), (33, 1)} <= set(image.sizes) and sum(w != h for w, h in image.sizes) > 20
    assert {launch.grid for launch in kernel_of(STRIDE, "extent=n grid_stride block=64 covers=y").prove().launches} >= {(1, 1, 1), (2, 1, 1), (3, 1, 1), (6, 1, 1)}
    only = kernel_of(COPY, "extent=n block=64 covers=y").prove(sizes=[5, 7], boundaries=False)
    assert only.sizes == ((5,), (7,))


@pytest.mark.parametrize("taken", [(1,), (2,), (256,), (1, 1), (32, 8), (120, 64), (1, 1, 1), (8, 4, 2)])
def test_every_border_is_crossed(taken: tuple[int, ...]) -> None:
    extents = boundary_extents(taken, guarded=True)
    assert len(extents) == len(set(extents)) <= 30
    for axis, each in enumerate(taken):
        lengths = {extent[axis] for extent in extents}
        assert {0, 1, each, each + 1, 2 * each + 1} <= lengths and (each == 1 or each - 1 in lengths)
    assert all(n % each == 0 and n for extent in boundary_extents(taken, guarded=False) for n, each in zip(extent, taken, strict=True))


# ---- mutants ----------------------------------------------------------------------------------------------------------

MUTANTS: list[tuple[str, str, str, str, str, str, str]] = [
    # source, clauses, what is changed, into what, kind, message, size
    (COPY, "extent=n block=64 covers=y", "i < n", "i <= n", "out-of-bounds", "reads 4 bytes at `x`[0], outside its 0 elements", "n = 0"),
    (COPY, "extent=n block=64 covers=y", "i < n", "i < n - 1", "double-write", "no thread writes `y`[0], its only element", "n = 1"),
    (COPY, "extent=n block=64 covers=y", "if (i < n) ", "", "out-of-bounds", "reads 4 bytes at `x`[0], outside its 0 elements", "n = 0"),
    (
        COPY, "extent=n block=64 covers=y", "blockIdx.x * blockDim.x", "blockIdx.x * 60", "double-write",
        "both write `y`[60], and the contract gives each element to one thread (both k.cu:4)", "n = 65",
    ),
    (
        COPY, "extent=n block=64 covers=y", "blockIdx.x * blockDim.x", "blockIdx.x * 70", "double-write",
        "no thread writes `y`[64] of 65 elements", "n = 65",
    ),
    (
        COPY, "extent=n block=64 covers=y", "blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x", "double-write",
        "both write `y`[0]", "n = 65",
    ),
    (COPY, "extent=n block=64 covers=y", "y[i]", "y[i ^ 1]", "out-of-bounds", "writes 4 bytes at `y`[1], outside its 1 elements", "n = 1"),
    (COPY, "extent=n block=64 covers=y", "y[i]", "y[i / 2 * 2]", "double-write", "both write `y`[0]", "n = 2"),
    (IMAGE, "extent=width,height block=16,4 covers=y", "y[r * width + c]", "y[c * width + r]", "out-of-bounds", "writes 4 bytes at `y`[", ""),
    (IMAGE, "extent=width,height block=16,4 covers=y", "y[r * width + c]", "y[r * height + c]", "", "", ""),
    (IMAGE, "extent=width,height block=16,4 covers=y", " && r < height", "", "out-of-bounds", "outside its", ""),
    (IMAGE, "extent=width,height block=16,4 covers=y", "r < height", "r < width", "", "", ""),
    (VOLUME, "extent=w,h,d block=8,4,2 covers=y", "(k * h + j)", "(k * w + j)", "", "", ""),
    (STRIDE, "extent=n grid_stride block=64 covers=y", "gridDim.x * blockDim.x", "blockDim.x", "double-write", "both write `y`[64]", "n = 65"),
    (STRIDE, "extent=n grid_stride block=64 covers=y", "i += gridDim.x * blockDim.x", "i += n", "double-write", "no thread writes `y`[64] of 65 elements", "n = 65"),
    (ROWS, "extent=width,height grid_stride=y block=32,2 covers=y", "gridDim.y * blockDim.y", "gridDim.y", "", "", ""),
    (FOUR, "extent=n elements_per_thread=4 block=32 covers=y", "k < 4", "k < 3", "double-write", "no thread writes `y`[96]", "n = 97"),
    (REVERSED, "extent=n shared=4*block covers=y block=64", "__syncthreads();", "", "race-shared", "barrier between them", ""),
    (REVERSED, "extent=n shared=2*block covers=y block=64", "i < n", "i < n", "out-of-bounds", "at shared offset 128, but the block has 128 bytes", "n = 33"),
    (INNER, "extent=n block=64 covers=y", "x[i + 2]", "x[i + 2]", "out-of-bounds", "reads 4 bytes at `x`[2], outside its 1 elements", "n = 1"),
    (LAST, "extent=n block=32 covers=y", "n - 1", "n - 1", "out-of-bounds", "at `x`[-1]", "n = 0"),
    (TILE, "extent=n tile=30 block=32 covers=y", "< 31", "< 32", "double-write", "both write `y`[30]", "n = 31"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "clauses", "old", "new", "kind", "message", "size"), MUTANTS, ids=[f"{m[2]} → {m[3] or 'nothing'}" for m in MUTANTS]
)
def test_mutants_give_a_counterexample(source: str, clauses: str, old: str, new: str, kind: str, message: str, size: str) -> None:
    assert old in source
    proof = kernel_of(source.replace(old, new, 1), clauses).prove()
    assert not proof.passed and proof.counterexample is not None, proof
    found = proof.counterexample.finding
    assert found.severity == "error" and proof.counterexample.launch not in proof.launches
    if kind:
        assert found.kind == kind and message in found.message and size in proof.size(proof.counterexample.launch.extent)
    assert str(proof).startswith(f"{proof.kernel}: counterexample at {proof.size(proof.counterexample.launch.extent)} (grid ")
    assert f": {found.kind}: {found.message}" in str(proof)


def test_a_grid_rounded_down_is_a_counterexample_of_the_contract() -> None:
    """A contract that says that a block takes more than it does makes the grid too small."""
    proof = kernel_of(COPY, "extent=n block=64 tile=65 covers=y").prove()
    assert proof.counterexample is not None and proof.size(proof.counterexample.launch.extent) == "n = 65"
    assert proof.counterexample.finding.message == "no thread writes `y`[64] of 65 elements"


def test_both_sides_of_a_counterexample() -> None:
    source = COPY.replace("if (i < n) y[i] = x[i];", "if (i < n)\n        y[i] = x[i];\n    if (i == 65)\n        y[3] = 0;")
    proof = kernel_of(source, "extent=n block=64 covers=y").prove()
    assert proof.counterexample is not None
    found = proof.counterexample.finding
    assert proof.counterexample.launch.extent == (65,) and found.other is not None
    assert (found.site.line, found.site.block, found.site.thread) == (7, (1, 0, 0), (1, 0, 0))
    assert (found.other.line, found.other.block, found.other.thread) == (5, (0, 0, 0), (3, 0, 0))
    assert (found.buffer, found.index) == ("y", 3)
    document = proof.as_json()
    assert document["status"] == "counterexample" and document["counterexample"]["size"] == [65]
    assert document["counterexample"]["finding"]["line"] == 7 and document["counterexample"]["finding"]["other"]["line"] == 5


# ---- arguments --------------------------------------------------------------------------------------------------------


def test_arguments_of_ones_own() -> None:
    kernel = kernel_of(COMPACT, "extent=n block=64 writes_once=y distinct=x,y,count")
    seen = []

    def make(device: gs.Device, n: int) -> list[Any]:
        seen.append(n)
        x = np.random.default_rng(n).uniform(0, 1, n).astype(np.float32)
        return [n, device.array(x), device.zeros(n), device.zeros(1, np.uint32)]

    proof = kernel.prove(arguments=make)
    assert proof.passed and tuple((n,) for n in seen) == proof.sizes
    assert "y: 1,283 elements" not in str(proof) and "none written by two threads" in str(proof)
    broken = kernel_of(COMPACT.replace("atomicAdd(count, 1u)", "*count"), "extent=n block=64 writes_once=y").prove(arguments=make)
    assert broken.counterexample is not None and broken.counterexample.finding.kind == "double-write"


def test_variables_of_the_module_are_filled_before() -> None:
    source = COPY.replace("extern", "__constant__ int shift;\nextern", 1).replace("y[i]", "y[i + shift]")
    kernel = kernel_of(source, "extent=n block=64 covers=y")
    assert kernel.prove().passed
    proof = kernel.prove(prepare=lambda module: module.variable("shift", np.int32).copy_from(np.array([1], np.int32)))
    assert proof.counterexample is not None and proof.counterexample.finding.kind == "out-of-bounds"


def test_the_users_device_is_left_alone() -> None:
    kernel = kernel_of(COPY.replace("i < n", "i <= n"), "extent=n block=64 covers=y")
    with gs.checking() as findings:
        assert not kernel.prove().passed
        assert kernel.contract is not None
    assert kernel.device.zeros(4).numpy().sum() == 0
    assert findings.receipt.launches == 1  # a session around a proof sees its runs


@pytest.mark.parametrize(
    ("source", "clauses", "options", "message"),
    [
        (COPY, "block=64 covers=y", {}, "the contract of copy has no extent, so there are no sizes to prove it for"),
        (COPY, "extent=n", {"sizes": [(1, 2)]}, "a size for copy has 1 whole number of at least 0, not (1, 2)"),
        (COPY, "extent=n", {"sizes": [-1]}, "a size for copy has 1 whole number of at least 0, not -1"),
        (COPY, "extent=n", {"boundaries": False}, "no size was given to prove copy for"),
        (COPY, "extent=n", {"values": {"m": 1}}, "copy has no parameter 'm' to give a value to"),
        (
            COPY, "extent=2*n", {},
            "copy: the contract's extent '2*n' is no parameter, so its values for other sizes are not known; give the arguments for each size",
        ),
        (
            IMAGE, "extent=width", {},
            "image: the parameter height is `int`, and nothing says its value; give it for the proof",
        ),
        (
            COPY.replace("const float*", "const void*").replace("x[i]", "((float*)x)[i]"), "extent=n", {},
            "copy: what x (`const void*`) points at is not plain; give the buffer for the proof",
        ),
    ],
)  # fmt: skip
def test_what_a_proof_cannot_do(source: str, clauses: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        kernel_of(source, clauses).prove(**options)


def test_no_contract_and_arguments_that_break_it() -> None:
    kernel = kernel_of(COPY, "extent=n distinct=x,y")
    with pytest.raises(UsageError, match=re.escape("copy has no contract to prove; give it one (docs/contracts.md)")):
        kernel.with_contract(None).prove()
    with pytest.raises(ContractError, match="have 4 bytes in common"):
        kernel.prove(arguments=lambda device, n: (n, a := device.zeros(n), a))
    with pytest.raises(UsageError, match=re.escape("the arguments for copy at (0,) say that the extent is (5,)")):
        kernel.prove(arguments=lambda device, n: (5, device.zeros(5), device.zeros(5)))
