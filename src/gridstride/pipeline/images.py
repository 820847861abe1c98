"""Reading photographs into arrays, and writing the edge images.

Pillow decodes the files. It has no mode for several channels of 16 bits and would drop the lower byte; such files are decoded twice,
once for the upper and once for the lower bytes (its unpackers for the two byte orders differ in nothing else), and put together.
"""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from gridstride.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from PIL import Image
    from PIL.ImageFile import ImageFile

Samples = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]

MAX_PIXELS = 2**28
"""More pixels than this are refused: the kernels index with 32 bits, and a file that claims more is more likely broken than big."""

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".jpe", ".tif", ".tiff", ".webp", ".bmp"})
"""Files of a folder that are taken for images."""

_PIXELS_AT_ONCE = 1 << 20
_NOTE, _TIFF_DESCRIPTION = "Gridstride", 270
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP")
_WIDE_RAW_MODE = re.compile(r"(RGB|RGBX|RGBA|RGBa);16([BLN])")
_OTHER_ORDER = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}
_MODES_AS_THEY_ARE = frozenset({"L", "RGB", "RGBA"})
_MODES_OF_GREY = frozenset({"1", "LA", "La"})
_MODES_OF_COLOUR = frozenset({"P", "PA", "RGBX", "RGBa", "CMYK", "YCbCr", "LAB", "HSV"})


class CannotWrite(UsageError):
    """A file could not be written: the disk is full, or somebody else's."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot write {path}: {reason}")


def read_image(path: str | os.PathLike[str]) -> Samples:
    """The samples of an image file, upright.

    Shape (height, width) for grey, (height, width, 3) for colour, (height, width, 4) with alpha; uint8 or uint16 as in the file.
    Palettes become colour, CMYK becomes RGB, 1-bit becomes 0 and 255, grey with alpha becomes grey (but 4 equal-coloured channels
    where it has 16 bits). An EXIF orientation is applied. Of several pages or frames the first is read.
    Raises `UsageError` for a file that is missing, is no image, is broken, has no pixels or more than `MAX_PIXELS`;
    `UnsupportedError` for samples that are not 8 or 16 bits, and when Pillow is not installed.
    """
    path = Path(path)
    return decoded(file_bytes(path), path)


def file_bytes(path: Path) -> bytes:
    """An image file as it is. Raises `UsageError` where it cannot be read, `UnsupportedError` where nothing could decode it."""
    _pillow()
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not an image")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except OSError as error:
        raise UsageError(f"{path}: {'you may not read this file' if isinstance(error, PermissionError) else error.strerror}") from None


def decoded(data: bytes, path: Path) -> Samples:
    """The samples of an image file from its bytes, as `read_image` gives them; `path` is what messages call it."""
    pillow = _pillow()
    try:
        with _quiet(pillow), pillow.open(io.BytesIO(data), formats=_FORMATS) as file:
            return _decoded(file, data, path)
    except (UsageError, UnsupportedError):
        raise
    except pillow.DecompressionBombError:
        raise UsageError(f"{path} claims more than {MAX_PIXELS:,} pixels, the most that can be processed") from None
    except pillow.UnidentifiedImageError:
        raise UsageError(f"{path} is not an image that can be read (PNG, JPEG, TIFF, WebP and BMP can)") from None
    except Exception as error:  # decoders meet broken files with errors of many kinds: struct.error, SyntaxError, ValueError, ...
        raise UsageError(f"{path} is broken and cannot be decoded: {_one_line(error)}") from error


def images_in(folder: Path, suffixes: Collection[str] = SUFFIXES) -> list[Path]:
    """The image files directly in `folder`, by name: those that end in `suffixes`. Raises `UsageError` when there are none."""
    try:
        found = sorted(file for file in folder.iterdir() if file.suffix.lower() in suffixes and file.is_file() and not file.name.startswith("."))
    except OSError as error:
        raise UsageError(f"{folder}: {'you may not look into this folder' if isinstance(error, PermissionError) else error.strerror}") from None
    if not found:
        raise UsageError(f"{folder} holds no image: no file ends in {', '.join(sorted(SUFFIXES))}")
    return found


def encoded(image: npt.NDArray[Any], note: str | None = None) -> bytes:
    """The file of a grey image: 8 or 16 bits as PNG, floats as TIFF. `note_of` reads the note again."""
    from PIL.PngImagePlugin import PngInfo

    file = io.BytesIO()
    if image.dtype == np.float32:
        _pillow().fromarray(image).save(file, format="TIFF", **({} if note is None else {"description": f"{_NOTE} {note}"}))
    else:
        text = PngInfo()
        if note is not None:
            text.add_text(_NOTE, note)
        _pillow().fromarray(image).save(file, format="PNG", pnginfo=text)
    return file.getvalue()


def note_of(path: Path) -> str | None:
    """The note of an image that `encoded` has made; None where there is no such image, it is broken, or has none."""
    pillow = _pillow()
    try:
        with _quiet(pillow), pillow.open(path, formats=_FORMATS) as file:
            file.load()
            described = str(getattr(file, "tag_v2", {}).get(_TIFF_DESCRIPTION, ""))
            text = getattr(file, "text", {}).get(_NOTE)
            return str(text) if text is not None else described.removeprefix(f"{_NOTE} ") if described.startswith(_NOTE) else None
    except Exception:  # noqa: BLE001 - decoders meet broken files with errors of many kinds; an image without a note is simply made again
        return None


def write_whole(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Have `fill` write to a temporary file beside `path`, which takes its place when all is written. Makes the folder if need be.

    Raises `CannotWrite` where it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                fill(file)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise CannotWrite(path, error.strerror or str(error)) from None


def _pillow() -> Any:
    """Pillow's `Image` module, which comes with the `image` extra."""
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError("images are read and written with Pillow, which is not installed: pip install 'gridstride[image]'") from None
    return Image


