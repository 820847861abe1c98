"""Which lanes of a warp have equal keys: every lane against all others, without branches or memory that depends on the keys."""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

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


def permuted(f: NativeFunction, vector: Native, lanes: list[int]) -> Native:
    """Each lane with the value of another."""
    kind = ir.IntType(32)
    indices = ir.Constant(ir.VectorType(kind, len(lanes)), [ir.Constant(kind, lane) for lane in lanes])
    return Native(f, f.b.shuffle_vector(vector.v, vector.v, indices))


def moved(f: NativeFunction, vector: Native, lanes: int) -> Native:
    """Every lane's value so many lanes up, the last ones' at the first lanes."""
    return permuted(f, vector, [(k - lanes) % WARP for k in range(WARP)])


def leaders(f: NativeFunction, keys: Native, mask: Native) -> Native:
    """Of the lanes of `mask` with one key the lowest, for each key (32xi16): as many as there are distinct keys."""
    module = f.function.module
    function = module.globals.get("leaders")
    if function is None:
        inner = NativeFunction(module, "leaders", "i32", ["32xi16", "i32"], attributes=("noinline",))
        inner.function.linkage = "internal"
        theirs, lanes = inner.args
        again = inner.const("i32", 0)  # lanes with the key of one before
        for distance in range(1, WARP):
            with_another = equal_to(inner, theirs, moved(inner, theirs, distance))
            again = again | (with_another & (lanes << distance))
        inner.ret(lanes & ~again)
        function = inner.function
    return f.call(function, keys, mask)


def most_on_one_bank(f: NativeFunction, bank: Native, banks: int, mask: Native) -> Native:
    """The most lanes of `mask` on any one bank (32xi8), as an i32."""
    most = f.const("i32", 0)
    for number in range(banks):
        lanes = f.count_bits(equal_to(f, bank, f.const("32xi8", number)) & mask)
        most = (lanes > most).select(lanes, most)
    return most
