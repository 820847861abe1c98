"""Images for comparing devices, made from integers alone so that every machine makes the same."""

from __future__ import annotations

import hashlib

import numpy as np

SHAPES = ((1, 1), (1, 40), (40, 1), (2, 2), (3, 5), (17, 33), (64, 96), (130, 257))
CHANNELS = (1, 3, 4)
DEPTHS = (8, 16)
STAGES = ("grey", "blurred_rows", "blurred", "magnitude", "edges", "histogram")


def image(height: int, width: int, channels: int, bits: int) -> np.ndarray:
    """Noise in its left half; in the right half slopes, whose weak edges fall between 0 and 255. Shape (height, width, channels)."""
    dtype = np.uint8 if bits == 8 else np.uint16
    noise = np.random.default_rng(height * 1000 + width).integers(0, 1 << bits, (height, width, channels)).astype(np.int64)
    y, x, channel = np.ogrid[:height, :width, :channels]
    slopes = ((x * x + 3 * y * (channel + 1) + x * y // 7) << (bits - 8)) % (1 << bits)
    return np.where(x < width // 2, noise, slopes).astype(dtype)


def name(height: int, width: int, channels: int, bits: int) -> str:
    return f"{height}x{width}x{channels}-{bits}"


def digest(array: np.ndarray) -> str:
    """The first 16 hex digits of the SHA-256 of the little-endian bytes."""
    return hashlib.sha256(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()).hexdigest()[:16]
