"""PTX as people and tools write it: what the grammar allows beyond what NVVM usually prints. Expected values by hand from the PTX ISA."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import gridstride as gs
from gridstride.errors import KernelFault, ParseError, UnsupportedError

HEADER = ".version 8.8\n.target sm_100\n.address_size 64\n"
REGISTERS = ".reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<5>; .reg .b16 %h<9>; .reg .f32 %f<9>;"


def run(body: str, *, before: str = "", parameters: str = "", arguments: tuple[object, ...] = (), threads: int = 1, words: int = 32) -> npt.NDArray[np.uint32]:
    """The words that a kernel leaves at `out` (in %d0), each thread's own address in %d1, its index in %r0."""
    more = f", {parameters}" if parameters else ""
    text = (
        f"{HEADER}{before}\n.visible .entry k(.param .u64 out{more})\n{{ {REGISTERS}\n"
        f"ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4; add.u64 %d1, %d0, %d1;\n{body}\nret; }}\n"
    )
    device = gs.device("sim:h200")
    out = device.zeros(words, np.uint32)
    device.compile(text)["k"][1, threads](out, *arguments)
    return out.numpy()


def test_video_instructions_take_parts_of_registers() -> None:
    have = run(
        """mov.u32 %r1, 0x80ff0102;
        vadd.s32.u32.s32 %r2, %r1.b3, %r1.h0, %r0; st.global.u32 [%d0+4*0], %r2;
        vadd.u32.u32.u32 %r2.b1, %r1.b3, %r1.b0, %r1; st.global.u32 [%d0+4*1], %r2;
        vmad.s32.s32.s32 %r2, -%r1.b0, %r1.b1, %r1; st.global.u32 [%d0+4*2], %r2;
        vabsdiff4.u32.u32.u32.add %r2, %r1, 0x01020304, 5; st.global.u32 [%d0+4*3], %r2;
        vadd2.s32.s32.s32 %r2.h1, %r1.h10, %r1.h32, %r1; st.global.u32 [%d0+4*4], %r2;"""
    )
    assert [hex(v) for v in have[:5]] == ["0x182", "0x80ff8202", "0x80ff0100", hex(127 + 253 + 2 + 2 + 5), "0x1fe0102"]


def test_vector_registers_and_their_elements() -> None:
    have = run(".reg .v4 .f32 %v; mov.f32 %v.x, 1.0; mov.f32 %v.g, 2.0; mov.f32 %v.z, 3.0; mov.f32 %v.a, 4.0; st.global.v4.f32 [%d0], %v;")
    assert have[:4].view(np.float32).tolist() == [1, 2, 3, 4]


def test_constant_expressions() -> None:
    have = run("mov.u32 %r1, (1 << 4) | 7*6 % 5; st.global.u32 [%d0 + (2+1)*4 - 4], %r1; mov.u32 %r2, ~0 & (WARP_SZ > 31 ? 0x70 : 9); st.global.u32 [%d0], %r2;")
    assert (have[2], have[0]) == (16 | 42 % 5, 0x70)


def test_moves_pack_and_unpack() -> None:
    have = run(
        """mov.b16 %h0, 1; mov.b16 %h1, 2; mov.b64 %d2, {%h0, %h1, %h1, %h0}; mov.b64 {%r1, %r2}, %d2; st.global.v2.u32 [%d0], {%r1, %r2};
        mov.b64 {_, %r3}, %d2; mov.b32 {%h2, _}, %r3; st.global.u16 [%d0+8], %h2;
        .reg .b128 %q; mov.b128 %q, {%d2, %d1}; mov.b128 {%d3, %d4}, %q; sub.u64 %d4, %d4, %d1; st.global.u64 [%d0+16], %d4;
        .reg .b8 %c<4>; mov.b32 %r4, 0x01020304; mov.b32 {%c0, %c1, %c2, %c3}, %r4; mov.b32 %r5, {%c3, %c2, %c1, %c0}; st.global.u32 [%d0+12], %r5;"""
    )
    assert have[:4].tolist() == [0x20001, 0x10002, 2, 0x04030201]
    assert have[4:6].tolist() == [0, 0]


