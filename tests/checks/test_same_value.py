"""Unordered writes to one place: of the same value a warning, of different ones an error, for every width of a store."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import gridstride as gs

# type, elements, bytes
STORES = [
    *(("u8", 1, 1), ("s8", 1, 1), ("b16", 1, 2), ("u16", 1, 2), ("u32", 1, 4), ("f32", 1, 4), ("u64", 1, 8), ("f64", 1, 8), ("b128", 1, 16)),
    *(("u8", 2, 2), ("u8", 4, 4), ("u16", 2, 4), ("b16", 4, 8), ("f32", 2, 8), ("u32", 4, 16), ("f64", 2, 16)),
]
REGISTER = {"u8": "u16", "s8": "s16"}
# which threads write: block, thread
WRITERS = {"lanes of one instruction": ((0, 3), (0, 7)), "three lanes": ((0, 3), (0, 7), (0, 8)), "warps": ((0, 1), (0, 40)), "blocks": ((0, 1), (1, 1))}
SPACES = ("shared", "global")


def _kernel(space: str, kind: str, count: int, size: int) -> str:
    registers = ", ".join(f"%x{k}" for k in range(count))
    value, vector = (f"{{{registers}}}", f".v{count}") if count > 1 else (registers, "")
    place = "mov.u64 %p, room;" if space == "shared" else "ld.param.u64 %p, [out];"
    return f"""
.visible .entry {space}_{kind}_{count}(.param .u64 in, .param .u64 who, .param .u64 out) {{
    .shared .align 16 .b8 room[64];
    .reg .u32 %t, %b, %n; .reg .u64 %i, %w, %p; .reg .pred %q; .reg .{REGISTER.get(kind, kind)} %x<4>;
    mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %t, %b, %n, %t;
    ld.param.u64 %w, [who]; mad.wide.u32 %w, %t, 4, %w; ld.global.u32 %b, [%w]; setp.eq.u32 %q, %b, 0; @%q bra END;
    ld.param.u64 %i, [in]; mad.wide.u32 %i, %t, {size}, %i; ld.global{vector}.{kind} {value}, [%i];
    {place} st.{space}{vector}.{kind} [%p+16], {value};
END:
    ret; }}
"""


@functools.cache
def _module() -> gs.Module:
    head = ".version 8.8\n.target sm_100\n.address_size 64\n"
    return gs.device("sim").compile(head + "".join(_kernel(space, *store) for space in SPACES for store in STORES))


@pytest.mark.parametrize(("space", "writers"), [(s, w) for s in SPACES for w in WRITERS if (s, w) != ("shared", "blocks")])
@pytest.mark.parametrize(("kind", "count", "size"), STORES, ids=lambda v: str(v))
def test_the_value_decides(kind: str, count: int, size: int, space: str, writers: str) -> None:
    module, who = _module(), np.zeros((2, 64), np.uint32)
    for place in WRITERS[writers]:
        who[place] = 1
    values = np.broadcast_to(np.arange(7, 7 + size, dtype=np.uint8), (2, 64, size))
    for byte in (None, 0, size - 1):
        given = values.copy()
        if byte is not None:
            given[WRITERS[writers][1]][byte] ^= 0x10
        device = module.device
        with gs.checking("race-shared,race-global") as findings:
            module[f"{space}_{kind}_{count}"][2, 64](device.array(given), device.array(who), device.zeros(64, np.uint8))
        assert [(f.kind, f.severity) for f in findings] == [(f"race-{space}", "warning" if byte is None else "error")], f"byte {byte}: {findings!r}"
