"""Every width and vector of ld and st in every space, by lane patterns that take each path to memory."""

from __future__ import annotations

import numpy as np
import pytest

from engine.kernels import HEADER, Kernels

LANES = 64
SCALARS = ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
# element type, elements of one access; PTX allows at most 16 bytes, 32 for sm_100 and later in global memory
ACCESSES = [(kind, count) for kind in SCALARS for count in (1, 2, 4) if int(kind[1:]) * count <= 128]
REGISTER = {8: "b16", 16: "b16", 32: "b32", 64: "b64"}

# How lane `%t` chooses its element: patterns that are affine in the lane, uniform, or neither.
PATTERNS = {
    "line": "mov.u32 %i, %t;",
    "backwards": "sub.u32 %i, 63, %t;",
    "stride3": "mul.lo.u32 %i, %t, 3;",
    "scrambled": "mul.lo.u32 %i, %t, 37; and.b32 %i, %i, 63;",
    "pairs": "shr.u32 %i, %t, 1;",
    "one": "mov.u32 %i, 5;",
    "one_computed": "mul.lo.u32 %i, %t, 0; add.u32 %i, %i, 9; and.b32 %j, %t, 32; shr.u32 %j, %j, 5; add.u32 %i, %i, %j;",
}
INDEX = {
    "line": lambda t: t,
    "backwards": lambda t: 63 - t,
    "stride3": lambda t: 3 * t,
    "scrambled": lambda t: t * 37 & 63,
    "pairs": lambda t: t >> 1,
    "one": lambda t: t * 0 + 5,
    "one_computed": lambda t: t * 0 + 9 + (t >> 5),
}
ROOM = 192  # elements that a pattern can reach


def name_of(kind: str, count: int, *rest: str) -> str:
    return "_".join(("k", kind, str(count), *rest))


def vector(count: int) -> str:
    return "" if count == 1 else f".v{count}"


def registers(count: int) -> str:
    return "%x0" if count == 1 else "{" + ", ".join(f"%x{k}" for k in range(count)) + "}"


def global_kernel(kind: str, count: int) -> str:
    """out[pattern(t)] = in[pattern(t)] for all patterns, the odd threads of 48 sitting out every second one."""
    bits = int(kind[1:])
    size = bits // 8 * count
    body = ""
    for number, code in enumerate(PATTERNS.values()):
        offset = number * ROOM * size
        body += f"""
    {code} mad.wide.u32 %a, %i, {size}, %in; mad.wide.u32 %b, %i, {size}, %out;
    {f"@%odd bra S{number};" if number % 2 else ""}
    ld.global{vector(count)}.{kind} {registers(count)}, [%a+{offset}];
    st.global{vector(count)}.{kind} [%b+{offset}], {registers(count)};
    S{number}:"""
    return f""".visible .entry {name_of(kind, count)}(.param .u64 in_, .param .u64 out_) {{
    .reg .u32 %t, %i, %j; .reg .u64 %in, %out, %a, %b; .reg .{REGISTER[bits]} %x<4>; .reg .pred %odd;
    ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x; and.b32 %i, %t, 1; setp.ne.u32 %odd, %i, 0;
    {body}
    ret; }}
"""


GLOBAL = Kernels(HEADER + "".join(global_kernel(kind, count) for kind, count in ACCESSES))


@pytest.mark.parametrize(("kind", "count"), ACCESSES, ids=lambda v: str(v))
def test_global_memory(kind: str, count: int) -> None:
    size = int(kind[1:]) // 8 * count
    given = np.random.default_rng(size).integers(0, 256, (len(PATTERNS), ROOM, size)).astype(np.uint8)
    expected = np.zeros_like(given)
    t = np.arange(LANES)
    for number, pattern in enumerate(PATTERNS):
        index = INDEX[pattern](t[t % 2 == 0] if number % 2 else t)
        expected[number, index] = given[number, index]
    _, out = GLOBAL.run(name_of(kind, count), 1, LANES, given, np.zeros_like(given))
    np.testing.assert_array_equal(out, expected)


