"""Addresses in the shared memory of a cluster: native code is the Python meaning, and both do what PTX ISA 9.7.9.19, .22 and .23 say."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from gridstride.isa.windows import LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW, split_shared_address
from opcodes.harness import Batch, Bits, form_case, meaning_of

FORMS = (
    "mapa.shared::cluster.u32", "mapa.u64", "mapa.shared::cluster.u64", "getctarank.shared::cluster.u32", "getctarank.u64",
    "isspacep.shared", "isspacep.shared::cta", "isspacep.shared::cluster", "isspacep.global", "isspacep.local",
)  # fmt: skip
CASES = {text: form_case(text) for text in FORMS}
RANKS = (0, 1, 7, 15)
OFFSETS = (0, 4, 232_448, -4, -1024)  # the last of a block's bytes, and what an index below zero gives


@functools.cache
def batch() -> Batch:
    return Batch(CASES.values())


def run(text: str, *columns: list[int]) -> list[int]:
    """One result a row, of native code and of the meaning alike."""
    case = CASES[text]
    arrays: list[Bits] = [np.array(column, np.uint64).astype(np.uint32 if kind in ("u32", "b32") else np.uint64) for column, (_, kind) in zip(columns, case.inputs, strict=True)]
    (have,) = batch().run(case, *arrays)
    (also,) = meaning_of(case, *arrays)
    assert have.tolist() == also.tolist(), case.ptx
    return [int(v) for v in have]


@pytest.mark.parametrize("text", FORMS)
def test_lowering_is_meaning_on_random_bits(text: str) -> None:
    random = np.random.default_rng(5)
    words = [random.integers(0, 1 << 64, 96, dtype=np.uint64) for _ in CASES[text].inputs]
    words[0][::3] = SHARED_WINDOW + (words[0][::3] & np.uint64(0xFFFFFFF))
    for ranks in words[1:]:
        ranks[::2] %= np.uint64(16)
    run(text, *([int(v) & (1 << (32 if kind in ("u32", "b32") else 64)) - 1 for v in column] for column, (_, kind) in zip(words, CASES[text].inputs, strict=True)))


@pytest.mark.parametrize(("text", "window", "bits"), [("mapa.shared::cluster.u32", 0, 32), ("mapa.u64", SHARED_WINDOW, 64), ("mapa.shared::cluster.u64", 0, 64)])
def test_an_address_leads_into_the_block_that_it_was_mapped_to(text: str, window: int, bits: int) -> None:
    top = (1 << bits) - 1
    places = [(offset, rank, own) for offset in OFFSETS for rank in RANKS for own in RANKS if offset >= 0 or bits == 32]
    mapped = run(text, *([int(v) for v in column] for column in zip(*((window + offset & top, rank, own) for offset, rank, own in places), strict=True)))
    for address, (offset, rank, own) in zip(mapped, places, strict=True):
        found, at = split_shared_address(address - window & 0xFFFFFFFF)
        assert (own if found is None else found) == rank, (offset, rank, own)
        assert at & 0xFFFFFFFF == offset & 0xFFFFFFFF
        assert (address == window + offset & top) == (rank == own)  # in its own memory an address stays what it is
    back = run(text, mapped, [own for _, _, own in places], [own for _, _, own in places])
    assert back == [window + offset & top for offset, _, _ in places]
    form = "getctarank.shared::cluster.u32" if bits == 32 else "getctarank.u64"
    assert run(form, mapped, [own for _, _, own in places]) == [rank for _, rank, _ in places]


def test_the_window_of_a_block_is_a_part_of_its_clusters() -> None:
    own, other, local = SHARED_WINDOW + 8, SHARED_WINDOW + (3 << RANK_SHIFT) + 8, LOCAL_WINDOW + 8
    wanted = {
        "isspacep.shared": [1, 0, 0], "isspacep.shared::cta": [1, 0, 0], "isspacep.shared::cluster": [1, 1, 0], "isspacep.local": [0, 0, 1],
        "isspacep.global": [0, 0, 0],
    }  # fmt: skip
    for text, expected in wanted.items():
        assert run(text, [own, other, local]) == expected, text


def test_the_pending_count_is_in_the_state() -> None:
    case = form_case("mbarrier.pending_count.b64")
    states = np.array([5 | 8 << 20 | 2 << 62, (1 << 20) - 1 | 1 << 61], np.uint64)
    assert [int(v) for v in meaning_of(case, states)[0]] == [int(v) for v in Batch([case]).run(case, states)[0]] == [5, 2**20 - 1]
