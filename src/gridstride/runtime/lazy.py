"""Lazy operations: chained first, run later, in one stream, by a call or by `await`.

    result = (gs.lazy.copy(x, staged) >> scale[blocks, 256].lazy(n, x) >> gs.lazy.copy(out, x)).run()
    await (…)                    # in a coroutine: other coroutines go on while the device works
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from gridstride.errors import UsageError
from gridstride.runtime.array import Array
from gridstride.runtime.commands import Command, HostCall, copy_command, fill_command
from gridstride.runtime.host_memory import HostArray

if TYPE_CHECKING:
    from gridstride.runtime.device import Device
    from gridstride.runtime.streams import Stream

_PAUSE = 0.0002
"""Seconds between two questions whether a stream has ended."""


class Lazy:
    """Operations of one device that nobody has asked for yet, one after the other. It may be run any number of times."""

    def __init__(self, device: Device, commands: tuple[Command, ...]) -> None:
        self.device = device
        self.commands = commands

    def then(self, following: Lazy) -> Lazy:
        """This, and then `following`; also written `this >> following`. Neither is changed."""
        if not isinstance(following, Lazy):
            raise UsageError(f"a lazy operation is followed by another, not by {type(following).__name__}")
        if following.device is not self.device:
            raise UsageError(f"the operations belong to different device objects ({self.device} and {following.device})")
        return Lazy(self.device, self.commands + following.commands)

    __rshift__ = then

    def call(self, function: Callable[..., object], *arguments: Any) -> Lazy:
        """This, and then a function of the host, which must not use the device."""
        return Lazy(self.device, (*self.commands, HostCall(function, arguments)))

    def start(self, stream: Stream | None = None) -> Stream:
        """Ask for all of it in a stream (the default stream unless one is given), without waiting. Gives the stream."""
        target = self.device.default_stream if stream is None else stream
        if not hasattr(target, "require_usable"):
            raise UsageError(f"lazy operations run in a stream of device.stream(), not {type(target).__name__} {target!r:.40}")
        target.require_usable(self.device, "the lazy operation")
        for command in self.commands:
            target.submit(command)
        return target

    def run(self, stream: Stream | None = None) -> None:
        """Ask for all of it and wait until it has ended. Raises the fault of a kernel that was stopped."""
        self.start(stream).synchronize()

    def __await__(self) -> Generator[Any, None, None]:
        return self.wait_for().__await__()

    async def wait_for(self, stream: Stream | None = None) -> None:
        """The same without keeping the event loop: in a stream of its own unless one is given."""
        if stream is not None:
            await _until_done(self.start(stream))
            return
        with self.device.stream() as own:
            await _until_done(self.start(own))

    def __repr__(self) -> str:
        return f"<gridstride.Lazy: {', then '.join(command.what for command in self.commands)}>"


async def _until_done(stream: Stream) -> None:
    while not stream.done:
        await asyncio.sleep(_PAUSE)
    stream.synchronize()


def copy(destination: Any, source: Any) -> Lazy:
    """A copy between arrays of the same shape and type, at least one of them a device's."""
    device = _device_of(destination, source)
    ends = [end.in_stream if isinstance(end, HostArray) else end for end in (destination, source)]
    return Lazy(device, (copy_command(*ends),))


def fill(array: Array, value: Any) -> Lazy:
    """Every element set to one value."""
    return Lazy(_device_of(array), (fill_command(array, value),))


def _device_of(*arrays: Any) -> Device:
    for array in arrays:
        if isinstance(array, Array):
            device: Device = array.device
            return device
    raise UsageError("a lazy operation needs a device array")