def space_kernel(space: str, kind: str, count: int) -> str:
    """Through `space`: write by one pattern, read by another, send the result to global memory as a line."""
    bits = int(kind[1:])
    size = bits // 8 * count
    generic = space.startswith("generic_")
    place = space.removeprefix("generic_")
    word = "" if generic else f".{place}"
    # shared memory is read where another thread wrote; local memory only where the thread itself did
    read = "sub.u32 %i, 63, %t;" if place == "shared" else "mov.u32 %i, %t;"
    make = f"cvta.{place}.u64 %base, %base;" if generic else ""
    return f""".visible .entry {name_of(kind, count, space)}(.param .u64 in_, .param .u64 out_) {{
    .{place} .align 16 .b8 room[{ROOM * size}];
    .reg .u32 %t, %i, %j; .reg .u64 %in, %out, %a, %b, %base; .reg .{REGISTER[bits]} %x<4>;
    ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x;
    mad.wide.u32 %a, %t, {size}, %in; ld.global{vector(count)}.{kind} {registers(count)}, [%a];
    mov.u64 %base, room; {make}
    mad.wide.u32 %b, %t, {size}, %base;
    st{word}{vector(count)}.{kind} [%b], {registers(count)};
    st{word}{vector(count)}.{kind} [%base+{100 * size}], {registers(count)};
    bar.sync 0;
    {read}
    mad.wide.u32 %b, %i, {size}, %base;
    mad.wide.u32 %a, %t, {size}, %out;
    ld{word}{vector(count)}.{kind} {registers(count)}, [%b];
    st.global{vector(count)}.{kind} [%a], {registers(count)};
    ld{word}{vector(count)}.{kind} {registers(count)}, [%base+{100 * size}];
    st.global{vector(count)}.{kind} [%a+{LANES * size}], {registers(count)};
    ret; }}
"""


SPACES = ("shared", "local", "generic_shared", "generic_local")
OTHER = {space: Kernels(HEADER + "".join(space_kernel(space, k, c) for k, c in ACCESSES)) for space in SPACES}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("kind", "count"), ACCESSES, ids=lambda v: str(v))
def test_other_spaces(space: str, kind: str, count: int) -> None:
    size = int(kind[1:]) // 8 * count
    given = np.random.default_rng(size).integers(0, 256, (LANES, size)).astype(np.uint8)
    _, out = OTHER[space].once(name_of(kind, count, space), 1, LANES, given, np.zeros((2, LANES, size), np.uint8))
    np.testing.assert_array_equal(out[0], given[::-1] if space.endswith("shared") else given)
    if space.endswith("local"):
        np.testing.assert_array_equal(out[1], given)
    else:  # one address, one of its writers
        assert (out[1] == out[1][0]).all() and (given == out[1][0]).all(axis=1).any()


def constant_kernel(space: str, kind: str, count: int) -> str:
    bits = int(kind[1:])
    size = bits // 8 * count
    return f""".visible .entry {name_of(kind, count, space)}(.param .u64 out_{", .param .align 16 .b8 table[1024]" if space == "param" else ""}) {{
    .reg .u32 %t; .reg .u64 %out, %a, %b; .reg .{REGISTER[bits]} %x<4>;
    ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x;
    mad.wide.u32 %a, %t, {size}, %out; mov.u64 %b, table; mad.wide.u32 %b, %t, {size}, %b;
    ld.{space}{vector(count)}.{kind} {registers(count)}, [%b];
    st.global{vector(count)}.{kind} [%a], {registers(count)};
    ld.{space}{vector(count)}.{kind} {registers(count)}, [table+{size * 7}];
    st.global{vector(count)}.{kind} [%a+{64 * size}], {registers(count)};
    ret; }}
"""


TABLE = np.random.default_rng(9).integers(0, 256, 1024).astype(np.uint8)
CONSTANT = Kernels(
    HEADER + f".const .align 16 .b8 table[1024] = {{{', '.join(map(str, TABLE))}}};\n" + "".join(constant_kernel("const", k, c) for k, c in ACCESSES)
)
PARAMETER = Kernels(HEADER + "".join(constant_kernel("param", k, c) for k, c in ACCESSES))


