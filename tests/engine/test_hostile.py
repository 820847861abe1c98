"""Kernels and arguments that mean no good: what they may reach, how long they may take, what is said of them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import KernelFault, LaunchError
from gridstride.ir.nodes import Block, Kind, Op
from gridstride.passes.find_waiting import find_waiting
from gridstride.passes.order_blocks import order_blocks
from gridstride.passes.select_operations import select_operations
from gridstride.ptx.parser import parse

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
BUDGET = 100_000


def kernel(body: str, before: str = "", parameters: str = ".param .u64 a, .param .u64 b") -> str:
    registers = ".reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;"
    return f"{HEAD}{before}\n.visible .entry k({parameters}) {{ {registers} ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x;\n{body}\nret; }}\n"


def launch(ptx: str, *arguments: Any, grid: Any = 1, block: Any = 32, **options: Any) -> str:
    """How it ended: "ok" or the fault's code."""
    device = gs.device("sim:h200", budget=BUDGET, **options)
    given = [device.array(a) if isinstance(a, np.ndarray) else a for a in (*arguments, np.uint64(0), np.uint64(0))][:2]
    try:
        device.compile(ptx)["k"][grid, block](*given)
    except KernelFault as fault:
        return fault.code
    return "ok"


# ---- addresses: sums that wrap around the address space must not look as if they were inside ---------------------

LINE = kernel("mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;")
ROWS = kernel(
    "ld.param.u64 %rd2, [b]; mov.u32 %r2, %tid.y; cvt.u64.u32 %rd3, %r2; mul.lo.u64 %rd4, %rd3, %rd2; add.s64 %rd5, %rd1, %rd4;"
    "mul.wide.u32 %rd6, %r1, 4; add.s64 %rd7, %rd5, %rd6; st.global.u32 [%rd7], %r1;"
)
INDEXED = kernel(
    "ld.param.u64 %rd2, [b]; xor.b32 %r2, %r1, 5; mul.wide.s32 %rd6, %r2, 64; add.s64 %rd7, %rd1, %rd2; add.s64 %rd7, %rd7, %rd6;"
    "ld.global.u32 %r3, [%rd7];"
)
SHARED = kernel("mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.shared.u32 [%rd3], %r1; mov.u32 %r9, s;", ".shared .align 4 .b8 s[256];")


@pytest.mark.parametrize("address", [0, 4, 2**64 - 4, 2**64 - 64, 2**63, 2**56, 2**57 - 4, 2**58])
def test_a_pointer_to_nowhere(address: int) -> None:
    assert launch(LINE, gs.pointer(address)) == "out-of-bounds"


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("pitch", [2**61, 2**62, 2**63, 2**64 - 64, 0x5555555555555554, 0x2492492492492494])
def test_a_pitch_that_wraps(width: int, pitch: int) -> None:
    # times the number of rows each of these is small, zero, or one of the buffer's own addresses again
    assert launch(ROWS, np.zeros(4096, np.uint32), np.uint64(pitch), block=(width, 32 // width)) == "out-of-bounds"


@pytest.mark.parametrize("offset", [2**62, 2**63 - 4, 2**63, 2**63 + 4, 2**64 - 320])
def test_an_index_from_the_other_end_of_the_address_space(offset: int) -> None:
    assert launch(INDEXED, np.zeros(1, np.uint32), np.uint64(offset)) == "out-of-bounds"


@pytest.mark.parametrize("offset", [132, 2**31, 2**32, 2**63 - 8, 2**63, 2**64 - 64, 2**64 - 128])
def test_shared_memory_ends_where_it_ends(offset: int) -> None:
    assert launch(SHARED, np.uint64(128)) == "ok"
    assert launch(SHARED, np.uint64(offset)) == "out-of-bounds"


# ---- time: everything ends -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "L: bra L;",
        "setp.lt.u32 %p1, %r1, 5; L: @%p1 bra L;",
        "L: bar.sync 0; bra L;",
        "L: atom.global.add.u32 %r2, [%rd1], 1; setp.ne.u32 %p1, %r2, -1; @%p1 bra L;",
        "L: ld.volatile.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;",
        "setp.lt.u32 %p1, %r1, 5; @%p1 bra M; L: add.u32 %r2, %r2, 1; bra M; M: add.u32 %r3, %r3, 1; bra L;",
    ],
)
def test_what_does_not_end_runs_out_of_its_budget(body: str) -> None:
    assert launch(kernel(body), np.zeros(4, np.uint32), block=64) in ("budget", "deadlock")


