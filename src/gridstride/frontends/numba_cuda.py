"""The adapter to numba-cuda: what Gridstride knows of Numba is here, and it needs neither a GPU nor a driver.

numba-cuda asks the driver for one thing while it compiles: the compute capability of the current device, when a device function is met.
`_compiling_for` answers in its place.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import RLock
from types import FunctionType
from typing import Any

from gridstride.errors import CompileError, LaunchError, UnsupportedError, UsageError
from gridstride.frontends.python_function import CompiledPython, PythonFunction, PythonOptions, RaisedException
from gridstride.frontends.python_linking import GRID_SYNC, Linkable, linkable_file, linked
from gridstride.frontends.python_parameters import Argument, Complex, DeviceArray, EnumMember, Members, Number, Record

_MISSING = "kernels written in Python need numba-cuda, which is not installed here: run `pip install 'gridstride[python]'`"
_lock = RLock()


@cache
def _numba() -> Any:
    """numba.cuda, with what is used of it loaded."""
    try:
        import numba.cuda
        import numba.cuda.compiler
        import numba.cuda.core.errors
        import numba.cuda.core.sigutils
        import numba.cuda.cudadrv.nvvm
        import numba.cuda.descriptor
        import numba.cuda.dispatcher
        import numba.cuda.typing.typeof
    except ImportError as error:
        raise UnsupportedError(f"{_MISSING} ({error})") from error
    return numba.cuda


def is_python_kernel(source: object) -> bool:
    """Whether it is a Python function, or one that `@cuda.jit` has decorated."""
    return isinstance(source, FunctionType) or _is_dispatcher(source)


def _is_dispatcher(source: object) -> bool:
    module = sys.modules.get("numba.cuda.dispatcher")
    return module is not None and isinstance(source, module.CUDADispatcher)


def python_function(source: Any) -> PythonFunction:
    """A function or what `@cuda.jit` made of it, with the options it was given."""
    _numba()
    if not _is_dispatcher(source):
        return PythonFunction(source, _parameter_names(source))
    given = source.targetoptions
    name = source.py_func.__name__
    if given.get("device"):
        raise UsageError(f"{name} is a device function (device=True): kernels call it, the host cannot launch it")
    bounds = given.get("launch_bounds")
    options = PythonOptions(
        debug=bool(given.get("debug")),
        opt=bool(given.get("opt", True)),
        fastmath=bool(given.get("fastmath")),
        max_registers=given.get("max_registers"),
        launch_bounds=tuple(bounds) if isinstance(bounds, list | tuple) else bounds,
        link=tuple(given.get("link") or ()),
        extensions=tuple(given.get("extensions") or ()),
    )
    return PythonFunction(source.py_func, _parameter_names(source.py_func), options, tuple(source.overloads))


def _parameter_names(function: FunctionType) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


# ---- types -----------------------------------------------------------------------------------------------------------


def type_of(value: Any) -> Any:
    """The type that Numba infers for an argument. Raises UsageError where it has none."""
    try:
        return _numba().typing.typeof.typeof(value, _numba().typing.typeof.Purpose.argument)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise UsageError(f"a {type(value).__name__} cannot be an argument of a kernel ({_first_sentence(str(error))})") from None


def array_type(dtype: Any, dimensions: int, layout: str, *, readonly: bool = False) -> Any:
    """The type of a device array. layout: C (no gaps, last axis fastest), F (no gaps, first axis fastest), A (any strides)."""
    from numba.cuda.np import numpy_support

    try:
        element = numpy_support.from_dtype(dtype)
    except NotImplementedError:
        raise UsageError(f"Numba has no type for arrays of {dtype}") from None
    aligned = not (dtype.fields is not None and not dtype.isalignedstruct)
    return _numba().types.Array(element, dimensions, layout, readonly=readonly, aligned=aligned)


def address_type() -> Any:
    """The type of a raw address; only a declared signature says what is there."""
    return _numba().types.voidptr


def tuple_type(members: Sequence[Any], kind: type) -> Any:
    """The type of a tuple, or of a named tuple of the class `kind`."""
    return _numba().types.BaseTuple.from_types(members, kind)


def arguments_of(names: Sequence[str], types: Sequence[Any]) -> tuple[Argument, ...]:
    """How arguments of these types lie in the parameter list. Raises UnsupportedError for a type that no kernel can be given."""
    return tuple(_argument(name, kind) for name, kind in zip(names, types, strict=True))


def _argument(name: str, kind: Any) -> Argument:
    types = _numba().types
    if isinstance(kind, types.Array):
        return DeviceArray(name, _element(kind.dtype), kind.ndim)
    if isinstance(kind, types.Boolean):
        return Number(name, "bool")
    if isinstance(kind, types.Integer | types.Float):
        return Number(name, str(getattr(kind, "literal_type", kind)))
    if isinstance(kind, types.Complex):
        return Complex(name, str(kind.underlying_float))
    if isinstance(kind, types.NPDatetime | types.NPTimedelta):
        return Number(name, "int64")
    if isinstance(kind, types.RawPointer | types.CPointer):
        return Number(name, "void*")
    if isinstance(kind, types.Record):
        return Record(name)
    if isinstance(kind, types.BaseTuple):
        fields = getattr(kind, "fields", None)
        labels = [f"{name}.{field}" for field in fields] if fields else [f"{name}[{k}]" for k in range(len(kind))]
        return Members(name, tuple(_argument(label, member) for label, member in zip(labels, kind, strict=True)))
    if isinstance(kind, types.EnumMember):
        inner = _argument(name, kind.dtype)
        if isinstance(inner, Number):
            return EnumMember(inner)
    raise UnsupportedError(f"the argument {name} has the type {kind}, which kernels cannot be given")


def _element(kind: Any) -> str:
    types = _numba().types
    known = isinstance(kind, types.Integer | types.Float | types.Boolean | types.Complex)
    return str(kind) if known else "void"


def fitting(function: PythonFunction, types: Sequence[Any]) -> tuple[Any, ...]:
    """The types to compile for: these, or of the signatures that the function was declared with the one that takes them best.

    Raises LaunchError where none does.
    """
    given = tuple(types)
    if not function.signatures or given in function.signatures:
        return given
    ranked = sorted((rank, number) for number, wanted in enumerate(function.signatures) if (rank := _conversions(given, wanted)) is not None)
    if not ranked:
        declared = " or ".join(_spelled(wanted) for wanted in function.signatures)
        raise LaunchError(f"{function.name} is declared for {declared}, and was given {_spelled(given)}")
    return function.signatures[ranked[0][1]]


def _conversions(given: tuple[Any, ...], wanted: tuple[Any, ...]) -> tuple[int, ...] | None:
    """How many arguments need a conversion of each kind, the worst kind first; None where one cannot be converted."""
    if len(given) != len(wanted):
        return None
    context = _numba().descriptor.cuda_target.typing_context
    addresses = (_numba().types.RawPointer, _numba().types.CPointer)
    counts: dict[str, int] = {}
    for have, want in zip(given, wanted, strict=True):
        taken = isinstance(want, addresses) and isinstance(have, (*addresses, _numba().types.Integer))
        found = None if have == want or taken else context.can_convert(have, want)
        if found is not None:
            counts[found.name] = counts.get(found.name, 0) + 1
        elif have != want and not taken:
            return None
    return tuple(counts.get(kind, 0) for kind in ("unsafe", "safe", "promote"))


def _spelled(types: Sequence[Any]) -> str:
    return f"({', '.join(map(short_type, types))})"


def short_type(kind: Any) -> str:
    """A type as signatures write it: `float32[:, ::1]`."""
    if not isinstance(kind, _numba().types.Array):
        return str(getattr(kind, "literal_type", kind))
    axes = [":"] * kind.ndim
    if kind.layout == "C" and axes:
        axes[-1] = "::1"
    elif kind.layout == "F" and axes:
        axes[0] = "::1"
    return f"{kind.dtype}[{', '.join(axes)}]"


def defer_signatures() -> None:
    """Let `@cuda.jit("void(float32[:])")` only note the signature where no driver is: Numba would compile, and asks the driver for what.

    To be called before the decorators run. Where there is a driver, nothing changes.
    """
    cuda = _numba()
    dispatcher = cuda.dispatcher.CUDADispatcher
    if getattr(dispatcher.compile, "gridstride", False) or cuda.is_available():
        return

    def note(self: Any, signature: Any) -> Any:
        types, _ = cuda.core.sigutils.normalize_signature(signature)
        return self.overloads.setdefault(tuple(types), _Noted(cuda.types.none(*types)))

    note.gridstride = True  # type: ignore[attr-defined]
    dispatcher.compile = note
    cuda.dispatcher.get_current_device = lambda: _StandIn((9, 0))  # device functions are the same for all until they are written as PTX


@dataclass(frozen=True)
class _Noted:
    """A signature that was not compiled, in the place of Numba's kernel."""

    signature: Any
    entry_point: None = None
    objectmode: bool = False


