"""Counts what Nsight Compute reads for each of many one-warp accesses, several in one launch.

A profiled launch costs 0.15 s, a warp access nanoseconds. So one launch runs several accesses, the k-th of them BASE**k times;
the counter's digits in base BASE are the counts of the single accesses (`DIGITS`: the bases and how many to a launch). A request counter that does not read the sum of the powers
shows that something else was counted.

usage:  python3 measure_on_gpu.py EXPERIMENTS.json RESULTS.json      (runs ncu; needs CuPy)

EXPERIMENTS: list of {"op": key of OPERATIONS, "mask": int, "offsets": [32 byte offsets], ...}; RESULTS: the same list with "count" (and
"requests" where the machine counts them), in the same order.
"""

import csv
import io
import json
import subprocess
import sys
from itertools import groupby
from pathlib import Path

DIGITS = {"narrow": (64, 4), "wide": (256, 3), "alone": (1 << 18, 1)}
LARGEST = 4
REGION = 1 << 16
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_"
PASSES = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared"
INSTRUCTIONS = "smsp__sass_inst_executed_op_shared_"

# operation: (the instruction measured, the counters read: what is wanted first, then requests).
# [%a] is a global address, [%s] a shared one, [%c] one in constant memory, [%q] one in local memory.
OPERATIONS = {
    "red_add_u32": ("red.global.add.u32 [%a], %r1;", "global_op_red"),
    "red_add_u64": ("red.global.add.u64 [%a], %w;", "global_op_red"),
    "red_add_f64": ("red.global.add.f64 [%a], %d;", "global_op_red"),
    "red_add_f16x2": ("red.global.add.noftz.f16x2 [%a], %r1;", "global_op_red"),
    # Offsets are in words here, so that they reach 16 GiB.
    "red_far_u32": ("red.global.add.u32 [%a], %r1;", "global_op_red"),
    "red_xor_b32": ("red.global.xor.b32 [%a], %n;", "global_op_red"),
    "red_add_v2f32": ("red.global.add.v2.f32 [%a], {%f, %f};", "global_op_red"),
    "red_add_v4f32": ("red.global.add.v4.f32 [%a], {%f, %f, %f, %f};", "global_op_red"),
    "atom_add_u32": ("atom.global.add.u32 %r5, [%a], %r3; add.u32 %r6, %r6, %r5;", "global_op_atom"),
    "atom_add_u64": ("atom.global.add.u64 %w2, [%a], %w; add.u64 %w3, %w3, %w2;", "global_op_atom"),
    "atom_add_f32": ("atom.global.add.f32 %f2, [%a], %f; add.f32 %f3, %f3, %f2;", "global_op_atom"),
    "atom_cas_b32": ("atom.global.cas.b32 %r5, [%a], %r1, %r2; add.u32 %r6, %r6, %r5;", "global_op_atom"),
    "atom_cas_b64": ("atom.global.cas.b64 %w2, [%a], %w, %w; add.u64 %w3, %w3, %w2;", "global_op_atom"),
    "atom_exch_b32": ("atom.global.exch.b32 %r5, [%a], %r1; add.u32 %r6, %r6, %r5;", "global_op_atom"),
    "ld_global_u8": ("ld.volatile.global.u8 %h, [%a];", "global_op_ld"),
    "ld_global_nc_u32": ("ld.global.nc.u32 %r5, [%a]; and.b32 %r5, %r5, %z; cvt.u64.u32 %b, %r5; add.u64 %a, %a, %b;", "global_op_ld"),
    "st_global_u8": ("st.volatile.global.u8 [%a], %h;", "global_op_st"),
    "ld_generic_u32": ("ld.volatile.u32 %r5, [%a];", "global_op_ld"),
    "ld_shared_u32": ("ld.volatile.shared.u32 %r5, [%s];", "_op_ld"),
    "ld_shared_u8": ("ld.volatile.shared.u8 %h, [%s];", "_op_ld"),
    "ld_shared_u64": ("ld.volatile.shared.u64 %w2, [%s];", "_op_ld"),
    "ld_shared_v2u32": ("ld.volatile.shared.v2.u32 {%r5, %r6}, [%s];", "_op_ld"),
    "ld_shared_v4u32": ("ld.volatile.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%s];", "_op_ld"),
    "st_shared_u8": ("st.volatile.shared.u8 [%s], %h;", "_op_st"),
    "st_shared_u64": ("st.volatile.shared.u64 [%s], %w;", "_op_st"),
    "st_shared_v4u32": ("st.volatile.shared.v4.u32 [%s], {%r1, %r2, %r3, %r4};", "_op_st"),
    "shared_red_add_one": ("red.shared.add.u32 [%s], 1;", "_op_atom"),
    "shared_red_add_u32": ("red.shared.add.u32 [%s], %n;", "_op_atom"),
    "shared_red_max_u32": ("red.shared.max.u32 [%s], %n;", "_op_atom"),
    "shared_red_add_u64": ("red.shared.add.u64 [%s], %w;", "_op_atom"),
    "shared_red_add_f32": ("red.shared.add.f32 [%s], %f;", "_op_atom"),
    "shared_red_add_f64": ("red.shared.add.f64 [%s], %d;", "_op_atom"),
    "shared_atom_add_one": ("atom.shared.add.u32 %r5, [%s], 1; add.u32 %r6, %r6, %r5;", "_op_atom"),
    "shared_atom_add_u32": ("atom.shared.add.u32 %r5, [%s], %n; add.u32 %r6, %r6, %r5;", "_op_atom"),
    "shared_atom_exch_b32": ("atom.shared.exch.b32 %r5, [%s], %n; add.u32 %r6, %r6, %r5;", "_op_atom"),
    "shared_atom_exch_b64": ("atom.shared.exch.b64 %w2, [%s], %w; add.u64 %w3, %w3, %w2;", "_op_atom"),
    "shared_atom_cas_b32": ("atom.shared.cas.b32 %r5, [%s], %n, %r2; add.u32 %r6, %r6, %r5;", "_op_atom"),
    "shared_atom_cas_b64": ("atom.shared.cas.b64 %w2, [%s], %w, %w; add.u64 %w3, %w3, %w2;", "_op_atom"),
    # The loads in the compare-and-swap loops into which ptxas turns what the machine cannot do on shared memory.
    "shared_red_add_f32_loads": ("red.shared.add.f32 [%s], %f;", "_op_ld"),
    "shared_red_add_u64_loads": ("red.shared.add.u64 [%s], %w;", "_op_ld"),
    "ld_local_u8": ("ld.local.u8 %r5, [%q]; and.b32 %r5, %r5, %z; add.u32 %q, %q, %r5;", "local_op_ld"),
    "ld_local_u32": ("ld.local.u32 %r5, [%q]; and.b32 %r5, %r5, %z; add.u32 %q, %q, %r5;", "local_op_ld"),
    "ld_local_u64": (
        "ld.local.u64 %w2, [%q]; mov.b64 {%r5, %r6}, %w2; or.b32 %r5, %r5, %r6; and.b32 %r5, %r5, %z; add.u32 %q, %q, %r5;",
        "local_op_ld",
    ),
    "ld_local_v4u32": (
        (
            "ld.local.v4.u32 {%r5, %r6, %r7, %r8}, [%q]; or.b32 %r5, %r5, %r6; or.b32 %r5, %r5, %r7;"
            " or.b32 %r5, %r5, %r8; and.b32 %r5, %r5, %z; add.u32 %q, %q, %r5;"
        ),
        "local_op_ld",
    ),
    "st_local_u8": ("add.u32 %q, %q, %z; st.local.u8 [%q], %n;", "local_op_st"),
    "st_local_u16": ("cvt.u16.u32 %h, %n; add.u32 %q, %q, %z; st.local.u16 [%q], %h;", "local_op_st"),
    "st_local_u32": ("add.u32 %q, %q, %z; st.local.u32 [%q], %n;", "local_op_st"),
    "st_local_u64": ("cvt.u64.u32 %w, %n; add.u32 %q, %q, %z; st.local.u64 [%q], %w;", "local_op_st"),
    "st_local_v2u32": ("add.u32 %q, %q, %z; st.local.v2.u32 [%q], {%n, %n};", "local_op_st"),
    "st_local_v4u32": ("add.u32 %q, %q, %z; st.local.v4.u32 [%q], {%n, %n, %n, %n};", "local_op_st"),
    "ld_const_u32": ("ld.const.u32 %r5, [%c]; and.b32 %r5, %r5, %z; add.u32 %c, %c, %r5;", "constant"),
}

