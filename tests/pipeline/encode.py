"""Image files written byte by byte from their specifications, for the layouts that Pillow cannot write."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

_PNG_COLOUR_TYPE = {1: 0, 2: 4, 3: 2, 4: 6}


def png(image: npt.NDArray[np.generic], colour_type: int | None = None) -> bytes:
    """A PNG (ISO/IEC 15948) of shape (height, width, channels); rows use the filters None, Sub, Up in turn, samples are big-endian."""
    height, width, channels = image.shape
    bits = image.dtype.itemsize * 8
    pixel_bytes = channels * image.dtype.itemsize
    rows = image.astype(image.dtype.newbyteorder(">")).tobytes()
    row_bytes = width * pixel_bytes
    filtered = bytearray()
    above = np.zeros(row_bytes, np.uint8)
    for y in range(height):
        row = np.frombuffer(rows[y * row_bytes : (y + 1) * row_bytes], np.uint8)
        left = np.concatenate([np.zeros(pixel_bytes, np.uint8), row])[:row_bytes]
        kind = y % 3
        filtered.append(kind)
        filtered += (row - (np.zeros(row_bytes, np.uint8), left, above)[kind]).astype(np.uint8).tobytes()
        above = row
    header = struct.pack(">IIBBBBB", width, height, bits, _PNG_COLOUR_TYPE[channels] if colour_type is None else colour_type, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(filtered))), (b"IEND", b""))
    body = b"".join(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


def tiff(
    image: npt.NDArray[np.generic], order: str = "<", deflate: bool = False, orientation: int = 1, extra: int | None = None, kind: int = 1
) -> bytes:
    """A TIFF 6.0 of shape (height, width, channels) in one strip. `order`: "<" or ">"; `kind`: SampleFormat; `extra`: ExtraSamples."""
    height, width, channels = image.shape
    data = image.astype(image.dtype.newbyteorder(order)).tobytes()  # type: ignore[arg-type]
    if deflate:
        data = zlib.compress(data)
    short, long = 3, 4
    bits = image.dtype.itemsize * 8
    entries: list[tuple[int, int, list[int]]] = [
        (256, long, [width]),
        (257, long, [height]),
        (258, short, [bits] * channels),
        (259, short, [8 if deflate else 1]),
        (262, short, [2 if channels >= 3 else 1]),
        (273, long, [8]),
        (274, short, [orientation]),
        (277, short, [channels]),
        (278, long, [height]),
        (279, long, [len(data)]),
        (339, short, [kind] * channels),
    ]
    if extra is not None:
        entries.insert(-1, (338, short, [extra]))
    directory = 8 + len(data) + len(data) % 2
    overflow = directory + 2 + 12 * len(entries) + 4
    table, tail = struct.pack(order + "H", len(entries)), b""
    for tag, entry_type, values in entries:
        packed = struct.pack(order + str(len(values)) + ("H" if entry_type == short else "I"), *values)
        if len(packed) > 4:
            position, tail = overflow + len(tail), tail + packed
            packed = struct.pack(order + "I", position)
        table += struct.pack(order + "HHI", tag, entry_type, len(values)) + packed.ljust(4, b"\0")
    start = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, directory)
    return start + data + b"\0" * (len(data) % 2) + table + struct.pack(order + "I", 0) + tail
