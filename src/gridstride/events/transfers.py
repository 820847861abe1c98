"""What it costs to move memory between host and device and to ask for something: the numbers of the model of time.

Those of the H200 were measured on one; of the others the bandwidth follows from the generation of PCI Express of the card's data sheet at the
share of it that the H200 reached, and the rest is the H200's. `measured` says which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridstride.machine.devices import DeviceSpec


@dataclass(frozen=True)
class Link:
    """Bandwidths in GB/s (10^9 bytes a second), times in microseconds.

    host_call: the host's time for asking for an operation. start_copy, start_kernel: from asking until an idle device starts.
    pageable_call: more for pageable memory.
    """

    pinned_to_device: float
    pinned_to_host: float
    pageable_to_device: float
    pageable_to_host: float
    start_copy: float
    start_kernel: float
    host_call: float
    pageable_call: float
    fault_to_device: float
    """GB/s at which managed memory comes to a kernel that touches it where it is not."""
    fault_to_host: float
    mapped: float
    """GB/s at which a kernel reads or writes pinned memory of the host in place."""
    follow: float
    """Between the end of an operation and the start of what waited for it, in a stream."""
    graph_node: float
    """The same between two nodes of a graph."""
    measured: bool = False


H200 = Link(
    pinned_to_device=50.0,
    pinned_to_host=50.0,
    pageable_to_device=7.2,
    pageable_to_host=10.0,
    start_copy=1.5,
    start_kernel=2.5,
    host_call=2.5,
    pageable_call=8.0,
    fault_to_device=9.6,
    fault_to_host=5.0,
    mapped=49.0,
    follow=1.0,
    graph_node=0.05,
    measured=True,
)
"""On one card on 2026-12-01 (tests/timeline/h200.json, by tests/timeline/measure_on_gpu.py): 16 MB of pinned memory at 49 GB/s (256 MB at 55), pageable
memory at 7 GB/s to the device and 9 to 12 to the host where it comes from memory and not from the host's cache, a managed array of 64 MB that a kernel finds
at the host at 9.6 GB/s, mapped memory at 49 to 50 GB/s, 0.55 µs a node for a chain of 1,000 empty kernels in a graph. The times of calls and `follow` are what
CUDA programs in C++ see; they were not measured here, where Python asked (35 µs a launch)."""
_COPY_SHARE = 0.92
_GENERATION = {"t4": 3, "a100": 4, "a10": 4, "a30": 4, "l4": 4, "l40s": 4, "l40": 4}


def link_of(device: DeviceSpec) -> Link:
    """The link of a device."""
    if device.key == "h200":
        return H200
    generation = _GENERATION.get(device.key, 5 if device.architecture.compute_capability >= (9, 0) else 4)
    share = 2.0 ** (generation - 5)
    return replace(
        H200,
        pinned_to_device=H200.pinned_to_device * share,
        pinned_to_host=H200.pinned_to_host * share,
        pageable_to_device=min(H200.pageable_to_device, H200.pinned_to_device * share),
        pageable_to_host=min(H200.pageable_to_host, H200.pinned_to_host * share),
        fault_to_device=H200.fault_to_device * share,
        fault_to_host=H200.fault_to_host * share,
        mapped=H200.mapped * share,
        measured=False,
    )


def copy_microseconds(link: Link, nbytes: int, *, to_device: bool, pageable: bool) -> float:
    """How long the copy engine works on a copy between host and device."""
    rate = (
        (link.pageable_to_device if pageable else link.pinned_to_device)
        if to_device
        else (link.pageable_to_host if pageable else link.pinned_to_host)
    )
    return nbytes / (rate * 1e3)


def on_device_microseconds(device: DeviceSpec, nbytes: int, *, reads: bool) -> float:
    """A copy within the device's memory (which reads and writes) or a fill (which writes).

    On an H200 a copy of 256 MB moved 4.4 TB/s of the 4.8 TB/s published, a fill came to all of it.
    """
    return nbytes * (2 / _COPY_SHARE if reads else 1) / (device.memory_bandwidth_gbs * 1e3)