HEAD = f""".version 8.8
.target sm_90
.address_size 64
.const .align 8 .b8 table[{LARGEST * (32 * 4 + 4 + 4)}];
.const .align 8 .b8 words[16384];
.shared .align 16 .b8 pool[49152];
"""
# One warp a block: ctaid.y says which access, blocks with the same ctaid.y share its repetitions. The table is in constant memory, so
# that reading it counts as nothing that is measured.
CLEAR = """mov.u32 %r6, frame; mov.u32 %r7, 64;
CLEAR: st.local.v4.u32 [%r6], {%z, %z, %z, %z}; add.u32 %r6, %r6, 16; sub.u32 %r7, %r7, 1; setp.ne.u32 %p, %r7, 0; @%p bra CLEAR;"""
ZERO = """mov.u32 %r6, pool; mad.lo.u32 %r6, %x, 16, %r6; mov.u32 %r7, 96; mov.u32 %r8, 0;
ZERO: st.volatile.shared.v4.u32 [%r6], {%r8, %r8, %r8, %r8}; add.u32 %r6, %r6, 512; sub.u32 %r7, %r7, 1; setp.ne.u32 %p, %r7, 0; @%p bra ZERO;
bar.warp.sync -1;"""
KERNEL = """.visible .entry NAME(.param .u64 base, .param .u64 sink)
{
.reg .pred %p, %odd; .reg .b16 %h; .reg .b32 %r<9>, %o, %m, %s, %c, %q, %k, %n, %g, %x, %y, %z; .reg .f32 %f, %f2; .reg .f64 %d;
.reg .b64 %w, %w2, %w3, %a, %b; .reg .f32 %f3;
LOCAL
mov.u32 %x, %tid.x; mov.u32 %y, %ctaid.y;
mov.u32 %s, table; mad.lo.u32 %k, %y, 136, %s; mad.lo.u32 %c, %x, 4, %k;
ld.const.u32 %o, [%c]; ld.const.u32 %m, [%k+128]; ld.const.u32 %n, [%k+132];
mov.u32 %g, %nctaid.x; mov.u32 %r1, %ctaid.x; add.u32 %n, %n, %g; sub.u32 %n, %n, 1; sub.u32 %n, %n, %r1; div.u32 %n, %n, %g;
POOL
shr.u32 %m, %m, %x; and.b32 %m, %m, 1; setp.eq.u32 %p, %m, 0; @%p ret;
ld.param.u64 %a, [base]; mul.wide.u32 %b, %y, REGION; add.u64 %a, %a, %b; mul.wide.u32 %b, %o, UNIT; add.u64 %a, %a, %b;
mov.u32 %s, pool; add.u32 %s, %s, %o; mov.u32 %c, words; add.u32 %c, %c, %o; QADDRESS
mov.u32 %r1, 1; mov.u32 %r2, 2; mov.u32 %r3, 3; mov.u32 %r4, 4; mov.u64 %w, 5; mov.u16 %h, 6; mov.f32 %f, 0f3F800000; mov.f64 %d, 0d3FF0000000000000;
mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u64 %w2, 0; mov.u64 %w3, 0; mov.f32 %f2, 0f00000000; mov.f32 %f3, %f2;
ld.param.u32 %z, [sink]; setp.eq.u32 %p, %n, 0; @%p ret; BEFORE
AGAIN:
INSTRUCTION
sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra AGAIN;
ld.param.u64 %b, [sink]; setp.eq.u64 %p, %b, 0; @%p ret;
st.global.u32 [%b], %r5; st.global.u64 [%b+8], %w2; st.global.f32 [%b+16], %f2;
st.global.u32 [%b+24], %r6; st.global.u64 [%b+32], %w3; st.global.f32 [%b+40], %f3; AFTER
ret;
}
"""


