"""The processor native code is made for, and LLVM's optimiser and code generator on it."""

from __future__ import annotations

import functools
import threading

import llvmlite.binding as llvm


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def host_cpu() -> str:
    return llvm.get_host_cpu_name()


@functools.cache
def host_features() -> str:
    """Features of this processor. Where there are 512-bit vectors a warp's 32 lanes should use them; LLVM shies
    away from them by default."""
    features = llvm.get_host_cpu_features()
    text: str = features.flatten()
    if features.get("avx512f"):
        text += ",-prefer-256-bit"
    return text


def target_machine(level: int) -> llvm.TargetMachine:
    """A new target machine of optimisation `level` (0 to 3). Not to be shared between threads."""
    _initialise()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=host_cpu(), features=host_features(), opt=level, reloc="pic", codemodel="small", jit=True)


def optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, level: int) -> None:
    """Run LLVM's standard passes of `level` over the module."""
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    manager = passes.getModulePassManager()
    manager.run(module, passes)


def compile_object(ir_text: str, level: int | None = 2, codegen: int | None = None) -> bytes:
    """Verify, optimise (`level` None: without any pass) and emit LLVM IR text as a relocatable object."""
    machine = target_machine((level or 0) if codegen is None else codegen)
    module = llvm.parse_assembly(ir_text)
    module.verify()
    if level is not None:
        optimise(module, machine, level)
    return machine.emit_object(module)


def load_object(name: str, image: bytes, symbols: list[str]) -> tuple[llvm.ResourceTracker, dict[str, int]]:
    """Load an object into this process; returns what keeps it there, and the addresses of `symbols`."""
    with _loading:  # LLVM's session is one for all threads
        return _load(name, image, symbols)


_loading = threading.RLock()


def _load(name: str, image: bytes, symbols: list[str]) -> tuple[llvm.ResourceTracker, dict[str, int]]:
    builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    tracker = builder.link(_jit(), name)
    return tracker, {symbol: tracker[symbol] for symbol in symbols}


@functools.cache
def _jit() -> llvm.LLJIT:
    # JITLink keeps the sections of an object together; the older linker may put them over 2 GB apart and then abort
    return llvm.create_lljit_compiler(target_machine(2), use_jit_link=True)
