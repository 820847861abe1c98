"""The instruction mix: which group a PTX opcode belongs to."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

Group = Literal["float", "special", "integer", "compare", "move", "convert", "memory", "atomic", "branch", "barrier", "shuffle", "vote", "fence", "other"]

_BY_HEAD: dict[str, Group] = {
    **dict.fromkeys(("setp", "set", "testp"), "compare"),
    **dict.fromkeys(("mov", "selp", "slct", "prmt", "cvta"), "move"),
    **dict.fromkeys(("cvt", "szext"), "convert"),
    **dict.fromkeys(("ld", "ldu", "st", "prefetch", "prefetchu", "cp"), "memory"),
    **dict.fromkeys(("atom", "red"), "atomic"),
    **dict.fromkeys(("bra", "brx", "call", "ret", "exit", "trap"), "branch"),
    **dict.fromkeys(("bar", "barrier"), "barrier"),
    "shfl": "shuffle",
    **dict.fromkeys(("vote", "match", "redux", "activemask", "elect"), "vote"),
    **dict.fromkeys(("membar", "fence"), "fence"),
    **dict.fromkeys(("nanosleep", "pmevent", "brkpt"), "other"),
    **dict.fromkeys(("sin", "cos", "ex2", "lg2", "tanh", "rsqrt", "rcp", "sqrt", "div"), "special"),
}
_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64")


@lru_cache(maxsize=4096)
def group_of(opcode: str) -> Group:
    """The group of an opcode such as `fma.rn.f32`; "special" holds division, roots and transcendental functions of floats."""
    head, *parts = opcode.split(".")
    floating = any(part in _FLOATS for part in parts)
    if head in ("bar", "barrier") and parts[:1] == ["warp"]:
        return "fence"  # __syncwarp: warps do not wait for each other
    known = _BY_HEAD.get(head)
    if known == "special" and not floating:
        return "integer"  # integer division
    if known is not None:
        return known
    if floating:
        return "float"
    return "integer" if any(part.lstrip("subx")[:1].isdigit() or part == "pred" for part in parts) else "other"
