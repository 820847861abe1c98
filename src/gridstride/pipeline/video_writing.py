"""Writing edges as a video, whole or not at all.

`.mp4` and `.mov` get H.264, which plays everywhere: visually lossless, 8 bits, and a row or a column more where the size is odd, since its
colours come for two by two pixels. `.mkv` gets FFV1: lossless, any size, 8 or 16 bits. Levels use their full range, 0 to 255.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from gridstride.errors import UnsupportedError, UsageError
from gridstride.pipeline.images import CannotWrite
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.video_reading import library, reason

CODECS = {".mp4": "libx264", ".m4v": "libx264", ".mov": "libx264", ".mkv": "ffv1"}
"""By the ending of the file's name."""

_CONTAINERS = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska"}
_OPTIONS = {"libx264": {"crf": "16", "preset": "veryfast"}, "ffv1": {"level": "3", "slicecrc": "1", "g": "1"}}
_FULL_RANGE = 2  # AVCOL_RANGE_JPEG
_NOTE = b"Gridstride "
_NOTE_BYTES = len(_NOTE) + 64
_TICKS_A_SECOND = 10_000
_LONGEST_SIDE = 16384


def require_writable(path: Path, parameters: Parameters) -> None:
    """Raise for a kind of video that is not written, or cannot hold what was chosen."""
    suffix = path.suffix.lower()
    if suffix not in CODECS:
        raise UsageError(f"videos are written as {', '.join(sorted(set(CODECS)))}, not as {suffix or 'a file without ending'}")
    if parameters.depth == "float":
        raise UsageError("a video holds 8 or 16 bits, not floats: name a folder for the frames")
    if parameters.depth == 16 and CODECS[suffix] != "ffv1":
        raise UsageError(f"a {suffix} video holds 8 bits: name a .mkv for 16, or a folder for the frames")
    if CODECS[suffix] not in library().codecs_available:
        raise UnsupportedError(f"this PyAV has no encoder {CODECS[suffix]}: name a .mkv (FFV1), or a folder for the frames")


