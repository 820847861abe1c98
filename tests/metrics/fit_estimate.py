"""Fit the coefficients of the time estimate to the truth set's timed launches, and write the tables of docs/estimates.md.

usage: python tests/metrics/fit_estimate.py fit      prints coefficients fitted anew (a few seconds)
       python tests/metrics/fit_estimate.py tables   fits once without each launch (minutes), then writes the tables

The fit minimises the mean |log(estimated / measured)|, by steps along one coefficient after another. A small pull towards the values
that the microarchitecture suggests (START) keeps coefficients that few launches feel from running away.
"""

import math
import statistics
import sys
from collections.abc import Collection
from dataclasses import fields, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from timing_launches import HERE, MEASURED_ON, measured_us, profiles

from gridstride.machine.devices import find_device
from gridstride.observers.metrics.estimate import FITTED, Coefficients, Estimate, estimate

DEVICE = find_device("h200")
PAGE = HERE.parents[1] / "docs" / "estimates.md"
START = Coefficients(
    dram_share=0.92, lsu_share=0.95, shared_atomic=2.0, issue_share=0.95, block_gap=500.0, warp_gap=20.0, dependent=2.5, special=15.0,
    shared_latency=28.0, barrier=40.0, dram_latency=850.0, norm=4.0,
)  # fmt: skip
KEPT = ("launch_us", "l2_bytes", "l1_latency", "atomic_sector", "atomic_request", "block_start")
FREE = [f.name for f in fields(Coefficients) if f.name not in KEPT]
PULL = 0.004
HEAD = ("| launch | measured (µs) | estimated (µs) | error | bound by |", "|---|--:|--:|--:|---|")
PROFILES = profiles("timing")
MEASURED = measured_us("timing")


def loss(coefficients: Coefficients, names: Collection[str]) -> float:
    away = sum(abs(math.log(estimate(PROFILES[n], DEVICE, coefficients).microseconds / MEASURED[n])) for n in names) / len(names)
    return away + PULL * sum(math.log(getattr(coefficients, k) / getattr(START, k)) ** 2 for k in FREE)


def fit(names: Collection[str]) -> Coefficients:
    now, best = START, loss(START, names)
    for step in (1.25, 1.12, 1.05):
        for _ in range(2):
            for key in FREE:
                for factor in (step, 1 / step):
                    while True:
                        value = getattr(now, key) * factor
                        tried = replace(now, **{key: value})
                        if key.endswith("_share") and value > 1 or (found := loss(tried, names)) > best - 1e-5:
                            break
                        now, best = tried, found
    return now


def row(name: str, result: Estimate, measured: float, left_out: float | None = None, note: str = "") -> str:
    cells = [f"`{name}`{note}", f"{measured:,.1f}", f"{result.microseconds:,.1f}", f"{result.microseconds / measured - 1:+.0%}"]
    if left_out is not None:
        cells.append(f"{left_out / measured - 1:+.0%}")
    return "| " + " | ".join([*cells, result.bound]) + " |"


def tables() -> str:
    names = list(PROFILES)
    timing, errors, left_out_errors = [], [], []
    for name in names:
        result = estimate(PROFILES[name], DEVICE, FITTED)
        left_out = estimate(PROFILES[name], DEVICE, fit([n for n in names if n != name])).microseconds
        errors.append(abs(result.microseconds / MEASURED[name] - 1))
        left_out_errors.append(abs(left_out / MEASURED[name] - 1))
        timing.append(row(name, result, MEASURED[name], left_out))
        print(timing[-1], flush=True)
    summaries = [_summary("36 of the truth set", errors), _summary("the same, each left out of the fit in its turn", left_out_errors)]
    others = []
    spoken_for = {name for some in MEASURED_ON.values() for name in some}
    for which, title in (("validation", "the same kernels, other sizes"), ("holdout", "other kernels")):
        measured, away = measured_us(which), []
        others += ["", f"## Outside the fit: {title}", "", *HEAD]
        for name, profile in profiles(which).items():
            result = estimate(profile, DEVICE, FITTED)
            if name not in spoken_for:
                away.append(abs(result.microseconds / measured[name] - 1))
            others.append(row(name, result, measured[name], note=" ¹" if name in spoken_for else ""))
        summaries.append(_summary(f"{len(away)} outside the fit: {title}", away))
    return "\n".join([
        "| launches | median error | mean | greatest |",
        "|---|--:|--:|--:|",
        *summaries,
        "",
        "## The 36 launches of the truth set",
        "",
        "| launch | measured (µs) | estimated (µs) | error | error, left out | bound by |",
        "|---|--:|--:|--:|--:|---|",
        *timing,
        *others,
        "",
        "¹ A coefficient was set from this launch: it is not counted above.",
    ])  # fmt: skip


def _summary(what: str, errors: list[float]) -> str:
    return f"| {what} | {statistics.median(errors):.1%} | {statistics.mean(errors):.1%} | {max(errors):.0%} |"


if sys.argv[1:] == ["fit"]:
    print(fit(list(PROFILES)))
elif sys.argv[1:] == ["tables"]:
    text, mark = PAGE.read_text(encoding="utf-8"), "<!-- tables -->\n"
    PAGE.write_text(text[: text.index(mark)] + mark + "\n" + tables() + "\n", encoding="utf-8")
else:
    raise SystemExit(__doc__)
