"""The adapter to numba-cuda: its kernels, its types, its signatures. With `numba_compile`, all that Gridstride knows of Numba; neither a GPU
nor a driver is needed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from threading import RLock
from types import FunctionType
from typing import Any

from gridstride.errors import LaunchError, UnsupportedError, UsageError
from gridstride.frontends.numba_errors import first_sentence
from gridstride.frontends.python_function import PythonFunction, PythonOptions
from gridstride.frontends.python_parameters import Argument, Complex, DeviceArray, EnumMember, Members, Number, Record

_MISSING = "kernels written in Python need numba-cuda, which is not installed here: run `pip install 'gridstride[python]'`"
_lock = RLock()


@cache
def numba_cuda() -> Any:
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


def errors_of_numba() -> tuple[type[Exception], ...]:
    """The bases of what Numba raises about a program; numba-cuda has its own and uses Numba's as well."""
    import numba.core.errors

    own = numba_cuda().core.errors.NumbaError, numba.core.errors.NumbaError
    return tuple(dict.fromkeys(own))


def is_python_kernel(source: object) -> bool:
    """Whether it is a Python function, or one that `@cuda.jit` has decorated."""
    return isinstance(source, FunctionType) or _is_dispatcher(source)


def is_kernel_declaration(source: object) -> bool:
    """Whether `@cuda.jit` has made a kernel of it, no device function."""
    return _is_dispatcher(source) and not getattr(source, "targetoptions", {}).get("device")


def _is_dispatcher(source: object) -> bool:
    module = sys.modules.get("numba.cuda.dispatcher")
    return module is not None and isinstance(source, module.CUDADispatcher)


def python_function(source: Any) -> PythonFunction:
    """A function or what `@cuda.jit` made of it, with the options it was given."""
    numba_cuda()
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
        return numba_cuda().typing.typeof.typeof(value, numba_cuda().typing.typeof.Purpose.argument)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise UsageError(f"a {type(value).__name__} cannot be an argument of a kernel ({first_sentence(str(error))})") from None


def array_type(dtype: Any, dimensions: int, layout: str, *, readonly: bool = False) -> Any:
    """The type of a device array. layout: C (no gaps, last axis fastest), F (no gaps, first axis fastest), A (any strides)."""
    from numba.cuda.np import numpy_support

    try:
        element = numpy_support.from_dtype(dtype)
    except NotImplementedError:
        raise UsageError(f"Numba has no type for arrays of {dtype}") from None
    aligned = not (dtype.fields is not None and not dtype.isalignedstruct)
    return numba_cuda().types.Array(element, dimensions, layout, readonly=readonly, aligned=aligned)


def address_type() -> Any:
    """The type of a raw address; only a declared signature says what is there."""
    return numba_cuda().types.voidptr


def tuple_type(members: Sequence[Any], kind: type) -> Any:
    """The type of a tuple, or of a named tuple of the class `kind`."""
    return numba_cuda().types.BaseTuple.from_types(members, kind)


def arguments_of(names: Sequence[str], types: Sequence[Any]) -> tuple[Argument, ...]:
    """How arguments of these types lie in the parameter list. Raises UnsupportedError for a type that no kernel can be given."""
    return tuple(_argument(name, kind) for name, kind in zip(names, types, strict=True))


def _argument(name: str, kind: Any) -> Argument:
    types = numba_cuda().types
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
    types = numba_cuda().types
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
    context = numba_cuda().descriptor.cuda_target.typing_context
    addresses = (numba_cuda().types.RawPointer, numba_cuda().types.CPointer)
    counts: dict[str, int] = {}
    for have, want in zip(given, wanted, strict=True):
        taken = isinstance(want, addresses) and isinstance(have, (*addresses, numba_cuda().types.Integer))
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
    if not isinstance(kind, numba_cuda().types.Array):
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
    cuda = numba_cuda()
    dispatcher = cuda.dispatcher.CUDADispatcher
    if getattr(dispatcher.compile, "gridstride", False) or cuda.is_available():
        return

    def note(self: Any, signature: Any) -> Any:
        types, _ = cuda.core.sigutils.normalize_signature(signature)
        return self.overloads.setdefault(tuple(types), _Noted(cuda.types.none(*types)))

    note.gridstride = True  # type: ignore[attr-defined]
    dispatcher.compile = note
    cuda.dispatcher.get_current_device = lambda: StandIn((9, 0))  # device functions are the same for all until they are written as PTX


@dataclass(frozen=True)
class _Noted:
    """A signature that was not compiled, in the place of Numba's kernel."""

    signature: Any
    entry_point: None = None
    objectmode: bool = False


class StandIn:
    """What device functions ask of the current device while they are compiled."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.compute_capability = capability
