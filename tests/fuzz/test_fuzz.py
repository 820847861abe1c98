"""Two hundred corrupted kernels and launches: none may crash, hang, or end in anything but Gridstride's own errors. More: `run.py`."""

from __future__ import annotations

from pathlib import Path

from .mutate import kernels, make_case
from .run import fuzz

SEED, COUNT = 1_000_000, 200


def test_corruptions_crash_and_hang_nothing(tmp_path: Path) -> None:
    summary = fuzz(range(SEED, SEED + COUNT), limit=100, cache=tmp_path)
    assert summary.failures == [], "\n".join(f"seed {seed}: {kind}\n{detail}" for seed, kind, detail in summary.failures)
    assert summary.cases == COUNT
    # corruptions that only ever meet the parser would prove little
    assert summary.ended["ok"] + summary.ended["out-of-bounds"] >= COUNT // 5


def test_a_seed_always_gives_the_same_case() -> None:
    assert [make_case(seed) for seed in range(50)] == [make_case(seed) for seed in range(50)]


def test_every_kernel_of_the_truth_set_is_corrupted() -> None:
    assert len(kernels()) == 53 + 36
    assert {make_case(seed).kernel for seed in range(2000)} == {kernel.name for kernel in kernels()}
