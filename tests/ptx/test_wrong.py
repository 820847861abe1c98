"""Wrong PTX, word for word: what is said of it, and where. PTX ISA sections stand beside what is not obvious."""

from __future__ import annotations

import pytest

from gridstride.errors import GridstrideError, ParseError, UnsupportedError
from gridstride.passes.select_operations import select_operations
from gridstride.ptx.parser import parse

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def select(before: str, body: str) -> None:
    """Parse and select a kernel `k`; its body begins on line 6."""
    registers = ".reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>;"
    text = f"{HEAD}{before or '//'}\n.visible .entry k(.param .u64 a, .param .u32 n) {{ {registers}\n{body}\nret; }}\n"
    select_operations(parse(text), "k")


def said(before: str, body: str) -> tuple[type[GridstrideError], str]:
    with pytest.raises(GridstrideError) as caught:
        select(before, body)
    return type(caught.value), str(caught.value).split("\n")[0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        # operands: their number and kind
        ("add.s32 %r1, %r2;", "`add.s32`: it has 1 source operands, it takes 2"),
        ("add.s32 %r1, %r2, %r3, %r4;", "`add.s32`: it has 3 source operands, it takes 2"),
        ("add.s32;", "`add.s32`: it has no destination"),
        ("add.s32 5, %r2, %r3;", "`add.s32`: its destination is no register"),
        ("add.s32 %r1|%r4, %r2, %r3;", "`add.s32`: it has one destination, not two"),
        ("add.s32 %r1, %r2, [%rd1];", "`add.s32`: this kind of operand cannot stand here"),
        ("add.s32 %r1, %r2, {%r3, %r4};", "`add.s32`: this kind of operand cannot stand here"),
        ("add.s32 %r1, %r2, _;", "`add.s32`: this kind of operand cannot stand here"),
        ("setp.lt.and.s32 %p1, %r2, %r3;", "`setp.lt.and.s32`: it has 2 source operands, it takes 3"),
        ("setp.lt.s32 %p1, %r2, %r3, %p2;", "`setp.lt.s32`: it has 3 source operands, it takes 2"),
        ("shfl.sync.down.b32 %r1, %r2, 1, 31;", "`shfl.sync.down.b32`: it has 3 source operands, it takes 4"),
        ("vote.sync.any.pred %p1, %p2;", "`vote.sync.any.pred`: it has 1 source operands, it takes 2"),
        ("lop3.b32 %r1, %r2, %r3, %r4, %r5;", "`lop3.b32`: one of its operands must be an integer constant"),
        ("vabsdiff4.u32.u32.u32 %r1, %r2, %r3;", "`vabsdiff4.u32.u32.u32`: it takes 4 operands, not 3"),
        ("mov.u32 %r1;", "`mov.u32`: it takes a destination and a source, not 1 operands"),
        ("mov.b32 {%rs1, %rs2}, {%rs3, %rs4};", "`mov.b32`: it packs or unpacks, not both"),
        ("mov.b32 %r1, {%rs1, %rs2, %rs3};", "`mov.b32`: it cannot divide .b32 by 3"),
        # types (9.4.1)
        ("add.s32 %rd1, %r2, %r3;", "`add.s32`: `%rd1` is .b64, which does not fit .s32"),
        ("add.f64 %fd1, %fd2, %f3;", "`add.f64`: `%f3` is .f32, which does not fit .f64"),
        ("mul.wide.s32 %r1, %r2, %r3;", "`mul.wide.s32`: `%r1` is .b32, which does not fit .s64"),
        ("selp.b32 %r1, %r2, %r3, %r4;", "`selp.b32`: `%r4` is .b32, which does not fit .pred"),
        ("cvt.u64.u32 %r1, %r2;", "`cvt.u64.u32`: `%r1` is .b32, which does not fit .u64"),
        ("add.f32 %f1, %f2, 1;", "`add.f32`: the integer 1 is no .f32; write a decimal point, or the bits as 0f… or 0d…"),
        ("add.s32 %r1, %r2, 1.0;", "`add.s32`: a floating-point constant is no .s32"),
        ("add.s32 %r1, %r2, !%p1;", "`add.s32`: only a predicate register can be negated with `!`"),
        ("and.pred %p1, %p2, 2;", "`and.pred`: 2 is no predicate"),
        ("mov.u64 %rd1, %tid.x;", "`mov.u64`: special register `%tid.x` is no .u64"),
        ("mov.u32 %r1, %tidx;", "`mov.u32`: `%tidx` is not declared"),
        ("mov.u32 %r1, %r9;", "`mov.u32`: `%r9` is not declared"),
        ("mov.u32 %r1, %r01;", "`mov.u32`: `%r01` is not declared"),
        ("@%r1 add.s32 %r1, %r2, %r3;", "`add.s32`: its guard `%r1` is no predicate"),
        # memory
        ("ld.global.u32 %r1, %rd1;", "`ld.global.u32`: it needs an address in brackets"),
        ("ld.global.u32 %r1, [%p1];", "`ld.global.u32`: an address is in a register of 32 or 64 bits, `%p1` is .pred"),
        ("ld.global.u64 %r1, [%rd1];", "`ld.global.u64`: `%r1` is .b32, which does not fit .u64"),
        ("ld.global.v2.u32 %r1, [%rd1];", "`ld.global.v2.u32`: it needs 2 destination operands in braces, not 1"),
        ("st.global.v4.u32 [%rd1], {%r1, %r2, %r3};", "`st.global.v4.u32`: it needs 4 source operands in braces, not 3"),
        ("ld.global.v4.b128 {%r1, %r2, %r3, %r4}, [%rd1];", "`ld.global.v4.b128`: there are no vectors of 4 elements of .b128"),
        ("st.global.u32 [%rd1], %r1, %r2;", "`st.global.u32`: it has too many operands"),
        ("atom.global.cas.b32 %r1, [%rd1], %r2;", "`atom.global.cas.b32`: its source is missing"),
        ("st.const.u32 [%rd1], %r1;", "`st.const.u32`: constants are only read"),
        ("st.param.u32 [n], %r1;", "`st.param.u32`: parameters of a kernel are only read"),
        ("ld.param.u32 %r1, [n+1];", "`ld.param.u32` goes outside the 4 bytes of `n`"),
        ("ld.param.u64 %rd1, [a+-2];", "`ld.param.u64` goes outside the 8 bytes of `a`"),
        ("ld.param.v2.u64 {%rd1, %rd2}, [a];", "`ld.param.v2.u64` goes outside the 8 bytes of `a`"),
        ("ld.shared.u32 %r1, [g];", "`ld.shared.u32` cannot reach `g`, which is in .global"),
        ("ld.global.u32 %r1, [nowhere];", "`nowhere` is not declared"),
        ("ld.global.u32 %r1, [missing];", "`missing` is declared (line 4), but defined nowhere in this program"),
        # control flow
        ("bra there;", "`bra` goes to an unknown label"),
        ("bra;", "`bra` goes to an unknown label"),
        ("brx.idx %r1, there;", "`brx.idx` needs an index and a `.branchtargets` list"),
        ("T: .branchtargets there; brx.idx %r1, T;", "`brx.idx` goes to an unknown label `there`"),
        ("bar.sync 16;", "`bar.sync`: there are barriers 0 to 15, not 16"),
        ("bar.sync 0, 33;", "`bar.sync`: a barrier waits for a multiple of 32 threads, up to 1,024, not for 33"),
        ("call.uni nobody, ();", None),
        ("call.uni (%r1), f, (%r2);", None),
    ],
)  # fmt: skip
def test_an_instruction_wrong(body: str, message: str | None) -> None:
    kind, text = said(".global .u32 g; .extern .global .u32 missing; .func f() { ret; }", body)
    assert text.startswith("PTX line 6"), text
    if message is not None:
        assert (kind, text) == (ParseError, f"PTX line 6: {message}")


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (".global .align 3 .u32 x;", "3 is no alignment: a power of two is, up to 65,536"),
        (".global .u32 x[-4];", "`x` cannot have this size"),
        (".global .u32 x[99999999999999];", "`x` cannot have this size"),
        (".global .u32 x[];", "`x` has no size"),
        (".global .pred x;", "predicates cannot be in memory"),
        (".shared .u32 x = 5;", "a .shared variable cannot be initialised"),
        (".global .u32 x[2] = {1, 2, 3};", "the initialiser of `x` is longer than the variable"),
        (".global .u64 x = 0(x);", "a mask without bits takes nothing of the address"),
        (f".global .u32 x = {'{' * 40}1{'}' * 40};", "this initialiser is nested too deeply"),
        (".global .u32 x = 99999999999999999999;", "this integer does not fit 64 bits"),
        (".global .u32 x = 089;", "this is no number"),
        ("/* .global .u32 x;", "this comment does not end"),
        (".global .u32 x@;", "expected `;`, found `@`"),
        (".func f(.param .u32 a, .param .u32 a);", "two parameters are called `a`"),
        (".func f(.param .u32 a[]);", "parameter `a` has no size"),
    ],
)
def test_a_declaration_wrong(before: str, message: str) -> None:
    assert said(before, "") == (ParseError, f"PTX line 4: {message}")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("L: L: bra L;", "the label `L` is there twice"),
        (".reg .b32 %r<3>;", "the registers `%r<…>` are declared twice"),
        (".reg .b32 x; .reg .b64 x;", "`x` is declared twice"),
        (".local .b8 d[8]; .local .b8 d[8];", "`d` is declared twice"),
        ("@%rd add.s32 %r1, %r2, %r3;", "a guard is a predicate register"),
        ("add.s32 %r1, %r2, " + "{" * 5000, "this operand is nested too deeply"),
        ("add.s32 %r1, %r2, " + "(" * 5000, "this constant expression is nested too deeply"),
        ("add.s32 %r1, %r2, " + "~" * 5000, "this constant expression is nested too deeply"),
        ("ld.global.u32 %r1, [%rd1+4294967296];", "the offset 4294967296 does not fit 32 bits"),
        ("ld.global.u32 %r1, [1.5];", "an address is a register, a variable or an integer, plus an offset"),
    ],
)
def test_a_body_wrong(body: str, message: str) -> None:
    assert said("", body) == (ParseError, f"PTX line 6: {message}")


