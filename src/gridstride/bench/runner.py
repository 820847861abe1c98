"""A whole run of the benchmark, from the empty cache to the results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from gridstride.bench import environment, rivals
from gridstride.bench.cases import contents, saxpy_case, scaled_cases
from gridstride.bench.loops import Loops, find_compiler
from gridstride.bench.measure import measure
from gridstride.bench.results import Options, Results
from gridstride.bench.simulated import Simulator, empty_cache
from gridstride.errors import UsageError

DATA = Path(__file__).parent / "data"
SAXPY_ELEMENTS = 16 << 20


def run(options: Options, progress: Callable[[str], None] = lambda _: None) -> Results:
    """Run the benchmark. `progress` is told what happens next. Raises UsageError for a kernel that is not there."""
    divide = 8 if options.quick else 1
    cases = scaled_cases(divide)
    known = {"saxpy", *(case.kernel for case in cases)}
    if unknown := set(options.only) - known:
        raise UsageError(f"The benchmark has no kernel called {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}.")
    wanted = set(options.only) or known
    results = Results(environment.describe(), options)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gridstride-bench-")))
        stack.enter_context(environment.one_core())
        stack.enter_context(empty_cache(folder / "cache"))
        loops = _build_loops(folder, results, progress)
        progress("loading the kernels")
        simulator = Simulator([DATA / "saxpy.ptx", DATA / "kernels.ptx"])
        results.load_seconds, results.start_seconds = simulator.load_seconds, simulator.start()
        if "saxpy" in wanted:
            progress("saxpy")
            results.saxpy = measure(saxpy_case(SAXPY_ELEMENTS // divide), simulator, loops, options.rounds)
            _measure_rivals(options, results, SAXPY_ELEMENTS // divide, folder, progress)
        for case in cases:
            if case.kernel in wanted:
                progress(case.kernel)
                results.kernels.append(measure(case, simulator, loops, options.rounds))
    results.environment["load after"] = environment.load()
    return results


def _build_loops(folder: Path, results: Results, progress: Callable[[str], None]) -> Loops | None:
    compiler = find_compiler()
    if compiler is None:
        results.skipped.append("C++ loops: there is no g++ on PATH, so no output was verified and no ratio is given")
        return None
    progress("building the C++ loops")
    loops = Loops(compiler, folder)
    results.environment["C++ loops"] = f"{loops.command}, {loops.version}"
    return loops


def _measure_rivals(options: Options, results: Results, elements: int, folder: Path, progress: Callable[[str], None]) -> None:
    x, y = (array for array in map(contents, saxpy_case(elements).arguments) if array is not None)
    results.numpy["a * x + y"] = rivals.numpy_expression(2.0, x, y, 3 * options.rounds)
    results.numpy["in place"] = rivals.numpy_in_place(2.0, x, y, 3 * options.rounds)
    progress("saxpy in Numba's simulator and in Oclgrind")
    for name, rival in (("Numba simulator", rivals.numba_simulator(options.rounds)), ("Oclgrind", rivals.oclgrind(options.rounds, folder))):
        if isinstance(rival, str):
            results.skipped.append(f"{name}: {rival}")
        else:
            results.rivals.append(rival)
