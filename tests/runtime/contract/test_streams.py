"""Streams, events, host functions and graphs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import UsageError

from .conftest import SOURCE, N, blocks

ROUNDS = 20_000


def test_a_stream_keeps_its_order(device: gs.Device, module: gs.Module) -> None:
    x, back = device.zeros(N, np.int32), device.pinned(N, np.int32)
    with device.stream() as stream:
        x.copy_from(np.arange(N, dtype=np.int32), stream=stream)
        module["slow"][1, 1](ROUNDS, x, stream=stream)
        module["add"][blocks(N), 128](N, 4, x, stream=stream)
        x[1:3].fill(-1, stream=stream)
        x.copy_to(back, stream=stream)
    want = np.arange(N) + 4
    want[0], want[1:3] = 5, -1
    assert np.array_equal(back.numpy(), want)


def test_streams_wait_for_each_other_by_events(device: gs.Device, module: gs.Module) -> None:
    x, y = device.zeros(N, np.int32), device.zeros(N, np.int32)
    first, second = device.stream(non_blocking=True), device.stream(non_blocking=True)
    for _ in range(10):
        module["slow"][1, 1](ROUNDS, x, stream=first)
        second.wait(first.record())
        module["next"][blocks(N), 128](N, x, y, stream=second)
        first.wait(second.record())
    second.wait(device.event())  # never recorded: no wait
    second.synchronize()
    first.synchronize()
    assert x[:1].item() == 10 and y[:1].item() == 11


def test_the_legacy_stream_waits_for_all_and_all_for_it(device: gs.Device, module: gs.Module) -> None:
    x, y, z = (device.zeros(1, np.int32) for _ in range(3))
    before, after = device.stream(), device.stream()
    module["slow"][1, 1](ROUNDS, x, stream=before)
    module["next"][1, 1](1, x, y)
    module["slow"][1, 1](ROUNDS, y)
    module["next"][1, 1](1, y, z, stream=after)
    after.synchronize()
    assert (x.item(), y.item(), z.item()) == (1, 3, 4)


def test_priorities_are_limited_to_what_the_device_has(device: gs.Device, module: gs.Module) -> None:
    least, greatest = device.stream_priorities
    assert greatest <= least
    x = device.zeros(2, np.int32)
    for priority in (-100, 0, 100):
        with device.stream(priority=priority) as stream:
            assert greatest <= stream.priority <= least
            module["add"][1, 2](2, 1, x, stream=stream)
    assert x.numpy().tolist() == [3, 3]


def test_events_tell_the_time_between(device: gs.Device, module: gs.Module) -> None:
    x = device.zeros(1, np.int32)
    with device.stream() as stream:
        start = stream.record()
        module["slow"][1, 1](ROUNDS, x, stream=stream)
        end = stream.record()
        end.synchronize()
        assert start.done and end.done and stream.done
        assert 0 < start.elapsed_ms(end) < 1000 and end - start == start.elapsed_ms(end)
        untimed = stream.record(device.event(timing=False))
        untimed.synchronize()
        with pytest.raises(UsageError, match="timing=False"):
            start.elapsed_ms(untimed)
        never = device.event()
        assert never.done and not never.recorded
        never.synchronize()
        with pytest.raises(UsageError, match="never recorded"):
            start.elapsed_ms(never)


def test_a_closed_stream_takes_nothing_more(device: gs.Device, module: gs.Module) -> None:
    stream = device.stream()
    stream.close()
    with pytest.raises(UsageError, match="was closed"):
        module["count"][1, 1](stream=stream)


def test_a_stream_may_go_before_its_work_has_ended(device: gs.Device, module: gs.Module) -> None:
    x = device.zeros(1, np.int32)
    for _ in range(5):
        stream = device.stream()
        module["slow"][1, 1](ROUNDS, x, stream=stream)
        device.default_stream.wait(stream.record())
        del stream
        module["next"][1, 1](1, x, x)
    device.synchronize()
    assert x.item() == 10


def test_host_functions_are_called_in_order(device: gs.Device, module: gs.Module) -> None:
    x, back, seen = device.zeros(1, np.int32), device.pinned(1, np.int32), []
    with device.stream() as stream:
        for _ in range(20):
            module["slow"][1, 1](100, x, stream=stream)
            x.copy_to(back, stream=stream)
            stream.call(lambda: seen.append(int(back[0])))
    assert seen == list(range(1, 21))


def test_what_a_host_function_raises_comes_with_the_next_wait(another: Callable[..., gs.Device]) -> None:
    device = another()
    stream = device.stream()

    def fails() -> None:
        raise ValueError("no")

    stream.call(fails)
    with pytest.raises(UsageError, match="the host function fails raised ValueError: no"):
        stream.synchronize()
    stream.synchronize()
    stream.call(fails)
    with pytest.raises(UsageError, match="the host function fails raised ValueError: no"):
        device.synchronize()
    assert device.zeros(3).numpy().tolist() == [0, 0, 0]


def test_a_host_function_must_not_use_the_device(another: Callable[..., gs.Device]) -> None:
    device = another()
    x = device.zeros(3)
    device.default_stream.call(x.numpy)
    with pytest.raises(UsageError, match="must not use the device"):
        device.synchronize()


def test_a_default_stream_for_each_thread(another: Callable[..., gs.Device]) -> None:
    device = another(per_thread_default=True)
    own: dict[str, Any] = {}

    def work(name: str) -> None:
        own[name] = device.default_stream
        own[f"{name} array"] = device.zeros(4, np.int32).fill(7).numpy().tolist()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(own["one"]), id(own["two"]), id(device.default_stream), id(device.legacy_stream)}) == 4
    assert own["one array"] == own["two array"] == [7] * 4
    device.synchronize()


def test_lazy_operations_and_coroutines(device: gs.Device, module: gs.Module) -> None:
    staged, x = device.pinned(N, np.int32), device.zeros(N, np.int32)
    staged[...] = 2
    chain = gs.lazy.copy(x, staged) >> module["add"][blocks(N), 128].lazy(N, 3, x) >> gs.lazy.copy(staged, x)
    chain.run()
    assert (staged.numpy() == 5).all()

    async def twice() -> None:
        await chain
        await chain

    asyncio.run(twice())
    assert (staged.numpy() == 11).all()


def test_a_timeline_of_two_streams(another: Callable[..., gs.Device], device_name: str) -> None:
    device = another()
    module = device.compile('extern "C" __global__ void add(int n, float* x) { int i = threadIdx.x; if (i < n) x[i] += 1; }')
    x, staged = device.zeros(1 << 20, name="x"), device.pinned(1 << 20)
    copies, work = device.stream(), device.stream()
    with gs.timeline() as timeline:
        x.copy_from(staged, stream=copies)
        work.wait(copies.record())
        module["add"][1, 128](128, x, stream=work)
        device.synchronize()
    copy, kernel = timeline.operations
    assert timeline.timeline.measured == (device_name == "gpu")
    assert (copy.operation.name, copy.operation.nbytes, copy.operation.pageable) == ("the copy to x", 1 << 22, False)
    assert kernel.operation.name == "kernel add" and kernel.operation.stream == work.number
    assert copy.end - copy.start > 0 and kernel.end - kernel.start > 0 and timeline.total_us > 0
    assert kernel.start >= copy.end - 5 and timeline.copy_us > 0 and timeline.kernel_us > 0
    assert "kernel add" in str(timeline)


# ---- graphs ----------------------------------------------------------------------------------------------------------


def test_a_captured_fork_and_join(device: gs.Device, module: gs.Module) -> None:
    x, y, back = device.zeros(N, np.int32), device.zeros(N, np.int32), device.pinned(N, np.int32)
    seen: list[int] = []
    stream, side = device.stream(), device.stream()
    with stream.capture() as graph:
        x.fill(1, stream=stream)
        side.wait(stream.record())
        module["next"][blocks(N), 128](N, x, y, stream=side)
        module["slow"][1, 1](ROUNDS, x, stream=stream)
        stream.wait(side.record())
        module["add"][blocks(N), 128](N, 5, y, stream=stream)
        y.copy_to(back, stream=stream)
        stream.call(seen.append, 1)
    assert len(graph) == 6 and not seen and (back.numpy() == 0).all()
    replay = graph.instantiate()
    for _ in range(3):
        replay.launch(stream)
    stream.synchronize()
    assert seen == [1, 1, 1] and (back.numpy() == 7).all() and x[:1].item() == 2


def test_a_graph_by_hand(device: gs.Device, module: gs.Module) -> None:
    host = np.arange(N, dtype=np.int32)
    x, y, pinned = device.zeros(N, np.int32), device.zeros((10, 100), np.int32), device.pinned(N, np.int32)
    pinned[...] = host
    graph = device.graph()
    copy = graph.copy(x, pinned)
    first = graph.kernel(module["add"][blocks(N), 128], N, 1, x, after=[copy])
    second = graph.kernel(module["add"][blocks(N), 128], N, 2, x, after=[first])
    filled = graph.fill(y, 9)
    part = graph.copy(y[2:4, 10:20], x.reshape(10, 100)[5:7, 30:40], after=[second, filled])
    graph.copy(pinned, y.reshape(N), after=[part])
    with pytest.raises(UsageError, match="a node can only follow nodes of the same graph"):
        graph.fill(y, 1, after=[device.graph().fill(x, 1)])
    graph.instantiate().launch()
    device.synchronize()
    want = np.full((10, 100), 9, np.int32)
    want[2:4, 10:20] = (host + 3).reshape(10, 100)[5:7, 30:40]
    assert np.array_equal(pinned.numpy(), want.reshape(-1))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
def test_fills_in_a_graph(device: gs.Device, dtype: str) -> None:
    x, y = device.zeros((9, 11), dtype), device.zeros(0, dtype)
    graph = device.graph()
    graph.fill(y, 1, after=[graph.fill(x[1:8, 2:7], 1.0 if dtype[0] in "fc" else 1, after=[graph.fill(x, 3)])])
    graph.instantiate().launch()
    want = np.full((9, 11), 3, dtype)
    want[1:8, 2:7] = 1
    assert np.array_equal(x.numpy(), want)


def test_pageable_memory_in_a_graph(device: gs.Device) -> None:
    x, there, back = device.zeros(N), np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    graph = device.graph()
    graph.copy(back, x, after=[graph.copy(x, there)])
    replay = graph.instantiate()
    replay.launch()
    device.synchronize()
    assert np.array_equal(back, there)


def test_500_small_launches_with_one_argument_changed(device: gs.Device, module: gs.Module) -> None:
    x = device.zeros(64, np.int32)
    stream = device.stream()
    with stream.capture() as graph:
        for _ in range(500):
            module["add"][1, 64](64, 1, x, stream=stream)
    replay = graph.instantiate()
    replay.launch(stream)
    stream.synchronize()
    assert (x.numpy() == 500).all()
    for value in (1000, 3000):
        replay.update(250, 64, value, x)
        replay.launch(stream)
    stream.synchronize()
    assert (x.numpy() == 500 + 499 + 1000 + 499 + 3000).all()
    with pytest.raises(UsageError, match="this graph has nodes 0 to 499"):
        replay.update(500, 64, 1, x)


def test_a_cooperative_launch_and_clusters_in_a_graph(device: gs.Device, device_name: str) -> None:
    out, x = device.zeros(4, np.int32), device.zeros(N, np.int32)
    module = device.compile(SOURCE)
    graph = device.graph()
    first = graph.kernel(module["all_meet"][4, 32], out, cooperative=True)
    clusters = {"cluster": 2} if device_name == "gpu" else {}  # on the simulator when it has clusters
    graph.kernel(module["add"][8, 128], N, 2, x, after=[first], **clusters)
    graph.instantiate().launch()
    device.synchronize()
    assert out.numpy().tolist() == [1] * 4 and (x.numpy() == 2).all()


def test_capture_rules(device: gs.Device, module: gs.Module) -> None:
    stream, side = device.stream(), device.stream()
    x = device.zeros(4, np.int32)
    with pytest.raises(UsageError, match="never joined it again"), stream.capture():
        side.wait(stream.record())
        side.fill(x, 1)
    with stream.capture():
        for wrong in (x.numpy, device.synchronize, stream.synchronize, lambda: module["count"][1, 1]()):
            with pytest.raises(UsageError, match="capture"):
                wrong()
    with pytest.raises(UsageError, match="legacy default stream cannot be captured"), device.legacy_stream.capture():
        pass
    assert x.numpy().tolist() == [0] * 4
