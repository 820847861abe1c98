"""Reading videos frame by frame (PyAV, which is FFmpeg's libraries): samples upright, with their times, and what is wrong with the file."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gridstride.errors import UnsupportedError, UsageError
from gridstride.pipeline.images import MAX_PIXELS, Samples

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

SUFFIXES = frozenset({".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".m2ts", ".mts", ".wmv", ".flv", ".ogv", ".3gp", ".y4m"})
"""Files that are taken for videos."""

_COUNTS_ITS_FRAMES = frozenset({"mov", "mp4"})
_HAVE_CHECKSUMS = frozenset({"png", "apng"})
_TELLS_ONLY_ITS_LOG = frozenset({"ffv1"})
"""Decoders that say only in FFmpeg's log that a checksum does not fit."""

_AT_ONCE = 1 << 20
_DISPLAY_MATRIX = "DISPLAYMATRIX"


@dataclass(frozen=True)
class Frame:
    """number: from 1 on; time: when it is shown after the first one, in units of the video's `time_base`."""

    number: int
    time: int
    samples: Samples


@dataclass
class Faults:
    """What was met that should not be there."""

    undecodable: int = 0
    damaged: int = 0
    first: str = ""
    ends_early: str = ""

    def __bool__(self) -> bool:
        return bool(self.undecodable or self.damaged or self.ends_early)

    def __str__(self) -> str:
        parts = []
        if self.undecodable:
            parts.append(f"{self.undecodable} of its packets cannot be decoded ({self.first})")
        if self.damaged:
            parts.append(f"{self.damaged} of its frames {'is' if self.damaged == 1 else 'are'} damaged")
        if self.ends_early:
            parts.append(self.ends_early)
        return ", ".join(parts)


@dataclass
class Video:
    """A video file that is open for reading. `faults` is complete when all frames were taken.

    rate: frames a second; expected: about how many frames there are, None where nothing tells; shape_of_pixels: width by height of one.
    """

    path: Path
    container: InputContainer
    stream: VideoStream
    rate: Fraction
    time_base: Fraction
    expected: int | None
    has_audio: bool
    shape_of_pixels: Fraction = Fraction(1)
    faults: Faults = field(default_factory=Faults)

    def frames(self) -> Generator[Frame, None, None]:
        """All frames that can be decoded, one after the other. Raises `UsageError` where there is none, `UnsupportedError` for their kind of samples."""
        number, first, last, packets = 0, 0, -1, 0
        step = max(1, round(1 / (self.rate * self.time_base)))
        end = 0
        for packet_size, decoded in self._decoded():
            packets += packet_size > 0
            for frame in decoded:
                number += 1
                self.faults.damaged += frame.is_corrupt
                if number == 1:
                    first = frame.pts or 0
                time = last + step if frame.pts is None and number > 1 else (frame.pts or first) - first
                time = last = max(time, last + 1)  # each frame is shown after the one before, whatever a broken file says
                end = first + time + (frame.duration or step)
                yield Frame(number, time, self._samples(frame))
        if not number:
            why = f": {self.faults.first}" if self.faults.first else ""
            raise UsageError(f"{self.path} holds no frame that can be decoded{why}")
        self.faults.ends_early = self._ends_early(number, packets, end)

    def check_packets(self) -> Faults:
        """Look whether the file is whole, without decoding it."""
        packets, end = 0, 0
        for packet in self.container.demux(self.stream):
            if packet.size:
                packets += 1
                end = max(end, (packet.pts or 0) + (packet.duration or 0))
                self.faults.damaged += packet.is_corrupt
        self.faults.ends_early = self._ends_early(packets, packets, end)
        return self.faults

    def close(self) -> None:
        self.container.close()

    def _decoded(self) -> Generator[tuple[int, list[VideoFrame]], None, None]:
        """The size of each packet and what came out of the decoder with it; packets that cannot be decoded are noted."""
        av = library()
        packets = self.container.demux(self.stream)
        with ExitStack() as stack:
            told = stack.enter_context(_mismatches(av)) if self.stream.codec_context.name in _TELLS_ONLY_ITS_LOG else []
            while True:
                try:
                    packet = next(packets, None)
                except (av.error.FFmpegError, OSError) as error:
                    self._note(error)
                    packet = None
                if packet is None:
                    break
                try:
                    frames = packet.decode()
                except av.error.EOFError:
                    continue
                except (av.error.FFmpegError, ValueError) as error:
                    self._note(error)
                    continue
                self.faults.damaged += bool(told)
                told.clear()
                yield packet.size, frames
            with suppress(av.error.FFmpegError):  # what the decoder still has, where the end of the file did not call for it
                yield 0, self.stream.codec_context.decode(None)

    def _note(self, error: Exception) -> None:
        self.faults.undecodable += 1
        self.faults.first = self.faults.first or reason(error)

    def _ends_early(self, frames: int, packets: int, end: int) -> str:
        """A sentence's part where the file says that there should be more. A packet that is there and shows nothing is no fault: cut videos have them."""
        if self.stream.frames and _COUNTS_ITS_FRAMES & set(self.container.format.name.split(",")):
            missing = self.stream.frames - packets
            return f"it ends {missing} frame{'' if missing == 1 else 's'} early, after {frames:,}" if missing > 0 else ""
        duration = _duration(self.stream)
        if duration is None:
            return ""
        start = (self.stream.start_time or 0) * self.time_base
        seconds = float(duration - (end * self.time_base - start))
        # A file's clock may be as coarse as a frame, and its last frame may be shown for any time.
        return f"it ends {seconds:.1f} s early, after {frames:,} frames" if seconds > max(0.25, float(3 / self.rate)) else ""

    def _samples(self, frame: VideoFrame) -> Samples:
        if frame.width * frame.height > MAX_PIXELS:
            raise UsageError(f"{self.path} has frames of more than {MAX_PIXELS:,} pixels, the most that can be processed")
        return _upright(_array(frame, self.path), _matrix(frame))


