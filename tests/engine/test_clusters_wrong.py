"""What is wrong with clusters, their barrier, other blocks' shared memory and mbarriers, word for word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gridstride as gs
from engine.kernels import HEADER, fault_of
from gridstride.errors import LaunchError, ParseError, UnsupportedError

REGISTERS = (
    ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %d<8>; .shared .align 8 .b8 s[1024];\n"
    "ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank;"
)


def kernel(body: str, directives: str = "", device: str = "sim:h200", threads: int | None = None) -> gs.Kernel:
    text = f"{HEADER}.visible .entry k(.param .u64 out) {directives}\n{{\n{REGISTERS}\n{body}\nret;\n}}\n"
    return gs.device(device, threads=threads).compile(text)["k"]


def launch(body: str, grid: Any = 2, block: Any = 32, *, cluster: Any = 2, **options: Any) -> None:
    made = kernel(body)
    made[grid, block](made.device.zeros(64, np.uint32), cluster=cluster, **options)


MAPPED = "mapa.shared::cluster.u32 %r2, s, 1;"
PLACE = "(PTX line 8, block (0,0,0), thread (0,0,0))"
BOTH_MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"{MAPPED} ld.shared::cluster.u32 %r3, [%r2+1024];", "reads 4 bytes at shared offset 1,024 of the cluster's block of rank 1, block (1,0,0), which has 1,024 bytes of shared memory"),
        (f"{MAPPED} st.shared::cluster.v2.u32 [%r2+-8], {{%r0, %r0}};", "writes 8 bytes at shared offset -8 of the cluster's block of rank 1, block (1,0,0), which has 1,024 bytes of shared memory"),
        ("cvta.shared.u64 %d1, s; mapa.u64 %d1, %d1, 1; atom.add.u32 %r3, [%d1+1024], 1;", "updates 4 bytes at shared offset 1,024 of the cluster's block of rank 1, block (1,0,0), which has 1,024 bytes of shared memory"),
        ("mapa.shared::cluster.u32 %r2, s, 2; ld.shared::cluster.u32 %r3, [%r2];", "reads 4 bytes at shared offset 0 of the cluster's block of rank 2, but a cluster has 2 blocks in this launch"),
        (f"{MAPPED} ld.shared.u32 %r3, [%r2];", "reads 4 bytes at shared offset 0 of the cluster's block of rank 1, block (1,0,0), by an instruction that reaches its own block's only"),
        (f"{MAPPED} mbarrier.init.shared.b64 [%r2], 1;", "updates 8 bytes at shared offset 0 of the cluster's block of rank 1, block (1,0,0), by an instruction that reaches its own block's only"),
        (f"setp.eq.u32 %p0, %r1, 1; @%p0 exit; {MAPPED} {BOTH_MEET} ld.shared::cluster.u32 %r3, [%r2];", "reads 4 bytes at shared offset 0 of the cluster's block of rank 1, block (1,0,0), which has ended"),
        ("ld.shared::cluster.u32 %r3, [s+1024];", "reads 4 bytes at shared offset 1,024, but the block has 1,024 bytes of shared memory"),
    ],
)
def test_out_of_bounds_of_another_block_wrong(body: str, message: str) -> None:
    fault = fault_of(lambda: launch(body))
    assert (fault.code, str(fault)) == ("out-of-bounds", f"kernel `k`: {message} {PLACE}")


def test_a_block_without_a_cluster_is_alone_wrong() -> None:
    fault = fault_of(lambda: launch(f"{MAPPED} ld.shared::cluster.u32 %r3, [%r2];", cluster=None))
    assert str(fault) == f"kernel `k`: reads 4 bytes at shared offset 0 of the cluster's block of rank 1, but a cluster has 1 block in this launch {PLACE}"


def test_misaligned_in_another_block_wrong() -> None:
    fault = fault_of(lambda: launch(f"{MAPPED} ld.shared::cluster.u64 %d1, [%r2+4];"))
    assert (fault.code, str(fault)) == ("misaligned", f"kernel `k`: reads 8 bytes at shared address 0x2000004, which is not a multiple of 8 (in `shared`) {PLACE}")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("barrier.cluster.arrive; barrier.cluster.arrive;", "arrives at the cluster's barrier a second time and has not waited in between"),
        ("barrier.cluster.wait;", "waits at the cluster's barrier, at which it has not arrived"),
        (f"{BOTH_MEET} barrier.cluster.wait;", "waits at the cluster's barrier, at which it has not arrived"),
        ("mbarrier.arrive.shared.b64 %d1, [s];", "uses an mbarrier that is not initialised"),
        ("mbarrier.init.shared.b64 [s], 1; mbarrier.inval.shared.b64 [s]; mbarrier.test_wait.parity.shared.b64 %p0, [s], 0;", "uses an mbarrier that is not initialised"),
        ("mbarrier.init.shared.b64 [s], 0;", "gives an mbarrier a number of arrivals that is not between 1 and 1,048,575"),
        ("mbarrier.init.shared.b64 [s], 1048576;", "gives an mbarrier a number of arrivals that is not between 1 and 1,048,575"),
        ("mbarrier.init.shared.b64 [s], 2; mbarrier.arrive.shared.b64 %d1, [s], 3;", "arrives at an mbarrier more often than its phase still awaits"),
        ("mbarrier.init.shared.b64 [s], 2; mbarrier.expect_tx.shared.b64 [s], 1048575; mbarrier.arrive.expect_tx.shared.b64 %d1, [s], 1;", "brings the bytes that an mbarrier awaits beyond 1,048,575, or as many below zero"),
        ("mbarrier.init.shared.b64 [s], 2; mbarrier.complete_tx.shared.b64 [s], 1048575; mbarrier.complete_tx.shared.b64 [s], 1;", "brings the bytes that an mbarrier awaits beyond 1,048,575, or as many below zero"),
        ("mbarrier.init.shared.b64 [s], 2; mbarrier.arrive.noComplete.shared.b64 %d1, [s], 2;", "completes the phase of an mbarrier by an arrival that must not (.noComplete)"),
        ("mbarrier.init.b64 [%d0], 2;", "reaches for an mbarrier that is not in its block's own shared memory"),
        ("cvta.shared.u64 %d1, s; mapa.u64 %d1, %d1, 1; mbarrier.init.b64 [%d1], 2;", "reaches for an mbarrier that is not in its block's own shared memory"),
    ],
)
def test_barriers_that_are_misused_wrong(body: str, message: str) -> None:
    fault = fault_of(lambda: launch(body, block=1))
    assert (fault.code, str(fault).replace("block (1,0,0)", "block (0,0,0)")) == ("barrier-misuse", f"kernel `k`: {message} {PLACE}")  # both do it


def test_an_mbarrier_is_aligned_to_eight_bytes_wrong() -> None:
    fault = fault_of(lambda: launch("mbarrier.init.shared.b64 [s+4], 1;"))
    assert (fault.code, str(fault)) == ("misaligned", f"kernel `k`: updates 8 bytes at shared address 0x4, which is not a multiple of 8 (in `shared`) {PLACE}")


@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        # the other block meets, and this one arrives in vain
        (
            (f"setp.eq.u32 %p0, %r1, 1; @%p0 bra B; {BOTH_MEET} {BOTH_MEET} bra E; B: {BOTH_MEET} mbarrier.init.shared.b64 [s], 64; "
            "L: mbarrier.try_wait.parity.shared.b64 %p1, [s], 0; @!%p1 bra L; E:"),
            "the cluster's barrier cannot fill: threads of the cluster have not arrived, and none of them can go on (PTX line 8, block (0,0,0), thread (0,0,0))",
        ),
        (
            ("setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [s], 64; bar.sync 0; mbarrier.arrive.shared.b64 %d1, [s];\n"
            "L: mbarrier.test_wait.shared.b64 %p1, [s], %d1; @!%p1 bra L;"),
            "no thread of the launch can go on: the phase of an mbarrier that is waited for lacks arrivals or bytes that nobody brings (PTX line 9, block (0,0,0), thread (0,0,0))",
        ),
    ],
)
def test_what_cannot_fill_is_a_deadlock(body: str, message: str, threads: int | None) -> None:
    made = kernel(body, threads=threads)
    fault = fault_of(lambda: made[4, 32](made.device.zeros(64, np.uint32), cluster=2))
    assert fault.code == "deadlock"
    assert str(fault) == f"kernel `k`: {message}" or threads == 2  # of two workers either may be the one that tells


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"grid": 3}, "the grid's x dimension is 3 blocks, which is no multiple of the cluster's 2"),
        ({"grid": (4, 3), "cluster": (2, 2)}, "the grid's y dimension is 3 blocks, which is no multiple of the cluster's 2"),
        ({"cluster": 0}, "the cluster's x dimension is 0; every dimension must be at least 1"),
        ({"grid": 34, "cluster": 17}, "a cluster of 17 blocks is too large: H200 SXM 141GB allows 16 (8 where the program does not ask for more)"),
        ({"grid": (4, 4, 4), "cluster": (4, 2, 4)}, "a cluster of 4 × 2 × 4 = 32 blocks is too large: H200 SXM 141GB allows 16 (8 where the program does not ask for more)"),
        ({"cluster": 2, "device": "sim:a100"}, "A100 SXM 80GB has no clusters: they need compute capability 9.0, it has 8.0"),
        ({"cluster": 4, "directives": ".reqnctapercluster 2"}, "kernel `k` was compiled for clusters of 2 blocks (`__cluster_dims__` or `.reqnctapercluster`), not of 4"),
        ({"cluster": None, "directives": ".explicitcluster"}, "kernel `k` must be launched with clusters (`__cluster_dims__()` or `.explicitcluster`): say how many blocks one has"),
        ({"grid": 4, "cluster": 4, "directives": ".maxclusterrank 2"}, "a cluster of 4 blocks is too large: kernel `k` was compiled for at most 2 blocks a cluster (`__launch_bounds__` or `.maxclusterrank`)"),
        (
            {"grid": 2114, "block": 128, "cooperative": True},
            "a cooperative launch of 2,114 blocks: H200 SXM 141GB holds 2,112 of them at once, 16 on each of its 132 multiprocessors (limited by warps)",
        ),
        (
            {"grid": 266, "cooperative": True, "shared": 100_000},
            "a cooperative launch of 266 blocks: H200 SXM 141GB holds 264 of them at once, 2 on each of its 132 multiprocessors (limited by shared memory)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_wrong(how: dict[str, Any], message: str) -> None:
    options = {"grid": 2, "block": 32, "cluster": 2, "device": "sim:h200", "directives": "", **how}
    made = kernel("", options.pop("directives"), options.pop("device"))
    with gs.checking("launch-shape") as findings, pytest.raises(LaunchError) as error:
        made[options.pop("grid"), options.pop("block")](made.device.zeros(64, np.uint32), **options)
    assert str(error.value) == message
    assert [(f.kind, f.message) for f in findings] == [("launch-shape", message)]


def test_grids_counted_in_clusters_are_refused_by_name() -> None:
    made = kernel("", ".reqntid 32 .blocksareclusters .reqnctapercluster 2")
    with pytest.raises(UnsupportedError, match=r"kernel `k` counts its grid in clusters \(\.blocksareclusters\), which is not supported yet"):
        made[2, 32](made.device.zeros(64, np.uint32))


def test_an_arrival_elsewhere_gives_no_state_wrong() -> None:
    with pytest.raises(ParseError, match=r"PTX line 8: `mbarrier\.arrive\.shared::cluster\.b64`: an arrival at another block's mbarrier gives no state; write `_`"):
        launch("mbarrier.arrive.shared::cluster.b64 %d1, [s];")


def test_sixteen_blocks_make_a_cluster_as_if_the_program_had_asked_for_it() -> None:
    made = kernel("cvt.u64.u32 %d1, %r1; shl.b64 %d1, %d1, 2; add.u64 %d0, %d0, %d1; mov.u32 %r2, %cluster_nctarank; red.global.add.u32 [%d0], %r2;")
    out = made.device.zeros(64, np.uint32)
    made[32, 1](out, cluster=16)
    assert out.numpy().tolist() == [32] * 16 + [0] * 48
