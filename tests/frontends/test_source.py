"""One door for files and texts of both kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridstride.errors import UsageError
from gridstride.frontends import ptx_file
from gridstride.frontends.signatures import Parameter
from gridstride.frontends.source import load_source

TRUTH = Path(__file__).parents[1] / "truth"
PTX = """// made by hand /* .version 1.0 */
/* over
   two lines */
.version 8.0
.target sm_80, texmode_independent
.address_size 64
.file 1 "some/where.cu"
// .entry ghost(.param .u64 x)
.visible .entry scale(
    .param .u64 .ptr .global .align 4 data, // the data
    .param .f32 factor,
    .param .align 16 .b8 table[32]
)
.maxntid 128, 1, 1
{ ret; }
.entry nothing { ret; }
"""


def test_ptx_text_passes_through() -> None:
    loaded = load_source(PTX)
    assert (loaded.kind, loaded.ptx, loaded.path, loaded.arch, loaded.log) == ("ptx", PTX, None, "sm_80", "")
    assert loaded.names.entries == ("scale", "nothing")
    assert loaded.parameter_names("scale") == ("data", "factor", "table")
    assert loaded.parameter_names("nothing") == ()
    assert loaded.parameters("scale") is None
    assert dict(loaded.files) == {1: "some/where.cu"}


def test_ptx_file_passes_through_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "kernels.txt"
    path.write_text(PTX)
    assert load_source(path).ptx == PTX
    assert load_source(str(path)).name == str(path)


def test_truth_ptx_finds_its_names_in_the_source_beside_it(tmp_path: Path) -> None:
    loaded = load_source(TRUTH / "kernels.ptx")
    assert len(loaded.names.entries) == 53
    assert loaded.parameters("vec_add") == (
        Parameter("a", "const float*"), Parameter("b", "const float*"), Parameter("c", "float*"), Parameter("n", "int"),
    )  # fmt: skip
    alone = tmp_path / "kernels.ptx"
    alone.write_text((TRUTH / "kernels.ptx").read_text())
    assert load_source(alone).parameter_names("vec_add") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".version 6.0\n", True),
        ("\ufeff  // hi\n\n/* .x */ .version 9.5", True),
        ("__global__ void k() {}", False),
        ("// .version 6.0\n", False),
        ("", False),
    ],
)
def test_what_is_ptx(text: str, expected: bool) -> None:
    assert ptx_file.is_ptx(text) is expected


def test_compilers_parameter_names_say_nothing() -> None:
    assert ptx_file.own_parameter_names("k", ("k_param_0", "k_param_1")) is None
    assert ptx_file.own_parameter_names("k", ("k_param_0", "n")) == ("k_param_0", "n")


def test_files_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.ptx").write_text("nothing")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    for path, message in (
        ("no/such.cu", "no/such.cu does not exist"),
        (str(tmp_path), f"{tmp_path} is a folder: give a .cu or .ptx file"),
        (str(tmp_path / "a.ptx"), f"{tmp_path}/a.ptx is no PTX: PTX begins with .version"),
        (str(tmp_path / "photo.png"), f"{tmp_path}/photo.png is neither CUDA C++ (.cu, .cuh, .cpp) nor PTX, which begins with .version"),
    ):
        with pytest.raises(UsageError) as caught:
            load_source(path)
        assert str(caught.value) == message


def test_templates_of_ptx_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        load_source(PTX, name="k.ptx").with_instances(["scale<int>"])
    assert str(caught.value) == "k.ptx is PTX: templates can only be instantiated from CUDA C++"


@pytest.mark.usefixtures("compiler")
def test_cuda_kernels_by_plain_name_with_parameters() -> None:
    text = """
    namespace ns { template <class T> __global__ void scale(T* data, T factor) { data[0] *= factor; } }
    struct __align__(8) Pair { int a, b; };
    __global__ void add(const float* x, float* y, int n) { y[0] += x[0]; }
    __global__ void add(const int* ix, int* iy, int n) { iy[0] += ix[0]; }
    __global__ void pair(Pair p, int* out) { out[0] = p.a; }
    """
    loaded = load_source(text, name_expressions=["ns::scale<float>"])
    assert loaded.kind == "cuda"
    assert loaded.parameter_names("scale") == ("data", "factor")
    assert loaded.parameter_names("scale<float>") == ("data", "factor")
    assert loaded.parameter_names("add(const int*, int*, int)") == ("ix", "iy", "n")
    assert loaded.parameter_names("add(float const*, float*, int)") == ("x", "y", "n")
    assert loaded.parameters("pair") == (Parameter("p", "Pair"), Parameter("out", "int*"))
    with pytest.raises(UsageError, match="'add' means 2 kernels"):
        loaded.entry("add")


@pytest.mark.usefixtures("compiler")
def test_an_instance_is_compiled_when_it_is_asked_for() -> None:
    loaded = load_source("namespace ns { template <class T> __global__ void scale(T* data) { data[0] *= 3; } }\n__global__ void k() {}\n")
    assert loaded.with_kernel("k") is loaded
    assert loaded.names.entries == ("_Z1kv",)
    with_double = loaded.with_kernel("scale<double>")
    assert with_double.entry("scale<double>") == "_ZN2ns5scaleIdEEvPT_"
    assert with_double.with_kernel("ns::scale<int>").entry("scale<double>") == "_ZN2ns5scaleIdEEvPT_"
    with pytest.raises(UsageError) as caught:
        loaded.with_kernel("scale")
    assert str(caught.value) == "'scale' of kernel.cu is a template: name the instance to compile, as in 'scale<float>'"


@pytest.mark.usefixtures("compiler")
def test_line_information_of_a_file_leads_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.cu").write_text("__global__ void k(int* a) { a[0] = 1; }\n")
    monkeypatch.chdir(tmp_path)
    assert dict(load_source("a.cu").files) == {1: str(tmp_path / "a.cu")}