def test_the_line_and_a_caret_are_shown() -> None:
    with pytest.raises(ParseError) as caught:
        select("", "add.s32 %r1 %r2, %r3;")
    assert str(caught.value) == "PTX line 6: expected `;`, found `%r2`\n    add.s32 %r1 %r2, %r3;\n                ^"


@pytest.mark.parametrize(
    ("before", "body", "message"),
    [
        ("", "mov.u32 %r1, %pm0;", "special register `%pm0` is not supported"),
        ("", ".local .b8 d[524289];", "`d` brings the local memory of a thread to 524,289 bytes; a device has at most 524,288"),
        (".local .u32 x;", "ld.local.u32 %r1, [x];", "`x` is a .local variable outside of all functions, which is not supported"),
    ],
)
def test_what_is_not_supported_is_told_with_its_line(before: str, body: str, message: str) -> None:
    assert said(before, body) == (UnsupportedError, f"PTX line 6: {message}")


def test_calls_that_double_with_every_level_end_soon() -> None:
    levels = "".join(f".func f{k}() {{ call.uni f{k + 1}, (); call.uni f{k + 1}, (); ret; }} " for k in range(60))
    kind, text = said(f"{levels} .func f60() {{ ret; }}", "call.uni f0, ();")
    assert kind is UnsupportedError
    assert text.endswith("kernel `k` grows past 200,000 operations with its calls inlined")


