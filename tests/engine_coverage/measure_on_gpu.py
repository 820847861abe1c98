"""Run the kernels of `cases.py` on a real GPU and write their results' bits: h200.npz.

usage: python3 measure_on_gpu.py CUBIN_FOLDER OUT.npz

Needs the driver library and NumPy alone. CUBIN_FOLDER has features.cubin, single.cubin and double.cubin, made by NVRTC for sm_90 from
the same sources and options as the PTX that the tests run. Measured on an H200 with driver 580.159 on 2026-12-01.
"""

import ctypes
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases


class Gpu:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, function, *arguments):
        status = getattr(self.cuda, function)(*arguments)
        if status:
            raise RuntimeError(f"{function} returned {status}")

    def run(self, path, kernel, inputs, count, dtype):
        """The output of one kernel over all inputs, in blocks of 32."""
        module, function, pointers = ctypes.c_void_p(), ctypes.c_void_p(), []
        self.call("cuModuleLoadData", ctypes.byref(module), pathlib.Path(path).read_bytes())
        self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        result = np.zeros(count, dtype)
        for array in (*inputs, result):
            pointers.append(ctypes.c_uint64())
            self.call("cuMemAlloc_v2", ctypes.byref(pointers[-1]), ctypes.c_size_t(array.nbytes))
            self.call("cuMemcpyHtoD_v2", pointers[-1], array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        table = (ctypes.c_void_p * len(pointers))(*[ctypes.cast(ctypes.byref(p), ctypes.c_void_p) for p in pointers])
        self.call("cuLaunchKernel", function, cases.N // 32, 1, 1, 32, 1, 1, 0, None, table, None)
        self.call("cuCtxSynchronize")
        self.call("cuMemcpyDtoH_v2", result.ctypes.data_as(ctypes.c_void_p), pointers[-1], ctypes.c_size_t(result.nbytes))
        return result


def main(folder, outfile):
    gpu, results = Gpu(), {}
    for name, case in cases.feature_cases().items():
        results[name] = gpu.run(f"{folder}/features.cubin", name, case.inputs, *case.output)
    for double in (False, True):
        label = "double" if double else "single"
        for number, names in enumerate(cases.groups(double)):
            outputs = gpu.run(f"{folder}/{label}.cubin", f"math{number}", cases.math_inputs(double), len(names) * cases.N, np.float64 if double else np.float32)
            for name, row in zip(names, outputs.reshape(len(names), cases.N), strict=True):
                results[f"{label}.{name}"] = row.view(np.uint64 if double else np.uint32)
    np.savez_compressed(outfile, **results)
    print("measured", len(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
