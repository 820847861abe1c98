"""Opening a device for many images."""

from __future__ import annotations

import gridstride as gs


def device_for_images(name: str, threads: int | None) -> gs.Device:
    """A device by its name, as in `gs.device`. On the simulator a kernel that is stopped is told of at its launch, so that it costs its own image and
    not the device; a GPU would wait for each launch, and its fault ends it in any case."""
    opened = gs.device(name, threads=threads)
    return gs.device(opened.name, threads=threads, blocking=True) if opened.name.startswith("sim") else opened
