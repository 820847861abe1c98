"""Python kernels against Numba's simulator: both sides run what they say, ratios, goals, and what is said when one is wrong."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

from gridstride.bench import Options, numba_kernels, numba_report
from gridstride.bench.numba_kernels import COMPARISONS, GRIDSTRIDE, NUMBA, Measured, NumbaResults, run, time_in_process
from gridstride.bench.stats import Sample
from gridstride.errors import GridstrideError, UsageError

SAXPY, MATMUL = COMPARISONS


def measured(seconds: float) -> Measured:
    """saxpy, with Gridstride at 1,000,000 threads in 0.01 s and Numba at 1,000 in `seconds`."""
    samples = {GRIDSTRIDE: Sample.of([0.01, 0.01, 0.01]), NUMBA: Sample.of([seconds] * 3)}
    return Measured(SAXPY, {GRIDSTRIDE: 1_000_000, NUMBA: 1_000}, samples, {GRIDSTRIDE: "numba 1", NUMBA: "numba 1"})


@pytest.mark.parametrize("by", [GRIDSTRIDE, NUMBA])
@pytest.mark.parametrize(("kernel", "size"), [("saxpy", 100), ("matmul", 16)])
def test_both_run_the_same_kernels(by: str, kernel: str, size: int) -> None:
    sample, version = time_in_process(by, kernel, size, 1)
    assert len(sample.seconds) == 1
    assert version.startswith("numba ")


def test_work_over_time() -> None:
    one = measured(0.25)
    assert one.rate(GRIDSTRIDE) == 100_000_000
    assert one.rate(NUMBA) == 4_000
    assert one.times == 25_000
    assert (one.goal().met, one.goal().measured) == (True, "25,000")
    assert measured(0.1).goal().met is False
    assert MATMUL.work(32) == 32 * 32 * 32
    assert all(size % 16 == 0 for size in MATMUL.sizes.values())


def test_the_bounds_that_were_set() -> None:
    assert {comparison.kernel: comparison.bound for comparison in COMPARISONS} == {"saxpy": 20_000, "matmul": 2_000}


def test_a_wrong_result_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(by: str, kernel: str, size: int, repetitions: int) -> tuple[Sample, str]:
        raise GridstrideError(f"{kernel} by {by} gave a wrong result, so its time means nothing")

    monkeypatch.setattr(numba_kernels, "time_in_process", wrong)
    results = run(Options(("saxpy",), quick=True))
    assert results.failed
    assert results.errors == ["saxpy by gridstride gave a wrong result, so its time means nothing"]
    assert results.goals() == []


def test_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(by: str, kernel: str, size: int, repetitions: int) -> tuple[Sample, str]:
        asked.append((by, kernel, size, repetitions))
        return Sample.of([1.0]), "numba 1"

    monkeypatch.setattr(numba_kernels, "time_in_process", note)
    run(Options((), quick=False, repetitions=5))
    assert asked == [
        (GRIDSTRIDE, "saxpy", 16 << 20, 5),
        (NUMBA, "saxpy", 4096, 5),
        (GRIDSTRIDE, "matmul", 512, 5),
        (NUMBA, "matmul", 32, 5),
    ]
    asked.clear()
    run(Options(("matmul",), quick=True))
    assert asked == [(GRIDSTRIDE, "matmul", 256, 3), (NUMBA, "matmul", 32, 3)]
    with pytest.raises(UsageError, match="there is no kernel 'fft' to compare with Numba's simulator; there are saxpy, matmul"):
        run(Options(("fft",)))


def test_the_report() -> None:
    results = NumbaResults({"processor": "a fast one"}, Options(), [measured(0.25)], ["matmul by numba failed: out of patience"])
    console = Console(file=io.StringIO(), width=200)
    console.print(numba_report.render(results))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for words in ("a fast one", "100,000,000 threads/s", "4,000 threads/s", "25,000", "out of patience", "met"):
        assert words in text
    document = json.loads(json.dumps(numba_report.as_json(results)))
    assert document["kernels"][0]["times"] == 25_000
    assert document["kernels"][0]["by"]["numba"]["seconds"] == [0.25] * 3
    assert document["goals"][0]["met"] is True
    assert document["options"] == dataclasses.asdict(results.options) | {"only": []}