def test_nested_scopes_have_their_own_registers_and_labels() -> None:
    have = run(
        """ts: .branchtargets A, B, C; and.b32 %r1, %r0, 3; min.u32 %r1, %r1, 2; brx.idx %r1, ts;
        A: mov.u32 %r2, 10; bra D;
        B: mov.u32 %r2, 20; bra D;
        C: { .reg .u32 t; mov.u32 t, 30; A: setp.lt.u32 %p0, t, 33; add.u32 t, t, 1; @%p0 bra A; mov.u32 %r2, t; }
        D: st.global.u32 [%d1], %r2;""",
        threads=32,
    )
    assert have.tolist() == [10, 20, 34, 34] * 8


FUNCTIONS = """
.func (.reg .u32 a, .reg .u32 b) two(.reg .u32 x, .reg .u32 y) { add.u32 a, x, y; sub.u32 b, x, y; ret; }
.func (.param .u32 a, .param .b64 b) mix(.param .u32 x, .param .u32 y)
{ .shared .b32 cnt[32]; .local .b32 lo[4]; .reg .b32 q<4>; .reg .b64 z<3>; ld.param.u32 q0, [x]; ld.param.u32 q1, [y];
  st.local.u32 [lo+4], q0; ld.local.u32 q2, [lo+4]; and.b32 q3, q1, 31; mul.wide.u32 z0, q3, 4; mov.u64 z1, cnt; add.u64 z0, z0, z1;
  st.shared.u32 [z0], q2; ld.shared.u32 q0, [z0]; st.param.u32 [a], q0; cvt.u64.u32 z2, q1; st.param.b64 [b], z2; ret; }
.weak .func (.param .b32 r) once(.param .b32 n) { .reg .b32 q; ld.param.b32 q, [n]; add.u32 q, q, 100; st.param.b32 [r], q; ret; }
.alias other, once;
.common .global .b32 thing[4];
.weak .global .u32 five = 5;
.pragma "nounroll";
"""


def test_calls_with_several_results_literals_registers_and_aliases() -> None:
    have = run(
        """call (%r1, %r2), two, (%r0, 7); call.uni (%r3, %d4), mix, (%r1, %r0); cvt.u32.u64 %r5, %d4; add.u32 %r3, %r3, %r5;
        call (%r6), once, (%r2); call (%r7), other, (3); add.u32 %r3, %r3, %r6; add.u32 %r3, %r3, %r7;
        ld.global.u32 %r8, [five]; add.u32 %r3, %r3, %r8; st.global.u32 [thing+4], 1000; ld.global.u32 %r9, [thing+4]; add.u32 %r3, %r3, %r9; st.global.u32 [%d1], %r3;""",
        before=FUNCTIONS,
        threads=32,
    )
    assert have.tolist() == [(t + 7) + t + (t - 7 + 100) + 103 + 5 + 1000 for t in range(32)]


BYTEWISE = """
.func (.param .align 8 .b8 r[16]) turned(.param .align 8 .b8 p[16], .param .b32 i)
{ .reg .b16 h<3>; .reg .b32 q<5>; .reg .b64 z<6>;
  ld.param.b8 h0, [p+1]; ld.param.v2.b32 {q0, q1}, [p+8]; ld.param.b32 q2, [i];
  mov.b64 z0, p; cvt.u64.u32 z1, q2; add.u64 z0, z0, z1; ld.param.b8 h1, [z0];
  st.param.b8 [r], h1; st.param.b8 [r+1], h0; st.param.b16 [r+2], 0; st.param.b32 [r+4], q1; st.param.b64 [r+8], 7; ret; }
"""


