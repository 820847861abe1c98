"""CUDA C++ to PTX: stand-in headers, host code, errors word for word, what is kept on disk."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gridstride.errors import CompileError, UnsupportedError, UsageError
from gridstride.frontends import cuda_cpp, nvrtc
from gridstride.frontends.cuda_cpp import compile_cuda, real_arch
from gridstride.frontends.source import load_source

pytestmark = pytest.mark.usefixtures("compiler")
HEADERS = Path(cuda_cpp.__file__).parent / "headers"
STAND_INS = sorted(path.relative_to(HEADERS).as_posix() for path in HEADERS.rglob("*") if path.is_file())
SLOW = {"type_traits", "tuple", "array", "functional"}  # these draw in libcu++, which takes a second


def message_of(text: str, **options: object) -> str:
    with pytest.raises(CompileError) as caught:
        compile_cuda(text, file_name="a.cu", **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_ptx_with_line_information_for_the_asked_target() -> None:
    text = "__global__ void k(float* a) {\n    a[threadIdx.x] = 1.0f;\n}\n"
    compiled = compile_cuda(text, file_name="a.cu")
    assert re.search(r"^\.target sm_90$", compiled.ptx, re.MULTILINE)
    assert re.search(r'^\s*\.file\s+1 "a\.cu"', compiled.ptx, re.MULTILINE)
    assert re.search(r"^\s*\.loc\s+1 2 ", compiled.ptx, re.MULTILINE)
    assert compiled.log == ""
    assert re.search(r"^\.target sm_80$", compile_cuda(text, arch="8.0").ptx, re.MULTILINE)
    assert ".loc" not in compile_cuda(text, line_info=False).ptx


@pytest.mark.parametrize(
    ("given", "real"), [("sm_90", "sm_90"), ("compute_80", "sm_80"), ("7.5", "sm_75"), ("120", "sm_120"), ("sm_90a", "sm_90a")]
)
def test_spellings_of_an_architecture(given: str, real: str) -> None:
    assert real_arch(given) == real


def test_architecture_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        compile_cuda("", arch="hopper")
    assert str(caught.value) == "'hopper' is no compute capability: write it as sm_90, compute_90 or 9.0"
    with pytest.raises(UsageError, match=r"^this compiler has no target compute_12: it takes sm_75, sm_80, "):
        compile_cuda("", arch="sm_12")


def test_option_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        compile_cuda("", file_name="a.cu", options=["--bogus"])
    assert str(caught.value) == "the compiler does not take these options for a.cu: unrecognized option --bogus found"


def test_options_of_nvcc_without_a_use_here_are_no_errors() -> None:
    compile_cuda("__global__ void k() {}", options=["-O3", "--expt-relaxed-constexpr", "-lineinfo", "--use_fast_math", "-std=c++20"])


def test_defines_in_both_forms() -> None:
    text = "__global__ void k(int* a) { a[0] = N + (FLAG ? 1000 : 0); }"
    for defines in ({"N": 24, "FLAG": True}, ["N=24", "FLAG"]):
        assert re.search(r"\b1024;", compile_cuda(text, defines=defines).ptx)


def test_errors_word_for_word() -> None:
    text = '__global__ void k(float* a) {\n\ta[0] = zz;\n    int n = "c";\n}\n'
    assert message_of(text) == (
        "a.cu does not compile (2 errors):\n"
        'a.cu:2:9: error: identifier "zz" is undefined\n'
        "    \ta[0] = zz;\n"
        "    \t       ^\n"
        'a.cu:3:13: error: a value of type "const char *" cannot be used to initialize an entity of type "int"\n'
        '        int n = "c";\n'
        "                ^"
    )


def test_error_in_a_template_says_where_it_was_instantiated() -> None:
    text = "template <class T> __device__ T f(T a) { return a.y; }\n__global__ void k(int* a) { a[0] = f(3); }\n"
    assert message_of(text) == (
        "a.cu does not compile (1 error):\n"
        'a.cu:1:49: error: expression must have class type but it has type "int"\n'
        "    template <class T> __device__ T f(T a) { return a.y; }\n"
        "                                                    ^\n"
        '    detected during instantiation of "T f(T) [with T=int]" at line 2'
    )


def test_text_that_ends_too_early() -> None:
    assert (
        message_of("__global__ void k(float* a) {\n    a[0] = 1;\n").splitlines()[-1] == 'at the end of the source: error: expected a "}"'
    )


def test_missing_header_says_how_to_give_its_folder() -> None:
    assert message_of('#include "mine.h"\n') == (
        "a.cu does not compile (1 error):\n"
        'a.cu:1:18: error: cannot open source file "mine.h"\n'
        '    #include "mine.h"\n'
        "                     ^\n"
        "    help: give the folder of mine.h with -I FOLDER (include_dirs=)"
    )


def test_a_kernel_that_calls_a_host_function_is_told_so() -> None:
    text = "float square(float x) { return x * x; }\n__global__ void k(float* a) { a[0] = square(a[0]); }\n"
    assert message_of(text) == (
        "a.cu does not compile (1 error):\n"
        'a.cu:2:38: error: identifier "square" is undefined\n'
        "    __global__ void k(float* a) { a[0] = square(a[0]); }\n"
        "                                         ^\n"
        '    help: "square" (line 1) is a host function: mark it __device__ if kernels call it'
    )


def test_line_and_column_of_a_marked_constexpr_function_are_the_authors() -> None:
    text = "constexpr int square(int v) { return v * zz; }\n__global__ void k(int* a) { a[0] = square(2); }\nvoid host() {}\n"
    assert 'a.cu:1:42: error: identifier "zz" is undefined\n    constexpr int square(int v) { return v * zz; }\n' in message_of(text)


def test_warnings_are_kept() -> None:
    compiled = compile_cuda("#warning look here\n__global__ void k() {}\n", file_name="a.cu")
    assert compiled.log == "a.cu:1:2: warning: #warning directive: look here\n    #warning look here\n     ^"


@pytest.mark.parametrize("header", [header for header in STAND_INS if header not in SLOW])
def test_stand_in_compiles_alone_and_twice(header: str) -> None:
    compiled = compile_cuda(f"#include <{header}>\n#include <{header}>\n__global__ void k(int* a) {{ a[0] = 1; }}\n")
    assert compiled.log == ""


def test_stand_ins_live_with_each_other_and_with_libcuxx() -> None:
    own = "".join(f"#include <{header}>\n" for header in STAND_INS)
    nvidias = "#include <cuda/std/cstdint>\n#include <cuda/std/limits>\n#include <cuda/std/cmath>\n#include <cuda_fp16.h>\n#include <cuda/atomic>\n"
    kernel = "__global__ void k(uint64_t* a) { cuda::atomic_ref<uint64_t> r(a[0]); r.fetch_add(std::numeric_limits<int>::max()); }\n"
    for text in (own + nvidias + kernel, nvidias + own + kernel):
        assert compile_cuda(text).log == ""


def test_values_of_the_stand_ins() -> None:
    """Against the C and C++ standards and IEEE 754, by the compiler's own arithmetic."""
    checks = """
#include <algorithm>
#include <cfloat>
#include <cinttypes>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
using std::numeric_limits;
struct P { char c; double d; };
static_assert(offsetof(P, d) == 8, "");
static_assert(CHAR_BIT == 8 && INT_MAX == 2147483647 && INT_MIN == -2147483647 - 1 && UINT_MAX == 4294967295u, "");
static_assert(LLONG_MAX == 9223372036854775807ll && ULLONG_MAX == 18446744073709551615ull && SHRT_MIN == -32768, "");
static_assert(INT8_MIN == -128 && UINT16_MAX == 65535 && INT64_MAX == LLONG_MAX && SIZE_MAX == ULLONG_MAX, "");
static_assert(sizeof(int8_t) == 1 && sizeof(uint16_t) == 2 && sizeof(int32_t) == 4 && sizeof(uint64_t) == 8 && sizeof(uintptr_t) == 8, "");
static_assert(FLT_MAX == 0x1.fffffep127f && FLT_MIN == 0x1p-126f && FLT_EPSILON == 0x1p-23f && FLT_TRUE_MIN == 0x1p-149f, "");
static_assert(DBL_MAX == 0x1.fffffffffffffp1023 && DBL_MIN == 0x1p-1022 && DBL_EPSILON == 0x1p-52 && DBL_TRUE_MIN == 0x1p-1074, "");
static_assert(numeric_limits<int>::max() == INT_MAX && numeric_limits<short>::min() == -32768 && numeric_limits<char>::lowest() == -128, "");
static_assert(numeric_limits<uint8_t>::max() == 255 && numeric_limits<int64_t>::min() == LLONG_MIN && numeric_limits<unsigned long long>::max() == ULLONG_MAX, "");
static_assert(numeric_limits<int>::digits10 == 9 && numeric_limits<long long>::digits10 == 18 && numeric_limits<unsigned>::digits == 32, "");
static_assert(numeric_limits<float>::max() == FLT_MAX && numeric_limits<float>::lowest() == -FLT_MAX && numeric_limits<double>::epsilon() == DBL_EPSILON, "");
static_assert(numeric_limits<float>::infinity() > FLT_MAX && INFINITY > FLT_MAX && -HUGE_VAL < -DBL_MAX, "");
static_assert(NAN != NAN && numeric_limits<double>::quiet_NaN() != numeric_limits<double>::quiet_NaN(), "");
static_assert(std::min(3, 2) == 2 && std::max(1.5f, 2.f) == 2.f && std::clamp(9, 1, 4) == 4 && std::clamp(0, 1, 4) == 1, "");
static_assert(std::make_pair(1, 2.f) < std::make_pair(1, 3.f) && std::make_pair(1, 2).second == 2, "");
static_assert(M_PI > 3.141592653589793 - 1e-15 && M_PI < 3.141592653589793 + 1e-15 && INT64_C(1) << 40 == 1ll << 40, "");
__global__ void k(float* a, int* b) {
    a[0] = std::sqrt(a[1]) + std::abs(a[2]) + std::fmax(a[3], a[4]) + powf(a[5], 2.f);
    b[0] = std::isnan(a[0]) || isinf(a[0]) || std::isfinite(a[1]);
    std::swap(b[1], b[2]);
    printf("%" PRIu64, static_cast<uint64_t>(b[0]));
}
"""
    assert compile_cuda(checks).log == ""