@pytest.mark.parametrize("space", ("const", "param"))
@pytest.mark.parametrize(("kind", "count"), ACCESSES, ids=lambda v: str(v))
def test_constant_and_parameter_memory(space: str, kind: str, count: int) -> None:
    size = int(kind[1:]) // 8 * count
    out = np.zeros((2, 64, size), np.uint8)
    program, more = (CONSTANT, ()) if space == "const" else (PARAMETER, (bytes(TABLE),))
    (out,) = program.once(name_of(kind, count, space), 1, 64, out, *more)
    elements = TABLE[: 64 * size].reshape(64, size)
    np.testing.assert_array_equal(out[0], elements)
    np.testing.assert_array_equal(out[1], np.broadcast_to(elements[7], (64, size)))


WIDE = Kernels(
    HEADER.replace("sm_90", "sm_100")
    + """
.visible .entry v8(.param .u64 in_, .param .u64 out_) {
  .reg .u32 %t, %x<8>; .reg .u64 %in, %out, %y<4>; ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x;
  mad.wide.u32 %in, %t, 64, %in; mad.wide.u32 %out, %t, 64, %out;
  ld.global.v8.b32 {%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7}, [%in]; st.global.v8.b32 [%out], {%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7};
  ld.global.v4.b64 {%y0, %y1, %y2, %y3}, [%in+32]; st.global.v4.b64 [%out+32], {%y0, %y1, %y2, %y3}; ret; }
.visible .entry b128(.param .u64 in_, .param .u64 out_) {
  .reg .u32 %t; .reg .u64 %in, %out, %lo, %hi; .reg .b128 %x; ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x;
  mad.wide.u32 %in, %t, 16, %in; mad.wide.u32 %out, %t, 16, %out;
  ld.relaxed.gpu.global.b128 %x, [%in]; mov.b128 {%lo, %hi}, %x; mov.b128 %x, {%hi, %lo}; st.relaxed.gpu.global.b128 [%out], %x; ret; }
.visible .entry sinks(.param .u64 in_, .param .u64 out_) {
  .reg .u32 %t, %x<4>; .reg .u64 %in, %out; ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x;
  mad.wide.u32 %in, %t, 16, %in; mad.wide.u32 %out, %t, 4, %out;
  ld.global.v4.b32 {_, %x1, _, %x3}, [%in]; add.u32 %x1, %x1, %x3; st.global.b32 [%out], %x1; ret; }
.visible .entry hints(.param .u64 in_, .param .u64 out_) {
  .reg .u32 %t, %x, %y; .reg .u64 %in, %out, %policy; ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x;
  mad.wide.u32 %in, %t, 4, %in; mad.wide.u32 %out, %t, 4, %out; mov.u64 %policy, 0;
  prefetch.global.L2 [%in]; prefetch.global.L1 [%in]; prefetchu.L1 [%in];
  ld.global.ca.u32 %x, [%in]; ld.global.cg.u32 %y, [%in]; add.u32 %x, %x, %y; ld.global.cs.u32 %y, [%in]; add.u32 %x, %x, %y;
  ld.global.lu.u32 %y, [%in]; add.u32 %x, %x, %y; ld.global.cv.u32 %y, [%in]; add.u32 %x, %x, %y; ld.global.nc.u32 %y, [%in]; add.u32 %x, %x, %y;
  ld.global.nc.L1::no_allocate.L2::128B.u32 %y, [%in]; add.u32 %x, %x, %y; ld.volatile.global.u32 %y, [%in]; add.u32 %x, %x, %y;
  ld.global.L1::evict_last.L2::cache_hint.u32 %y, [%in], %policy; add.u32 %x, %x, %y; ldu.global.u32 %y, [%in]; add.u32 %x, %x, %y;
  ld.weak.global.u32 %y, [%in]; add.u32 %x, %x, %y; ld.acquire.sys.global.u32 %y, [%in]; add.u32 %x, %x, %y;
  st.global.wb.u32 [%out], 1; st.global.cg.u32 [%out], 2; st.global.cs.u32 [%out], 3; st.global.wt.u32 [%out], 4; st.volatile.global.u32 [%out], 5;
  st.global.L2::cache_hint.u32 [%out], 6, %policy; st.release.gpu.global.u32 [%out], %x; ret; }
.visible .entry immediate_values(.param .u64 out_) {
  .reg .u64 %out; ld.param.u64 %out, [out_];
  st.global.u8 [%out], 255; st.global.s16 [%out+2], -2; st.global.u32 [%out+4], 0xdeadbeef; st.global.u64 [%out+8], -1;
  st.global.f32 [%out+16], 0f3fc00000; st.global.f64 [%out+24], 0d4005bf0a8b145769; st.global.f32 [%out+20], 2.5; st.global.f64 [%out+32], -0.125; ret; }
"""
)


