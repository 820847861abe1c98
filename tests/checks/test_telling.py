"""Raw findings in words, from facts made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gridstride.findings import Finding, Site
from gridstride.machine.memory import Memory
from gridstride.machine.places import user_place
from gridstride.machine.raw_findings import RawFinding
from gridstride.observers.checks.scene import Scene, SharedVariable, place, plain_variable
from gridstride.observers.checks.tell import fold, tell_all, tell_one
from gridstride.ptx.places import is_toolkit_header

# PTX line, file, line, opcode, space, bytes, inlined
SITES = [
    [10, 1, 5, "st.shared.f32", "shared", 4, []],
    [12, 1, 6, "ld.shared.f32", "shared", 4, []],
    [20, 2, 440, "shfl.sync.down.b32", "", 4, [[1, 9]]],
    [30, None, None, "st.global.f32", "global", 4, []],
    [40, 1, 11, "bar.sync", "", 0, []],
    [41, 1, 12, "atom.global.add.f32", "global", 4, []],
]
FILES = {1: "src/k.cu", 2: "include/sm_30_intrinsics.hpp"}


def scene(**more: object) -> Scene:
    shared = [SharedVariable("tile", 0, 1024), SharedVariable("count", 1024, 4), SharedVariable("rest", 1040, 0)]
    return Scene("k", (4, 2, 1), (32, 8, 1), SITES, FILES, shared=shared, **more)  # type: ignore[arg-type]


def raw(kind: str, detail: str, site: int, **more: object) -> RawFinding:
    return RawFinding(kind, "error", detail, site, more.pop("block", 0), more.pop("thread", 0), **more)  # type: ignore[arg-type]


def test_a_race_between_warps_speaks_for_one_within_a_warp() -> None:
    within = raw("race-shared", "read-write", 1, thread=1, space="shared", address=4, bytes=4, other_site=0, other_block=0, other_thread=0)
    across = raw("race-shared", "write-read", 0, thread=64, space="shared", address=8, bytes=4, other_site=1, other_block=0, other_thread=0)
    undefined = raw("uninitialised", "output", 1)
    first, second = tell_all([within, undefined, across], scene())
    assert (first.kind, first.count, second.kind) == ("race-shared", 2, "uninitialised")
    assert "__syncthreads()" in (first.advice or "") and "__syncwarp()" not in first.message


def test_a_race_in_shared_memory_names_both_sides() -> None:
    facts = raw("race-shared", "write-read", 1, thread=33, space="shared", address=12, bytes=4, other_site=0, other_block=0, other_thread=64, count=7)
    found = tell_one(facts, scene())
    assert found.message == (
        "thread (1,1,0) reads `tile`[3], which thread (0,2,0) writes, and there is no barrier between them (block (0,0,0), k.cu:6 and k.cu:5)"
    )
    assert found.advice == "put __syncthreads() between the two accesses, where every thread of the block passes"
    assert (found.code, found.kind, found.severity, found.kernel, found.count) == ("GS201", "race-shared", "error", "k", 7)
    assert found.site == Site("src/k.cu", 6, 12, (0, 0, 0), (1, 1, 0))
    assert found.other == Site("src/k.cu", 5, 10, (0, 0, 0), (0, 2, 0))
    assert (found.space, found.buffer, found.index, found.address) == ("shared", "tile", 3, 12)


def test_inside_a_warp_the_advice_is_a_warp_barrier() -> None:
    facts = raw("race-shared", "write-read", 1, thread=1, space="shared", address=12, bytes=4, other_site=0, other_block=0, other_thread=2)
    assert "__syncwarp()" in tell_one(facts, scene()).advice


def test_what_hardware_does_not_mind_is_a_warning_whatever_native_code_says() -> None:
    for detail in ("same-value", "unordered-volatile"):
        facts = raw("race-shared", detail, 0, space="shared", address=1024, bytes=4, other_site=0, other_block=0, other_thread=64)
        assert tell_one(facts, scene()).severity == "warning"
    assert tell_one(facts, scene()).message.startswith("thread (0,0,0) and thread (0,2,0) both write `count`, and there is no barrier")


def test_a_race_in_global_memory_names_the_buffer_and_both_blocks() -> None:
    memory = Memory(1 << 20)
    allocation = memory.allocate(400)
    facts = raw(
        "race-global", "atomic-plain", 5, block=5, space="global", address=allocation.address + 40, bytes=4, other_site=3, other_block=0, other_thread=255
    )
    found = tell_one(facts, scene(memory=memory, names={allocation.address: "sums"}))
    assert found.message == (
        "thread (0,0,0) of block (1,1,0) atomically updates `sums`[10], which thread (31,7,0) of block (0,0,0) writes, and nothing orders the two "
        "(k.cu:12 and PTX line 30)"
    )
    assert found.advice.startswith("make both accesses atomic")
    assert (found.buffer, found.index) == ("sums", 10)
    unknown = tell_one(raw("race-global", "write-write", 3, space="global", address=64, bytes=4, other_site=3, other_block=1, other_thread=0), scene())
    assert "both write global address 0x40" in unknown.message and unknown.buffer is None


def test_a_shuffle_stands_on_the_users_line() -> None:
    found = tell_one(raw("warp-mask", "reads-absent-lane", 2, thread=40, other_block=0, other_thread=63), scene())
    assert found.message == (
        "shuffle: lane 8 reads a lane (31) that does not take part: it has ended, never existed, is elsewhere or is not in the mask "
        "(k.cu:9, block (0,0,0), thread (8,1,0))"
    )
    assert (found.site.file, found.site.line) == ("src/k.cu", 9)
    nobody = tell_one(raw("warp-mask", "lane-elsewhere", 2, thread=40, other_thread=0), scene())
    assert "names a lane that still runs" in nobody.message and nobody.other is None
    assert "does not name it" in tell_one(raw("warp-mask", "caller-not-in-mask", 2), scene()).message


def test_barriers_that_part_of_a_block_misses() -> None:
    exited = tell_one(raw("divergent-barrier", "exited", 4), scene())
    assert (exited.severity, exited.message) == (
        "note",
        "thread (0,0,0) waits at a barrier, and the rest of the block has ended before it (block (0,0,0), k.cu:11)",
    )
    goes_on = tell_one(raw("divergent-barrier", "goes-on", 4), scene())
    assert (goes_on.severity, "that the rest of the block passes by" in goes_on.message) == ("error", True)
    elsewhere = tell_one(raw("divergent-barrier", "waits-elsewhere", 4, other_site=5, other_block=0, other_thread=32), scene())
    assert elsewhere.message == (
        "thread (0,0,0) waits at one barrier, while thread (0,1,0) waits at another (block (0,0,0), k.cu:11 and k.cu:12)"
    )


def test_undefined_values_say_what_depends_on_them_and_where_they_came_from() -> None:
    facts = raw("uninitialised", "branch", 4, thread=1, space="shared", address=8, bytes=4, origin_site=1)
    found = tell_one(facts, scene())
    assert found.message == (
        "a branch depends on a value that was never written, loaded from `tile`[2] in shared memory; it was read at k.cu:6 "
        "(k.cu:11, block (0,0,0), thread (1,0,0))"
    )
    plain = tell_one(raw("uninitialised", "output", 3), scene())
    assert plain.message.startswith("an output is made from a value that was never written (PTX line 30")


def test_findings_of_one_cause_are_one_and_the_worst_comes_first() -> None:
    def race(detail: str, site: int, other: int, count: int) -> RawFinding:
        return raw("race-shared", detail, site, space="shared", address=0, bytes=4, other_site=other, other_block=0, other_thread=64, count=count)

    found = tell_all([race("same-value", 0, 0, 1), race("same-value", 0, 1, 2), race("write-read", 1, 0, 3), race("write-write", 0, 0, 4)], scene())
    # two causes: line 5 with itself, and lines 5 and 6 either way round; an error hides the warning on the same lines
    assert [(f.severity, f.count) for f in found] == [("error", 5), ("error", 5)]
    note = Finding("GS401", "divergent-barrier", "note", "n", "", "k")
    error = Finding("GS603", "api", "error", "a", "", "k")
    assert fold([note, error, error]) == [Finding("GS603", "api", "error", "a", "", "k", count=2), note]


def test_a_kind_that_nobody_tells_is_refused() -> None:
    with pytest.raises(KeyError):
        tell_one(raw("leak", "", 0), scene())


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZZ21bug_race_missing_syncE1s", "s"),
        ("kernel:_ZZ21bug_race_missing_syncE1s", "s"),
        ("_ZZN2ns4scaleIfEEvPT_E4tile", "tile"),
        ("_ZZ1kPfE6tile_0", "tile_0"),
        ("_ZZ1kPfE4tile_0", "tile"),
        ("_ZZ12bug_race_wawE1s_$_0", "s"),
        ("dynamic", "dynamic"),
    ],
)
def test_names_of_variables_inside_functions(symbol: str, name: str) -> None:
    assert plain_variable(symbol) == name


def test_headers_of_the_toolkit_are_looked_through() -> None:
    for file in ("/usr/local/cuda/include/sm_30_intrinsics.hpp", "/x/nvrtc-headers-13.5/cooperative_groups/details/sync.h", "a/cub/block/scan.cuh"):
        assert is_toolkit_header(file)
    assert not is_toolkit_header("include/reduce.cuh") and not is_toolkit_header("device_functions_of_mine.cu")
    assert user_place([1, 3, 7, "", "", 0, [[1, 9]]], {3: "src/reduce.cuh", 1: "k.cu"}) == ("src/reduce.cuh", 7)
    assert user_place([1, 2, 7, "", "", 0, []], FILES) == (FILES[2], 7)
    assert user_place([1, None, None, "", "", 0, []], FILES) == (None, None)


def test_places() -> None:
    assert place(Site("a/k.cu", 3, 9, (1, 0, 0), (2, 0, 0))) == "k.cu:3, block (1,0,0), thread (2,0,0)"
    assert place(Site(ptx_line=9)) == "PTX line 9"
    assert place(Site()) == ""


def test_local_memory_has_no_buffer_names() -> None:
    target = scene().target("local", 0x20, 4)
    assert (str(target), target.buffer) == ("local address 0x20", None)
    assert str(scene().target("shared", 1048, 4)) == "`rest`[2]"
    assert np.uint64(target.address) == 0x20