def test_registers_that_nobody_uses_cost_nothing() -> None:
    select("", ".reg .b32 %many<2147483647>; mov.u32 %many2147483646, 5;")


@pytest.mark.parametrize(
    ("instruction", "what"),
    [
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];", "`tex.2d.v4.f32.f32` is not supported (it belongs to textures, which are not supported yet; PTX ISA 9.7.10.3)"),
        ("sust.b.2d.b32.trap [%rd1, {%r1, %r2}], {%r3};", "`sust.b.2d.b32.trap` is not supported (it belongs to surfaces, which are not supported yet; PTX ISA 9.7.11.2)"),
    ],
)
def test_what_is_not_supported_is_told_at_the_users_line(instruction: str, what: str) -> None:
    """As NVRTC places it: in a header of its own, which was inlined twice."""
    files = '.file 1 "/home/me/blur.cu"\n.file 2 "/home/me/__nv_nvrtc_builtin_header.h"\n'
    inlined = "\n.loc 1 7 9\n.loc 2 5174 1, function_name $L__info_string0, inlined_at 1 7 9\n.loc 2 5168 1, function_name $L__info_string1, inlined_at 2 5174 1\n"
    assert said(files, inlined + instruction) == (UnsupportedError, f"PTX line 12 (/home/me/blur.cu:7): instruction form {what}")
