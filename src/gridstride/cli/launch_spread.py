"""`gridstride launch --cases FILE --workers N`: the launches of a case file over processes of this machine, with the results of one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gridstride import cluster
from gridstride.cases import CheckRequest, run_case
from gridstride.cli import running
from gridstride.report.model import CaseResult, Failure
from gridstride.runtime.opening import device as open_device
from gridstride.runtime.request import LaunchRequest


@dataclass(frozen=True)
class Setting:
    """What all launches of a run have in common. options: of the device, as `gs.device` takes them."""

    what: running.WhatToRun
    device: str
    options: dict[str, Any] = field(default_factory=dict)
    profile: bool = False
    checks: CheckRequest | None = None


@dataclass(frozen=True)
class Job:
    setting: Setting
    number: int
    request: LaunchRequest


_warm = threading.local()


def work(job: Job) -> CaseResult:
    """One launch on a worker, which keeps its device and the compiled source."""
    if getattr(_warm, "setting", None) != job.setting:
        _warm.module = job.setting.what.load(open_device(job.setting.device, **job.setting.options))
        _warm.setting = job.setting
    return run_case(job.request, _warm.module.fresh(), profile=job.setting.profile, checks=job.setting.checks)


def run_spread(setting: Setting, requests: Sequence[LaunchRequest], workers: int) -> list[CaseResult]:
    """Every launch's result, in the order of the requests. One whose workers die has that for its failure. After an interrupt there are those that
    were done, and one that says so, as in a single process."""
    results: dict[int, CaseResult] = {}
    try:
        with running.progress(len(requests)) as step, cluster.opened(workers=workers) as opened:
            for job, result, lost in opened.spread(work, (Job(setting, number, request) for number, request in enumerate(requests))):
                results[job.number] = result or _failed(job.request, "cluster", str(lost))
                step(job.request.name)
    except KeyboardInterrupt:
        pass
    missing = next((number for number in range(len(requests)) if number not in results), None)
    if missing is not None:
        results[missing] = _failed(requests[missing], "interrupted", "interrupted")
    return [results[number] for number in sorted(results)]


def _failed(request: LaunchRequest, code: str, message: str) -> CaseResult:
    return CaseResult(request.name, request.kernel, failure=Failure(code, message))
