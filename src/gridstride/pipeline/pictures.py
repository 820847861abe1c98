"""Pictures of stages for a page: small, and of few bytes whatever is on them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

WIDEST = 640
"""Pixels across, or down, at most."""

_QUALITIES = (85, 70, 50)
_SMALLEST = 48


@dataclass(frozen=True)
class SmallPicture:
    """A JPEG file and its size."""

    data: bytes
    width: int
    height: int


def small_picture(values: npt.NDArray[Any], most_bytes: int) -> SmallPicture:
    """A picture of samples (uint8 or uint16, grey, RGB or RGBA) or of a stage (floats on the scale of 0 to 255, saturated).

    It is made smaller, or of less quality, until it has at most `most_bytes`, at least a few thousand.
    """
    whole = Image.fromarray(_eight_bits(values))
    scale = min(1.0, WIDEST / max(whole.size))
    while True:
        size = (max(1, round(whole.width * scale)), max(1, round(whole.height * scale)))
        shown = whole if size == whole.size else whole.resize(size, Image.Resampling.LANCZOS)
        for quality in _QUALITIES:
            file = io.BytesIO()
            shown.save(file, format="JPEG", quality=quality, optimize=True)
            if file.tell() <= most_bytes or max(size) <= _SMALLEST:
                return SmallPicture(file.getvalue(), *size)
        scale *= 0.8


def _eight_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if values.ndim == 3:
        values = values[..., 0] if values.shape[2] == 1 else values[..., :3]
    if values.dtype == np.uint16:
        values = values // 257
    saturated: npt.NDArray[np.uint8] = np.clip(values, 0, 255).astype(np.uint8)
    return saturated
