import _thread
import threading
import time

import pytest

from gridstride.errors import LaunchError
from gridstride.machine.workers import run_to_the_end

STACK = 1 << 20


def test_all_tasks_run_and_are_waited_for() -> None:
    ended: list[int] = []

    def task(number: int) -> None:
        time.sleep(0.01 * number)
        ended.append(number)

    run_to_the_end([lambda n=n: task(n) for n in range(4)], STACK, lambda: None)  # type: ignore[misc]
    assert sorted(ended) == [0, 1, 2, 3]


def test_nothing_to_run() -> None:
    run_to_the_end([], STACK, lambda: None)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupt_stops_the_tasks_and_is_raised_when_none_runs_any_more(threads: int) -> None:
    stopped = threading.Event()
    began = threading.Barrier(threads + 1)
    running: set[int] = set()

    def task() -> None:
        running.add(threading.get_ident())
        began.wait(60)
        stopped.wait(60)
        time.sleep(0.2)  # an interrupted wait that did not go on waiting would be back by now
        running.discard(threading.get_ident())

    def interrupt() -> None:
        began.wait(60)
        time.sleep(0.1)
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run_to_the_end([task] * threads, STACK, stopped.set)
    assert stopped.is_set()
    assert running == set()


def test_an_interrupt_between_the_start_of_two_threads_leaves_none_running(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()
    ended: list[str] = []
    start, calls = threading.Thread.start, []

    def interrupted_start(self: threading.Thread) -> None:
        calls.append(self)
        start(self)
        if len(calls) == 2:
            raise KeyboardInterrupt

    def task() -> None:
        stopped.wait(60)
        ended.append("")

    monkeypatch.setattr(threading.Thread, "start", interrupted_start)
    with pytest.raises(KeyboardInterrupt):
        run_to_the_end([task] * 3, STACK, stopped.set)
    begun = len(ended)
    assert begun <= 2  # one that had not begun when the interrupt came does not begin
    time.sleep(0.1)
    assert len(ended) == begun


def test_no_room_for_the_stacks() -> None:
    message = "there is no room for a stack of 67,108,864 MB, which this kernel's code needs on the processor"
    with pytest.raises(LaunchError, match=message):
        run_to_the_end([lambda: None], 1 << 46, lambda: None)
    assert threading.stack_size() == 0