@pytest.mark.parametrize("grid", [2**31 - 1, (2**31 - 1, 65535, 65535)])
@pytest.mark.parametrize("seed", [None, 3])
def test_blocks_count_against_the_budget(grid: Any, seed: int | None) -> None:
    assert launch(kernel(""), grid=grid, seed=seed) == "budget"


@pytest.mark.parametrize("blocks", [(1 << 22) + 1, (1 << 22) + 6])
def test_every_block_of_a_large_grid_runs_once_in_any_order(blocks: int) -> None:
    body = "mov.u32 %r2, %ctaid.x; cvt.u64.u32 %rd2, %r2; add.s64 %rd3, %rd1, %rd2; st.global.u8 [%rd3], 1;"
    device = gs.device("sim:h200", seed=7)
    seen = device.array(np.zeros(blocks, np.uint8))
    device.compile(kernel(body))["k"][blocks, 1](seen, np.uint64(0))
    assert (seen.numpy() == 1).all()


@pytest.mark.parametrize(
    "body",
    [
        "setp.lt.u32 %p1, %r1, 32; @%p1 bar.sync 0, 96;",
        "shr.u32 %r2, %r1, 5; bar.sync %r2;",
        "mov.u32 %r2, -32; bar.sync 0, %r2;",
    ],
)
def test_a_barrier_that_cannot_fill_is_a_deadlock(body: str) -> None:
    assert launch(kernel(body), block=64) == "deadlock"


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_ctrl_c_ends_an_endless_kernel(tmp_path: Path) -> None:
    source = tmp_path / "endless.ptx"
    source.write_text(kernel("L: bra L;", parameters=".param .u64 a"))
    command = [sys.executable, "-m", "gridstride.cli", "launch", str(source), "k", "--grid", "1", "--block", "32", "--arg", "a=ptr:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            time.sleep(5)
            assert running.poll() is None, running.stderr
            running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=60)
        finally:
            running.kill()
    assert (running.returncode, said) == (130, "gridstride: interrupted\n")


# ---- memory: what is declared takes none until it is used --------------------------------------------------------


def test_a_variable_larger_than_the_hosts_memory() -> None:
    before = ".global .b8 g[100000000000];"
    out = np.ones(1, np.uint32)
    assert launch(kernel("mov.u64 %rd2, g; ld.global.u32 %r2, [%rd2+99999996]; st.global.u32 [%rd1], %r2;", before), out) == "ok"


def test_a_variable_larger_than_the_devices_memory() -> None:
    with pytest.raises(LaunchError, match="out of device memory: 200,000,000,000 bytes"):
        launch(kernel("mov.u64 %rd2, g; ld.global.u32 %r2, [%rd2];", ".global .b8 g[200000000000];"))


def test_shared_memory_larger_than_the_devices() -> None:
    with pytest.raises(LaunchError, match="99,999,999,999 bytes of shared memory a block are too many"):
        launch(kernel("ld.shared.u8 %r2, [s];", ".shared .b8 s[99999999999];"))


# ---- what the host does for kernels ------------------------------------------------------------------------------