def test_macros_with_short_names_do_no_harm_to_the_stand_ins() -> None:
    """-D T=float, or #define N 16 before an include, is common; names of the C library that people do not define are left out."""
    text = "".join(path.read_text() for path in HEADERS.rglob("*") if path.is_file() and path.name not in SLOW)
    code = re.sub(r"//[^\n]*|^\s*#.*$", "", text, flags=re.MULTILINE)
    used = set(re.findall(r"(?<![\w.])[A-Za-z]\w?\b", code))
    assert used <= {"do", "if"}
    letters = [letter for case in ("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ") for letter in case]
    headers = "".join(f"#include <{header}>\n" for header in STAND_INS if header not in SLOW)
    compile_cuda(
        headers + "__global__ void kernel() {}\n", defines={letter: 7 for letter in letters} | {"WIDTH": 3, "count": 5, "value": 6}
    )


def test_a_define_with_parameters_and_one_for_assert() -> None:
    text = "__global__ void k(int* a) { assert(a[0] > 0); a[0] = TWICE(2100) + ON; }"
    ptx = compile_cuda(text, defines=["TWICE(x)=(2*(x))", "ON", "NDEBUG"]).ptx
    assert "4201;" in ptx
    assert "__assertfail" not in ptx
    assert "__assertfail" in compile_cuda(text, defines=["TWICE(x)=(2*(x))", "ON"]).ptx


