"""The host side of numba.cuda, on the simulator: CUDA's driver as numba calls it.

`simulation.py` is what the driver keeps (memory, streams, events, modules), `calls.py` the driver's functions over it, `modules.py` code that was
linked and loaded, `launching.py` the launch of a kernel, `arrays.py` how arrays of the host become arguments, `errors.py` what goes wrong in numba's
classes, `install.py` the places in numba where these take their seats. Everything above, from type inference to device arrays, is numba's own code.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gridstride.errors import UnsupportedError, UsageError
from gridstride.runtime.opening import device as open_device

if TYPE_CHECKING:
    from gridstride.numba_host.simulation import Simulation
    from gridstride.runtime.device import Device
    from gridstride.runtime.simulator import Simulator

_device: Device | None = None
_simulation: Simulation | None = None


def use(device: str | Device = "auto") -> Device:
    """Let numba.cuda run on a device from now on, and give it.

    device: a name as `gs.device` takes it, or a device, which is then the one that `gs.…` and numba share. A GPU is left to numba's own driver.
    Raises UnsupportedError where numba-cuda is missing or another release than this can serve; UsageError where numba.cuda has been used on
    another device already.
    """
    global _device, _simulation
    from gridstride.runtime.simulator import Simulator

    opened = open_device(device) if isinstance(device, str) else device
    if isinstance(opened, Simulator):
        if _simulation is None:
            if _device is not None:
                raise UsageError(f"numba.cuda runs on {_device} already, with numba's own driver; one process has one device for it")
            _simulation = _installed(opened)
        else:
            _simulation.move_to(opened)
    elif _simulation is not None:
        raise UsageError(f"numba.cuda runs on {_simulation.device} already; one process has one device for it")
    _device = opened
    return opened


def current() -> Device | None:
    """The device that numba.cuda runs on; None before the first `use`."""
    return _device if _simulation is None else _simulation.device


def serving() -> Simulation | None:
    """What the simulated driver keeps; None where numba.cuda runs on a GPU or on nothing yet."""
    return _simulation


def _installed(device: Simulator) -> Simulation:
    # Numba's own simulator would take the place of everything that is to be run here; it reads this when it is imported.
    os.environ.pop("NUMBA_ENABLE_CUDASIM", None)
    try:
        from gridstride.numba_host.install import install
    except ImportError as error:
        raise UnsupportedError(f"programs that use numba.cuda need numba-cuda ({error}): pip install 'gridstride[python]'") from None
    return install(device)
