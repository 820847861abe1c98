"""Memory of the detectors."""

from __future__ import annotations

import gc
import mmap

import pytest

from gridstride.errors import GridstrideError
from gridstride.machine import detectors


def test_a_host_without_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> mmap.mmap:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(detectors, "reserve", refuse)
    with pytest.raises(GridstrideError) as error:
        detectors.RacePlanes(1 << 20, 1 << 30)
    # 28 bytes a word, the records of single bytes, and the lists
    assert str(error.value) == "the host does not give the race checks 15 GiB of address space (little of it is ever used): lift `ulimit -v`"


def test_devices_that_nobody_uses_make_room() -> None:
    """Each takes a good part of the address space that a process has; in a cycle only the garbage collector ends them."""

    class Cycle:
        def __init__(self) -> None:
            self.planes = detectors.RacePlanes(1 << 20, 142 << 30)
            self.itself = self

    gc.disable()
    try:
        for _ in range(40):
            Cycle()
    finally:
        gc.enable()
