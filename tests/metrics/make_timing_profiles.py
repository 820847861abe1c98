"""Profile the large launches whose times were measured on a GPU, and keep what the time estimate needs of them.

usage: python tests/metrics/make_timing_profiles.py timing|validation|holdout [NAME…]

Runs the launches of one case file on the simulator with counting (minutes, and up to 1 GB of memory), and writes
tests/metrics/{timing,validation,holdout}_profiles.json: a profile a case, an instruction a row. With names, only those are made anew.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from timing_launches import HERE, TRUTH, as_json

from gridstride.cases import read_cases, run_case
from gridstride.machine import launch as engine
from gridstride.machine.devices import find_device
from gridstride.machine.launch_options import LaunchOptions
from gridstride.machine.launch_options import LaunchOutcome as EngineOutcome
from gridstride.machine.program import Program
from gridstride.observers.metrics.collect import collect
from gridstride.observers.metrics.profile import LaunchProfile
from gridstride.runtime.device import LaunchShape
from gridstride.runtime.module import Kernel
from gridstride.runtime.request import Buffer
from gridstride.runtime.simulator import Simulator

CASES = {
    "timing": (TRUTH / "kernels.ptx", TRUTH / "timing_cases.json"),
    "validation": (TRUTH / "kernels.ptx", HERE / "validation_cases.json"),
    "holdout": (HERE / "holdout.ptx", HERE / "holdout_cases.json"),
}


class CountingSimulator(Simulator):
    """A simulator that keeps what its last launch counted."""

    footprint = 0
    last: LaunchProfile

    def _run(
        self, program: Program, kernel: Kernel, shape: LaunchShape, parameters: bytes, names: Mapping[int, str]
    ) -> EngineOutcome:
        outcome = engine.launch(
            program,
            kernel.entry,
            grid=shape.grid,
            block=shape.block,
            parameters=parameters,
            shared_bytes=shape.shared,
            memory=self.memory,
            device=self.spec,
            options=LaunchOptions(profile=True),
            buffer_names=names,
        )
        assert outcome.counts is not None
        self.last = collect(
            outcome.counts,
            kernel=kernel.name,
            device=self.spec.key,
            grid=shape.grid,
            block=shape.block,
            shared_dynamic=shape.shared,
            registers=kernel.resources.registers,
            seconds=outcome.seconds,
            footprint_bytes=self.footprint,
        )
        return outcome


def write(path: Path, kept: Mapping[str, Any]) -> None:
    lines = []
    for name, profile in kept.items():
        head = json.dumps({k: v for k, v in profile.items() if k != "instructions"})[1:-1]
        rows = ",\n  ".join(json.dumps(row, separators=(",", ":")) for row in profile["instructions"])
        lines.append(f' "{name}": {{{head}, "instructions": [\n  {rows}\n ]}}')
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main(which: str, names: list[str]) -> None:
    kernels, cases = CASES[which]
    requests = read_cases(cases)
    path = HERE / f"{which}_profiles.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    device = CountingSimulator(find_device("h200"))
    module = device.compile(kernels)
    for request in requests:
        if names and request.name not in names:
            continue
        device.footprint = sum(a.count * a.dtype.itemsize for a in request.arguments if isinstance(a, Buffer))
        parameters = len(module[request.kernel].parameters)  # one case gives an argument more than its kernel takes
        result = run_case(replace(request, arguments=request.arguments[:parameters]), module)
        if result.failure is not None:
            raise SystemExit(f"{request.name}: {result.failure.message}")
        kept[request.name] = as_json(device.last)
        write(path, {r.name: kept[r.name] for r in requests if r.name in kept})
        print(f"{request.name}: {device.last.seconds:.1f} s", flush=True)


main(sys.argv[1], sys.argv[2:])
