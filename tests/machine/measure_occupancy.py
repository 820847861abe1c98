"""Ask a real GPU's driver for its limits and for the resident blocks of many launches; writes `occupancy_NAME.json`.

usage: python3 measure_occupancy.py OUTFILE

Needs nothing but the driver library. The kernels are made here so that their register counts spread from 16 to 255; what the driver says about
each kernel is written beside its answers: "resident_blocks" holds, per kernel and per number of dynamic shared bytes, one number for each block
size in "threads_per_block". `occupancy_h200.json` was measured with driver 580.159 on 2026-12-01.
"""

import ctypes
import json
import sys

# CUdevice_attribute numbers, from the CUDA driver API's enumeration.
ATTRIBUTES = {
    "max_threads_per_block": 1,
    "shared_per_block": 8,
    "warp_size": 10,
    "registers_per_block": 12,
    "clock_khz": 13,
    "multiprocessors": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "threads_per_multiprocessor": 39,
    "shared_per_multiprocessor": 81,
    "registers_per_multiprocessor": 82,
    "shared_per_block_optin": 97,
    "blocks_per_multiprocessor": 106,
    "reserved_shared_per_block": 111,
    "compute_capability_major": 75,
    "compute_capability_minor": 76,
}
SHARED_SIZE_BYTES, NUM_REGS, MAX_THREADS, MAX_DYNAMIC = 1, 4, 0, 8
BLOCKS = [1, 31, 32, 33, 64, 65, 96, 100, 128, 129, 160, 192, 224, 256, 257, 288, 320, 352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 896, 1000, 1024]
DYNAMIC = [0, 1, 896, 1024, 3000, 5000, 8192, 16384, 24000, 49152, 65536, 75000, 100000, 116000, 160000, 230000, 232448]


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
    attributes = {key: integer("cuDeviceGetAttribute", number, device) for key, number in ATTRIBUTES.items()}
    wanted = {f"k{live}_{static}": (live, static) for live in (1, 14, 22, 30, 38, 46, 62, 78, 94, 118, 150, 190, 240) for static in (0, 1000)}
    source = ".version 7.0\n.target sm_75\n.address_size 64\n" + "".join(kernel(k, *v) for k, v in wanted.items())
    module = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), source.encode())
    kernels, answers = {}, {}
    for key in wanted:
        function = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(function), module, key.encode())
        static = integer("cuFuncGetAttribute", SHARED_SIZE_BYTES, function)
        kernels[key] = {
            "registers": integer("cuFuncGetAttribute", NUM_REGS, function),
            "static_shared": static,
            "max_threads": integer("cuFuncGetAttribute", MAX_THREADS, function),
        }
        call("cuFuncSetAttribute", function, MAX_DYNAMIC, attributes["shared_per_block_optin"] - static)
        answers[key] = {}
        for dynamic in DYNAMIC:
            if static + dynamic <= attributes["shared_per_block_optin"]:
                answers[key][dynamic] = [
                    integer("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, ctypes.c_size_t(dynamic)) for threads in BLOCKS
                ]
    with open(outfile, "w") as out:
        json.dump(
            {
                "device": name.value.decode(),
                "attributes": attributes,
                "kernels": kernels,
                "threads_per_block": BLOCKS,
                "resident_blocks": answers,
            },
            out,
        )
    print(name.value.decode(), len(wanted), "kernels")


main(*sys.argv[1:])
