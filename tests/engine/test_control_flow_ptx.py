"""Control flow that C++ does not write: irreducible loops, guards on everything, reused registers, carries across blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine.kernels import HEADER, Kernels, fault_of, per_thread

N = 100
SIGNATURE = ".visible .entry {name}(.param .u64 in_, .param .u64 out_) {{"
# %t: thread, %v: its input, %r: its result, %pi, %po: addresses of its input and output
START = """
  .reg .b32 %t, %v, %r, %a<10>; .reg .u64 %pi, %po, %w<10>; .reg .pred %p<8>;
  ld.param.u64 %pi, [in_]; ld.param.u64 %po, [out_];
  mov.u32 %t, %ctaid.x; mad.lo.u32 %t, %t, 64, %tid.x;
  setp.ge.u32 %p0, %t, 100; @%p0 exit;
  mad.wide.u32 %pi, %t, 4, %pi; mad.wide.u32 %po, %t, 4, %po;
  ld.global.u32 %v, [%pi];
"""
END = "\n  st.global.u32 [%po], %r; ret; }\n"

BODIES = {
    # two entries into one cycle
    "irreducible": """
      and.b32 %a1, %v, 1; setp.eq.u32 %p1, %a1, 0; mov.u32 %r, 0; mov.u32 %a2, 0;
      @%p1 bra B;
    A: add.u32 %r, %r, 3; add.u32 %a2, %a2, 1;
    B: mul.lo.u32 %r, %r, 2; add.u32 %r, %r, 1; add.u32 %a2, %a2, 1;
      and.b32 %a3, %v, 15; setp.lt.u32 %p2, %a2, %a3; @%p2 bra A;
    """,
    # three blocks that each may go to the two others, entered at all of them
    "irreducible_three": """
      mov.u32 %r, %v; mov.u32 %a2, 0; rem.u32 %a1, %v, 3;
      setp.eq.u32 %p1, %a1, 1; setp.eq.u32 %p2, %a1, 2;
      @%p1 bra B; @%p2 bra C;
    A: add.u32 %a2, %a2, 1; setp.gt.u32 %p3, %a2, 12; @%p3 bra DONE;
      mad.lo.u32 %r, %r, 5, 1; and.b32 %a3, %r, 4; setp.eq.u32 %p4, %a3, 0; @%p4 bra C;
    B: add.u32 %a2, %a2, 1; setp.gt.u32 %p3, %a2, 12; @%p3 bra DONE;
      mad.lo.u32 %r, %r, 3, 7; and.b32 %a3, %r, 8; setp.eq.u32 %p4, %a3, 0; @%p4 bra A;
    C: add.u32 %a2, %a2, 1; setp.gt.u32 %p3, %a2, 12; @%p3 bra DONE;
      xor.b32 %r, %r, 0x35; add.u32 %r, %r, 11; and.b32 %a3, %r, 2; setp.eq.u32 %p4, %a3, 0; @%p4 bra A;
      bra B;
    DONE:
    """,
    "guarded_memory": """
      and.b32 %a1, %v, 1; setp.eq.u32 %p1, %a1, 1; mov.u32 %r, 77;
      @%p1 ld.global.u32 %r, [%pi];
      @!%p1 st.global.u32 [%po], 5;
      @!%p1 ld.global.u32 %a2, [%po];
      @!%p1 add.u32 %r, %r, %a2;
      mov.u32 %a3, 1000;
      @%p1 atom.global.add.u32 %a3, [%po], 9;
      @%p1 ld.global.u32 %a4, [%po];
      @%p1 sub.u32 %a3, %a4, %a3;
      add.u32 %r, %r, %a3;
    """,
    "guarded_exit_and_ret": """
      and.b32 %a1, %v, 3; setp.eq.u32 %p1, %a1, 1; setp.eq.u32 %p2, %a1, 2; mov.u32 %r, %a1;
      st.global.u32 [%po], 500;
      @%p1 exit;
      @%p2 ret;
      add.u32 %r, %r, 1;
    """,
    "guarded_arithmetic": """
      and.b32 %a1, %v, 1; setp.eq.u32 %p1, %a1, 1;
      and.b32 %a2, %v, 6; setp.gt.u32 %p2, %a2, 3;
      mov.u32 %r, 10;
      @%p1 mov.u32 %r, %v; @!%p1 mul.lo.u32 %r, %r, 7;
      @%p2 not.b32 %r, %r; @!%p2 shl.b32 %r, %r, 2;
      @%p1 setp.lt.u32 %p2, %r, 50;
      @%p2 add.u32 %r, %r, 1;
      selp.u32 %a3, 100, 200, %p2; add.u32 %r, %r, %a3;
    """,
    # %a1 is a number, an address half, a float and a loop counter in turn
    "reused_registers": """
      mov.u32 %a1, %v; add.u32 %r, %a1, 1;
      mov.u32 %a1, 5; 
    L: add.u32 %r, %r, %a1; sub.u32 %a1, %a1, 1; setp.ne.u32 %p1, %a1, 0; @%p1 bra L;
      cvt.rn.f32.u32 %a1, %r; mul.rn.f32 %a1, %a1, 0f40000000; cvt.rzi.u32.f32 %a1, %a1; add.u32 %r, %r, %a1;
      mov.b64 {%a1, %a2}, %po; add.u32 %a1, %a1, 0; mov.b64 %w1, {%a1, %a2}; st.global.u32 [%w1], 3; ld.global.u32 %a1, [%po]; add.u32 %r, %r, %a1;
      setp.gt.u32 %p1, %r, 100; @%p1 bra M; mov.u32 %a1, 40; bra E;
    M: mov.u32 %a1, %t;
    E: add.u32 %r, %r, %a1;
    """,
    "two_destinations": """
      and.b32 %a1, %v, 7; setp.gt.u32 %p1|%p2, %a1, 3; selp.u32 %r, 1, 0, %p1; selp.u32 %a2, 10, 20, %p2; add.u32 %r, %r, %a2;
      setp.lt.and.u32 %p3|%p4, %a1, 6, %p1; selp.u32 %a3, 100, 0, %p3; selp.u32 %a4, 1000, 0, %p4; add.u32 %r, %r, %a3; add.u32 %r, %r, %a4;
      setp.eq.or.u32 %p5|%p6, %a1, 2, !%p2; selp.u32 %a3, 10000, 0, %p5; selp.u32 %a4, 100000, 0, %p6; add.u32 %r, %r, %a3; add.u32 %r, %r, %a4;
      setp.ne.xor.u32 %p5|%p6, %a1, 5, %p3; selp.u32 %a3, 1000000, 0, %p5; selp.u32 %a4, 2000000, 0, %p6; add.u32 %r, %r, %a3; add.u32 %r, %r, %a4;
    """,
    # a 96-bit sum whose carries cross block borders
    "carry_across_blocks": """
      mad.lo.u32 %a1, %v, 0x9E3779B9, 0x80000000; mul.lo.u32 %a2, %v, 0x85EBCA6B; not.b32 %a3, 0;
      add.cc.u32 %a4, %a1, %a2;
      bra NEXT;
    NEXT:
      addc.cc.u32 %a5, %a3, 0;
      and.b32 %a6, %v, 1; setp.eq.u32 %p1, %a6, 1; @%p1 bra ODD;
      addc.u32 %a7, %v, 1; bra JOIN;
    ODD: addc.u32 %a7, %v, 100;
    JOIN: xor.b32 %r, %a4, %a5; mad.lo.u32 %r, %a7, 31, %r;
      sub.cc.u32 %a1, %a1, %a2; subc.u32 %a2, 10, 3; add.u32 %r, %r, %a2;
    """,
    "uniform_loop_with_guarded_leave": """
      mov.u32 %r, 0; mov.u32 %a1, 0;
    L: add.u32 %a1, %a1, 1; and.b32 %a2, %v, 31; setp.ge.u32 %p1, %a1, %a2; add.u32 %r, %r, %a1;
      @%p1 bra OUT; setp.lt.u32 %p2, %a1, 20; @%p2 bra L;
      add.u32 %r, %r, 10000;
    OUT: mad.lo.u32 %r, %a1, 100000, %r;
    """,
    "jump_table": """
      rem.u32 %a1, %v, 5; mov.u32 %r, 1;
    T: .branchtargets L0, L1, L2, L1, L4;
      brx.idx %a1, T;
    L0: mov.u32 %r, 3; bra E;
    L1: add.u32 %r, %r, %a1; bra E;
    L2: mul.lo.u32 %r, %v, 4;
    L4: add.u32 %r, %r, 50;
    E:
    """,
    "guarded_jump_table": """
      and.b32 %a1, %v, 1; mov.u32 %r, %v; and.b32 %a2, %v, 4; setp.ne.u32 %p1, %a2, 0;
    T: .branchtargets L0, L1;
      @%p1 brx.idx %a1, T;
      add.u32 %r, %r, 9000; bra E;
    L0: add.u32 %r, %r, 100; bra E;
    L1: add.u32 %r, %r, 200;
    E:
    """,
    "unreachable_code": """
      mov.u32 %r, %v; bra E;
      add.u32 %r, %r, 1; bra X;
    X: mul.lo.u32 %r, %r, 0;
    E: add.u32 %r, %r, 2;
    """,
    "predicates_as_values": """
      and.b32 %a1, %v, 1; setp.eq.u32 %p1, %a1, 1; and.b32 %a1, %v, 2; setp.ne.u32 %p2, %a1, 0;
      and.pred %p3, %p1, %p2; xor.pred %p4, %p1, %p2; not.pred %p5, %p3; or.pred %p6, %p4, !%p2; mov.pred %p7, %p6;
      @%p3 mov.pred %p7, %p1;
      selp.u32 %r, 1, 0, %p3; selp.u32 %a2, 2, 0, %p4; add.u32 %r, %r, %a2; selp.u32 %a2, 4, 0, %p5; add.u32 %r, %r, %a2;
      selp.u32 %a2, 8, 0, %p6; add.u32 %r, %r, %a2; selp.u32 %a2, 16, 0, %p7; add.u32 %r, %r, %a2;
    """,
    "nested_scopes": """
      { .reg .u32 %x; add.u32 %x, %v, 1; { .reg .u32 %x; mul.lo.u32 %x, %v, 3; mov.u32 %r, %x; } add.u32 %r, %r, %x; }
    """,
    "loop_of_one_block": """
      mov.u32 %r, %v; 
    L: shr.u32 %r, %r, 1; setp.gt.u32 %p1, %r, 4; @%p1 bra L;
    """,
    "exit_in_loop": """
      mov.u32 %r, 0; st.global.u32 [%po], 999;
    L: add.u32 %r, %r, 1; and.b32 %a1, %v, 15; setp.eq.u32 %p1, %r, %a1; @%p1 exit;
      setp.lt.u32 %p2, %r, 10; @%p2 bra L;
    """,
}
FUNCTIONS = """
.func (.reg .u32 %res) twice(.reg .u32 %x) { add.u32 %res, %x, %x; ret; }
.func (.param .b32 res) early(.param .b32 x) { .reg .u32 %a; .reg .pred %p; ld.param.b32 %a, [x]; setp.lt.u32 %p, %a, 50; st.param.b32 [res], 1; @%p ret; add.u32 %a, %a, 7; st.param.b32 [res], %a; ret; }
"""
BODIES["guarded_call"] = """
      mov.u32 %r, %v; and.b32 %a1, %v, 1; setp.eq.u32 %p1, %a1, 1;
      @%p1 call (%r), twice, (%v);
      { .param .b32 p; .param .b32 q; st.param.b32 [p], %v; call.uni (q), early, (p); ld.param.b32 %a2, [q]; }
      add.u32 %r, %r, %a2;
      @!%p1 call.uni (%r), twice, (%r);
    """  # fmt: skip

SOURCE = HEADER + FUNCTIONS + "".join(SIGNATURE.format(name=name) + START + body + END for name, body in BODIES.items())
program = Kernels(SOURCE)
values = np.random.default_rng(11).integers(0, 5000, N).astype(np.uint32)
M = 0xFFFFFFFF


def irreducible(t: int, v: int) -> int:
    r = a2 = 0
    at_a = bool(v & 1)
    while True:
        if at_a:
            r, a2 = r + 3, a2 + 1
        r, a2 = (r * 2 + 1) & M, a2 + 1
        at_a = True
        if a2 >= (v & 15):
            return r


def irreducible_three(t: int, v: int) -> int:
    r, a2, at = v, 0, "ABC"[v % 3]
    while True:
        a2 += 1
        if a2 > 12:
            return r
        if at == "A":
            r = (r * 5 + 1) & M
            at = "C" if r & 4 == 0 else "B"
        elif at == "B":
            r = (r * 3 + 7) & M
            at = "A" if r & 8 == 0 else "C"
        else:
            r = ((r ^ 0x35) + 11) & M
            at = "A" if r & 2 == 0 else "B"


def guarded_memory(t: int, v: int) -> int:
    return v + 9 if v & 1 else 77 + 5 + 1000


def guarded_exit_and_ret(t: int, v: int) -> int:
    return {1: 500, 2: 500}.get(v & 3, (v & 3) + 1)


def guarded_arithmetic(t: int, v: int) -> int:
    odd, p2 = bool(v & 1), (v & 6) > 3
    r = v if odd else 70
    r = ~r & M if p2 else r << 2 & M
    if odd:
        p2 = r < 50
    return r + (1 if p2 else 0) + (100 if p2 else 200)


def reused_registers(t: int, v: int) -> int:
    r = v + 1 + 15
    r += 2 * r
    r += 3
    return r + (t if r > 100 else 40)


def two_destinations(t: int, v: int) -> int:
    a = v & 7
    p1, p2 = a > 3, not a > 3
    p3, p4 = a < 6 and p1, (not a < 6) and p1
    p5, p6 = a == 2 or not p2, a != 2 or not p2
    r = p1 + (10 if p2 else 20) + 100 * p3 + 1000 * p4 + 10_000 * p5 + 100_000 * p6
    p5, p6 = (a != 5) != p3, (a == 5) != p3
    return r + 1_000_000 * p5 + 2_000_000 * p6


def carry_across_blocks(t: int, v: int) -> int:
    a1, a2 = (v * 0x9E3779B9 + 0x80000000) & M, v * 0x85EBCA6B & M
    total = a1 + a2 + (M << 32)
    a4, a5, carry = total & M, total >> 32 & M, total >> 64
    a7 = (v + (100 if v & 1 else 1) + carry) & M
    return (a7 * 31 + (a4 ^ a5)) + 7 - (1 if a1 < a2 else 0)


def uniform_loop_with_guarded_leave(t: int, v: int) -> int:
    r = a1 = 0
    while True:
        a1 += 1
        r += a1
        if a1 >= (v & 31):
            break
        if not a1 < 20:
            r += 10000
            break
    return a1 * 100000 + r


def jump_table(t: int, v: int) -> int:
    k = v % 5
    return [3, 1 + k, 4 * v + 50, 1 + k, 51][k]


def guarded_jump_table(t: int, v: int) -> int:
    return v + (9000 if not v & 4 else 200 if v & 1 else 100)


def unreachable_code(t: int, v: int) -> int:
    return v + 2


def predicates_as_values(t: int, v: int) -> int:
    p1, p2 = bool(v & 1), bool(v & 2)
    p3, p4 = p1 and p2, p1 != p2
    p6 = p4 or not p2
    return p3 + 2 * p4 + 4 * (not p3) + 8 * p6 + 16 * (p1 if p3 else p6)


def nested_scopes(t: int, v: int) -> int:
    return v * 3 + v + 1


def loop_of_one_block(t: int, v: int) -> int:
    while True:
        v >>= 1
        if v <= 4:
            return v


def exit_in_loop(t: int, v: int) -> int:
    return 999 if 1 <= v & 15 <= 10 else 10


def guarded_call(t: int, v: int) -> int:
    r = (2 * v if v & 1 else v) + (1 if v < 50 else v + 7)
    return r if v & 1 else 2 * r


MODELS = (
    irreducible, irreducible_three, guarded_memory, guarded_exit_and_ret, guarded_arithmetic, reused_registers, two_destinations,
    carry_across_blocks, uniform_loop_with_guarded_leave, jump_table, guarded_jump_table, unreachable_code, predicates_as_values,
    nested_scopes, loop_of_one_block, exit_in_loop, guarded_call,
)  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_hand_written_flow(model: Callable[[int, int], int]) -> None:
    _, out = program.run(model.__name__, 2, 64, values, np.where(values & 1, values, 0).astype(np.uint32))
    np.testing.assert_array_equal(out, per_thread(N, lambda t: model(t, int(values[t])), np.uint32))


def test_every_body_is_tested() -> None:
    assert {model.__name__ for model in MODELS} == set(BODIES)


GUARDED_SYNC = Kernels(
    HEADER
    + """
