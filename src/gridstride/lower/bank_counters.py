"""Native functions that count the passes of one access over the banks of shared memory (see `counters.counter`)."""

from __future__ import annotations

from gridstride.lower.equal_lanes import equal_to, leaders, most_on_one_bank, permuted
from gridstride.lower.native import Native, NativeFunction

BANKS, BANK_BYTES = 32, 4


def build_load(f: NativeFunction, size: int) -> None:
    """rules.shared_wavefronts_load: parts of the warp share a pass where lanes go in pairs and no bank conflicts."""
    addresses, mask = f.args
    words = _words(addresses, size)
    if size <= BANK_BYTES:
        f.ret(_passes(f, words, mask, size))
        return
    groups = size // BANK_BYTES
    if size == 16:
        elsewhere = ~equal_to(f, words, _of_lane(f, words, f.first_lane(mask))) & mask
        f.ret_if(elsewhere.eq(0), ((f.count_bits(mask) + 15) >> 4).to("i64"))
    agree = []
    for distance in (1, 2):
        there = permuted(f, words, [k ^ distance for k in range(32)])
        swapped = _swapped(mask, distance)
        agree.append((~equal_to(f, words, there) & mask & swapped, mask ^ swapped))
    lanes = 32 // groups
    total = f.variable("i64", 0)
    total.set(0)
    for pair in range(groups // 2):
        span = ((1 << (2 * lanes)) - 1) << (2 * pair * lanes)
        first_part, second_part = mask & (((1 << lanes) - 1) << (2 * pair * lanes)), mask & (((1 << lanes) - 1) << ((2 * pair + 1) * lanes))
        strict = size == 16 and pair == 0
        paired = f.const("i1", 0)
        for differs, uneven in agree:
            wrong = (differs | uneven) if strict else differs
            paired = paired | (wrong & (span & 0xFFFFFFFF)).eq(0)
        if strict:
            paired = paired | (mask >> 31).eq(0)
        passes = f.variable("i64", 0)
        passes.set(0)
        with f.if_(paired):
            passes.set(_passes(f, words, first_part | second_part, size))
        with f.if_(passes.get().ne(1)):
            passes.set(_passes(f, words, first_part, size) + _passes(f, words, second_part, size))
        total.set(total.get() + passes.get())
    f.ret(total.get())


def _swapped(mask: Native, distance: int) -> Native:
    """The mask with each lane's bit at the lane whose number differs in bit `distance`."""
    low = 0x55555555 if distance == 1 else 0x33333333
    return ((mask >> distance) & low) | ((mask & low) << distance)


def build_store(f: NativeFunction, size: int) -> None:
    """Stores: the warp whole up to 4 bytes, in halves at 8, in quarters at 16."""
    addresses, mask = f.args
    words = _words(addresses, size)
    total = f.const("i64", 0)
    for part in _parts(mask, size):
        total = total + _passes(f, words, part, size)
    f.ret(total)


def _parts(mask: Native, size: int) -> list[Native]:
    groups = max(1, size // BANK_BYTES)
    lanes = 32 // groups
    return [mask & ((((1 << lanes) - 1) << (group * lanes)) & 0xFFFFFFFF) for group in range(groups)]


def build_atomic(f: NativeFunction, size: int) -> None:
    """rules.shared_atomic_wavefronts, "native": the most lanes on any one bank, whether they want the same word or not."""
    addresses, mask = f.args
    banks = BANKS * BANK_BYTES // max(size, BANK_BYTES)
    bank = (_words(addresses, size) & (banks - 1)).to("32xi8")
    total = f.const("i32", 0)
    for part in _parts(mask, size):
        total = total + most_on_one_bank(f, bank, banks, part)
    f.ret(total.to("i64"))


def _words(addresses: Native, size: int) -> Native:
    """Numbers of the words, as wide as the access: shared memory has fewer than 65,536 of them (32xi16)."""
    return (addresses.to("32xi32") >> (max(size, BANK_BYTES).bit_length() - 1)).to("32xi16")


def _of_lane(f: NativeFunction, words: Native, lane: Native) -> Native:
    """The word of one lane, in all lanes."""
    kept = f.variable("32xi16", words)
    kept.set(words)
    return f.splat(f.load("i16", Native(f, kept.slot), lane.to("i64") * 2))


def _passes(f: NativeFunction, words: Native, mask: Native, size: int) -> Native:
    """The distinct words of the busiest bank: each pass serves one of them in every bank."""
    banks = BANKS * BANK_BYTES // max(size, BANK_BYTES)
    bank = words & (banks - 1)
    bits = f.const("32xi32", 1) << bank.to("32xi32")
    chosen = mask.to("32xi1").select(bits, f.const("32xi32", 0))
    union = f.intrinsic("llvm.vector.reduce.or.v32i32", "i32", chosen)
    result = f.variable("i64", 0)
    result.set(mask.ne(0).to("i64"))
    with f.if_(f.count_bits(union).ne(f.count_bits(mask))):
        result.set(most_on_one_bank(f, bank.to("32xi8"), banks, leaders(f, words, mask)).to("i64"))
    return result.get()