# ---- compiling -------------------------------------------------------------------------------------------------------


def compile_function(function: PythonFunction, types: Sequence[Any], arch: str) -> CompiledPython:
    """PTX for a function given arguments of these types, on `arch` ("sm_90").

    Raises CompileError with the place in the source, UnsupportedError.
    """
    arguments = arguments_of(function.parameters, types)
    entry = re.sub(r"\W", "_", function.name)
    capability = _capability(arch)
    with _compiling_for(capability):
        made, texts = _compile(function, tuple(types), entry, capability)
    codes = [*map(_linkable, function.options.link), *map(_linkable, made.library._linking_files)]
    ptx = linked(function.name, texts, codes, _providers(), arch, debug=function.options.debug)
    exceptions = {code: _exception(*raised) for code, raised in made.call_helper.exceptions.items()} if made.call_helper else {}
    return CompiledPython(function, ptx, entry, arguments, made.library.use_cooperative, exceptions)


def _compile(function: PythonFunction, types: tuple[Any, ...], entry: str, capability: tuple[int, int]) -> tuple[Any, list[str]]:
    """Numba's result and the PTX of a kernel. Raises CompileError."""
    try:
        try:
            return _compile_as_dispatcher(function, types, entry, capability, lines=not function.options.debug)
        except SyntaxError:  # Numba looks for the line of the `def` in the source text, which it cannot read where a lambda is a part of it
            return _compile_as_dispatcher(function, types, entry, capability, lines=False)
    except _numba().core.errors.NumbaError as error:
        raise CompileError(_told(error, function)) from None
    except Exception as error:
        what = _first_sentence(str(error)) or "no reason given"
        raise CompileError(f"{function.file}:{function.line}: {function.name}: Numba could not compile it ({type(error).__name__}: {what})") from error


