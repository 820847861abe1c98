"""Case files: many launches of one source, described as data, run one by one.

A file is a JSON list of `{"name", "kernel", "grid", "block", "smem", "args"}`. An argument is a scalar `["i32", 5]`, a raw address
`["ptr", 0]`, or a buffer of its own `["buf", dtype, count, init, {"out": bool}]`, where `init` is "zeros", "ones", "poison", "arange",
"none", `["const", v]`, `["literal", […]]`, `["randint", low, high, seed]` or `["uniform", low, high, seed]`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gridstride.errors import GridstrideError, KernelFault, LaunchError, UnsupportedError, UsageError
from gridstride.findings import Dim3, Finding
from gridstride.machine.limits import as_dim3
from gridstride.observers.checks.suppress import Rule
from gridstride.observers.metrics.nsight import nsight_counters
from gridstride.report.model import CaseResult, Failure, Receipt
from gridstride.runtime.array import Array
from gridstride.runtime.checking import session
from gridstride.runtime.device import Device, LaunchShape
from gridstride.runtime.initial import DTYPES, Initial, typed
from gridstride.runtime.module import Kernel, Module
from gridstride.runtime.pointer import pointer
from gridstride.runtime.profiling import compared_with_machine_code, profiling
from gridstride.runtime.python_module import PythonModule
from gridstride.runtime.request import Argument, Buffer, LaunchRequest, RawPointer, Scalar

_FIELDS = ("name", "kernel", "grid", "block", "args")
_OPTIONAL = ("smem", "cooperative", "cluster")
_WORDS = ("zeros", "ones", "poison", "arange", "none")
_DRAWS = ("randint", "uniform")


def read_cases(path: Path) -> list[LaunchRequest]:
    """The launches of a case file, in its order. Raises UsageError that names the case and what is wrong with it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no case file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    if not isinstance(data, list):
        raise UsageError(f"{path}: a case file is a JSON list of cases, not {_kind(data)}")
    requests = [parse_case(entry, f"{path}, case {index + 1}") for index, entry in enumerate(data)]
    seen: set[str] = set()
    for request in requests:
        if request.name in seen:
            raise UsageError(f"{path}: two cases are called {request.name!r}")
        seen.add(request.name)
    return requests