PRINT = ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);\n.global .align 1 .b8 f[40] = {"
CALL = "{ .param .b64 p; st.param.b64 [p], %rd5; .param .b64 q; st.param.b64 [q], %rd6; .param .b32 r; call.uni (r), vprintf, (p, q); }"


@pytest.mark.parametrize("address", [0, 2 << 56, (2 << 56) + (1 << 40), 1 << 56, (1 << 56) + (1 << 50), 0x123456789ABC])
def test_printf_reads_its_arguments_from_nowhere(address: int) -> None:
    text = PRINT + ", ".join(str(c) for c in b"%d %s %f\n\0") + "};"
    assert launch(kernel(f"mov.u64 %rd5, f; cvta.global.u64 %rd5, %rd5; mov.u64 %rd6, {address}; {CALL}", text)) == "out-of-bounds"


def test_printf_with_a_field_of_any_width(capsys: pytest.CaptureFixture[str]) -> None:
    text = PRINT + ", ".join(str(c) for c in b"%99999999999999999999c%.99999999f\n\0") + "};"
    body = f"mov.u64 %rd5, f; cvta.global.u64 %rd5, %rd5; mov.u64 %rd6, %rd1; {CALL}"
    assert launch(kernel(body, text), np.zeros(4, np.uint64), block=1) == "ok"
    assert len(capsys.readouterr().out) < 1 << 20


def test_the_device_heap_gives_out_what_it_has() -> None:
    before = ".extern .func (.param .b64 r) malloc (.param .b64 n);"
    call = "{ .param .b64 p; st.param.b64 [p], %rd6; .param .b64 q; call.uni (q), malloc, (p); ld.param.b64 %rd7, [q]; }"
    body = "".join(f"mov.u64 %rd6, {size}; {call} setp.ne.u64 %p1, %rd7, 0; @%p1 trap;" for size in (2**63, 2**64 - 1, 2**40))
    assert launch(kernel(body, before)) == "ok"


@pytest.mark.parametrize("address", ["1234", "0x0400000000000000", "0x0400000000000008", "0x0400000000000770", "-1"])
@pytest.mark.parametrize("before", ["", ".func h() { ret; } .global .u64 t = h;"])
def test_a_call_of_what_is_no_function(address: str, before: str) -> None:
    assert launch(kernel(f"P: .callprototype _ (); mov.u64 %rd5, {address}; call %rd5, (), P;", before)) == "trap"


# ---- programs that are large where programs are small ------------------------------------------------------------


def test_loops_nested_deeper_than_pythons_stack() -> None:
    depth = 1200
    opened = "".join(f"L{k}: add.u32 %r2, %r2, 1;\n" for k in range(depth))
    closed = "".join(f"setp.lt.u32 %p1, %r2, {k}; @%p1 bra L{k};\n" for k in reversed(range(depth)))
    function = select_operations(parse(kernel(opened + closed)), "k")
    loops = order_blocks(function)
    assert len(loops) == depth
    places = {id(block): block.index for block in function.blocks}
    for loop in loops:  # each loop lies in one piece, its latch last
        indices = sorted(places[b] for b in loop.body if b in places)
        assert indices == list(range(indices[0], indices[0] + len(indices)))
        assert loop.latch is not None and places[id(loop.latch)] == indices[-1]


def test_what_waits_where_in_a_thousand_nested_branches() -> None:
    count = 1000
    blocks = [Block(index=k) for k in range(2 * count + 1)]
    for k in range(count):  # each branches over all that is inside
        blocks[k].ops = [Op(Kind.BRANCH, None, [], [])]
        blocks[k].targets = [blocks[2 * count - k], blocks[k + 1]]
    for k in range(count, 2 * count):
        blocks[k].ops = [Op(Kind.MOVE, None, [], []), Op(Kind.JUMP, None, [], [])]
        blocks[k].targets = [blocks[k + 1]]
    blocks[-1].ops = [Op(Kind.MOVE, None, [], []), Op(Kind.EXIT, None, [], [])]
    pending = find_waiting(blocks, set(range(count)), set())
    assert pending[count - 1] == {2 * count - k for k in range(count - 1)}
    assert pending[-1] == set()