def _compile_as_dispatcher(
    function: PythonFunction, types: tuple[Any, ...], entry: str, capability: tuple[int, int], *, lines: bool
) -> tuple[Any, list[str]]:
    """What Numba's own dispatcher does up to the PTX (numba-cuda, `numba/cuda/dispatcher.py`, `_Kernel.__init__`)."""
    cuda, options = _numba(), function.options
    nvvm_options: dict[str, Any] = {"fastmath": options.fastmath, "opt": 3 if options.opt else 0}
    if options.debug:
        nvvm_options["g"] = None
    made = cuda.compiler.compile_cuda(
        function.function,
        cuda.types.void,
        types,
        debug=options.debug,
        lineinfo=lines,
        fastmath=options.fastmath,
        nvvm_options=nvvm_options,
        cc=capability,
        max_registers=options.max_registers,
        abi_info={"abi_name": entry},
    )
    library = made.library
    kernel = library.get_function(made.fndesc.llvm_func_name)
    library._entry_name = made.fndesc.llvm_func_name
    cuda.compiler.kernel_fixup(kernel, options.debug)
    cuda.cudadrv.nvvm.set_launch_bounds(kernel, options.launch_bounds)
    return made, library.get_asm_strs(cc=capability)


def _linkable(code: Any) -> Linkable:
    """A file or one of Numba's objects with code in memory."""
    if isinstance(code, str):
        return linkable_file(code)
    text = code.data.decode() if isinstance(code.data, bytes) and code.kind in ("cu", "ptx") else code.data
    if not isinstance(text, str):
        raise UnsupportedError(f"{code.name} cannot be linked: Python kernels link CUDA C++ and PTX, no machine code")
    return Linkable(f"{code.name}.cu", text)


def _providers() -> dict[str, Callable[[], Linkable]]:
    """Where functions come from that Numba's code calls: by the beginning of their names."""
    folder = Path(_numba().__file__).parent

    def own(*names: str) -> Callable[[], Linkable]:
        return lambda: linkable_file(str(folder.joinpath(*names)))

    return {
        "numba_attempt_nocopy_reshape": own("reshape_funcs.cu"),
        "NRT_": own("memory_management", "nrt.cu"),
        "cudaCG": lambda: linkable_file(str(GRID_SYNC)),
    }


def _capability(arch: str) -> tuple[int, int]:
    digits = re.sub(r"\D", "", arch)
    return int(digits[:-1]), int(digits[-1])


class _StandIn:
    """What device functions ask of the current device while they are compiled."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.compute_capability = capability


@contextmanager
def _compiling_for(capability: tuple[int, int]) -> Iterator[None]:
    dispatcher = _numba().dispatcher
    with _lock:
        kept = dispatcher.get_current_device
        dispatcher.get_current_device = lambda: _StandIn(capability)
        try:
            yield
        finally:
            dispatcher.get_current_device = kept


def _exception(kind: Any, arguments: Any, place: Any) -> RaisedException:
    name = getattr(kind, "__name__", "Exception")
    function, file, line = place or ("", "", 0)
    return RaisedException(name, tuple(arguments or ()), function, file, line)


# ---- errors ----------------------------------------------------------------------------------------------------------


def _told(error: Exception, function: PythonFunction) -> str:
    """An error of Numba's as one sentence with its place."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    place = re.findall(r'File "([^"]+)", line (\d+)', text)
    own = [(file, line) for file, line in place if file == function.file]
    file, line = (own or place or [(function.file, str(function.line))])[-1]
    return f"{file}:{line}: {function.name}: {_first_sentence(text)}"


def _first_sentence(text: str) -> str:
    """The first line that says something."""
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith(("Failed in", "Traceback")):
            return line.rstrip(":.")
    return text.strip()