def test_parameters_of_calls_in_other_pieces_and_by_address() -> None:
    have = run(
        """{ .param .align 8 .b8 a[16]; .param .b32 b; .param .align 8 .b8 c[16];
          st.param.v4.b32 [a], {0x44332211, 0x88776655, %r0, 99}; add.u32 %r1, %r0, 4; st.param.b32 [b], %r1;
          call (c), turned, (a, b); ld.param.b64 %d2, [c]; ld.param.b32 %r2, [c+8]; }
        cvt.u32.u64 %r3, %d2; shr.u64 %d3, %d2, 32; cvt.u32.u64 %r4, %d3; and.b32 %r3, %r3, 0xffffff; add.u32 %r3, %r3, %r2; xor.b32 %r3, %r3, %r4;
        st.global.u32 [%d1], %r3;""",
        before=BYTEWISE,
        threads=4,
    )
    first = [0x55, 0x66, 0x77, 0x88]
    assert have[:4].tolist() == [(0x2200 + first[t] + 7) ^ 99 for t in range(4)]


def test_the_stack() -> None:
    have = run(
        """stacksave.u64 %d2; alloca.u64 %d3, 16; alloca.u64 %d4, 32, 32; st.local.u32 [%d3], %r0; st.local.u64 [%d4+8], 5;
        { .param .b64 a; .param .b64 b; st.param.b64 [a], 64; call (b), take, (a); ld.param.b64 %d5, [b]; }
        ld.u32 %r1, [%d5];
        { .param .b64 a; .param .b64 b; st.param.b64 [a], 64; call (b), take, (a); ld.param.b64 %d6, [b]; }
        sub.u64 %d6, %d6, %d5; cvt.u32.u64 %r2, %d6; and.b64 %d7, %d4, 31; cvt.u32.u64 %r3, %d7; ld.local.u32 %r4, [%d3]; sub.u32 %r4, %r4, %r0;
        stackrestore.u64 %d2; stacksave.u64 %d7; sub.u64 %d7, %d7, %d2; cvt.u32.u64 %r5, %d7;
        st.global.v4.u32 [%d0], {%r1, %r2, %r3, %r4}; st.global.u32 [%d0+16], %r5;""",
        before=""".func (.param .b64 r) take(.param .b64 n)
        { .reg .b64 s<3>; ld.param.b64 s0, [n]; alloca.u64 s1, s0, 16; cvta.local.u64 s2, s1; st.local.u32 [s1], 77; st.param.b64 [r], s2; ret; }""",
        threads=32,
    )
    assert have[:5].tolist() == [77, 0, 0, 0, 0]


def test_a_stack_that_overflows_is_a_fault() -> None:
    with pytest.raises(KernelFault, match="local memory"):
        run("mul.wide.u32 %d2, %r0, 4096; alloca.u64 %d3, %d2; alloca.u64 %d4, 8; st.local.u32 [%d4], 1;", threads=32)


def test_kernel_parameters_by_address() -> None:
    body = "and.b32 %r1, %r0, {mask}; mul.wide.u32 %d3, %r1, 4; mov.b64 %d2, s; {cvta}add.u64 %d2, %d2, %d3; ld{space}.u32 %r2, [%d2]; st.global.u32 [%d1], %r2;"
    for cvta, space in (("", ".param"), ("cvta.param.u64 %d2, %d2; ", "")):
        have = run(
            body.format(mask=3, cvta=cvta, space=space),
            parameters=".param .align 4 .b8 s[16]",
            arguments=(np.arange(16, dtype=np.uint8),),
            threads=32,
        )
        assert have.tolist() == [0x03020100, 0x07060504, 0x0B0A0908, 0x0F0E0D0C] * 8
        with pytest.raises(KernelFault, match="the kernel's parameters"):
            run(body.format(mask=7, cvta=cvta, space=space), parameters=".param .align 4 .b8 s[16]", arguments=(np.arange(16, dtype=np.uint8),), threads=32)