def test_what_nvcc_gives_without_an_include_is_there() -> None:
    compile_cuda(
        "__global__ void k(float* a, uint32_t n, size_t m) { a[0] = INFINITY + M_PI + INT_MAX + std::sqrt(a[1]) + (n < m); memcpy(a, a + 4, 8); }"
    )


def test_a_source_with_its_own_integer_types_keeps_them() -> None:
    text = "typedef unsigned int uint32_t;\ntypedef unsigned long uint64_t;\n__global__ void k(uint64_t* a, uint32_t n) { a[0] = n; }\n"
    assert compile_cuda(text).log == ""
    assert compile_cuda("#include <cmath>\n" + text).log == ""


PROGRAM = """#include <cstdio>
#include <vector>
#include <iostream>
#include <cuda_runtime.h>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { fprintf(stderr, "%s", cudaGetErrorString(e)); exit(1); } } while (0)
using namespace std;
const int BLOCK = 128;
template <typename T, int B> __global__ void scale(T* data, T factor, int n) {
    int i = blockIdx.x * B + threadIdx.x;
    if (i < n) data[i] *= factor;
}
template <typename T> void run(T* d) { scale<T, 32><<<1, 32>>>(d, T(2), 4); }
int main() {
    const int LOCAL = 8;
    vector<float> h(100, 1.0f);
    float* d;
    CHECK(cudaMalloc(&d, 400));
    scale<float, BLOCK><<<1, BLOCK>>>(d, 2.0f, 100);
    scale<double, LOCAL><<<1, 8>>>(nullptr, 2.0, 1);
    CHECK(cudaDeviceSynchronize());
    cout << "done" << endl;
}
"""