@contextmanager
def _quiet(pillow: Any) -> Iterator[None]:
    """Pillow without warnings, and with our limit instead of its own; it raises at twice the number it is given."""
    before = pillow.MAX_IMAGE_PIXELS
    pillow.MAX_IMAGE_PIXELS = MAX_PIXELS // 2
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        pillow.MAX_IMAGE_PIXELS = before


def _decoded(file: ImageFile, data: bytes, path: Path) -> Samples:
    """The samples of an opened file."""
    if file.width == 0 or file.height == 0:
        raise UsageError(f"{path} has no pixels: it is {file.width} x {file.height}")
    raw_mode = _raw_mode(file)
    wide = _WIDE_RAW_MODE.fullmatch(raw_mode)
    if wide:
        channels = 4 if wide[1] in ("RGBA", "RGBa") else 3
        layout = wide[1].replace("a", "A")
        upper = _bytes_of(file, f"{layout};16{wide[2]}", channels)
        # A file is decoded once only, so the lower bytes need it opened again.
        with _pillow().open(io.BytesIO(data), formats=_FORMATS) as again:
            lower = _bytes_of(again, f"{layout};16{_OTHER_ORDER[wide[2]]}", channels)
        return _joined(upper, lower)
    if raw_mode == "LA;16B":  # its two samples have the four bytes of an RGBA pixel: grey and alpha, the upper byte first
        four = _bytes_of(file, "RGBA", 4)
        return _joined(four[..., 0], four[..., 1])
    upright = _upright(file)
    if upright.mode.startswith("I;16"):
        samples: npt.NDArray[np.uint16] = _array(upright, np.uint16)
        return samples * np.uint16(16) + samples // np.uint16(256) if raw_mode == "I;12" else samples  # 4095 becomes 65535
    if upright.mode in _MODES_OF_GREY:
        upright = upright.convert("L")
    elif upright.mode in _MODES_OF_COLOUR:
        upright = upright.convert("RGB")
    elif upright.mode not in _MODES_AS_THEY_ARE:
        kind = {"F": "floating-point", "I": "signed or 32-bit integer"}.get(upright.mode, upright.mode)
        raise UnsupportedError(f"{path} has {kind} samples; images of 8 and 16 bits a channel can be processed")
    return _array(upright, np.uint8)


def _array(image: Image.Image, dtype: type) -> npt.NDArray[Any]:
    """The samples of a decoded image, taken over a few rows at a time: as a whole they would be there four times over."""
    bands = len(image.getbands())
    samples: npt.NDArray[Any] = np.empty((image.height, image.width, bands) if bands > 1 else (image.height, image.width), dtype)
    rows = max(1, _PIXELS_AT_ONCE // image.width)
    for top in range(0, image.height, rows):
        samples[top : top + rows] = np.asarray(image.crop((0, top, image.width, min(top + rows, image.height))))
    return samples


def _raw_mode(file: ImageFile) -> str:
    """Pillow's name for the layout of the stored samples, or "" where a decoder has none."""
    arguments = file.tile[0][3] if file.tile else None
    first = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return first if isinstance(first, str) else ""


def _bytes_of(file: ImageFile, raw_mode: str, channels: int) -> npt.NDArray[np.uint8]:
    """`file` decoded with another unpacker, as (height, width, channels)."""
    changed = []
    for tile in file.tile:
        codec, extents, offset, arguments = tile
        changed.append(type(tile)(codec, extents, offset, (raw_mode, *arguments[1:]) if isinstance(arguments, tuple) else raw_mode))
    file.tile = changed
    samples: npt.NDArray[np.uint8] = _array(_upright(file), np.uint8)
    if samples.shape[2:] != (channels,):
        raise ValueError(f"{channels} channels were announced, {samples.shape[2:]} decoded")
    return samples


def _joined(upper: npt.NDArray[np.uint8], lower: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint16]:
    """16-bit samples from their two bytes."""
    return np.left_shift(upper.astype(np.uint16), np.uint16(8)) | lower


def _upright(file: ImageFile) -> Image.Image:
    """The decoded image, turned as its EXIF orientation says."""
    from PIL import ImageOps

    file.load()
    ImageOps.exif_transpose(file, in_place=True)
    return file


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