def source(op):
    text, _ = OPERATIONS[op]
    local = "[%q]" in text
    kernel = KERNEL.replace("NAME", op).replace("INSTRUCTION", text).replace("REGION", "0" if "far" in op else str(REGION))
    kernel = kernel.replace("UNIT", "4" if "far" in op else "1")
    kernel = kernel.replace("LOCAL", ".local .align 16 .b8 frame[1024];" if local else "")
    # A local load finds what was stored, and a local store is read, or the compiler would drop them.
    kernel = kernel.replace("BEFORE", CLEAR if local and text.startswith("ld") else "")
    kernel = kernel.replace("AFTER", "ld.local.u32 %r5, [%q]; st.global.u32 [%b+20], %r5;" if local else "")
    # What shared memory holds decides how often a compare-and-swap loop goes round.
    kernel = kernel.replace("POOL", ZERO if "[%s]" in text else "")
    return kernel.replace("QADDRESS", "mov.u32 %q, frame; add.u32 %q, %q, %o;" if local else "")


def metrics(op):
    """The counter wanted, and the one that counts requests (or instructions)."""
    kind = OPERATIONS[op][1]
    if kind == "constant":
        return ["idc__requests.sum", "smsp__inst_executed_op_ldc.sum"]
    if kind.startswith("_op"):
        return [f"{PASSES}{kind}.sum", f"{INSTRUCTIONS}{kind.removeprefix('_op_')}.sum"]
    return [f"{SECTORS}{kind}.sum", f"{REQUESTS}{kind}.sum"]