def test_a_whole_program_gives_its_kernels() -> None:
    compiled = compile_cuda(PROGRAM, file_name="program.cu")
    # LOCAL means nothing outside main: that instance is left out, the other is there.
    assert dict(compiled.names) == {"scale<float, BLOCK>": "_Z5scaleIfLi128EEvPT_S0_i"}
    assert compiled.log == ""
    assert sorted(compiled.host_functions) == ["main", "run"]
    assert re.search(r"\.loc\s+1 10 ", compiled.ptx)


def test_own_headers_with_host_code(tmp_path: Path) -> None:
    (tmp_path / "common.h").write_text(
        "#pragma once\n#include <string>\ninline void say(const std::string& text) { puts(text.c_str()); }\n"
        "__device__ inline float twice(float x) {\n    return 2 * x;\n}\n"
    )
    source = tmp_path / "a.cu"
    source.write_text('#include "common.h"\n__global__ void k(float* a) { a[0] = twice(a[0]); }\nint main() { say("hello"); }\n')
    loaded = load_source(source)
    assert set(loaded.files.values()) == {str(source), str(tmp_path / "common.h")}
    numbers = {name: number for number, name in loaded.files.items()}
    assert re.search(rf"\.loc\s+{numbers[str(tmp_path / 'common.h')]} 5 ", loaded.ptx)


def test_name_expressions_give_instances() -> None:
    text = "namespace ns { template <class T, int N> __global__ void scale(T* a) { a[0] *= N; } }\n"
    compiled = compile_cuda(text, name_expressions=["ns::scale<double, 3>", "ns::scale<int,4>"])
    assert dict(compiled.names) == {"ns::scale<double, 3>": "_ZN2ns5scaleIdLi3EEEvPT_", "ns::scale<int,4>": "_ZN2ns5scaleIiLi4EEEvPT_"}
    assert compiled.resources["_ZN2ns5scaleIdLi3EEEvPT_"].registers > 0
    with pytest.raises(UsageError) as caught:
        compile_cuda(text, file_name="a.cu", name_expressions=["ns::shrink<int>"])
    assert str(caught.value) == "'ns::shrink<int>' names no kernel of a.cu and no instance of a template there"


def test_nvidias_headers_come_with_the_compiler() -> None:
    text = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n__global__ void k(__half* a) { a[0] = __hadd(a[1], a[2]); }\n"
    assert "add.f16" in compile_cuda(text).ptx or "add.rn.f16" in compile_cuda(text).ptx