def test_shared_addresses_of_32_bits_and_their_generic_twins() -> None:
    have = run(
        """mov.u32 %r1, sh; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %r0; bar.sync 0; ld.shared.u32 %r3, [%r1+-4+4];
        cvt.u64.u32 %d3, %r1; cvta.shared.u64 %d3, %d3; ld.u32 %r4, [%d3]; isspacep.shared %p0, %d3; isspacep.global %p1, %d3;
        cvta.to.shared.u64 %d4, %d3; ld.shared.u32 %r5, [%d4]; add.u32 %r4, %r4, %r3; add.u32 %r4, %r4, %r5;
        selp.u32 %r6, 1000, 0, %p0; selp.u32 %r7, 5000, 0, %p1; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r7; st.global.u32 [%d1], %r4;""",
        before=".shared .align 4 .b8 sh[128];",
        threads=32,
    )
    assert have.tolist() == [3 * t + 1000 for t in range(32)]


def test_vector_atomics_go_element_by_element() -> None:
    have = run(
        """mov.f32 %f0, 1.0; mov.f32 %f1, 2.0; atom.global.v2.f32.add {%f2, %f3}, [%d0], {%f0, %f1}; red.global.add.v2.f32 [%d0], {%f0, %f1};
        mov.b16 %h0, 0x3c00; mov.b16 %h1, 0x4000; red.relaxed.gpu.global.v2.f16.max.noftz [%d0+8], {%h0, %h1};
        mov.b16 %h0, 0xbc00; red.global.v2.f16.min.noftz [%d0+8], {%h0, %h1};""",
        threads=32,
    )
    assert have[:2].view(np.float32).tolist() == [64, 128]
    assert have[2] == 0x4000BC00


def test_what_only_hints_changes_nothing() -> None:
    have = run(
        """createpolicy.fractional.L2::evict_last.b64 %d2, 1.0; createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %d3, [%d0], 64, 128;
        ld.global.L2::cache_hint.u32 %r1, [%d0], %d2; add.u32 %r1, %r1, 1; st.global.L2::cache_hint.u32 [%d0], %r1, %d3;
        griddepcontrol.wait; griddepcontrol.launch_dependents; setmaxnreg.inc.sync.aligned.u32 240; fence.proxy.async.shared::cta; fence.proxy.alias;
        fence.mbarrier_init.release.cluster; membar.proxy.alias; prefetch.global.L2::evict_last [%d0]; prefetchu.L1 [%d0]; discard.global.L2 [%d0+128], 128;
        applypriority.global.L2::evict_normal [%d0+128], 128; pmevent 3; ld.mmio.relaxed.sys.global.u32 %r2, [%d0]; st.global.u32 [%d0+4], %r2;""",
        words=128,
    )
    assert have[:2].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("form", "want"),
    [("min", -31.0), ("max", 30.0), ("min.abs", 1.0), ("max.abs", 31.0), ("max.NaN", np.nan), ("min.abs.NaN", np.nan)],
)
def test_redux_of_singles(form: str, want: float) -> None:
    """Lane t has t, negated where t is odd; lane 0 has a NaN."""
    have = run(
        f"""cvt.rn.f32.u32 %f0, %r0; and.b32 %r1, %r0, 1; setp.ne.u32 %p0, %r1, 0; @%p0 neg.f32 %f0, %f0;
        setp.eq.u32 %p1, %r0, 0; @%p1 mov.f32 %f0, 0f7fc00001;
        redux.sync.{form}.f32 %f1, %f0, 0xffffffff; st.global.f32 [%d1], %f1;""",
        threads=32,
    )
    assert np.array_equal(have.view(np.float32), np.full(32, want, np.float32), equal_nan=True)


def test_halves_and_singles_mix() -> None:
    have = run("mov.b16 %h0, 0x3c00; mov.b16 %h1, 0x4000; mov.f32 %f0, 0.25; fma.rn.f32.f16 %f1, %h0, %h1, %f0; sub.f32.bf16 %f2, %h1, %f0; st.global.v2.f32 [%d0], {%f1, %f2};")
    assert have[:2].view(np.float32).tolist() == [2.25, 1.75]


