"""Loads, stores, atomics, fences and hints (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridstride.isa.registry import Effect, operation

if TYPE_CHECKING:
    from gridstride.ir.nodes import Op
    from gridstride.lower.emitter import Emitter

_SPACES = "global|shared|shared::cta|shared::cluster|local|const|param|param::entry|param::func"
_SCALARS = "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64"
_SCOPE = "cta|cluster|gpu|sys?"
_EVICTION = "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate?"
_EVICTION_2 = "L2::evict_normal|L2::evict_first|L2::evict_last?"
_PREFETCH = "L2::64B|L2::128B|L2::256B?"
_HINTS = f"{_EVICTION} {_EVICTION_2} {_PREFETCH} L2::cache_hint? unified?"


@operation(
    "ld",
    types=_SCALARS,
    modifiers=f"{_SPACES}? weak|relaxed|acquire|volatile? mmio? {_SCOPE} ca|cg|cs|lu|cv? nc? v2|v4|v8? {_HINTS}",
    operands="0 = u64",
    section="9.7.9.8",
    effects=Effect.READS_MEMORY,
)
def load(e: Emitter, op: Op) -> None:
    from gridstride.lower import access

    access.load(e, op)


@operation("ldu", types=_SCALARS, modifiers="global? v2|v4?", operands="0 = u64", section="9.7.9.10", effects=Effect.READS_MEMORY)
def load_uniform(e: Emitter, op: Op) -> None:
    load(e, op)


@operation(
    "st",
    types=_SCALARS,
    modifiers=f"{_SPACES}? weak|relaxed|release|volatile? mmio? {_SCOPE} wb|cg|cs|wt? v2|v4|v8? {_HINTS}",
    operands="= u64 0",
    section="9.7.9.11",
    effects=Effect.WRITES_MEMORY,
)
def store(e: Emitter, op: Op) -> None:
    from gridstride.lower import access

    access.store(e, op)


_ATOMIC_SPACE = "global|shared|shared::cta|shared::cluster? relaxed|acquire|release|acq_rel? cta|cluster|gpu|sys? L2::cache_hint?"


def atomic(e: Emitter, op: Op) -> None:
    from gridstride.lower import atomics

    atomics.lower(e, op)


_ATOMIC_FORMS = (
    ("and|or|xor", "b32 b64"),
    ("exch", "b32 b64 b128"),
    ("cas", "b16 b32 b64 b128"),
    ("add", "u32 s32 u64 s64 f32 f64"),
    ("inc|dec", "u32"),
    ("min|max", "u32 s32 u64 s64"),
)
_BOTH = Effect.READS_MEMORY | Effect.WRITES_MEMORY
for _operations, _types in _ATOMIC_FORMS:
    _count = "0 0" if _operations == "cas" else "0"
    operation("atom", types=_types, modifiers=f"{_ATOMIC_SPACE} {_operations}", operands=f"0 = u64 {_count}", section="9.7.13.5", effects=_BOTH)(atomic)
    if _operations not in ("exch", "cas"):
        operation("red", types=_types, modifiers=f"{_ATOMIC_SPACE} {_operations}", operands="= u64 0", section="9.7.13.6", effects=_BOTH)(atomic)
for _types, _modifiers in (("f16 f16x2 bf16 bf16x2", "add noftz v2|v4|v8?"), ("f32", "add v2|v4")):
    operation("atom", types=_types, modifiers=f"{_ATOMIC_SPACE} {_modifiers}", operands="0 = u64 0", section="9.7.13.5", effects=_BOTH)(atomic)
    operation("red", types=_types, modifiers=f"{_ATOMIC_SPACE} {_modifiers}", operands="= u64 0", section="9.7.13.6", effects=_BOTH)(atomic)
for _types, _counts in (("f16 bf16", "v2|v4|v8"), ("f16x2 bf16x2", "v2|v4")):
    _modifiers = f"global? relaxed|acquire|release|acq_rel? cta|cluster|gpu|sys? L2::cache_hint? {_counts} min|max noftz"
    operation("atom", types=_types, modifiers=_modifiers, operands="0 = u64 0", section="9.7.13.5", effects=_BOTH)(atomic)
    operation("red", types=_types, modifiers=_modifiers, operands="= u64 0", section="9.7.13.6", effects=_BOTH)(atomic)


def fence(e: Emitter, op: Op) -> None:
    from gridstride.lower import checking

    e.b.fence("seq_cst")
    assert op.form is not None
    checking.fence(e, "cta" if "cta" in op.form else "gpu", op.site)


operation("membar", modifiers="cta|gl|sys", operands="=", section="9.7.13.4", effects=Effect.SYNCHRONISES)(fence)
operation("membar", modifiers="proxy alias|async", operands="=", section="9.7.13.4", effects=Effect.SYNCHRONISES)(fence)
operation("fence", modifiers="proxy alias|async global|const|shared::cta|shared::cluster?", operands="=", section="9.7.13.4", effects=Effect.SYNCHRONISES)(fence)
operation("fence", modifiers="mbarrier_init release cluster", operands="=", section="9.7.13.4", effects=Effect.SYNCHRONISES)(fence)
operation(
    "fence",
    modifiers="sc|acq_rel|acquire|release? cta|cluster|gpu|sys? sync_restrict::shared::cta|sync_restrict::shared::cluster?",
    operands="=",
    section="9.7.13.4",
    effects=Effect.SYNCHRONISES,
)(fence)


def hint(e: Emitter, op: Op) -> None:
    """Nothing that a program can see."""


operation("nanosleep", types="u32", operands="= 0", section="9.7.19.4", effects=Effect.SYNCHRONISES)(hint)
operation("prefetch", modifiers="global|local|const|param|tensormap? L1|L2|L2::evict_last|L2::evict_normal?", operands="= addr?", section="9.7.9.16", effects=Effect.READS_MEMORY)(hint)
operation("prefetchu", modifiers="L1", operands="= addr?", section="9.7.9.16", effects=Effect.READS_MEMORY)(hint)
operation("discard", modifiers="global? L2", operands="= addr? imm?", section="9.7.9.18", effects=Effect.READS_MEMORY)(hint)
operation("applypriority", modifiers="global? L2::evict_normal", operands="= addr? imm?", section="9.7.9.17", effects=Effect.READS_MEMORY)(hint)
operation("pmevent", modifiers="mask?", operands="= imm", section="9.7.19.5", effects=Effect.SYNCHRONISES)(hint)
operation("griddepcontrol", modifiers="launch_dependents|wait", operands="=", section="9.7.13.13", effects=Effect.SYNCHRONISES)(hint)
operation("setmaxnreg", types="u32", modifiers="inc|dec sync aligned", operands="= imm", section="9.7.19.5", effects=Effect.SYNCHRONISES)(hint)


def policy(e: Emitter, op: Op) -> None:
    """A cache policy: only hints take it, so any value does."""
    from gridstride.lower import host_calls

    host_calls.no_policy(e, op)


_POLICIES = "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged"
for _modifiers, _operands in (
    (f"fractional {_POLICIES} L2::evict_first|L2::evict_unchanged?", "0 = f32?"),
    (f"range global? {_POLICIES} L2::evict_first|L2::evict_unchanged?", "0 = addr u32 u32"),
    ("cvt L2", "0 = 0"),
):
    operation("createpolicy", types="b64", modifiers=_modifiers, operands=_operands, section="9.7.9.19", effects=Effect.VARIES)(policy)