def test_a_cache_that_cannot_be_written_hinders_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    script = (
        'from gridstride.frontends.source import load_source; print(load_source("#include <cuda_fp16.h>\\n__global__ void k() {}\\n").kind)'
    )
    environment = {**os.environ, "GRIDSTRIDE_CACHE_DIR": str(tmp_path / "file")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "cuda\n"


def test_nvidias_headers_are_unpacked_only_where_they_may_be_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> tuple[str, ...]:
        raise AssertionError("the headers are not needed")

    monkeypatch.setattr(nvrtc, "header_options", never)
    compile_cuda("#include <cstdio>\n#include <vector>\n#include <cuda_runtime.h>\n__global__ void k() {}\n")
    for text in ("#include <cuda_fp16.h>\n", "#include <tuple>\n", "#define H <cstdio>\n#include H\n"):
        with pytest.raises(AssertionError):
            compile_cuda(text)


def test_resources_of_spilling_shared_and_stack() -> None:
    text = """
    extern "C" __global__ void __launch_bounds__(1024) k(float* a, int n) {
        __shared__ float s[300];
        float own[40];
        for (int i = 0; i < 40; ++i) own[(i * n) % 40] = a[i];
        s[threadIdx.x % 300] = own[n % 40];
        __syncthreads();
        a[0] = s[n];
    }
    """
    need = compile_cuda(text).resources["k"]
    assert (need.shared_bytes, need.stack_bytes, need.barriers) == (1200, 160, 1)
    assert 0 < need.registers <= 64  # 65,536 registers for 1,024 threads


def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows with every run of the compiler."""
    seen: list[str] = []
    original = nvrtc.compile_program

    def counted(*arguments: object, **keywords: object) -> nvrtc.NvrtcOutput:
        seen.append(str(arguments[3]))
        return original(*arguments, **keywords)  # type: ignore[arg-type]

    nvrtc.header_options()
    monkeypatch.setattr(nvrtc, "compile_program", counted)
    return seen


def test_a_second_compilation_comes_from_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = runs(monkeypatch)
    text = "#warning kept\n__global__ void k(float* a) { a[0] = 1; }\n"
    first, second = compile_cuda(text), compile_cuda(text)
    assert (first.ptx, first.warnings, first.resources) == (second.ptx, second.warnings, second.resources)
    assert seen == ["ptx", "cubin"]
    compile_cuda(text, defines=["A"])
    compile_cuda(text, arch="sm_80")
    assert seen == ["ptx", "cubin", "ptx", "ptx"]


def test_damaged_results_are_made_again(monkeypatch: pytest.MonkeyPatch, fresh_results: Path) -> None:
    seen = runs(monkeypatch)
    text = "__global__ void k(float* a) { a[0] = 1; }\n"
    ptx = compile_cuda(text).ptx
    for path in (fresh_results / "cuda").iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    assert compile_cuda(text).ptx == ptx
    assert seen == ["ptx", "ptx"]


def test_a_changed_header_is_noticed(tmp_path: Path) -> None:
    header, source = tmp_path / "n.h", tmp_path / "a.cu"
    source.write_text('#include "n.h"\n__global__ void k(int* a) { a[0] = N; }\n')
    for value in (4321, 8765):
        header.write_text(f"#define N {value}\n")
        assert re.search(rf"\b{value};", load_source(source).ptx)


def test_without_the_compiler_ptx_still_loads_and_cuda_says_what_to_install() -> None:
    """In a process of its own in which NVIDIA's package cannot be imported, as on macOS."""
    script = """
import sys
sys.modules["cuda.bindings"] = None
from gridstride.errors import UnsupportedError
from gridstride.frontends.source import load_source
assert load_source(".version 8.0\\n.target sm_80\\n.visible .entry k() { ret; }\\n").names.entries == ("k",)
try:
    load_source("__global__ void k() {}\\n")
except UnsupportedError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "CUDA C++ needs NVIDIA's run-time compiler, which is not installed here: on Linux (glibc) or Windows run "
        "`pip install cuda-bindings nvidia-cuda-nvrtc`; PTX files run without it\n"
    )


def test_unsupported_is_exit_status_three() -> None:
    assert UnsupportedError.exit_status == 3
