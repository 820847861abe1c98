"""How much memory an image may take on its device."""

from __future__ import annotations

from pathlib import Path

import gridstride as gs

_CGROUP = Path("/sys/fs/cgroup")


def memory_limit(device: gs.Device) -> int:
    """Bytes that images may take on a device if nobody says: 9 tenths of its memory; on the simulator, whose memory is the host's, at most
    half of what the host has free."""
    whole = int(device.spec.memory_bytes * 0.9)
    free = free_bytes() if device.name.startswith("sim") else None
    return whole if free is None else min(whole, free // 2)


def free_bytes() -> int | None:
    """Bytes of main memory that a program can still take, of the machine and of its control group; None where the system does not tell."""
    found = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
    except OSError:
        return None
    try:
        most, used = (_CGROUP / "memory.max").read_text().strip(), int((_CGROUP / "memory.current").read_text())
        if most != "max":
            stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
            found.append(max(0, int(most) - used + int(stat.get("inactive_file", 0))))  # files that were read give way
    except (OSError, ValueError):
        pass
    return min(found, default=None)
