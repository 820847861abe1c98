"""Small videos for the tests, and their frames read back, by PyAV itself."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

RATE = Fraction(24000, 1001)


def moving(count: int, height: int, width: int, dtype: type = np.uint8, most: int = 255) -> list[np.ndarray]:
    """Grey frames of noise and slopes that move."""
    noise = np.random.default_rng(height * 1000 + width).integers(0, most + 1, (height, width))
    y, x = np.mgrid[:height, :width]
    return [np.where(x < width // 2, np.roll(noise, k, 1), (x * x + 5 * y * (k + 1)) % (most + 1)).astype(dtype) for k in range(count)]


def write(
    path: Path,
    frames: Sequence[np.ndarray],
    *,
    codec: str = "ffv1",
    pixels: str = "gray",
    given: str | None = None,
    times: Sequence[int] | None = None,
    sound: bool = False,
    turned: tuple[int, bool, bool] | None = None,
    **options: str,
) -> Path:
    """A video of these frames. given: the pixel format of the arrays, where it is another than the video's; times: in units of 1 / RATE."""
    import av

    for_container = {name: options.pop(name) for name in ("movflags",) if name in options}
    with av.open(str(path), "w", options=for_container) as container:
        stream = container.add_stream(codec, rate=RATE, options=options)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = pixels
        voice = container.add_stream("aac", rate=44100) if sound else None
        if turned is not None:
            stream.set_display_rotation(turned[0], hflip=turned[1], vflip=turned[2])
        for number, image in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(image, format=given or pixels)
            frame.pts, frame.time_base = (number if times is None else times[number]), 1 / RATE
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        if voice is not None:
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            silence.rate, silence.pts = 44100, 0
            container.mux(voice.encode(silence))
            container.mux(voice.encode())
    return path


def read(path: Path, pixels: str | None = None) -> list[np.ndarray]:
    """The frames of a video, in its own or another pixel format."""
    import av

    with av.open(str(path)) as container:
        return [frame.to_ndarray(**({} if pixels is None else {"format": pixels})) for frame in container.decode(video=0)]


def facts(path: Path) -> dict[str, Any]:
    """Size, rate, format and times (in seconds) of a video's frames."""
    import av

    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        times = [frame.pts * frame.time_base for frame in container.decode(stream)]
        return {
            "size": (stream.height, stream.width),
            "rate": stream.average_rate,
            "format": stream.pix_fmt,
            "times": times,
            "streams": len(container.streams),
            "shape_of_pixels": stream.sample_aspect_ratio,
        }
