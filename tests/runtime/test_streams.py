"""Streams on the simulator: hazards, faults as CUDA gives them, the timeline of a double-buffered loop."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridstride as gs

SOURCE = r"""
extern "C" __global__ void scale(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
extern "C" __global__ void part(int first, int n, float* y) {
    int i = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < first + n) y[i] += 1.0f;
}
extern "C" __global__ void beyond(float* x) { x[threadIdx.x + 1000000] = 1.0f; }
extern "C" __global__ void count(int n, unsigned* c) { if (threadIdx.x < n) atomicAdd(c, 1u); }
__device__ float table[64];
extern "C" __global__ void set_bytes(int n, unsigned char* x) { if (threadIdx.x < n) x[threadIdx.x] = 1; }
extern "C" __global__ void set_table(float v) { table[threadIdx.x] = v; }
extern "C" __global__ void use_table(float* y) { y[threadIdx.x] = table[threadIdx.x]; }
extern "C" __global__ void wait_for_all(unsigned* arrived) {
    __shared__ unsigned big[8000];
    big[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < gridDim.x) { }
    }
    __syncthreads();
    if (big[threadIdx.x] == 7) arrived[0] = 0;
}
"""
N, PIECES = 4096, 6
US = {"scale": 100.0}


@pytest.fixture
def device() -> gs.Device:
    return gs.device("sim", blocking=False)


def kernels(device: gs.Device) -> gs.Module:
    return device.compile(SOURCE)


def double_buffered(device: gs.Device, *, host: str = "pinned", wrong: bool = False, default: bool = False) -> Any:
    """`wrong`: kernels wait for the event of the other buffer's copy."""
    scale = kernels(device)["scale"]
    source: Any
    result: Any
    if host == "pinned":
        source, result = device.pinned(N * PIECES), device.pinned(N * PIECES)
    else:
        source, result = np.zeros(N * PIECES, np.float32), np.zeros(N * PIECES, np.float32)
    source[:] = np.arange(N * PIECES)
    x, y = ([device.empty(N, name=f"{name}{b}") for b in range(2)] for name in "xy")
    into, work, out = [device.default_stream] * 3 if default else [device.stream() for _ in range(3)]
    copied: list[gs.Event | None] = [None, None]
    worked: list[gs.Event | None] = [None, None]
    emptied: list[gs.Event | None] = [None, None]

    def wait(stream: gs.Stream, event: gs.Event | None) -> None:
        if event is not None:
            stream.wait(event)

    for k in range(PIECES):
        b = k % 2
        piece = slice(k * N, (k + 1) * N)
        wait(into, worked[b])
        x[b].copy_from(source[piece], stream=into)
        copied[b] = into.record()
        wait(work, copied[1 - b if wrong else b])
        wait(work, emptied[b])
        scale[-(-N // 256), 256](N, 2.0, x[b], y[b], stream=work)
        worked[b] = work.record()
        wait(out, worked[b])
        y[b].copy_to(result[piece], stream=out)
        emptied[b] = out.record()
    device.synchronize()
    return result


def test_the_double_buffered_loop_overlaps_and_is_right(device: gs.Device) -> None:
    with gs.checking() as findings, gs.timeline(US) as timeline:
        result = double_buffered(device)
    assert np.array_equal(result, 2.0 * np.arange(N * PIECES, dtype=np.float32))
    assert findings.passed and len(findings) == 0
    kernels_ = [p for p in timeline.operations if p.operation.kind.value == "kernel"]
    copies = [p for p in timeline.operations if p.operation.kind.value == "copy to device"]
    for kernel, following in zip(kernels_[:-1], copies[1:], strict=True):
        assert following.start < kernel.end  # the copy of the next piece starts while the kernel runs
    assert timeline.overlap_us > 0


def test_longer_kernels_hide_all_copies(device: gs.Device) -> None:
    with gs.timeline(US) as timeline:
        double_buffered(device)
    assert timeline.overlap_share > 0.7 and timeline.reasons == ()


def test_an_event_of_the_wrong_buffer_is_a_hazard(device: gs.Device) -> None:
    with gs.checking() as findings:
        double_buffered(device, wrong=True)
    assert {f.kind for f in findings.errors} == {"stream-hazard"}
    assert {f.buffer for f in findings.errors} == {"x0", "x1"} and {f.kernel for f in findings.errors} == {"scale"}
    assert "reads `x1`[0], which the copy to `x1` in stream" in " ".join(f.message for f in findings.errors)


@pytest.mark.parametrize(("options", "reason"), [({"host": "pageable"}, "pageable memory"), ({"default": True}, "default stream")])
def test_what_makes_it_serial_is_said(device: gs.Device, options: dict[str, Any], reason: str) -> None:
    with gs.checking() as findings, gs.timeline(US) as timeline:
        result = double_buffered(device, **options)
    assert np.array_equal(result, 2.0 * np.arange(N * PIECES, dtype=np.float32))
    assert timeline.overlap_us == 0 and reason in [r.what for r in timeline.reasons]
    assert findings.errors == () and (len(findings.warnings) > 0) == (reason == "pageable memory")


def test_parts_of_one_buffer_side_by_side_are_no_hazard(device: gs.Device) -> None:
    """The kernels are given the whole buffer and an offset: what they touched is known to the word."""
    part, y = kernels(device)["part"], device.zeros(2 * N)
    one, two = device.stream(), device.stream()
    with gs.checking() as findings:
        part[16, 256](0, N, y, stream=one)
        part[16, 256](N, N, y, stream=two)
        device.synchronize()
    assert len(findings) == 0, findings
    with gs.checking() as findings:
        part[16, 256](0, N, y, stream=one)
        part[16, 256](N - 1, N, y, stream=two)
        device.synchronize()
    (found,) = findings.errors
    assert (found.kind, found.index, found.kernel) == ("stream-hazard", N - 1, "part")


def test_two_readers_are_no_hazard_and_the_legacy_stream_orders(device: gs.Device) -> None:
    scale, x = kernels(device)["scale"], device.zeros(N)
    one, two = device.stream(), device.stream()
    y, z = device.empty(N), device.empty(N)
    with gs.checking() as findings:
        scale[16, 256](N, 1.0, x, y, stream=one)
        scale[16, 256](N, 1.0, x, z, stream=two)
        scale[16, 256](N, 1.0, y, x)  # the legacy default stream waits for both, and both for it
        scale[16, 256](N, 1.0, x, z, stream=two)
        device.synchronize()
    assert len(findings) == 0, findings
    free = device.stream(non_blocking=True)
    with gs.checking() as findings:
        scale[16, 256](N, 1.0, x, y)
        scale[16, 256](N, 1.0, y, z, stream=free)
        device.synchronize()
    assert [f.kind for f in findings.errors] == ["stream-hazard"]


def test_bytes_read_here_and_there_are_not_taken_for_written(device: gs.Device) -> None:
    source = """extern "C" __global__ void look(unsigned char *t, unsigned char *y, int first) {
        int i = threadIdx.x; y[i] = t[i * 37 % 64]; if (i == first) t[first] = 1; }"""
    look, table = device.compile(source)["look"], device.zeros(65, np.uint8)
    one, two = device.stream(), device.stream()
    y, z = device.empty(64, np.uint8), device.empty(64, np.uint8)
    with gs.checking("stream-hazard,race-global") as findings:
        look[1, 64](table, y, -1, stream=one)
        look[1, 64](table, z, -1, stream=two)
        device.synchronize()
    assert len(findings) == 0, findings
    with gs.checking("stream-hazard,race-global") as findings:
        look[1, 64](table, y, -1, stream=one)
        look[1, 64](table, y, -1, stream=two)
        device.synchronize()
    assert {(f.kind, f.buffer) for f in findings} == {("stream-hazard", "y")}


def test_the_host_at_memory_in_flight(device: gs.Device) -> None:
    pinned, x, stream = device.pinned(N, name="staged"), device.empty(N), device.stream()
    pinned[:] = 1
    with gs.checking() as findings:
        x.copy_from(pinned, stream=stream)
        assert pinned[0] == 1  # reading what is only read is right
        pinned[0] = 2
    (found,) = findings.errors
    assert found.kind == "stream-hazard" and found.buffer == "staged" and found.message.startswith("the host writes `staged`[0] while the copy to ")
    with gs.checking() as findings:
        x.copy_to(pinned, stream=stream)
        stream.synchronize()
        assert pinned[1] == 1
    assert len(findings) == 0


def test_managed_memory_while_a_kernel_has_it(device: gs.Device) -> None:
    scale, x, y = kernels(device)["scale"], device.managed(N), device.managed(N, name="y")
    x.host[:] = 3
    with gs.checking() as findings:
        scale[16, 256](N, 2.0, x, y)
        device.synchronize()
        assert y.host[5] == 6
        scale[16, 256](N, 2.0, x, y)
        assert y.host[5] == 6
    (found,) = findings.errors
    assert found.kind == "stream-hazard" and found.buffer == "y"


def test_pages_move_where_they_are_used(device: gs.Device) -> None:
    scale, x, y = kernels(device)["scale"], device.managed(1 << 20), device.empty(1 << 20)
    x.host[:] = 1
    with gs.timeline({"scale": 10.0}) as timeline:
        scale[4096, 256](1 << 20, 2.0, x, y)
        scale[4096, 256](1 << 20, 2.0, x, y)
        device.synchronize()
    first, second = timeline.operations
    assert first.end - first.start > 100 and second.end - second.start == pytest.approx(10)
    with gs.timeline({"scale": 10.0}) as timeline:
        x.host[:] = 1
        device.default_stream.prefetch(x)
        scale[4096, 256](1 << 20, 2.0, x, y)
        device.synchronize()
    assert [p.operation.kind.value for p in timeline.operations] == ["prefetch to host", "prefetch to device", "kernel"]
    assert timeline.operations[2].end - timeline.operations[2].start == pytest.approx(10)


def hazards_of(run: Callable[[], Any]) -> list[str]:
    with gs.checking() as findings:
        run()
    return [f.kind for f in findings.errors]


def test_atomics_of_two_streams_do_not_mind_each_other(device: gs.Device) -> None:
    count, c = kernels(device)["count"], device.zeros(1, np.uint32)
    one, two = device.stream(), device.stream()

    def both() -> None:
        count[2, 128](128, c, stream=one)
        count[2, 128](128, c, stream=two)
        device.synchronize()

    assert hazards_of(both) == [] and c.item() == 512

    def and_a_fill() -> None:
        count[2, 128](128, c, stream=one)
        c.fill(0, stream=two)

    assert hazards_of(and_a_fill) == ["stream-hazard"]


def test_launches_of_one_graph_follow_each_other(device: gs.Device) -> None:
    scale, x = kernels(device)["scale"], device.zeros(N)
    graph = device.graph()
    graph.kernel(scale[16, 256], N, 2.0, x, x)
    replay, other = graph.instantiate(), graph.instantiate()
    one, two = device.stream(), device.stream()
    with gs.timeline(US) as timeline:
        assert hazards_of(lambda: (replay.launch(one), replay.launch(two))) == []
        device.synchronize()
    first, second = timeline.operations
    assert second.start >= first.end
    assert hazards_of(lambda: (replay.launch(one), other.launch(two))) == ["stream-hazard"]


def test_asking_whether_it_is_done_is_a_wait(device: gs.Device) -> None:
    x, pinned, stream = device.zeros(N), device.pinned(N), device.stream()

    def by_event() -> None:
        x.copy_to(pinned, stream=stream)
        event = stream.record()
        while not event.done:
            pass
        assert pinned[0] == 0

    def by_stream() -> None:
        x.copy_to(pinned, stream=stream)
        while not stream.done:
            pass
        assert pinned[0] == 0

    def by_host_function() -> None:
        x.copy_to(pinned, stream=stream)
        reached = threading.Event()
        stream.call(reached.set)
        reached.wait()
        assert pinned[0] == 0

    assert hazards_of(by_event) == hazards_of(by_stream) == hazards_of(by_host_function) == []


def test_columns_of_an_image_side_by_side(device: gs.Device) -> None:
    image = device.zeros((8, 8))
    one, two = device.stream(), device.stream()
    assert hazards_of(lambda: (image[:, ::2].fill(1, stream=one), image[:, 1::2].fill(2, stream=two))) == []
    device.synchronize()
    assert image.numpy()[3].tolist() == [1, 2] * 4
    assert hazards_of(lambda: (image[:, ::2].fill(1, stream=one), image[:, ::4].fill(2, stream=two))) == ["stream-hazard"]


def test_bytes_of_one_word(device: gs.Device) -> None:
    """What kernels touch is known to the four bytes, so two halves of a buffer of bytes that meet inside a word are no error."""
    bytes_, x = kernels(device)["set_bytes"], device.zeros(256, np.uint8)
    one, two = device.stream(), device.stream()
    with gs.checking() as findings:
        bytes_[1, 128](101, x[:101], stream=one)
        bytes_[1, 128](100, x[101:201], stream=two)
    assert [(f.kind, f.severity) for f in findings] == [("stream-hazard", "warning")]
    assert hazards_of(lambda: (bytes_[1, 128](101, x[:101], stream=one), bytes_[1, 128](100, x[90:190], stream=two))) == ["stream-hazard"]


def test_variables_of_the_module_between_streams(device: gs.Device) -> None:
    module, y = kernels(device), device.zeros(64)
    one, two = device.stream(), device.stream()

    def beside() -> None:
        module["set_table"][1, 64](1.0, stream=one)
        module["use_table"][1, 64](y, stream=two)

    def after() -> None:
        module["set_table"][1, 64](1.0, stream=one)
        two.wait(one.record())
        module["use_table"][1, 64](y, stream=two)

    assert hazards_of(after) == []
    device.synchronize()
    assert hazards_of(beside) == ["stream-hazard"]


def test_copies_alone_pass(device: gs.Device) -> None:
    x, stream = device.zeros(4), device.stream()
    with gs.checking() as findings:
        x.fill(1, stream=stream)
        stream.synchronize()
    assert findings.passed
    with gs.checking() as findings:
        pass
    assert not findings.passed  # nothing was looked at


def test_threads_of_the_host_take_turns() -> None:
    """Each with a stream of its own, in a process where nothing was loaded before."""
    code = f"""
import threading, numpy as np, gridstride as gs
device = gs.device("sim", blocking=False)
scale = device.compile({SOURCE!r})["scale"]
wrong = []
def work(k):
    try:
        with device.stream() as stream:
            x, y = stream.empty(256), device.empty(256)
            for i in range(20):
                x.fill(i, stream=stream)
                scale[1, 256](256, 2.0, x, y, stream=stream)
                event = stream.record()
                device.default_stream.wait(event)
            stream.synchronize()
            if not (y.numpy() == 38).all():
                wrong.append("result")
            stream.free(x)
    except BaseException as error:
        wrong.append(repr(error))
with gs.checking() as findings, gs.timeline() as timeline:
    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
print(wrong, list(findings))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []" and done.stderr == ""


def test_dropped_streams_are_forgotten(device: gs.Device) -> None:
    x = device.zeros(4)
    for _ in range(200):
        stream = device.stream()
        x.fill(1, stream=stream)
        stream.synchronize()
        del stream
    device.zeros(1)
    assert len(device._queue._order._queues) < 5  # type: ignore[attr-defined]


# ---- faults ----------------------------------------------------------------------------------------------------------


def wait_by(what: str, device: gs.Device, stream: gs.Stream, x: gs.Array, event: gs.Event) -> Any:
    calls: dict[str, Callable[[], Any]] = {
        "device": device.synchronize,
        "stream": stream.synchronize,
        "event": event.synchronize,
        "copy to host": x.numpy,
        "copy from host": lambda: x.copy_from(np.zeros(32, np.float32)),
        "query": lambda: stream.done,
    }
    return calls[what]()


@pytest.mark.parametrize("what", ["device", "stream", "event", "copy to host", "copy from host", "query"])
def test_a_fault_comes_late_and_stays(device: gs.Device, what: str) -> None:
    module, x, stream, pinned = kernels(device), device.zeros(32), device.stream(), device.pinned(2)
    module["beyond"][1, 32](x, stream=stream)
    module["scale"][1, 32](32, 1.0, x, x, stream=stream)  # not refused: nobody knows yet
    event = stream.record()
    with pytest.raises(gs.KernelFault, match="^kernel `beyond`: writes") as caught:
        wait_by(what, device, stream, x, event)
    assert caught.value.code == "out-of-bounds" and isinstance(caught.value.fault, gs.Finding) and caught.value.fault.site.line == 10
    pinned[0] = 4.0  # the host's own memory is not lost
    assert pinned[0] == 4.0
    for call in (device.synchronize, x.numpy, lambda: device.zeros(3), lambda: module["scale"][1, 32](32, 1.0, x, x), stream.record):
        with pytest.raises(gs.KernelFault, match="^kernel `beyond`: writes"):
            call()
    other = gs.device("sim", blocking=False)
    assert other.zeros(3).numpy().sum() == 0  # another device object is another context


def test_blocking_tells_at_once_and_does_not_stick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    for device in (gs.device("sim", blocking=True), gs.device("sim")):
        x = device.zeros(32)
        with pytest.raises(gs.KernelFault, match="^kernel `beyond`: writes"):
            kernels(device)["beyond"][1, 32](x)
        assert x.numpy().sum() == 0
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "0")
    assert not gs.device("sim").blocking


def test_errors_of_configuration_come_at_once(device: gs.Device) -> None:
    with pytest.raises(gs.LaunchError):
        kernels(device)["scale"][1, 2048](1, 1.0, device.zeros(1), device.zeros(1))
    device.synchronize()


def test_a_fault_that_nobody_waits_for_is_not_lost() -> None:
    code = f"import gridstride as gs\nd = gs.device('sim', blocking=False)\nd.compile({SOURCE!r})['beyond'][1, 32](d.zeros(32))\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.startswith("gridstride: a kernel was stopped, and the program never waited for it: kernel `beyond`: writes")


def test_a_host_function_must_not_use_the_device_and_its_error_comes_late(device: gs.Device) -> None:
    stream = device.stream()
    stream.call(device.zeros, 3)
    with pytest.raises(gs.UsageError, match="must not use the device"):
        stream.synchronize()
    device.default_stream.call(lambda: 1 / 0)
    with pytest.raises(gs.UsageError, match=r"^the host function <lambda> raised ZeroDivisionError: division by zero$"):
        device.synchronize()
    device.synchronize()  # told once
    stream.call(lambda: 1 / 0)
    stream.call(lambda: int("x"))
    with pytest.raises(gs.UsageError, match="ZeroDivisionError"):  # the first of several
        device.synchronize()
    with pytest.raises(gs.UsageError, match="ZeroDivisionError"):
        gs.device("sim", blocking=True).default_stream.call(lambda: 1 / 0)


def test_a_host_function_reads_pinned_memory(device: gs.Device) -> None:
    result, x, seen = device.pinned(4), device.zeros(2).fill(7), list[float]()
    stream = device.stream()
    with gs.checking() as findings:
        x.copy_to(result[1:3], stream=stream)
        stream.call(lambda: seen.append(float(result[1])))
        stream.synchronize()
    assert seen == [7.0] and len(findings) == 0 and np.asarray(result).tolist() == [0, 7, 7, 0]


def test_pinned_arrays_work_with_numpy(device: gs.Device) -> None:
    pinned = device.pinned((4, 3))
    pinned[:] = np.arange(12).reshape(4, 3)
    assert (pinned + 1).sum() == 78 and np.sum(pinned) == 66 and (pinned[1:3, 1] == [4, 7]).all() and pinned[3, 2] == 11
    pinned[0] += 10
    np.multiply(pinned, 2, out=pinned)
    assert pinned[0, 0] == 20 and float(np.max(pinned)) == 24
    part = pinned[1:]
    part[0, 0] = -1
    assert pinned[1, 0] == -1 and part.shape == (3, 3) and part.mapped.address == pinned.mapped.address + 12


def test_reading_managed_memory_beside_a_reader_is_no_hazard(device: gs.Device) -> None:
    scale, x, y = kernels(device)["scale"], device.managed(N), device.empty(N)
    x.host[:] = 1
    with gs.checking() as findings:
        scale[16, 256](N, 2.0, x, y)
        assert x.host[5] == 1
        device.synchronize()
    assert len(findings) == 0, findings
    with gs.checking() as findings:
        scale[16, 256](N, 2.0, x, y)
        x.host[5] = 2
    assert [(f.kind, f.index) for f in findings.errors] == [("stream-hazard", 5)]


def test_memory_of_the_pool_in_another_stream(device: gs.Device) -> None:
    scale, x = kernels(device)["scale"], device.zeros(N)
    one, two = device.stream(), device.stream(name="other")
    with gs.checking() as findings:
        temporary = one.empty(N, name="temporary")
        two.wait(one.record())
        scale[16, 256](N, 2.0, x, temporary, stream=two)
        one.wait(two.record())
        one.free(temporary)
        device.synchronize()
    assert len(findings) == 0, findings
    with gs.checking() as findings:
        temporary = one.empty(N, name="temporary")
        scale[16, 256](N, 2.0, x, temporary, stream=two)
        one.free(temporary)
    first, second = (f.message for f in findings.errors)
    assert first.startswith("kernel `scale` in stream `other` writes `temporary`[0], which the allocation of `temporary` in stream 1 writes")
    assert second.startswith("the freeing of `temporary` in stream 1 writes `temporary`[0], which kernel `scale` in stream `other` writes")


def test_copies_outside_streams_know_pinned_memory(device: gs.Device) -> None:
    pinned, x = device.pinned(N), device.empty(N)
    with gs.timeline() as timeline:
        x.copy_from(pinned)
        x.copy_to(pinned)
    assert [p.operation.pageable for p in timeline.operations] == [False, False]
    with pytest.raises(gs.UsageError, match="device array on one side"):
        device.default_stream.copy(pinned, pinned)


def test_copies_that_are_refused_are_findings(device: gs.Device) -> None:
    x, pinned, stream = device.zeros(4), device.pinned(4), device.stream()
    calls: list[Callable[[], Any]] = [
        lambda: x.copy_from(np.zeros(5, np.float32)),
        lambda: x.copy_from(np.zeros(4), stream=stream),
        lambda: x.copy_to(np.zeros(4, np.int32), stream=stream),
        lambda: stream.copy(pinned, pinned),
        lambda: stream.fill(x, "text"),
    ]
    for call in calls:
        with gs.checking() as findings, pytest.raises(gs.UsageError):
            call()
        assert [(f.kind, f.severity) for f in findings] == [("api", "error")]


def test_a_replay_with_one_argument_changed_by_name(device: gs.Device) -> None:
    scale, x, y = kernels(device)["scale"], device.zeros(N).fill(1), device.empty(N)
    graph = device.graph()
    node = graph.kernel(scale[16, 256], N, 2.0, x, y)
    replay = graph.instantiate()
    replay.update(node, a=5.0)
    replay.launch()
    assert y.numpy()[0] == 5
    with pytest.raises(gs.UsageError, match="^scale has no parameter 'b'; it has n, a, x, y$"):
        replay.update(node, b=1)
    with pytest.raises(gs.LaunchError):
        replay.update(node, 1, 2)
    assert repr(node) == "<gridstride.Node 0: kernel scale>"


def test_spinning_between_blocks(device: gs.Device) -> None:
    """More blocks than fit wait for each other for ever; a cooperative launch of as many as fit runs, and of more is refused."""
    kernel = kernels(device)["wait_for_all"]
    fit = 132 * 7  # an H200's 132 multiprocessors with 233,472 bytes of shared memory, for blocks of 32,000 and 1,024 reserved
    with gs.checking() as findings, pytest.raises(gs.KernelFault) as caught:
        kernel[fit + 1, 32](device.zeros(1, np.uint32))
        device.synchronize()
    assert caught.value.code == "deadlock" and "deadlock" in {f.kind for f in findings.errors}
    device = gs.device("sim", blocking=False)
    kernel, arrived = kernels(device)["wait_for_all"], device.zeros(1, np.uint32)
    kernel[fit, 32](arrived, cooperative=True)
    device.synchronize()
    assert arrived.item() == fit
    with pytest.raises(gs.LaunchError, match=r"cooperative"):
        kernel[fit + 1, 32](arrived, cooperative=True)


# ---- lazy operations, graphs, trace ------------------------------------------------------------------------------------


def test_nothing_is_written_outside_of_streams_during_a_capture(device: gs.Device) -> None:
    x, stream = device.zeros(4), device.stream()
    with stream.capture():
        for call in (lambda: x.fill(1), lambda: x.copy_from(np.ones(4, np.float32)), x.numpy, device.synchronize):
            with pytest.raises(gs.UsageError, match="cannot be used while a graph is captured"):
                call()
    assert x.numpy().sum() == 0


def test_lazy_operations(device: gs.Device) -> None:
    scale, x, y, out = kernels(device)["scale"], device.empty(N), device.empty(N), device.pinned(N)
    source = np.arange(N, dtype=np.float32)
    chain = gs.lazy.copy(x, source) >> scale[16, 256].lazy(N, 3.0, x, y) >> gs.lazy.copy(out, y)
    assert (out == 0).all()
    chain.run()
    assert np.array_equal(out, 3 * source)
    source[:] = 1

    async def both() -> None:
        await asyncio.gather(chain.wait_for(), gs.lazy.fill(device.empty(5), 2.0).wait_for())

    asyncio.run(both())
    assert (out == 3).all()
    with pytest.raises(gs.UsageError, match="different device objects"):
        chain.then(gs.lazy.fill(gs.device("sim").empty(3), 1.0))


def test_a_graph_in_the_timeline_and_its_hazards(device: gs.Device) -> None:
    scale, x, y, z = kernels(device)["scale"], *(device.zeros(N, name=name) for name in "xyz")
    one, two = device.stream(), device.stream()
    with one.capture() as graph:
        scale[16, 256](N, 2.0, x, y, stream=one)
        two.wait(one.record())
        scale[16, 256](N, 2.0, x, z, stream=two)
        scale[16, 256](N, 2.0, y, y, stream=one)
        one.wait(two.record())
    replay = graph.instantiate()
    with gs.checking() as findings, gs.timeline(US) as timeline:
        replay.launch(one)
        device.synchronize()
    assert len(findings) == 0 and len(timeline.operations) == 3
    scale[16, 256](N, 2.0, z, y, stream=two)
    with gs.checking() as findings:
        scale[16, 256](N, 2.0, x, y, stream=two)
        replay.launch(one)
        device.synchronize()
    assert {f.kind for f in findings.errors} == {"stream-hazard"}


def test_wrong_uses_of_graphs_and_lazy_operations(device: gs.Device) -> None:
    scale, x, other = kernels(device)["scale"], device.zeros(N), gs.device("sim", blocking=False).stream()
    graph = device.graph()
    node = graph.fill(x, 1)
    assert graph.fill(x, 2, after=node).after == (node,)
    replay = graph.instantiate()
    closed = device.stream(name="short")
    closed.close()
    whole = gs.lazy.fill(x, 1)
    for call, message in (
        (lambda: replay.launch(other), "the graph belongs to another device object than stream 1"),
        (lambda: replay.launch(closed), "stream `short` was closed"),
        (lambda: replay.launch(5), "a graph is launched into a stream of device.stream(), not int 5"),  # type: ignore[arg-type]
        (lambda: whole.run(other), "the lazy operation belongs to another device object than stream 1"),
        (lambda: whole.run(5), "lazy operations run in a stream of device.stream(), not int 5"),  # type: ignore[arg-type]
        (lambda: graph.kernel(scale, N, 1.0, x, x), "give the kernel with its grid and block, as in graph.kernel(kernel[blocks, 256], …), not "),  # type: ignore[arg-type]
        (lambda: device.stream(priority=1.5), "a priority is a whole number, not float 1.5"),  # type: ignore[arg-type]
        (lambda: device.stream(name=5), "a stream's name is text, not int 5"),  # type: ignore[arg-type]
        (lambda: x[:10].copy_from(x[5:15], stream=device.default_stream), "the two parts of one array that are copied have bytes in common"),
        (lambda: x.copy_to(np.broadcast_to(np.float32(0), N)), "the host array to copy to is read-only"),
        (lambda: gs.timeline(5).__enter__(), "durations are microseconds by kernel"),  # type: ignore[arg-type]
    ):
        with pytest.raises(gs.UsageError) as caught:
            call()
        assert str(caught.value).startswith(message)
    with pytest.raises(gs.LaunchError, match="needs its grid and block"):
        scale.lazy(N, 1.0, x, x)


def test_trace_for_perfetto(device: gs.Device, tmp_path: Path) -> None:
    with gs.timeline(US) as timeline:
        double_buffered(device)
    timeline.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X" and e["cat"] == "kernel"]
    assert len(spans) == PIECES and all(e["dur"] == 100 for e in spans)
    names = {(e["tid"], e["args"]["name"]) for e in events if e["name"] == "thread_name"}
    assert {"host"} < {name for _, name in names} and len(names) == 4
    with pytest.raises(gs.UsageError, match="^cannot write "):
        timeline.trace(tmp_path / "nowhere" / "trace.json")
