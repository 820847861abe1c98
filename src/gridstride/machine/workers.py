"""Threads that run native code while the caller's thread stays free for an interrupt."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from gridstride.errors import LaunchError

_WAKE = 0.5  # seconds between looks at pending signals
_stack_size = threading.Lock()


def run_to_the_end(tasks: Sequence[Callable[[], None]], stack: int, stop: Callable[[], None]) -> None:
    """Run each task on a thread of its own with `stack` bytes of stack, and return when all have ended.

    Whatever ends the wait early (an interrupt, no room for a thread) first calls `stop`, at which the tasks must end, and is raised
    when no task runs any more: what they work on may then be freed.

    Raises LaunchError where there is no address space for the stacks.
    """
    # Thread.join would not do: when it is interrupted it takes a running thread for one that has ended.
    gate, wake = threading.Lock(), threading.Event()
    begun, ended, cancelled = 0, 0, False

    def thread(task: Callable[[], None]) -> None:
        nonlocal begun, ended
        with gate:
            if cancelled:
                return
            begun += 1
        try:
            task()
        finally:
            with gate:
                ended += 1
            wake.set()

    def wait(count: int) -> None:
        while ended < count:
            wake.wait(_WAKE)
            wake.clear()

    try:
        _start([threading.Thread(target=thread, args=(task,), daemon=True) for task in tasks], stack)
        wait(len(tasks))
    except BaseException:
        stop()
        with gate:
            cancelled = True
        while ended < begun:  # an interrupt that comes now changes nothing: all have been stopped already
            with contextlib.suppress(KeyboardInterrupt):
                wait(begun)
        raise


def _start(threads: Sequence[threading.Thread], stack: int) -> None:
    """Start threads with `stack` bytes each (of address space: only what is touched takes memory).

    Native code does not look where the stack ends, and the frame of a large kernel made quickly holds every value it has.
    """
    with _stack_size:  # of all new threads of the process
        before = threading.stack_size(-(-stack // 4096) * 4096)
        try:
            for thread in threads:
                thread.start()
        except RuntimeError:
            raise LaunchError(f"there is no room for a stack of {stack >> 20:,} MB, which this kernel's code needs on the processor") from None
        finally:
            threading.stack_size(before)
