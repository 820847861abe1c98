"""Five programs that stream data through a device, written once for simulator and GPU, and the kernels' own times measured one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gridstride as gs

SOURCE = r"""
extern "C" __global__ void work(int n, int rounds, const float* x, float* y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float v = x[i];
        for (int r = 0; r < rounds; ++r) v = v * 0.5f + 1.0f;
        y[i] = v;
    }
}
extern "C" __global__ void half(int n, int rounds, const float* x, float* y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float v = x[i];
        for (int r = 0; r < rounds; ++r) v = v * 0.5f + 1.0f;
        y[i] = v;
    }
}
"""
N = 1 << 22  # floats of a piece: 16 MB
PIECES = 6
ROUNDS = 60
FEW = 1 << 18
WHOLE, HALF = ((132 * 2,), (64,)), ((66,), (64,))


class Setting:
    """A device with what the programs need: pinned and pageable data of the host, two buffers each way, streams."""

    def __init__(self, device: gs.Device) -> None:
        self.device = device
        module = device.compile(SOURCE)
        self.work, self.half = module["work"], module["half"]
        self.source, self.result = device.pinned(N * PIECES), device.pinned(N * PIECES)
        self.pinned_in, self.pinned_out = self.source.numpy(), self.result.numpy()
        self.pinned_in[:] = np.arange(N * PIECES, dtype=np.float32) % 1000
        self.pageable_in, self.pageable_out = self.pinned_in.copy(), np.zeros_like(self.pinned_in)
        self.x = [device.empty(N, name=f"x{k}") for k in range(PIECES)]
        self.y = [device.empty(N, name=f"y{k}") for k in range(PIECES)]
        self.streams = [device.stream(non_blocking=True) for _ in range(3)]

    def launch(self, stream: Any, x: gs.Array, y: gs.Array) -> None:
        self.work[WHOLE](N, ROUNDS, x, y, stream=stream)


def piece(array: np.ndarray[Any, Any], k: int) -> np.ndarray[Any, Any]:
    return array[k * N : (k + 1) * N]


def double_buffered(s: Setting) -> None:
    """Three streams, one each for copies in, kernels and copies out, and two buffers each way."""
    into, compute, out = s.streams
    worked: list[gs.Event | None] = [None, None]
    emptied: list[gs.Event | None] = [None, None]
    for k in range(PIECES):
        b = k % 2
        before, free = worked[b], emptied[b]
        if before is not None:
            into.wait(before)
        s.x[b].copy_from(piece(s.pinned_in, k), stream=into)
        compute.wait(into.record())
        if free is not None:
            compute.wait(free)
        s.launch(compute, s.x[b], s.y[b])
        worked[b] = compute.record()
        out.wait(compute.record())
        s.y[b].copy_to(piece(s.pinned_out, k), stream=out)
        emptied[b] = out.record()


def stream_a_piece(s: Setting) -> None:
    """Each piece's copy, kernel and copy in one stream, the streams in turn, a buffer for each piece."""
    for k in range(PIECES):
        stream = s.streams[k % 3]
        s.x[k].copy_from(piece(s.pinned_in, k), stream=stream)
        s.launch(stream, s.x[k], s.y[k])
        s.y[k].copy_to(piece(s.pinned_out, k), stream=stream)


def pageable(s: Setting) -> None:
    """The same with pageable memory."""
    for k in range(PIECES):
        stream = s.streams[k % 3]
        s.x[k].copy_from(piece(s.pageable_in, k), stream=stream)
        s.launch(stream, s.x[k], s.y[k])
        s.y[k].copy_to(piece(s.pageable_out, k), stream=stream)


def one_stream(s: Setting) -> None:
    """Everything in one stream."""
    stream = s.streams[0]
    for k in range(PIECES):
        s.x[k].copy_from(piece(s.pinned_in, k), stream=stream)
        s.launch(stream, s.x[k], s.y[k])
        s.y[k].copy_to(piece(s.pinned_out, k), stream=stream)


def two_halves(s: Setting) -> None:
    """Kernels that each fill half of the device, in two streams at once, while the third copies."""
    first, second, copies = s.streams
    s.x[2].copy_from(piece(s.pinned_in, 2), stream=copies)
    for _ in range(PIECES):
        s.half[HALF](FEW, ROUNDS * 8, s.x[0], s.y[0], stream=first)
        s.half[HALF](FEW, ROUNDS * 8, s.x[1], s.y[1], stream=second)


PROGRAMS: dict[str, Callable[[Setting], None]] = {
    "double_buffered": double_buffered,
    "stream_a_piece": stream_a_piece,
    "pageable": pageable,
    "one_stream": one_stream,
    "two_halves": two_halves,
}
ASKED_ONE_BY_ONE = ("pageable",)
"""Programs that cannot be a graph's: pageable memory is copied by the host. The others are captured and launched as graphs, so that what is
measured is the device's time and not that of the language that asks (Python took up to 0.15 ms for a launch)."""


def captured(s: Setting, program: Callable[[Setting], None]) -> gs.Replay:
    """A whole program as a graph: it forks from the first stream to the others and comes back."""
    first, *others = s.streams
    with first.capture() as graph:
        for stream in others:
            stream.wait(first.record())
        program(s)
        for stream in others:
            first.wait(stream.record())
    return graph.instantiate()


def total_us(s: Setting, run: Callable[[], None]) -> float:
    """Microseconds of a whole program: from an event that all streams wait for to one that waits for all streams."""
    first, *others = s.streams
    start, end = s.device.event(), s.device.event()
    s.device.synchronize()
    first.record(start)
    for stream in others:
        stream.wait(start)
    run()
    for stream in others:
        first.wait(stream.record())
    first.record(end)
    s.device.synchronize()
    return 1e3 * start.elapsed_ms(end)


def runner(s: Setting, name: str) -> Callable[[], None]:
    """What runs a program once."""
    program = PROGRAMS[name]
    if name in ASKED_ONE_BY_ONE:
        return lambda: program(s)
    replay = captured(s, program)
    return lambda: replay.launch(s.streams[0])


def kernel_us(s: Setting, launch: Callable[[], None], repetitions: int = 20) -> float:
    """Microseconds of one launch among others of its kind in a graph."""
    with s.streams[0].capture() as graph:
        for _ in range(repetitions):
            launch()
    replay = graph.instantiate()
    total_us(s, lambda: replay.launch(s.streams[0]))
    return total_us(s, lambda: replay.launch(s.streams[0])) / repetitions


def durations(s: Setting) -> dict[str, float]:
    """Microseconds of the programs' kernels by name."""
    return {
        "work": kernel_us(s, lambda: s.launch(s.streams[0], s.x[0], s.y[0])),
        "half": kernel_us(s, lambda: s.half[HALF](FEW, ROUNDS * 8, s.x[0], s.y[0], stream=s.streams[0])),
    }