def select_cases(requests: Sequence[LaunchRequest], names: Sequence[str]) -> list[LaunchRequest]:
    """Those called `names`, in the file's order; all where no name is given. Raises UsageError for a name that no case has."""
    known = [request.name for request in requests]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise UsageError(f"no case is called {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return [request for request in requests if not names or request.name in names]


def parse_case(entry: Any, where: str) -> LaunchRequest:
    """One case of a case file. `where` begins the message of the UsageError raised where it is wrong."""
    if not isinstance(entry, dict):
        raise UsageError(f"{where}: a case is an object, not {_kind(entry)}")
    missing = [field for field in _FIELDS if field not in entry]
    if missing:
        raise UsageError(f"{where}: {', '.join(map(repr, missing))} missing")
    unknown = [field for field in entry if field not in (*_FIELDS, *_OPTIONAL)]
    if unknown:
        raise UsageError(f"{where}: unknown field {unknown[0]!r}; a case has {', '.join((*_FIELDS, *_OPTIONAL))}")
    for field in ("name", "kernel"):
        if not isinstance(entry[field], str) or not entry[field]:
            raise UsageError(f"{where}: {field!r} is a text, not {entry[field]!r}")
    where = f"{where} ({entry['name']})"
    shared = entry.get("smem", 0)
    if not _is_int(shared) or shared < 0:
        raise UsageError(f"{where}: 'smem' is a number of bytes, not {shared!r}")
    cooperative = entry.get("cooperative", False)
    if not isinstance(cooperative, bool):
        raise UsageError(f"{where}: 'cooperative' is true or false, not {cooperative!r}")
    cluster = _dim3(entry, "cluster", where) if "cluster" in entry else None
    if not isinstance(entry["args"], list):
        raise UsageError(f"{where}: 'args' is a list, not {_kind(entry['args'])}")
    arguments = tuple(_argument(spec, f"{where}, argument {position}") for position, spec in enumerate(entry["args"]))
    return LaunchRequest(entry["name"], entry["kernel"], _dim3(entry, "grid", where), _dim3(entry, "block", where), shared, arguments, cooperative, cluster)


def _dim3(entry: dict[str, Any], field: str, where: str) -> Dim3:
    try:
        return as_dim3(entry[field], field)
    except LaunchError as error:
        raise UsageError(f"{where}: {error}") from None


def _argument(spec: Any, where: str) -> Argument:
    if not isinstance(spec, list) or not spec or not isinstance(spec[0], str):
        raise UsageError(
            f'{where}: an argument is a list such as ["i32", 5] or ["buf", "f32", 100, "zeros", {{"out": true}}], not {spec!r}'
        )
    kind = spec[0]
    if kind == "buf":
        return _buffer(spec, where)
    if len(spec) != 2:
        raise UsageError(f"{where}: [{kind!r}, VALUE] has two parts, not {len(spec)}")
    value = spec[1]
    if kind == "ptr":
        if not _is_int(value) or not 0 <= value < 1 << 64:
            raise UsageError(f"{where}: an address is a number from 0 to 2^64 - 1, not {value!r}")
        return RawPointer(value)
    if kind not in DTYPES:
        raise UsageError(f"{where}: unknown kind {kind!r}; there are buf, ptr, {', '.join(DTYPES)}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{where}: {kind} takes a number, not {value!r}")
    try:
        return Scalar(typed(DTYPES[kind], value))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _buffer(spec: list[Any], where: str) -> Buffer:
    if len(spec) not in (4, 5):
        raise UsageError(f'{where}: a buffer is ["buf", TYPE, COUNT, INIT, {{"out": BOOL}}], not {spec!r}')
    _, dtype, count, init, *rest = spec
    if dtype not in DTYPES:
        raise UsageError(f"{where}: unknown type {dtype!r}; the types are {', '.join(DTYPES)}")
    if not _is_int(count) or count < 0:
        raise UsageError(f"{where}: a buffer's count is a whole number, not {count!r}")
    flags = rest[0] if rest else {}
    if not isinstance(flags, dict) or set(flags) - {"out"} or not isinstance(flags.get("out", False), bool):
        raise UsageError(f'{where}: a buffer\'s flags are {{"out": true}} or {{"out": false}}, not {flags!r}')
    return Buffer(DTYPES[dtype], (count,), _initial(init, where), flags.get("out", False))


def _initial(init: Any, where: str) -> Initial:
    for word in _WORDS:
        if init == word:
            return Initial(word)  # type: ignore[arg-type]
    match init:
        case ["const", value] if _is_number(value):
            return Initial("const", (value,))
        case ["literal", list(values)] if all(map(_is_number, values)):
            return Initial("literal", tuple(values))
        case ["randint" | "uniform" as kind, low, high, seed] if _is_number(low) and _is_number(high) and _is_int(seed) and seed >= 0:
            return Initial(kind, (low, high, seed))
    forms = '["const", V], ["literal", […]], ["randint", LOW, HIGH, SEED], ["uniform", LOW, HIGH, SEED]'
    raise UsageError(f"{where}: unknown initialiser {init!r}; there are {', '.join(_WORDS)}, {forms}")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")


@dataclass(frozen=True)
class CheckRequest:
    """What to look for in each launch: kinds of findings, how many other orders to run it in, and what nobody wants to see."""

    kinds: frozenset[str]
    schedules: int = 0
    rules: tuple[Rule, ...] = ()


def run_case(request: LaunchRequest, module: Module | PythonModule, *, profile: bool = False, checks: CheckRequest | None = None) -> CaseResult:
    """Run one launch on buffers of its own, which are freed again; whatever goes wrong, an interrupt too, is in the result, not raised.

    profile: count what the launch does. checks: look for findings.
    """
    if checks is None:
        return _run_to_the_end(request, module, profile)
    with session(checks.kinds, schedules=checks.schedules, rules=checks.rules) as found:
        result = _run_to_the_end(request, module, profile)
    own = [finding for finding in result.findings if not any(finding.kind == other.kind for other in found)]
    return replace(result, findings=(*own, *found), receipt=found.receipt)


def _run_to_the_end(request: LaunchRequest, module: Module | PythonModule, profile: bool) -> CaseResult:
    try:
        return _run(request, module.kernel_for(request), profile)
    except GridstrideError as error:
        return failed_case(request, error)
    except KeyboardInterrupt:
        return failed_case(request, KernelFault("interrupted", "interrupted"))
    except MemoryError:
        return failed_case(request, LaunchError(f"not enough memory for the buffers of {request.name}"))
    except Exception as error:  # noqa: BLE001 - a defect of Gridstride's own must not take the other cases' results with it
        message = f"internal error, please report it: {type(error).__name__}: {error}"
        return failed_case(request, UnsupportedError(message))


def failed_case(request: LaunchRequest, error: GridstrideError) -> CaseResult:
    """The result of a launch that ended with, or never began because of, `error`."""
    code = "launch" if isinstance(error, UsageError) else error.code
    found = (error.fault,) if isinstance(error, KernelFault) and isinstance(error.fault, Finding) else ()
    launched = isinstance(error, KernelFault)
    receipt = Receipt(launches=int(launched), threads=_threads(request) if launched else 0)
    return CaseResult(request.name, request.kernel, failure=Failure(code, str(error)), findings=found, receipt=receipt)


def _threads(request: LaunchRequest) -> int:
    return LaunchShape(request.grid, request.block).threads


def _run(request: LaunchRequest, kernel: Kernel, profile: bool) -> CaseResult:
    arrays: list[Array] = []
    arguments: list[Any] = []
    outputs: dict[int, Array] = {}
    names = kernel.argument_names
    try:
        for position, argument in enumerate(request.arguments):
            match argument:
                case Scalar(value):
                    arguments.append(value)
                case RawPointer(address):
                    arguments.append(pointer(address))
                case Buffer():
                    array = upload(kernel.device, argument, names[position] if position < len(names) else None)
                    arrays.append(array)
                    arguments.append(array)
                    if argument.out:
                        outputs[position] = array
        shape = LaunchShape(request.grid, request.block, request.shared, request.cooperative, request.cluster)
        with profiling() if profile else nullcontext() as profiled:
            outcome = kernel.launch(shape, arguments)
        metrics = profiled.launches[-1] if profiled is not None and profiled.launches else None
        if metrics is not None:
            metrics = compared_with_machine_code(metrics, kernel.module.source, kernel.entry)
        return CaseResult(
            request.name,
            request.kernel,
            seconds=outcome.seconds,
            counters=nsight_counters(metrics) if metrics else {},
            occupancy=kernel.occupancy(shape),
            estimate_us=metrics.estimate_us if metrics else None,
            receipt=Receipt(launches=1, threads=outcome.threads),
            outputs={position: array.numpy() for position, array in outputs.items()},
            output_names={position: names[position] for position in outputs},
            metrics=metrics,
        )
    finally:
        for array in arrays:
            array.free()


def upload(device: Device, buffer: Buffer, name: str | None) -> Array:
    """A buffer in device memory, with what it holds before the launch."""
    values = buffer.initial.build(buffer.dtype, buffer.count)
    array = device.empty(buffer.shape, buffer.dtype, name=name)
    return array if values is None else array.copy_from(values.reshape(buffer.shape))


def run_cases(
    requests: Sequence[LaunchRequest],
    module: Module | PythonModule,
    progress: Callable[[LaunchRequest], None] = lambda request: None,
    *,
    profile: bool = False,
    checks: CheckRequest | None = None,
) -> list[CaseResult]:
    """Run the launches one by one; one that fails stops no other, an interrupt stops all. `progress` is told of each before it runs."""
    results: list[CaseResult] = []
    for request in requests:
        progress(request)
        results.append(run_case(request, module.fresh(), profile=profile, checks=checks))
        failure = results[-1].failure
        if failure is not None and failure.code == "interrupted":
            break
    return results
