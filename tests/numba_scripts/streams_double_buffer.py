"""A long array in pieces through two streams: pinned memory, events, one buffer filled while the other is worked on."""

import math

import numpy as np
from numba import cuda

PIECE = 4096


@cuda.jit
def work(values, times):
    i = cuda.grid(1)
    if i < values.size:
        v = values[i]
        for _ in range(times):
            v = math.sqrt(v * v + 1.0)
        values[i] = v


def main():
    pieces = 6
    source = cuda.pinned_array(pieces * PIECE, dtype=np.float64)
    result = cuda.pinned_array(pieces * PIECE, dtype=np.float64)
    source[:] = np.linspace(0, 10, source.size)
    result[:] = 0

    streams = [cuda.stream(), cuda.stream()]
    buffers = [cuda.device_array(PIECE, np.float64, stream=stream) for stream in streams]
    begin, end = cuda.event(), cuda.event()

    begin.record()
    for piece in range(pieces):
        stream, buffer = streams[piece % 2], buffers[piece % 2]
        part = slice(piece * PIECE, (piece + 1) * PIECE)
        buffer.copy_to_device(source[part], stream=stream)
        work[(PIECE + 127) // 128, 128, stream](buffer, 3)
        buffer.copy_to_host(result[part], stream=stream)
    marks = [cuda.event() for _ in streams]
    for mark, stream in zip(marks, streams):
        mark.record(stream)
        mark.wait(cuda.default_stream())
    end.record()
    end.synchronize()
    for stream in streams:
        stream.synchronize()

    milliseconds = cuda.event_elapsed_time(begin, end)
    assert milliseconds > 0 and begin.query()
    np.testing.assert_allclose(result, np.sqrt(np.asarray(source) ** 2 + 3), rtol=1e-14)
    print("streams:", pieces, "pieces of", PIECE)


if __name__ == "__main__":
    main()
