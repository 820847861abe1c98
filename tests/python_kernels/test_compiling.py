"""How Python kernels become PTX: declared types, what is linked, what is kept on disk, and what is said of kernels that cannot be compiled."""

from pathlib import Path

import numpy as np
import pytest
from numba import cuda

import gridstride as gs
from gridstride.errors import CompileError, LaunchError, UnsupportedError, UsageError
from gridstride.frontends import numba_compile, python_linking
from gridstride.frontends.numba_cuda import defer_signatures, python_function, short_type
from gridstride.frontends.ptx_link import link, undefined
from gridstride.frontends.python_fingerprint import fingerprint
from python_kernels import refused_kernels

defer_signatures()  # as `gridstride launch module.py:fn` does before it imports the module


@pytest.fixture(scope="module")
def sim():
    return gs.device("sim", blocking=True)


# ---- declared types ---------------------------------------------------------------------------------------------------


@cuda.jit("float32(float32)", device=True)
def plus(x):
    return x + 1


@cuda.jit("void(float32[:], int32)")
def declared(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] = plus(x[i])


@cuda.jit(["void(float32[:], int32)", "void(float64[:], float64)"])
def either(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] += n


@cuda.jit("void(CPointer(float32), int64)")
def raw(p, n):
    i = cuda.grid(1)
    if i < n:
        p[i] += 1


def test_declared_signatures(device):
    x = np.zeros(10, np.float32)
    device.compile(declared)[1, 32](x, 10)
    assert (x == 1).all()
    kernel, y = device.compile(either), np.zeros(10)
    kernel[1, 32](x, np.int32(3))
    kernel[1, 32](y, 2.5)
    assert x.tolist() == [4] * 3 + [1] * 7 and y.tolist() == [2.5] * 3 + [0] * 7
    z = device.zeros(10)
    device.compile(raw)[1, 32](gs.pointer(z.address), 10)
    assert (z.numpy() == 1).all()


def test_what_fits_no_declared_signature_is_refused(sim):
    with pytest.raises(LaunchError) as caught:
        sim.compile(either)[1, 32](np.zeros((2, 2)), 1)
    assert str(caught.value) == "either is declared for (float32[:], int32) or (float64[:], float64), and was given (float64[:, ::1], int64)"
    with pytest.raises(LaunchError) as caught:
        sim.compile(declared)[1, 32](np.zeros(3, np.float32), 1 << 40)
    assert str(caught.value) == "declared, argument 2 (n: `int32`): 1099511627776 does not fit (-2147483648 to 2147483647)"


def test_types_are_those_that_numba_infers(sim):
    kernel = sim.compile(lambda a, b, c, d: None)
    x = np.zeros((3, 4), np.float32)
    views = (sim.array(x), sim.array(x)[:, ::2], sim.array(x)[1], x.T)
    kernel[1, 1](*views)
    assert [short_type(kind) for kind in next(iter(kernel._kernels))] == ["float32[:, ::1]", "float32[:, :]", "float32[::1]", "float32[::1, :]"]


# ---- what cannot be compiled -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "mark", "sentence"), refused_kernels.SENTENCES)
def test_errors_are_one_sentence_with_file_and_line(sim, name, mark, sentence):
    kernel = getattr(refused_kernels, name)
    with pytest.raises(CompileError) as caught:
        sim.compile(kernel)[1, 32](np.zeros(32))
    lines = Path(refused_kernels.__file__).read_text().splitlines()
    line = 1 + next(k for k, text in enumerate(lines) if text.endswith(f"# {mark}"))
    assert str(caught.value) == f"{refused_kernels.__file__}:{line}: {name}: {sentence}"


def test_arguments_that_no_kernel_takes(sim):
    kernel = sim.compile(lambda x: None)
    for value, error, sentence in (
        ("text", UnsupportedError, "the argument x has the type unicode_type, which kernels cannot be given"),
        (None, UnsupportedError, "the argument x has the type none, which kernels cannot be given"),
        ({}, UsageError, "a dict cannot be an argument of a kernel (Cannot determine Numba type of <class 'dict'>)"),
        (np.zeros(3, object), UsageError, "an array of object cannot be an argument of a kernel: it holds Python objects"),
    ):
        with pytest.raises(error) as caught:
            kernel[1, 1](value)
        assert str(caught.value) == sentence


def test_device_functions_are_not_launched(sim):
    with pytest.raises(UsageError, match=r"plus is a device function \(device=True\): kernels call it, the host cannot launch it"):
        sim.compile(plus)


def test_numpy_arrays_need_a_launch_that_can_copy_them_back(sim):
    with pytest.raises(LaunchError, match=r"declared: x is a NumPy array, which lies in the host's memory; copy it with device.array\(…\) and pass that"):
        sim.compile(declared)[1, 32].lazy(np.zeros(3, np.float32), 3)


def test_without_numba_the_sentence_names_what_to_install(sim, monkeypatch):
    from gridstride.frontends import numba_cuda

    numba_cuda.numba_cuda.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "numba.cuda.compiler", None)
    try:
        with pytest.raises(UnsupportedError, match=r"kernels written in Python need numba-cuda, which is not installed here: run `pip install 'gridstride\[python\]'`"):
            sim.compile(lambda x: None)
    finally:
        numba_cuda.numba_cuda.cache_clear()


# ---- linking ----------------------------------------------------------------------------------------------------------


