"""Which lanes of a warp have equal keys: every lane against all others, without branches or memory that depends on the keys."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.lower.native import Native, NativeFunction

WARP = 32


def rows_of_equals(f: NativeFunction, keys: Native, kind: str) -> Iterator[tuple[int, Native]]:
    """Each lane's number, and the mask of the lanes with its key. kind: of the keys, "32xi16" or "32xi32"."""
    kept = f.variable(kind, keys)
    kept.set(keys)
    element = kind.removeprefix("32x")
    for lane in range(WARP):
        key = f.load(element, Native(f, kept.slot), lane * int(element[1:]) // 8)
        yield lane, equal_to(f, keys, f.splat(key))


def equal_to(f: NativeFunction, keys: Native, other: Native) -> Native:
    """The mask of the lanes at which two vectors are equal."""
    return Native(f, f.b.icmp_unsigned("==", keys.v, other.v)).to("i32")


def leaders(f: NativeFunction, keys: Native, mask: Native) -> Native:
    """Of the lanes of `mask` with one key the lowest, for each key (32xi16): as many as there are distinct keys."""
    module = f.function.module
    function = module.globals.get("leaders")
    if function is None:
        inner = NativeFunction(module, "leaders", "i32", ["32xi16", "i32"], attributes=("noinline",))
        inner.function.linkage = "internal"
        theirs, lanes = inner.args
        found = inner.const("i32", 0)
        for lane, row in rows_of_equals(inner, theirs, "32xi16"):
            earlier = row & lanes & ((1 << lane) - 1)
            found = found | (earlier.eq(0).to("i32") << lane)
        inner.ret(found & lanes)
        function = inner.function
    return f.call(function, keys, mask)


def most_on_one_bank(f: NativeFunction, bank: Native, banks: int, mask: Native) -> Native:
    """The most lanes of `mask` on any one bank (32xi8), as an i32."""
    most = f.const("i32", 0)
    for number in range(banks):
        lanes = f.count_bits(equal_to(f, bank, f.const("32xi8", number)) & mask)
        most = (lanes > most).select(lanes, most)
    return most