@dataclass(frozen=True)
class Timing:
    """When frames are shown: frames a second, seconds of a unit of their times, and the shape of a pixel, width by height."""

    rate: Fraction
    time_base: Fraction
    shape_of_pixels: Fraction = Fraction(1)

    @property
    def tick_base(self) -> Fraction:
        """Seconds of a tick of the video that is written: fine, and frames of the rate come after whole ticks."""
        rate = self.rate.limit_denominator(1001)
        return Fraction(1, rate.numerator * -(-_TICKS_A_SECOND // rate.numerator))

    def tick(self, time: int) -> int:
        """A time in ticks. A frame that is where the rate would have it, but for the coarse clock of its file, is put there exactly."""
        seconds, rate = time * self.time_base, self.rate.limit_denominator(1001)
        regular = round(seconds * rate) / rate
        return round((regular if abs(regular - seconds) < self.time_base else seconds) / self.tick_base)


class VideoWriter:
    """Frames go into a temporary file beside `path`, which takes its place at `finish`. Raises `CannotWrite` where it cannot be written."""

    def __init__(self, path: Path, timing: Timing) -> None:
        self._path = path
        self._timing = timing
        self._temporary = path.with_name(f".{path.name}.{uuid4().hex}.part")
        self._suffix = path.suffix.lower()
        self._size: tuple[int, int] | None = None
        self._last = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._temporary.open("x+b")
        except OSError as error:
            raise self._failure(error) from None
        self._container: Any = None
        self._stream: Any = None

    def write(self, image: npt.NDArray[Any], time: int) -> None:
        """Add a frame, shown at `time`. All frames have one size; times grow."""
        av = library()
        try:
            if self._container is None:
                self._begin(av, image)
            if image.shape != self._size:
                raise CannotWrite(
                    self._path, f"the video began with {_named(self._size)} pixels and goes on with {_named(image.shape)}; name a folder for the frames"
                )
            frame = av.VideoFrame.from_ndarray(self._samples(image), format=self._stream.pix_fmt)
            self._last = max(self._timing.tick(time), self._last + 1)
            frame.pts, frame.time_base, frame.color_range = self._last, self._timing.tick_base, _FULL_RANGE
            self._container.mux(self._stream.encode(frame))
        except (OSError, av.error.FFmpegError) as error:
            raise self._failure(error) from None

    def finish(self, note: str | None) -> None:
        """End the video and put it in its place. note: what `note_of_video` will read. Without a frame there is no video."""
        av = library()
        try:
            if self._container is None:
                return
            self._container.mux(self._stream.encode())
            self._close()
            if note is not None:
                self._file.seek(0, 2)
                self._file.write(_as_unused(_NOTE + note.encode(), self._suffix))
            self._file.close()
            self._temporary.replace(self._path)
        except (OSError, av.error.FFmpegError) as error:
            raise self._failure(error) from None
        finally:
            self.discard()

    def discard(self) -> None:
        """Forget what was written, unless it is finished."""
        with suppress(Exception):  # what is thrown away need not be whole
            self._close()
        with suppress(OSError):
            self._file.close()
        self._temporary.unlink(missing_ok=True)

    def _close(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            container.close()

    def _begin(self, av: Any, image: npt.NDArray[Any]) -> None:
        height, width = self._size = image.shape
        if max(height, width) > _LONGEST_SIDE and CODECS[self._suffix] == "libx264":
            raise CannotWrite(self._path, f"H.264 holds frames of at most {_LONGEST_SIDE:,} pixels a side; name a .mkv, or a folder for the frames")
        codec = CODECS[self._suffix]
        container = av.open(self._file, "w", format=_CONTAINERS[self._suffix])
        self._container = container
        stream = container.add_stream(codec, rate=self._timing.rate, options=_OPTIONS[codec])
        stream.pix_fmt = "yuv420p" if codec == "libx264" else "gray" if image.dtype == np.uint8 else "gray16le"
        stream.width, stream.height = (width + width % 2, height + height % 2) if codec == "libx264" else (width, height)
        stream.time_base = stream.codec_context.time_base = self._timing.tick_base
        stream.codec_context.color_range = _FULL_RANGE
        if self._timing.shape_of_pixels != 1:
            stream.codec_context.sample_aspect_ratio = self._timing.shape_of_pixels
        self._stream = stream

    def _samples(self, image: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The frame as its encoder takes it: for H.264 to an even size by copies of the last row and column, and without colour."""
        if self._stream.pix_fmt != "yuv420p":
            return np.ascontiguousarray(image)
        height, width = image.shape
        even = np.pad(image, ((0, height % 2), (0, width % 2)), mode="edge")
        return np.concatenate([even.ravel(), np.full(even.size // 2, 128, np.uint8)]).reshape(-1, even.shape[1])

    def _failure(self, error: Exception) -> CannotWrite:
        return CannotWrite(self._path, reason(error))


def note_of_video(path: Path) -> str | None:
    """The note at the end of a video that `VideoWriter` has written; None where there is none, as where its end is cut off."""
    try:
        with path.open("rb") as file:
            file.seek(-_NOTE_BYTES, 2)
            end = file.read()
    except OSError:
        return None
    return end.removeprefix(_NOTE).decode("ascii", "replace") if end.startswith(_NOTE) else None


def _as_unused(data: bytes, suffix: str) -> bytes:
    """Bytes that players of a kind of file pass over: a `free` box (ISO/IEC 14496-12), a Void element (RFC 8794)."""
    if _CONTAINERS[suffix] == "matroska":
        return b"\xec" + bytes([0x80 | len(data)]) + data
    return struct.pack(">I4s", 8 + len(data), b"free") + data


def _named(size: tuple[int, ...] | None) -> str:
    return " x ".join(map(str, reversed(size or ())))
