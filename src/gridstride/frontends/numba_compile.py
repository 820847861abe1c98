"""Python functions to PTX by numba-cuda, linked and kept on disk.

numba-cuda asks the driver for one thing while it compiles: the compute capability of the current device, when a device function is met.
`_compiling_for` answers in its place.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any

from gridstride.cache import DiskCache, key_of
from gridstride.errors import UnsupportedError
from gridstride.frontends.cuda_cpp import own_identity
from gridstride.frontends.numba_cuda import StandIn, arguments_of, errors_of_numba, numba_cuda
from gridstride.frontends.numba_errors import compile_error, inner_error, require_kernel
from gridstride.frontends.nvrtc import build_identity
from gridstride.frontends.ptx_file import files
from gridstride.frontends.python_fingerprint import fingerprint, versions
from gridstride.frontends.python_function import CompiledPython, PythonFunction, RaisedException
from gridstride.frontends.python_linking import GRID_SYNC, Linkable, limit_registers, linkable_file, linked
from gridstride.frontends.python_names import mark_pointers, name_shared_arrays
from gridstride.frontends.python_parameters import Argument

_lock = RLock()
_cache = DiskCache("python")


def compile_function(function: PythonFunction, types: Sequence[Any], arch: str) -> CompiledPython:
    """PTX for a function given arguments of these types, on `arch` ("sm_90"). Results are kept on disk.

    Raises CompileError with the place in the source, UnsupportedError.
    """
    require_kernel(function)
    arguments = arguments_of(function.parameters, types)
    entry = re.sub(r"\W", "_", function.name)
    key = _key(function, types, arch)
    kept = None if key is None else _cache.get(key)
    if kept is None:
        kept = _made(function, tuple(types), arguments, entry, arch)
        if key is not None:
            _cache.put(key, kept)
    exceptions = {int(code): RaisedException(**{**raised, "arguments": tuple(raised["arguments"])}) for code, raised in kept["exceptions"].items()}
    return CompiledPython(function, kept["ptx"], entry, arguments, kept["cooperative"], exceptions)


def _key(function: PythonFunction, types: Sequence[Any], arch: str) -> str | None:
    """The name of the result on disk; None where it cannot be told what it depends on."""
    text = fingerprint(function.function)
    if text is None or function.options.extensions or not all(isinstance(code, str) for code in function.options.link):
        return None
    links = [linkable_file(code).text for code in function.options.link]
    return key_of("python", versions(), build_identity(), own_identity(), text, list(map(str, types)), arch, repr(function.options), links)


def _made(function: PythonFunction, types: tuple[Any, ...], arguments: Sequence[Argument], entry: str, arch: str) -> dict[str, Any]:
    """PTX, whether the grid is synchronised, and exceptions by code: a JSON value."""
    debug = function.options.debug
    with _compiling_for(_capability(arch)):
        made, texts = _compile(function, types, entry, _capability(arch))
    codes = [*map(linkable, function.options.link), *map(linkable, made.library._linking_files)]
    ptx = linked(function.name, texts, codes, providers(), arch, debug=debug)
    ptx = mark_pointers(name_shared_arrays(ptx, function.function), entry, arguments)
    if function.options.max_registers is not None:
        ptx = limit_registers(ptx, function.options.max_registers)
    exceptions = {str(code): vars(_placed(raised, code, ptx)) for code, raised in _exceptions.items()} if debug else {}
    return {"ptx": ptx, "cooperative": bool(made.library.use_cooperative), "exceptions": exceptions}


def _compile(function: PythonFunction, types: tuple[Any, ...], entry: str, capability: tuple[int, int]) -> tuple[Any, list[str]]:
    """Numba's result and the PTX of a kernel. Raises CompileError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", numba_cuda().core.errors.NumbaDebugInfoWarning)  # no source to take lines from
            try:
                return _compile_as_dispatcher(function, types, entry, capability, lines=not function.options.debug)
            except SyntaxError:  # Numba looks for the line of the `def` in the source, which it cannot read where a lambda is a part of it
                return _compile_as_dispatcher(function, types, entry, capability, lines=False)
    except errors_of_numba() as error:
        raise compile_error(error, function) from None
    except Exception as error:
        raise inner_error(error, function) from error