def test_vectors_of_32_bytes() -> None:
    given = np.random.default_rng(5).integers(0, 2**32, (64, 16), dtype=np.uint32)
    _, out = WIDE.run("v8", 1, 64, given, np.zeros_like(given))
    np.testing.assert_array_equal(out, given)


def test_128_bit_elements() -> None:
    given = np.random.default_rng(5).integers(0, 2**63, (64, 2), dtype=np.uint64)
    _, out = WIDE.run("b128", 1, 64, given, np.zeros_like(given))
    np.testing.assert_array_equal(out, given[:, ::-1])


def test_vector_elements_that_nobody_wants() -> None:
    given = np.random.default_rng(5).integers(0, 2**31, (64, 4), dtype=np.uint32)
    _, out = WIDE.run("sinks", 1, 64, given, np.zeros(64, np.uint32))
    np.testing.assert_array_equal(out, given[:, 1] + given[:, 3])


def test_hints_change_nothing() -> None:
    given = np.random.default_rng(5).integers(0, 2**31, 64, dtype=np.uint32)
    _, out = WIDE.run("hints", 1, 64, given, np.zeros(64, np.uint32))
    np.testing.assert_array_equal(out, given * np.uint32(12))


def test_stored_constants() -> None:
    (out,) = WIDE.run("immediate_values", 1, 32, np.zeros(40, np.uint8))
    assert out[0] == 255 and out[2:4].view(np.int16)[0] == -2 and out[4:8].view(np.uint32)[0] == 0xDEADBEEF and out[8:16].view(np.int64)[0] == -1
    assert list(out[16:24].view(np.float32)) == [1.5, 2.5] and list(out[24:40].view(np.float64)) == [2.718281828459045, -0.125]


WIDENING = [(k, b) for k in ("u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32") for b in (16, 32, 64) if int(k[1:]) < b]
NARROW = Kernels(
    HEADER
    + "".join(
        f""".visible .entry widen_{kind}_{bits}(.param .u64 in_, .param .u64 out_) {{
  .reg .u32 %t; .reg .b{bits} %x; .reg .u64 %in, %out; ld.param.u64 %in, [in_]; ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x;
  mad.wide.u32 %in, %t, {int(kind[1:]) // 8}, %in; mad.wide.u32 %out, %t, {bits // 8}, %out; ld.global.{kind} %x, [%in]; st.global.b{bits} [%out], %x; ret; }}
"""
        for kind, bits in WIDENING
    )
)


@pytest.mark.parametrize(("kind", "bits"), WIDENING)
def test_loads_into_wider_registers(kind: str, bits: int) -> None:
    """PTX ISA 9.4.1: the destination is zero-extended, for signed types sign-extended."""
    element = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")
    given = np.random.default_rng(1).integers(0, 256, 64 * element.itemsize).astype(np.uint8).view(element)
    _, out = NARROW.run(f"widen_{kind}_{bits}", 1, 64, given, np.zeros(64, f"i{bits // 8}"))
    np.testing.assert_array_equal(out, given.astype(f"i{bits // 8}"))
