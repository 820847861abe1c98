"""Run the pipeline's kernels on a real GPU and write the digests of every stage's bits.

usage: python3 measure_on_gpu.py EDGES.cubin OUT.json

Needs the driver library and NumPy alone; the cubin is made from `edges.cu` by NVRTC. `edges_h200.json` was measured with driver 580.159
on 2026-12-01. Besides the digests it holds the image's own, so that a NumPy that draws other numbers is noticed.
"""

import ctypes
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases


class Gpu:
    def __init__(self, cubin: bytes) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context, self.module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuModuleLoadData", ctypes.byref(self.module), cubin)

    def call(self, function: str, *arguments: object) -> None:
        status = getattr(self.cuda, function)(*arguments)
        if status:
            raise RuntimeError(f"{function} returned {status}")

    def upload(self, array: np.ndarray) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        self.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        return pointer

    def download(self, pointer: ctypes.c_uint64, like: np.ndarray) -> np.ndarray:
        host = np.empty_like(like)
        self.call("cuMemcpyDtoH_v2", host.ctypes.data_as(ctypes.c_void_p), pointer, ctypes.c_size_t(host.nbytes))
        return host

    def launch(self, kernel: str, grid: tuple, block: tuple, *arguments: object) -> None:
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, kernel.encode())
        held = [argument if isinstance(argument, ctypes.c_uint64) else ctypes.c_int(argument) for argument in arguments]
        table = (ctypes.c_void_p * len(held))(*[ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in held])
        self.call("cuLaunchKernel", function, *grid, 1, *block, 1, 0, None, table, None)
        self.call("cuCtxSynchronize")


def main(cubin: str, outfile: str) -> None:
    gpu = Gpu(pathlib.Path(cubin).read_bytes())
    digests = {}
    for height, width in cases.SHAPES:
        for channels in cases.CHANNELS:
            for bits in cases.DEPTHS:
                image = cases.image(height, width, channels, bits)
                floats, grid, block = np.zeros((height, width), np.float32), (-(-width // 32), -(-height // 8)), (32, 8)
                source, edges, bins = gpu.upload(image), np.zeros((height, width), np.uint8), np.zeros(256, np.uint32)
                grey, rows, blurred, magnitude = (gpu.upload(floats) for _ in range(4))
                edge_map, histogram = gpu.upload(edges), gpu.upload(bins)
                gpu.launch(f"grey_u{bits}_{channels}", grid, block, source, grey, width, height)
                gpu.launch("blur_rows", grid, block, grey, rows, width, height)
                gpu.launch("blur_columns", grid, block, rows, blurred, width, height)
                gpu.launch("sobel", grid, block, blurred, magnitude, width, height)
                pixels = height * width
                gpu.launch("edges_and_histogram", (-(-pixels // 4096), 1), (256, 1), magnitude, edge_map, histogram, pixels)
                outputs = [gpu.download(pointer, floats) for pointer in (grey, rows, blurred, magnitude)]
                outputs += [gpu.download(edge_map, edges), gpu.download(histogram, bins)]
                found = {"image": cases.digest(image)} | {stage: cases.digest(got) for stage, got in zip(cases.STAGES, outputs, strict=True)}
                digests[cases.name(height, width, channels, bits)] = found
    pathlib.Path(outfile).write_text(json.dumps(digests, indent=1) + "\n")
    print(len(digests), "images")


if __name__ == "__main__":
    main(*sys.argv[1:])