.shared .align 4 .b8 room[512];
.visible .entry guarded_barrier(.param .u64 out_) {
  .reg .u32 %t, %a, %w, %seen; .reg .u64 %o; .reg .pred %p, %q;
  mov.u32 %t, %tid.x; mov.u32 %seen, 0; ld.param.u64 %o, [out_]; mad.wide.u32 %o, %t, 4, %o;
  shl.b32 %a, %t, 2; mov.u32 %w, room; add.u32 %a, %a, %w;
  shr.u32 %w, %t, 5; setp.eq.u32 %p, %w, 0;
  @!%p st.shared.u32 [%a], %t;
  setp.eq.u32 %q, %t, 32; @%q st.shared.u32 [room], 0;
  @%p bar.sync 1, 128; @!%p bar.arrive 1, 128;
  @%p ld.shared.u32 %seen, [%a+128]; mov.u32 %w, 0;
  setp.lt.u32 %q, %t, 64; @%q bar.red.popc.u32 %w, 2, 64, %p;
  @%p atom.shared.add.u32 %a, [room], 1; @%q bar.sync 3, 64;
  @%p ld.shared.u32 %w, [room];
  mad.lo.u32 %w, %seen, 1000, %w;
  st.global.u32 [%o], %w; ret; }
.visible .entry trap_where(.param .u64 out_) {
  .reg .u32 %t; .reg .pred %p; .reg .u64 %o;
  ld.param.u64 %o, [out_]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 37; st.global.u32 [%o], 1;
  @%p trap; ret; }
"""
)


def test_guarded_barriers_and_atomics() -> None:
    (out,) = GUARDED_SYNC.run("guarded_barrier", 1, 128, np.zeros(128, np.uint32))
    t = np.arange(128)
    # 32 threads hold the predicate of the second barrier; the shared counter starts with what was there and gets 32 more
    np.testing.assert_array_equal(out[:32], (t[:32] + 32) * 1000 + 32)
    np.testing.assert_array_equal(out[32:], np.where(t[32:] < 64, 32, 0))


def test_guarded_trap() -> None:
    fault = fault_of(lambda: GUARDED_SYNC.once("trap_where", 1, 64, np.zeros(1, np.uint32)))
    assert fault.code == "trap" and fault.fault.site.thread == (37, 0, 0)