def open_video(path: Path) -> Video:
    """Open a video. Raises `UsageError` for what is none or cannot be read, `UnsupportedError` where PyAV is missing or cannot decode it."""
    av = library()
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a video")
    try:
        with path.open("rb"):
            pass
        # As a file and nothing else: FFmpeg takes some names for addresses, and some files name others.
        container = av.open(f"file:{path.absolute()}", options={"protocol_whitelist": "file"}, metadata_errors="replace")
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except PermissionError:
        raise UsageError(f"{path}: you may not read this file") from None
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise UsageError(f"{path} is not a video that can be read: {reason(error)}") from None
    try:
        if not container.streams.video:
            raise UsageError(f"{path} holds no video{', only sound' if container.streams.audio else ''}")
        stream = container.streams.video[0]
        if stream.codec_context is None or stream.time_base is None:
            raise UnsupportedError(f"{path}: there is no decoder for its kind of video")
        stream.thread_type = "AUTO"
        if stream.codec_context.name in _HAVE_CHECKSUMS:  # a frame with other bytes than were written is no frame
            stream.codec_context.options = {"err_detect": "crccheck+explode"}
        rate = stream.average_rate or stream.guessed_rate or Fraction(25)
        duration = _duration(stream)
        expected = stream.frames or (round(duration * rate) if duration is not None else None)
        return Video(
            path, container, stream, rate, stream.time_base, expected, bool(container.streams.audio), stream.sample_aspect_ratio or Fraction(1)
        )
    except BaseException:
        container.close()
        raise


def library() -> Any:
    """PyAV, which comes with the `image` extra."""
    try:
        import av
    except ImportError:
        raise UnsupportedError("videos are read and written with PyAV, which is not installed: pip install 'gridstride[image]'") from None
    return av


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, read piece by piece. Raises `UsageError` where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(_AT_ONCE):
                digest.update(piece)
    except OSError as error:
        raise UsageError(f"{path}: {'there is no such file' if isinstance(error, FileNotFoundError) else error.strerror}") from None
    return digest.hexdigest()


def reason(error: Exception) -> str:
    """What FFmpeg's error says, without its number and the file's name."""
    return str(getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__)


@contextmanager
def _mismatches(av: Any) -> Iterator[list[Any]]:
    """What FFmpeg logs as errors, as it comes."""
    before = av.logging.get_level()
    av.logging.set_level(av.logging.ERROR)
    try:
        with av.logging.Capture(local=False) as logs:  # decoders have threads of their own
            yield logs
    finally:
        av.logging.set_level(before)


def _duration(stream: VideoStream) -> Fraction | None:
    """Seconds that the file says the stream takes, if it does."""
    if stream.duration and stream.time_base:
        return stream.duration * stream.time_base
    text = stream.metadata.get("DURATION", "")  # of Matroska: 00:00:03.240000000
    with suppress(ValueError):
        hours, minutes, seconds = text.split(":")
        return Fraction(int(hours) * 3600 + int(minutes) * 60) + Fraction(seconds)
    return None


def _array(frame: VideoFrame, path: Path) -> Samples:
    """The samples as they come to the pipeline: grey or RGB, 8 bits where the video has no more, else 16."""
    name, bits = frame.format.name, max(component.bits for component in frame.format.components)
    if bits > 16:
        raise UnsupportedError(f"{path} has floating-point samples; videos of up to 16 bits can be processed")
    samples: Any
    if not name.startswith("gray"):
        samples = frame.to_ndarray(format="rgb24" if bits <= 8 else "rgb48le")
    else:
        samples = frame.to_ndarray()
        if 8 < bits < 16:
            samples = (samples << np.uint16(16 - bits)) | (samples >> np.uint16(2 * bits - 16))  # the highest level becomes 65535
    return cast(Samples, samples)


def _matrix(frame: VideoFrame) -> tuple[int, int, int, int]:
    """a, b, c, d of the frame's display matrix: what is at (x, y) is shown at (a x + c y, b x + d y)."""
    found: Any = frame.side_data.get(_DISPLAY_MATRIX)
    if found is None:
        return 1, 0, 0, 1
    a, b, _, c, d = struct.unpack("=5i", bytes(found)[:20])
    return a, b, c, d


def _upright(samples: Samples, matrix: tuple[int, int, int, int]) -> Samples:
    """The samples turned and mirrored as the display matrix says; one that is not of right angles is not followed."""
    a, b, c, d = matrix
    if a and d and not b and not c:
        across, down = a, d
    elif b and c and not a and not d:
        samples = samples.swapaxes(0, 1)
        across, down = c, b
    else:
        return samples
    return samples[:: 1 if down > 0 else -1, :: 1 if across > 0 else -1]
