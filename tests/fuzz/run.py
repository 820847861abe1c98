"""Corrupted kernels and launches by the thousand: nothing may crash, hang, or end in anything but Gridstride's own errors.

    python -m tests.fuzz.run --count 10000 --seed 1

Seeds SEED, SEED+1, … are run in worker processes, one after the other, so that a crash of the code generator or of
native code is one failure and not the end. A case that takes longer than --limit seconds is a hang. Failures are
written to --out (a folder): SEED.ptx with the corrupted kernel, SEED.txt with the launch and what happened. Run one
again, in this process, with `python -m tests.fuzz.run --only SEED`.

Exit status: 0 when no case failed, 1 otherwise.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from .mutate import make_case

CASES_PER_WORKER = 200  # native code stays in a process: a fresh one now and then keeps it small
MAX_RESIDENT = 6 << 30  # bytes


@dataclass
class Summary:
    """How the cases ended, by kind; the failures with their seed, kind and details; the slowest cases."""

    ended: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    slowest: list[tuple[float, int]] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return sum(self.ended.values())

    def add(self, answer: dict[str, Any]) -> None:
        self.ended[answer["ended"]] += 1
        self.slowest = sorted([*self.slowest, (answer["seconds"], answer["seed"])], reverse=True)[:5]
        if answer["failure"]:
            self.failures.append((answer["seed"], answer["failure"], answer["detail"]))


class Worker:
    """A worker process, started when it is first needed and again after it died."""

    def __init__(self, cache: Path, limit: float) -> None:
        self.limit = limit
        package = __package__ or "fuzz"
        root = Path(__file__).resolve().parents[len(package.split("."))]
        source = Path(__file__).resolve().parents[2] / "src"
        path = os.pathsep.join([str(root), str(source), os.environ.get("PYTHONPATH", "")])
        self.environment = {**os.environ, "PYTHONPATH": path, "GRIDSTRIDE_CACHE_DIR": str(cache)}
        self.command = [sys.executable, "-m", f"{package}.worker"]
        self.process: subprocess.Popen[str] | None = None
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the worker
        self.done = 0

    def run(self, seed: int) -> dict[str, Any]:
        """What became of a seed, the worker's death and its silence included."""
        process = self._alive()
        assert process.stdin is not None and process.stdout is not None
        started = time.monotonic()
        failure, line = "", ""
        try:
            process.stdin.write(f"{seed}\n")
            process.stdin.flush()
            line = self._answer(process, started)
        except BrokenPipeError:
            pass
        except TimeoutError as error:
            failure = str(error)
        if line:
            self.done += 1
            if self.done >= CASES_PER_WORKER:
                self.close()
            answer: dict[str, Any] = json.loads(line)
            return answer
        detail = self._end()
        return {"seed": seed, "ended": "failure", "failure": failure or "crash", "detail": detail, "seconds": time.monotonic() - started}

    def _answer(self, process: subprocess.Popen[str], started: float) -> str:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not selector.select(1.0):
                if time.monotonic() - started > self.limit:
                    raise TimeoutError("hang")
                if _resident(process.pid) > MAX_RESIDENT:
                    raise TimeoutError("memory")
        return process.stdout.readline()

    def _alive(self) -> subprocess.Popen[str]:
        if self.process is None:
            self.done = 0
            self.errors.seek(0)
            self.errors.truncate()
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=self.environment
            )
        return self.process

    def _end(self) -> str:
        """Ask for a trace of where the process is, end it; its last words."""
        process, self.process = self.process, None
        assert process is not None
        if process.poll() is None:
            process.send_signal(signal.SIGABRT)  # faulthandler answers with the Python stack
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
        status = process.wait()
        self.errors.seek(0)
        return f"exit status {status}\n" + self.errors.read()[-4000:]

    def close(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.errors.close()


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def fuzz(seeds: Iterable[int], limit: float, cache: Path, tell: Callable[[Summary, dict[str, Any]], None] = lambda summary, answer: None) -> Summary:
    """Run the cases of `seeds` in worker processes whose code cache is the folder `cache`."""
    summary = Summary()
    with Worker(cache, limit) as worker:
        for seed in seeds:
            answer = worker.run(seed)
            summary.add(answer)
            tell(summary, answer)
            if summary.cases % CASES_PER_WORKER == 0:
                _empty(cache)
    return summary


def _empty(cache: Path) -> None:
    """Kernels that nobody will ever run again."""
    for entry in sorted(cache.glob("native/*.json"), key=lambda path: path.stat().st_mtime)[8:]:
        entry.unlink(missing_ok=True)


def save(folder: Path, seed: int, kind: str, detail: str) -> None:
    """Keep a failure: the corrupted kernel, and a text with the launch and what happened."""
    folder.mkdir(parents=True, exist_ok=True)
    case = make_case(seed)
    (folder / f"{seed}.ptx").write_text(case.ptx)
    launch = f"{case.kernel} grid {case.grid} block {case.block} shared {case.shared} order {case.order} threads {case.threads} watched {case.watched!r}"
    lines = [f"seed {seed}: {kind}", launch, str(case.arguments), *case.what, "", detail]
    (folder / f"{seed}.txt").write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1, help="the first case's seed")
    parser.add_argument("--limit", type=float, default=60, help="seconds after which a case counts as hanging")
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"), help="folder for the failures")
    parser.add_argument("--only", type=int, help="run one seed in this process and show what it is")
    given = parser.parse_args()
    if given.only is not None:
        return _one(given.only)
    started = time.monotonic()

    def tell(summary: Summary, answer: dict[str, Any]) -> None:
        if answer["failure"]:
            save(given.out, answer["seed"], answer["failure"], answer["detail"])
            print(f"seed {answer['seed']}: {answer['failure']}: {answer['detail'].strip().splitlines()[-1:]}", flush=True)
        if summary.cases % 100 == 0:
            print(f"{summary.cases} cases, {len(summary.failures)} failures, {time.monotonic() - started:.0f} s", flush=True)

    with tempfile.TemporaryDirectory() as cache:
        summary = fuzz(range(given.seed, given.seed + given.count), given.limit, Path(cache), tell)
    print(f"{summary.cases} cases in {time.monotonic() - started:.0f} s: {dict(summary.ended.most_common())}")
    print("slowest: " + ", ".join(f"seed {seed} {seconds:.1f} s" for seconds, seed in summary.slowest))
    print(f"{len(summary.failures)} failures" + (f", kept in {given.out}" if summary.failures else ""))
    return 1 if summary.failures else 0


def _one(seed: int) -> int:
    from .run_case import Verdict, run_case

    case = make_case(seed)
    print(f"{case.kernel} grid {case.grid} block {case.block} shared {case.shared} order {case.order} threads {case.threads} watched {case.watched!r}\n{case.arguments}")
    print("\n".join(case.what))
    try:
        print("ended:", run_case(case))
    except Verdict as verdict:
        print(f"FAILURE {verdict.kind}\n{verdict.detail}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