def test_cuda_cpp_and_ptx_are_linked(device, tmp_path):
    source = tmp_path / "twice.cu"
    source.write_text('extern "C" __device__ int twice(int* result, int x) { *result = 2 * x; return 0; }\n')
    text = tmp_path / "thrice.ptx"
    text.write_text(
        ".version 7.8\n.target sm_75\n.address_size 64\n.visible .func (.param .b32 r) thrice(.param .b64 result, .param .b32 x) {\n"
        ".reg .b32 %r<4>; .reg .b64 %rd<2>;\nld.param.u64 %rd1, [result]; ld.param.u32 %r1, [x]; mul.lo.s32 %r2, %r1, 3; st.u32 [%rd1], %r2;\n"
        "mov.u32 %r3, 0; st.param.b32 [r], %r3; ret; }\n"
    )
    twice, thrice = (cuda.declare_device(name, "int32(int32)") for name in ("twice", "thrice"))

    @cuda.jit(link=[str(source), str(text)])
    def both(out):
        i = cuda.grid(1)
        out[i] = twice(i) + 100 * thrice(i)

    out = np.zeros(32, np.int32)
    device.compile(both)[1, 32](out)
    assert np.array_equal(out, np.arange(32) * 302)


def test_what_nothing_defines_is_named(sim):
    missing = cuda.declare_device("not_there", "int32(int32)")

    @cuda.jit
    def lost(out):
        out[0] = missing(1)

    with pytest.raises(UnsupportedError) as caught:
        sim.compile(lost)[1, 1](np.zeros(1, np.int32))
    assert str(caught.value) == "lost calls the function not_there, which is defined nowhere: link its CUDA C++ or PTX with @cuda.jit(link=[…])"


def test_machine_code_cannot_be_linked(sim, tmp_path):
    (tmp_path / "x.cubin").write_bytes(b"")

    @cuda.jit(link=[str(tmp_path / "x.cubin")])
    def kernel(out):
        out[0] = 1

    with pytest.raises(UnsupportedError, match=r"x.cubin cannot be linked: Python kernels link CUDA C\+\+ \(.cu\) and PTX \(.ptx\), no machine code"):
        sim.compile(kernel)[1, 1](np.zeros(1))


HEAD = ".version {}\n.target sm_90\n.address_size 64\n"


def test_linking_keeps_what_kernels_reach_and_tells_private_names_apart():
    first = HEAD.format("8.0") + (
        '.file 1 "a.cu"\n.extern .func (.param .b32 r) f(.param .b32 x);\n.global .align 4 .u32 hidden = 1;\n.global .align 4 .u32 unused;\n'
        ".visible .entry k(.param .u64 p) { .reg .b32 %r<3>; .loc 1 2 3\n mov.u32 %r1, hidden; ret; // f is named here; }\n call f; }\n"
    )
    second = HEAD.format("8.4") + (
        '.file 1 "b.cu"\n.global .align 4 .u32 hidden = 2;\n.visible .func (.param .b32 r) f(.param .b32 x) { .loc 1 7 1\n mov.u32 %r1, hidden; ret; }\n'
        ".visible .func g() { ret; }\n"
    )
    text = link([first, second])
    assert text.startswith(".version 8.4\n")
    assert "unused" not in text and " g()" not in text
    assert ".u32 hidden = 1;" in text and ".u32 hidden$1 = 2;" in text and "mov.u32 %r1, hidden$1;" in text
    assert '.file 1 "a.cu"' in text and '.file 2 "b.cu"' in text and ".loc 2 7 1" in text
    assert text.index(".func (.param .b32 r) f(.param .b32 x)\n;") < text.index(".entry k")
    assert undefined(text) == () and undefined(first) == ("f",)
    with pytest.raises(CompileError, match="`f` is defined twice in what is linked"):
        link([first, second, second])


# ---- kept on disk ------------------------------------------------------------------------------------------------------


def make(factor=2, table=(1, 2), helper_adds=1):
    @cuda.jit(device=True)
    def helper(x):
        return x + helper_adds

    def kernel(x):
        x[0] = helper(factor) + table[0]

    return kernel


def test_a_fingerprint_changes_with_everything_a_kernel_is_made_of():
    same = fingerprint(make())
    assert same is not None and same == fingerprint(make())
    others = [fingerprint(make(factor=3)), fingerprint(make(table=(2, 2))), fingerprint(make(helper_adds=2)), fingerprint(make(table=np.array([1, 2])))]
    assert len({same, *others}) == 5
    assert fingerprint(make(table=np.array([1, 2]))) == others[-1] != fingerprint(make(table=np.array([1, 3])))


def test_what_cannot_be_described_is_compiled_anew():
    class Odd:
        pass

    assert fingerprint(make(table=Odd())) is None


def test_results_are_taken_from_disk(sim, monkeypatch, tmp_path):
    monkeypatch.setenv("GRIDSTRIDE_CACHE_DIR", str(tmp_path))
    compiled = []
    inner = numba_compile._compile
    monkeypatch.setattr(numba_compile, "_compile", lambda function, *rest: compiled.append(function.name) or inner(function, *rest))
    for _ in range(2):
        x = np.zeros(1)
        sim.compile(make())[1, 1](x)
        assert x[0] == 4
    assert compiled == ["kernel"]
    sim.compile(make(factor=5))[1, 1](x)
    assert compiled == ["kernel", "kernel"] and x[0] == 7


def test_the_providers_of_functions_exist():
    for provider in numba_compile.providers().values():
        assert provider().text
    assert python_linking.GRID_SYNC.is_file()
    assert python_function(declared).signatures
