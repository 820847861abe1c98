"""Contracts as they are declared: in Python, as text, in comments of CUDA C++ and PTX, by a decorator; and what makes no sense."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridstride as gs
from gridstride.errors import CompileError, UsageError
from gridstride.runtime.contracts.contract import contract_of
from gridstride.runtime.contracts.notation import parse_contract

KERNEL = 'extern "C" __global__ void copy(int n, const float* x, float* y) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }\n'


@pytest.fixture(scope="module")
def device() -> gs.Device:
    return gs.device("sim")


@pytest.mark.parametrize(
    ("text", "contract"),
    [
        ("extent=n", gs.Contract(extent="n")),
        ("extent=n block=256 covers=y distinct=x,y", gs.Contract(extent="n", block=256, covers="y", distinct=("x", "y"))),
        ("extent=width,height block=32x8 grid_stride=y", gs.Contract(extent=("width", "height"), block=(32, 8), grid_stride="y")),
        ("extent=w,h tile=120,64 block=32,8", gs.Contract(extent=("w", "h"), tile=(120, 64), block=(32, 8, 1))),
        ("extent=cdiv(n,2),m elements_per_thread=4,2", gs.Contract(extent=("cdiv(n,2)", "m"), elements_per_thread=(4, 2))),
        ("extent=n grid_stride", gs.Contract(extent="n", grid_stride=True)),
        ("extent=n unguarded block_multiple_of=32", gs.Contract(extent="n", guard=False, block_multiple_of=32)),
        ("extent=n nonempty", gs.Contract(extent="n", nonempty=True)),
        ("covers=a,b writes_once=c distinct=a,b|b,c", gs.Contract(covers=("a", "b"), writes_once="c", distinct=(("a", "b"), ("b", "c")))),
        ("extents=x:n+2|bins:256|image:w,h shared=4*block", gs.Contract(extents={"x": "n+2", "bins": 256, "image": ("w", "h")}, shared="4*block")),
    ],
)
def test_text_and_python_say_the_same(text: str, contract: gs.Contract) -> None:
    assert parse_contract(text) == contract
    assert parse_contract("  " + text.replace(" ", "\t") + " ") == contract


def test_a_contract_is_a_value() -> None:
    one = gs.Contract(extent="n", extents={"x": "n + 1"}, covers=["y"])
    assert one == gs.Contract(extent=["n"], extents={"x": ("n + 1",)}, covers="y") and hash(one) == hash(gs.Contract(extent="n", covers="y"))
    assert repr(one) == "Contract(extent=('n',), covers=('y',), extents={'x': ('n + 1',)})" and repr(gs.Contract()) == "Contract()"
    with pytest.raises(AttributeError):
        one.extent = ("m",)  # type: ignore[misc]
    with pytest.raises(TypeError):
        one.extents["z"] = ("n",)  # type: ignore[index]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"extent": ("a", "b", "c", "d")}, "a contract's extent has at most three axes, not 4"),
    ({"extent": "n +"}, "a contract's extent is a parameter's name or arithmetic over parameters, such as \"n\" or \"2*n\", not 'n +'"),
    ({"extent": 2.5}, "a contract's extent is a parameter's name or arithmetic over parameters, such as \"n\" or \"2*n\", not 2.5"),
    ({"block": 0}, "a contract's block is at least 1, not 0"),
    ({"block": (1, 2, 3, 4)}, "a contract's block has one to three dimensions, not (1, 2, 3, 4)"),
    ({"block": "many"}, "a contract's block is a whole number, not 'many'"),
    ({"block": 100, "block_multiple_of": 32}, "the contract's block has 100 threads, which is no multiple of 32"),
    ({"extent": "n", "elements_per_thread": (2, 2)}, "a contract's elements_per_thread has 2 axes, and its extent 1"),
    (
        {"extent": "n", "elements_per_thread": 2, "tile": 512},
        "a contract says what a thread takes (elements_per_thread) or what a block takes (tile), not both",
    ),
    ({"elements_per_thread": 2}, "a contract that says how threads take elements says how many there are too: extent=…"),
    ({"extent": "n", "grid_stride": "y"}, "a contract's grid_stride names axes of its extent, such as 'x', not 'y'"),
    ({"extent": "n", "guard": False, "grid_stride": True}, "a kernel with grid-stride loops has a guard: leave out guard=False or grid_stride"),
    ({"extent": "n", "guard": 0}, "a contract's guard is True or False, not 0"),
    ({"covers": ("y", "y")}, "a contract's covers names a parameter twice: y, y"),
    ({"covers": ("y", 3)}, "a contract's covers names parameters, such as covers=\"y\", not ('y', 3)"),
    ({"covers": "y", "writes_once": "y"}, "y: covers says all that writes_once says; name an output in one of them"),
    ({"distinct": ("x",)}, "a contract's distinct names at least two buffers, not x alone"),
    ({"shared": "4 *"}, "a contract's shared is a parameter's name or arithmetic over parameters, such as \"n\" or \"2*n\", not '4 *'"),
]


@pytest.mark.parametrize(("clauses", "message"), WRONG, ids=[message for _, message in WRONG])
def test_clauses_that_make_no_sense(clauses: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        gs.Contract(**clauses)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a contract without clauses says nothing; write some, such as extent=n block=256 covers=y"),
        ("extend=n", "a contract has no clause 'extend=n'; did you mean extent?"),
        ("extent", "a contract has no clause 'extent'; the clauses are extent=…, block=…, "),
        ("extent=n extent=m", "the clause extent stands twice in the contract 'extent=n extent=m'"),
        ("block=many", "'many' is no whole number"),
        ("extents=x", "extents says BUFFER:ELEMENTS, as in extents=x:n+2, not 'x'"),
    ],
)
def test_text_that_makes_no_sense(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        parse_contract(text)


@given(st.text(alphabet="extnblockcvrs=,|:()*+ 0123456789\n", max_size=60))
def test_any_text_is_a_contract_or_a_sentence(text: str) -> None:
    try:
        parse_contract(text)
    except UsageError as error:
        assert str(error)


# ---- above kernels ----------------------------------------------------------------------------------------------------


def test_comments_above_kernels(device: gs.Device) -> None:
    module = device.compile(
        "// gridstride: contract extent=n block=256\n"
        "// More about the kernel.\n"
        "//   gridstride:  contract  covers=y\n"
        + KERNEL
        + "/* gridstride: contract extent=n */ template <typename T> __global__ void scale(int n, T* y) { if (threadIdx.x < n) y[threadIdx.x] *= 2; }\n"
        "namespace inner {\n"
        "    /* A comment over lines:\n"
        "     * gridstride: contract extent=m covers=out\n"
        "     */\n"
        "    __global__ void fill(int m, float* out) { if (threadIdx.x < m) out[threadIdx.x] = 1; }\n"
        "}\n"
        "__global__ void free_of_it(int n, float* y) { y[0] = n; }\n"
    )
    assert module["copy"].contract == gs.Contract(extent="n", block=256, covers="y")
    assert module["inner::fill"].contract == gs.Contract(extent="m", covers="out")
    assert module["scale<double>"].contract == gs.Contract(extent="n") == module["scale<float>"].contract
    assert module["free_of_it"].contract is None


def test_kernels_that_macros_make(device: gs.Device) -> None:
    module = device.compile(
        "#define MAKE(T) extern \"C\" __global__ void set_##T(int n, T* y) { if (threadIdx.x < n) y[threadIdx.x] = 1; }\n"
        "// gridstride: contract kernel=set_* extent=p0\n"
        "// gridstride: contract kernel=set_float extent=p0 covers=p1\n"
        "MAKE(int) MAKE(float)\n"
    )
    assert module["set_int"].contract == gs.Contract(extent="p0")  # the names that a macro gives parameters are not known
    assert module["set_float"].contract == gs.Contract(extent="p0", covers="p1")
    y = device.zeros(10)
    module["set_float"].for_each(10)(10, y)
    assert (y.numpy() == 1).all()


def test_headers(device: gs.Device, tmp_path: Path) -> None:
    (tmp_path / "copy.cuh").write_text("// gridstride: contract extent=n\n" + KERNEL)
    (tmp_path / "main.cu").write_text('#include "copy.cuh"\n')
    assert device.compile(tmp_path / "main.cu")["copy"].contract == gs.Contract(extent="n")


def test_ptx(device: gs.Device) -> None:
    ptx = device.compile(KERNEL).ptx
    kernel = device.compile(ptx.replace(".visible .entry", "// gridstride: contract extent=copy_param_0 covers=copy_param_2 block=64\n.visible .entry"))["copy"]
    assert kernel.contract == gs.Contract(extent="copy_param_0", covers="copy_param_2", block=64)
    x, y = device.array(np.arange(100, dtype=np.float32)), device.zeros(100)
    kernel.for_each(100)(100, x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    with pytest.raises(gs.ContractError, match="copy_param_0 = 100; launch 2 blocks"):
        kernel[1, 64](100, x, y)


def test_what_python_says_stands_in_place_of_comments(device: gs.Device) -> None:
    source = "// gridstride: contract extent=n\n" + KERNEL
    given = gs.Contract(extent="n", block=32)
    module = device.compile(source, contracts={"copy": given})
    assert module["copy"].contract == given and module.fresh()["copy"].contract == given
    assert module["copy"].with_contract(None).contract is None and module["copy"].contract == given
    template = device.compile("template <typename T> __global__ void set(int n, T* y) { y[0] = n; }", contracts={"set": given})
    assert template["set<int>"].contract == given


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("// gridstride: contract extend=n\n" + KERNEL, "k.cu:1: a contract has no clause 'extend=n'; did you mean extent?"),
        (KERNEL + "\n// gridstride: contract extent=n\n", "k.cu:3: no kernel follows this contract; put it above one, or say whom it is about: kernel=NAME"),
        ("// gridstride: contract extent=n guard\n" + KERNEL, "k.cu:1: a contract has no clause 'guard'; did you mean unguarded?"),
    ],
)
def test_comments_that_make_no_sense(device: gs.Device, source: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        device.compile(source, name="k.cu")


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        (gs.Contract(extent="m"), "the contract of copy names 'm', which is no parameter of it; it has n, x, y"),
        (gs.Contract(extent="n", covers="yy"), "the contract of copy names 'yy', which is no parameter of it; did you mean 'y'?"),
        (gs.Contract(covers="n"), "the contract of copy takes n for a buffer, and it is `int`"),
        (gs.Contract(extent="x"), "the contract of copy takes x for a number, and it is `const float*`"),
        (gs.Contract(shared="4 * blok"), "the contract of copy names 'blok', which is no parameter of it; it has n, x, y"),
        (gs.Contract(distinct=("x", "z")), "the contract of copy names 'z', which is no parameter of it; it has n, x, y"),
    ],
)
def test_contracts_that_do_not_fit_the_kernel(device: gs.Device, contract: gs.Contract, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        device.compile(KERNEL, contracts={"copy": contract})["copy"]


def test_contracts_for_kernels_that_are_not_there(device: gs.Device) -> None:
    with pytest.raises(UsageError, match="cpoy"):
        device.compile(KERNEL, contracts={"cpoy": gs.Contract(extent="n")})
    with pytest.raises(UsageError, match="^contracts are given by the names of kernels, as in contracts="):
        device.compile(KERNEL, contracts={"copy": "extent=n"})


def test_a_source_that_does_not_compile_says_so(device: gs.Device) -> None:
    with pytest.raises(CompileError):
        device.compile("// gridstride: contract extent=n\n__global__ void k(int n) { wrong }\n")


# ---- kernels written in Python ----------------------------------------------------------------------------------------


def test_a_decorated_function_keeps_its_contract() -> None:
    @gs.contract(extent="n", block=128)
    def kernel(n: int) -> None: ...

    assert contract_of(kernel) == gs.Contract(extent="n", block=128) and contract_of(len) is None
    with pytest.raises(UsageError, match="a contract's block is at least 1, not 0"):
        gs.contract(block=0)