def digits(op):
    """(base, accesses in one launch): counts of the operation stay below the base."""
    kind = OPERATIONS[op][1]
    return DIGITS["alone" if kind == "constant" else "wide" if "local" in kind or kind == "_op_atom" or op.endswith("loads") else "narrow"]


def launches(experiments):
    """Experiments of one operation that follow each other, as many as fit a launch: (operation, their numbers)."""
    for op, group in groupby(range(len(experiments)), key=lambda i: experiments[i]["op"]):
        numbers = list(group)
        _, at_once = digits(op)
        for start in range(0, len(numbers), at_once):
            yield op, numbers[start : start + at_once]


def child(path):
    """Runs under ncu: one launch for each item of `launches`."""
    import cupy as cp
    import numpy as np

    experiments = json.loads(Path(path).read_text())
    ops = sorted({e["op"] for e in experiments})
    with open("/tmp/measured.ptx", "w") as out:
        out.write(HEAD + "".join(source(op) for op in ops))
    module = cp.RawModule(path="/tmp/measured.ptx")
    kernels = {op: module.get_function(op) for op in ops}
    table = module.get_global("table")
    # The base is aligned so that adding an offset carries nowhere: which lines conflict depends on the bits of the address.
    reach = 16 << 30 if any("far" in op for op in ops) else 2 << 20
    base = -(-cp.cuda.runtime.malloc(2 * reach) // reach) * reach
    for op, numbers in launches(experiments):
        host = np.zeros((LARGEST, 34), np.uint32)
        base_of, _ = digits(op)
        for k, number in enumerate(numbers):
            host[k, :32], host[k, 32], host[k, 33] = (
                experiments[number]["offsets"],
                experiments[number]["mask"],
                base_of**k if base_of < 1 << 18 else base_of,
            )
        table.copy_from_host(host.ctypes.data, host.nbytes)
        kernels[op]((256, len(numbers)), (32,), (np.uint64(base), np.uint64(0)))
    cp.cuda.Device().synchronize()


def main(path, results):
    experiments = json.loads(Path(path).read_text())
    wanted = sorted({m for op in {e["op"] for e in experiments} for m in metrics(op)})
    command = ["ncu", "--cache-control", "none", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    command += ["--metrics", ",".join(wanted), sys.executable, __file__, "--child", path]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    rows = [r for r in csv.DictReader(io.StringIO("\n".join(lines))) if r["ID"] != ""]
    rows = [r for r in rows if r["Kernel Name"] in OPERATIONS]
    plan = list(launches(experiments))
    if len(rows) != len(plan):
        sys.exit(f"{len(rows)} launches measured, {len(plan)} planned\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    odd = 0
    for row, (op, numbers) in zip(rows, plan, strict=True):
        count, requests = (int(float(row[m].replace(",", "") or 0)) for m in metrics(op))
        base, at_once = digits(op)
        if at_once == 1:
            experiments[numbers[0]] |= {"count": round(count / base, 3), "requests": round(requests / base, 3)}
        else:
            for number in numbers:
                last = number == numbers[-1]
                experiments[number]["count"], count = (count, 0) if last else (count % base, count // base)
                experiments[number]["requests"], requests = (requests, 0) if last else (requests % base, requests // base)
        odd += any(experiments[n]["requests"] != 1 for n in numbers)
    Path(results).write_text(json.dumps(experiments))
    print(path, len(experiments), "accesses,", len(rows), "launches; launches with requests other than 1 each:", odd)


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(sys.argv[2])
    else:
        main(sys.argv[1], sys.argv[2])