@pytest.mark.parametrize("version", ["6.0", "6.5", "7.0", "7.8", "8.0", "8.8", "9.0", "9.5"])
@pytest.mark.parametrize("target", ["sm_50", "sm_75", "sm_90a", "sm_100f, debug", "sm_120a, texmode_independent"])
def test_versions_and_targets(version: str, target: str) -> None:
    module = gs.device("sim:h200").compile(f"// a comment\n.version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n")
    module["k"][1, 32]()


def test_debug_information_is_passed_over() -> None:
    text = (
        '.version 8.5\n.target sm_90, debug\n.address_size 64\n.file 1 "a.cu", 1700000000, 120\n'
        ".visible .entry k() {\n$L__func_begin0:\n.loc 1 3 5\nmov.u32 %r1, 5;\n.loc 1 4 1, function_name $L__info0, inlined_at 1 3 5\nret;\n$L__func_end0:\n}\n"
        ".section .debug_abbrev\n{\n.b8 1, 17, 1\n.b8 0\n}\n.section .debug_info\n{\n.b32 .debug_abbrev\n.b64 $L__func_begin0\n}\n"
        ".section .debug_str\n{\n$L__info0:\n.b8 95, 0\n}\n"
    ).replace("mov.u32", ".reg .b32 %r<2>;\nmov.u32")
    gs.device("sim:h200").compile(text)["k"][1, 32]()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (".frobnicate;", "PTX line 6: directive `.frobnicate` is not known here\n    .frobnicate;\n    ^"),
        ("mov.u32 %r1 %r2;", "PTX line 6: expected `;`, found `%r2`\n    mov.u32 %r1 %r2;\n                ^"),
        ("mov.u32 %r1, 5/0;", "PTX line 6: division by zero in a constant expression\n    mov.u32 %r1, 5/0;\n                   ^"),
        (".reg .v2 .f32 %v; mov.f32 %v.z, 0.0;", "PTX line 6: `%v` has no element `z`\n    .reg .v2 .f32 %v; mov.f32 %v.z, 0.0;\n                              ^"),
    ],
)
def test_wrong_text_is_shown_with_a_caret(wrong: str, message: str) -> None:
    with pytest.raises(ParseError) as error:
        gs.device("sim:h200").compile(f"{HEADER}.visible .entry k()\n{{ .reg .b32 %r<3>;\n{wrong}\nret; }}\n")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("vadd.u32.u32.u32 %r1.q1, %r1, %r1;", "`.q1` is no part of a register"),
        ("add.u32 %r1, %r1.b0, %r1;", "`%r1.b0` names a part of a register, which only video instructions take"),
        ("add.u32 %r1, -%r1, %r1;", "a minus stands before a register, which only video instructions take"),
        ("bra NOWHERE;", "unknown label"),
    ],
)
def test_wrong_operands_are_named(wrong: str, message: str) -> None:
    with pytest.raises(ParseError, match="PTX line 8: ") as error:
        run(wrong)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("instruction", "feature"),
    [
        ("tex.2d.v4.f32.f32 {%r1, %r1, %r1, %r1}, [t, {%r1, %r1}];", "textures"),
        ("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%d0], [%d0];", "clusters that take over others' work"),
        ("red.async.relaxed.cluster.global.add.u32 [%d0], %r1, [%d0];", "asynchronous copies"),
        ("cp.async.mbarrier.arrive.shared.b64 [%d0];", "asynchronous copies"),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%d0], [%d0], 16, [%d0];", "asynchronous copies"),
        ("cp.async.ca.shared.global [%d0], [%d0], 4;", "asynchronous copies"),
        ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%d0], %r1, [%d0];", "asynchronous copies"),
    ],
)
def test_refused_by_name(instruction: str, feature: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"PTX line 8: instruction form `.*belongs to {feature}, which are not supported yet; PTX ISA"):
        run(instruction)
