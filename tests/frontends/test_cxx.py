"""Finding declarations and parameters in C++ text, and leaving host code out of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstride.frontends.cxx_declarations import DeclarationKind, parse_declarations
from gridstride.frontends.cxx_tokens import tokenize
from gridstride.frontends.host_code import device_code
from gridstride.frontends.signatures import Parameter, kernel_signatures

TRUTH = Path(__file__).parents[1] / "truth"


def words(text: str) -> list[str]:
    return [token.text for token in tokenize(text)]


def test_comments_and_line_splices_are_no_tokens() -> None:
    assert words("a /* { \n ; */ b // } \\\n still a comment\nc") == ["a", "b", "c"]


def test_strings_characters_and_numbers_hold_together() -> None:
    assert words(r"""f("a\"}", '\'', '"', 1'000'000, 1.5e-3f, 0x1p-4, u8"x", R"y(")} )z" )y")""") == [
        "f", "(", r'"a\"}"', ",", r"'\''", ",", "'\"'", ",", "1'000'000", ",", "1.5e-3f", ",", "0x1p-4", ",", 'u8"x"', ",", 'R"y(")} )z" )y"', ")",
    ]  # fmt: skip


def test_directive_with_continued_lines_is_one_token() -> None:
    assert words("#define A { \\\n } \n# if X /* \n */ Y\nz # w") == ["#define A { \\\n } ", "# if X /* \n */ Y", "z", "#", "w"]


@given(st.text(alphabet="ab_1 \n\t\"'(){}[]<>;:,=#/*\\.+-R", max_size=200))
def test_any_text_is_split_and_nothing_but_blanks_and_comments_lost(text: str) -> None:
    position = 0
    for token in tokenize(text):
        assert token.text == text[token.start : token.end]
        assert token.start >= position
        skipped = text[position : token.start]
        assert not skipped.strip() or "//" in skipped or "/*" in skipped or "\\" in skipped
        position = token.end


@given(st.text(alphabet="ab_1 \n\t\"'(){}[]<>;:,=#/*\\.", max_size=200))
def test_host_code_is_left_out_without_moving_a_line(text: str) -> None:
    result = device_code("void host() { f(); }\n" + text + "\n__global__ void k() {}")
    assert result.text.count("\n") == text.count("\n") + 2


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("int f(int a) { return a; }", DeclarationKind.FUNCTION, "f"),
        ("template <class T, int N = (3 > 2)> __device__ T f(T a) { return a; }", DeclarationKind.FUNCTION, "f"),
        ("template <> __global__ void f<float>(float* a) {}", DeclarationKind.FUNCTION, "f"),
        ("struct S f(void) { return S{1}; }", DeclarationKind.FUNCTION, "f"),
        ("__device__ bool operator==(A a, A b) { return a.x == b.x; }", DeclarationKind.FUNCTION, "operator=="),
        ("__device__ float& S::operator()(int i) { return x[i]; }", DeclarationKind.FUNCTION, "operator()"),
        ("S::S(int a) : x(a), y{a} { z = 1; }", DeclarationKind.FUNCTION, "S"),
        ("__global__ void __launch_bounds__(128, 2) k(int* a);", DeclarationKind.FUNCTION, "k"),
        ("auto f(int a) -> int { return a; }", DeclarationKind.FUNCTION, "f"),
        ("struct __align__(16) S { int f() { return 1; } };", DeclarationKind.CLASS, "S"),
        ("struct alignas(8) S : B<int> { int a; } s;", DeclarationKind.CLASS, "S"),
        ("enum class E : int { A, B };", DeclarationKind.ENUM, "E"),
        ("typedef struct { int a; } S;", DeclarationKind.ALIAS, "S"),
        ("typedef void (*callback)(int);", DeclarationKind.ALIAS, "callback"),
        ("using T = float;", DeclarationKind.ALIAS, "T"),
        ("using std::vector;", DeclarationKind.ALIAS, "vector"),
        ("using namespace std;", DeclarationKind.OTHER, ""),
        ("namespace fs = std::filesystem;", DeclarationKind.ALIAS, "fs"),
        ("const int table[] = {1, 2, 3};", DeclarationKind.VARIABLE, "table"),
        ("std::pair<int, float> p{1, 2};", DeclarationKind.VARIABLE, "p"),
        ("auto f = [](int a) { return a; };", DeclarationKind.VARIABLE, "f"),
        ("static_assert(sizeof(int) == 4, \"\");", DeclarationKind.ASSERTION, ""),
    ],
)  # fmt: skip
def test_one_declaration(text: str, kind: DeclarationKind, name: str) -> None:
    found = parse_declarations(text)
    assert [(d.kind, d.name) for d in found] == [(kind, name)]


def test_scopes_and_neighbours_stay_apart() -> None:
    text = """
    namespace a::b { namespace { int x; } void f() {} }
    extern "C" { __global__ void g() {} }
    MAKE_KERNEL(h, float)
    #if 0
    }
    #endif
    int main() { return 0; }
    """
    assert [("::".join(d.scope), d.name) for d in parse_declarations(text)] == [
        ("a::b", "x"), ("a::b", "f"), ("", "g"), ("", "MAKE_KERNEL"), ("", "main"),
    ]  # fmt: skip


def test_a_brace_opened_in_both_branches_of_a_condition_is_one_brace() -> None:
    text = "#ifdef A\nint main(int c) {\n#else\nint main() {\n#endif\nreturn 0; }\n__global__ void k(int* a) { a[0] = 1; }\n"
    assert [d.name for d in parse_declarations(text)] == ["main", "k"]


def names_and_types(text: str) -> list[tuple[str, str]]:
    (signature,) = kernel_signatures([text])
    return [(p.name, p.type) for p in signature.parameters]


def test_parameters_through_qualifiers_comments_and_defaults() -> None:
    text = """
    template <typename T, int N>
    __global__ void __launch_bounds__(N)
    kernel(const T *__restrict__ in,   // the input, with a comma
           T* const __restrict__ out, /* ( */ unsigned int n = (1 << 3, 4), const Pair<int, float> pair = {1, 2.f},
           float (&tile)[4], void (*callback)(int, int), const __grid_constant__ Params params, int sizes[3]) {}
    """
    assert names_and_types(text) == [
        ("in", "const T*"),
        ("out", "T* const"),
        ("n", "unsigned int"),
        ("pair", "const Pair<int, float>"),
        ("tile", "float(&)[4]"),
        ("callback", "void(*)(int, int)"),
        ("params", "const Params"),
        ("sizes", "int[3]"),
    ]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("", []),
        ("void", []),
        ("int", [("", "int")]),
        ("const float*, unsigned long long", [("", "const float*"), ("", "unsigned long long")]),
        ("ns::Type, ns::Type named", [("", "ns::Type"), ("named", "ns::Type")]),
        ("float4 v", [("v", "float4")]),
    ],
)
def test_parameters_with_and_without_names(parameters: str, expected: list[tuple[str, str]]) -> None:
    assert names_and_types(f"__global__ void k({parameters}) {{}}") == expected


def test_global_behind_a_macro_and_packs() -> None:
    text = '#define KERNEL extern "C" __global__\nKERNEL void k(int n) {}\ntemplate <class... A> __global__ void v(A... a) {}\nvoid host(int m) {}'
    plain, variadic = kernel_signatures([text])
    assert (plain.name, plain.parameters, plain.variadic) == ("k", (Parameter("n", "int"),), False)
    assert (variadic.name, variadic.variadic) == ("v", True)


def test_every_kernel_of_the_truth_set_has_its_parameters() -> None:
    signatures = {s.name: s for s in kernel_signatures([(TRUTH / "kernels.cu").read_text()])}
    assert len(signatures) == 53
    assert [p.name for p in signatures["vec_add"].parameters] == ["a", "b", "c", "n"]


HOST_AND_DEVICE = """#include <vector>
using namespace std::chrono;
#define HD __host__ __device__
#define AREA (SIDE * SIDE)
constexpr int SIDE = 8, UNUSED = 3;
const int OTHER = 1;
static int counter = 0;
struct Timer { std::chrono::time_point t; void start() {} };
struct Point { float x; Point() = default; HD float twice() const { return 2 * x; } float host_only() { return rand(); } };
constexpr int square(int v) { return v * v; }
float reference(const std::vector<float>& v) { return v[0]; }
__global__ void k(Point p, float* out) { __shared__ float s[AREA]; out[0] = p.twice() + s[square(2)]; }
static_assert(sizeof(Timer) > 0, "");
static_assert(square(3) == 9, "");
int main() {
    #pragma omp parallel
    k<<<1, 1>>>(Point(), nullptr);
}
"""


def test_host_code_goes_and_what_device_code_uses_stays() -> None:
    result = device_code(HOST_AND_DEVICE)
    lines = [line.strip() for line in result.text.split("\n")]
    assert lines == [
        "#include <vector>",
        "",
        "#define HD __host__ __device__",
        "#define AREA (SIDE * SIDE)",
        "constexpr int SIDE = 8, UNUSED = 3;",
        "",
        "",
        "",
        "struct Point { float x; Point() = default; HD float twice() const { return 2 * x; } "
        + " " * len("float host_only() { return rand(); }")
        + " };",
        "__host__ __device__ constexpr int square(int v) { return v * v; }",
        "",
        "__global__ void k(Point p, float* out) { __shared__ float s[AREA]; out[0] = p.twice() + s[square(2)]; }",
        "",
        'static_assert(square(3) == 9, "");',
        "",
        "#pragma omp parallel",
        "",
        "",
        "",
    ]
    assert result.host_functions == {"reference": 11, "main": 15}


def test_a_source_without_host_functions_comes_back_as_it_is() -> None:
    text = "int unused;\n__device__ int f() { return 1; }\n__global__ void k(int* a) { a[0] = f(); }\n"
    assert device_code(text).text == text


def test_brackets_that_do_not_pair_up_are_left_to_the_compiler() -> None:
    text = "void host() { \n__global__ void k( {}\n"
    assert device_code(text).text == text


def test_template_instances_that_the_host_launches_are_found() -> None:
    text = """
    namespace ns { template <class T, int N> __global__ void scale(T* a) { a[0] *= N; } }
    template <class T> void run(T* a) { ns::scale<T, 3><<<1, 1>>>(a); }
    const int BLOCK = 64;
    int main() { ns::scale<unsigned int, BLOCK><<<1, 1>>>(nullptr); ns::scale<float, 4><<<1, 1>>>(nullptr); if (a < b) return 1; }
    """
    result = device_code(text)
    assert result.launched_templates == ("ns::scale<unsigned int, BLOCK>", "ns::scale<float, 4>")
    assert "const int BLOCK = 64;" in result.text
