"""Ask a real GPU's driver for the best block size of many kernels; writes a JSON file.

usage: python3 measure_block_size.py OUTFILE

Needs nothing but the driver library. `answers` holds, per kernel, rows of (dynamic shared bytes, shared bytes a thread, limit of the block size or 0,
smallest grid, block size), as cuOccupancyMaxPotentialBlockSize answers. `block_size_h200.json` was measured with driver 580.159 on 2026-12-01.
"""

import ctypes
import json
import sys

SHARED_SIZE_BYTES, NUM_REGS, MAX_THREADS, MAX_DYNAMIC = 1, 4, 0, 8
REGISTERS = (1, 14, 22, 30, 33, 38, 46, 54, 62, 70, 78, 94, 110, 118, 150, 190, 240)
DYNAMIC = (0, 1, 1024, 3000, 8192, 16384, 24000, 49152, 75000, 116000, 200000)
PER_THREAD = (4, 12, 16, 48, 100, 150)
LIMITS = (0, 32, 100, 128, 300, 512, 1000)


def kernel(name, live, static):
    """A kernel that holds `live` loaded values at once, with `static` bytes of shared memory."""
    loads = "\n".join(f"ld.volatile.global.u32 %r{i}, [%a+{4 * i}];" for i in range(live))
    stores = "\n".join(f"st.volatile.global.u32 [%a+{4 * i}], %r{live - 1 - i};" for i in range(live))
    shared = f".shared .align 4 .b8 pool_{name}[{static}];\n" if static else ""
    touch = f"st.volatile.shared.u8 [pool_{name}], %h;" if static else ""
    return (
        f"{shared}.visible .entry {name}(.param .u64 p)\n{{\n.reg .b32 %r<{live + 1}>; .reg .b64 %a; .reg .b16 %h;\n"
        f"ld.param.u64 %a, [p]; mov.u16 %h, 1; {touch}\n{loads}\n{stores}\nret;\n}}\n"
    )


def main(outfile):
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(function, *arguments):
        status = getattr(cuda, function)(*arguments)
        if status:
            raise RuntimeError(f"{function} returned {status}")

    def integer(function, *arguments):
        value = ctypes.c_int()
        call(function, ctypes.byref(value), *arguments)
        return value.value

    call("cuInit", 0)
    device = integer("cuDeviceGet", 0)
    name = ctypes.create_string_buffer(100)
    call("cuDeviceGetName", name, 100, device)
    context = ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    wanted = {f"k{live}_{static}": (live, static) for live in REGISTERS for static in (0, 1000)}
    source = ".version 7.0\n.target sm_75\n.address_size 64\n" + "".join(kernel(k, *v) for k, v in wanted.items())
    module = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), source.encode())
    kernels, answers = {}, {}
    of_block = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)
    for key in wanted:
        function = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(function), module, key.encode())
        static = integer("cuFuncGetAttribute", SHARED_SIZE_BYTES, function)
        kernels[key] = {
            "registers": integer("cuFuncGetAttribute", NUM_REGS, function),
            "static_shared": static,
            "max_threads": integer("cuFuncGetAttribute", MAX_THREADS, function),
        }
        call("cuFuncSetAttribute", function, MAX_DYNAMIC, 232448 - static)
        answers[key] = []
        for dynamic, per_thread in [(d, 0) for d in DYNAMIC] + [(0, p) for p in PER_THREAD]:
            for limit in LIMITS if per_thread == 0 else (0, 300):
                grid, block = ctypes.c_int(), ctypes.c_int()
                callback = of_block(lambda threads, each=per_thread: threads * each) if per_thread else of_block(0)
                call("cuOccupancyMaxPotentialBlockSize", ctypes.byref(grid), ctypes.byref(block), function, callback, ctypes.c_size_t(dynamic), limit)
                answers[key].append((dynamic, per_thread, limit, grid.value, block.value))
    with open(outfile, "w") as out:
        json.dump({"device": name.value.decode(), "kernels": kernels, "answers": answers}, out, separators=(",", ":"))
    print(name.value.decode(), sum(map(len, answers.values())), "answers")


main(*sys.argv[1:])