def _compile_as_dispatcher(
    function: PythonFunction, types: tuple[Any, ...], entry: str, capability: tuple[int, int], *, lines: bool
) -> tuple[Any, list[str]]:
    """What Numba's own dispatcher does up to the PTX (numba-cuda, `numba/cuda/dispatcher.py`, `_Kernel.__init__`)."""
    cuda, options = numba_cuda(), function.options
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


def linkable(code: Any) -> Linkable:
    """A file or one of Numba's objects with code in memory."""
    if isinstance(code, str):
        return linkable_file(code)
    text = code.data.decode() if isinstance(code.data, bytes) and code.kind in ("cu", "ptx") else code.data
    if not isinstance(text, str):
        raise UnsupportedError(f"{code.name} cannot be linked: Python kernels link CUDA C++ and PTX, no machine code")
    return Linkable(f"{code.name}.cu", text)


def providers() -> dict[str, Callable[[], Linkable]]:
    """Where functions come from that Numba's code calls: by the beginning of their names."""
    folder = Path(numba_cuda().__file__).parent

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


@contextmanager
def _compiling_for(capability: tuple[int, int]) -> Iterator[None]:
    from numba.cuda.core.callconv import _MinimalCallHelper as helper

    dispatcher = numba_cuda().dispatcher
    functions = dispatcher.CUDADispatcher
    compile_device = functions.compile_device

    def with_lines(self: Any, *given: Any, **named: Any) -> Any:
        """Device functions have line information too, whatever their decorators say; it changes no code."""
        if not self.targetoptions.get("debug"):
            self.targetoptions = {**self.targetoptions, "lineinfo": True}
        return compile_device(self, *given, **named)

    with _lock:
        kept = dispatcher.get_current_device, helper._add_exception
        dispatcher.get_current_device = lambda: StandIn(capability)
        helper._add_exception, functions.compile_device = _numbered, with_lines
        try:
            yield
        finally:
            dispatcher.get_current_device, helper._add_exception = kept
            functions.compile_device = compile_device


_exceptions: dict[int, RaisedException] = {}
"""What kernels of this process can raise, by the codes that they leave."""


def _numbered(helper: Any, kind: Any, arguments: Any, place: Any) -> int:
    """A code for an exception. Numba counts anew in each function, so that a kernel's and its device functions' mean different things by the same."""
    raised = _exception(kind, arguments, place)
    code = next((code for code, known in _exceptions.items() if known == raised), len(_exceptions) + 1)
    _exceptions[code] = raised
    helper.exceptions[code] = kind, arguments, place
    return code


def _exception(kind: Any, arguments: Any, place: Any) -> RaisedException:
    name = f"{kind.__module__}.{kind.__qualname__}"
    function, file, line = place or ("", "", 0)
    return RaisedException(name, tuple(map(str, arguments or ())), function, file, line)


def _placed(raised: RaisedException, code: int, ptx: str) -> RaisedException:
    """The exception with its place: Numba has none for those that operations raise (a division by zero), but only one place may leave the code."""
    if raised.line:
        return raised
    places, here = set(), None
    for line in ptx.splitlines():
        if match := re.match(r"\s*\.loc\s+(\d+)\s+(\d+)", line):
            here = match[1], match[2]
        elif here is not None and re.search(rf"st\.param\.b32\s+\[\w+(?:\+0)?\],\s*{code};", line):
            places.add(here)
    if len(places) != 1:
        return raised
    (file, number) = places.pop()
    return replace(raised, file=files(ptx).get(int(file), ""), line=int(number))
