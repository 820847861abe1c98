"""Random kernels made from a number: the same program as CUDA C++ and as a Python model of one thread.

All arithmetic is of 32-bit unsigned integers. Threads exchange values where all of them pass: through shared memory
between barriers, by a shuffle, or by a vote; the model is a generator that yields there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

BLOCK = 96
VARIABLES = ("a", "b", "c", "d")
MASK = 0xFFFFFFFF
HELPERS = r"""
typedef unsigned u;
__device__ __noinline__ u twist(u x, u y) { if (x & 4) { for (u i = 0; i < (y & 3); i++) x = x * 5u + i; return x ^ y; } return x + 3u * y; }
__device__ __noinline__ u pick(const u *p, u n) { u r = 0; for (u i = 0; i < n; i++) { if (p[i] & 1) continue; r = r * 7u + p[i]; } return r; }
"""


def twist(x: int, y: int) -> int:
    if x & 4:
        for i in range(y & 3):
            x = (x * 5 + i) & MASK
        return x ^ y
    return (x + 3 * y) & MASK


def pick(p: list[int], n: int) -> int:
    r = 0
    for i in range(n):
        if not p[i] & 1:
            r = (r * 7 + p[i]) & MASK
    return r


class Maker:
    """Writes both programs side by side."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cuda: list[str] = []
        self.python: list[str] = []
        self.loops = 0
        self.depth = 0
        self.budget = self.random.randint(12, 40)
        self.exchanges = 0
        self.slots = 0

    # ---- expressions: (C++, Python) -------------------------------------------------------------------------

    def expression(self, depth: int = 0) -> tuple[str, str]:
        r = self.random
        kind = r.randrange(14) if depth < 3 else r.randrange(5)
        if kind < 3:
            name = r.choice(VARIABLES)
            return name, name
        if kind == 3:
            value = r.choice((0, 1, 2, 3, 7, 31, 255, 0x80000000, 0xFFFFFFFF, r.getrandbits(32)))
            return f"{value}u", str(value)
        if kind == 4:
            return r.choice((("t", "t"), ("(u)n", "n"), ("(u)blockIdx.x", "block"), ("(t & 31u)", "(t & 31)")))
        x, y = self.expression(depth + 1), self.expression(depth + 1)
        if kind < 9:
            sign = r.choice("+-*&|^")
            return f"({x[0]} {sign} {y[0]})", f"(({x[1]} {sign} {y[1]}) & {MASK})"
        if kind == 9:
            sign = r.choice(("<<", ">>"))
            return f"({x[0]} {sign} ({y[0]} & 31u))", f"(({x[1]} {sign} ({y[1]} & 31)) & {MASK})"
        if kind == 10:
            sign = r.choice("/%")
            return f"({x[0]} {sign} ({y[0]} | 1u))", f"({x[1]} {'//' if sign == '/' else '%'} ({y[1]} | 1))"
        if kind == 11:
            c = self.condition(depth + 1)
            return f"({c[0]} ? {x[0]} : {y[0]})", f"({x[1]} if {c[1]} else {y[1]})"
        if kind == 12:
            return f"twist({x[0]}, {y[0]})", f"twist({x[1]}, {y[1]})"
        return f"m[{x[0]} & 7u]", f"m[{x[1]} & 7]"

    def condition(self, depth: int = 0) -> tuple[str, str]:
        r = self.random
        x, y = self.expression(depth + 1), self.expression(depth + 1)
        kind = r.randrange(7)
        if kind < 3:
            bit = r.randrange(5)
            return f"(({x[0]} >> {bit}) & 1u)", f"(({x[1]} >> {bit}) & 1)"
        if kind < 6:
            sign = r.choice(("<", "<=", "==", "!=", ">"))
            return f"({x[0]} {sign} {y[0]})", f"({x[1]} {sign} {y[1]})"
        p, q = self.condition(depth + 1) if depth < 2 else x, x
        sign = r.choice((("&&", "and"), ("||", "or")))
        return f"({p[0]} {sign[0]} !{q[0]})", f"({p[1]} {sign[1]} not {q[1]})"

    # ---- statements -----------------------------------------------------------------------------------------

    def line(self, cuda: str, python: str | None) -> None:
        if cuda:
            self.cuda.append("    " * (self.depth + 1) + cuda)
        if python is not None:
            self.python.append("    " * (self.depth + 1) + python)

    def assign(self) -> None:
        name = self.random.choice(VARIABLES)
        x = self.expression()
        if self.random.random() < 0.2:
            i = self.expression(2)
            self.line(f"m[{i[0]} & 7u] = {x[0]};", f"m[{i[1]} & 7] = {x[1]}")
        elif self.random.random() < 0.1:
            self.line(f"{name} ^= pick(m, {x[0]} & 7u);", f"{name} ^= pick(m, {x[1]} & 7)")
        else:
            self.line(f"{name} = {x[0]};", f"{name} = {x[1]}")

    def block(self, uniform: bool, in_loop: bool) -> None:
        self.depth += 1
        before = len(self.python)
        for _ in range(self.random.randint(1, 4)):
            self.statement(uniform, in_loop)
        if len(self.python) == before:
            self.line("", "pass")
        self.depth -= 1

    def statement(self, uniform: bool, in_loop: bool) -> None:
        r = self.random
        self.budget -= 1
        kind = r.randrange(12) if self.budget > 0 and self.depth < 5 else 0
        if kind < 3:
            self.assign()
        elif kind < 6:
            c = self.condition()
            self.line(f"if ({c[0]}) {{", f"if {c[1]}:")
            self.block(False, in_loop)
            if r.random() < 0.6:
                self.line("} else {", "else:")
                self.block(False, in_loop)
            self.line("}", None)
        elif kind == 6:
            self.loop(uniform)
        elif kind == 7 and in_loop:
            c = self.condition()
            word = r.choice(("break", "continue"))
            self.line(f"if ({c[0]}) {word};", f"if {c[1]}:")
            self.depth += 1
            self.line("", word)
            self.depth -= 1
        elif kind == 8:
            self.switch()
        elif uniform and kind > 8:
            self.exchange()
        else:
            self.assign()

    def loop(self, uniform: bool) -> None:
        r = self.random
        self.loops += 1
        i = f"i{self.loops}"
        if uniform and r.random() < 0.4:  # every thread the same number of times
            times = r.randint(1, 4)
            self.line(f"for (u {i} = 0; {i} < {times}u; {i}++) {{", f"for {i} in range({times}):")
            self.block(True, False)
        elif r.random() < 0.5:
            x = self.expression(2)
            bound = r.choice((3, 7, 15))
            self.line(f"for (u {i} = 0, e = {x[0]} & {bound}u; {i} < e; {i}++) {{", f"for {i} in range({x[1]} & {bound}):")
            self.block(False, True)
        else:
            c = self.condition()
            self.line(f"for (u {i} = 0; {i} < 9u && {c[0]}; {i}++) {{", f"for {i} in range(9):")
            self.depth += 1
            self.line("", f"if not {c[1]}: break")
            self.depth -= 1
            self.block(False, True)
        self.line("}", None)

    def switch(self) -> None:
        r = self.random
        x = self.expression()
        self.slots += 1
        cases = r.randint(3, 6)
        self.line(f"switch ({x[0]} % {cases + 1}u) {{", f"k{self.slots} = {x[1]} % {cases + 1}")
        name = f"k{self.slots}"
        for k in range(cases):
            self.line(f"case {k}u: {{", f"if {name} == {k}:")
            self.block(False, False)
            self.line("} break;", None)
        self.line("default: {", f"if {name} == {cases}:")
        self.block(False, False)
        self.line("} }", None)

    def exchange(self) -> None:
        r = self.random
        self.exchanges += 1
        name, other = r.choice(VARIABLES), r.choice(VARIABLES)
        kind = r.randrange(4)
        if kind == 0:
            k = r.randint(1, BLOCK - 1)
            self.line(f"s[t] = {name}; __syncthreads(); {other} += s[(t + {k}u) % {BLOCK}u]; __syncthreads();", f"all_ = yield {name}")
            self.line("", f"{other} = ({other} + all_[(t + {k}) % {BLOCK}]) & {MASK}")
        elif kind == 1:
            k = r.choice((1, 2, 5, 16, 31))
            self.line(f"{other} ^= __shfl_xor_sync(~0u, {name}, {k});", f"all_ = yield {name}")
            self.line("", f"{other} ^= all_[t ^ {k}]")
        elif kind == 2:
            bit = r.randrange(4)
            self.line(f"{other} += __ballot_sync(~0u, ({name} >> {bit}) & 1u);", f"all_ = yield ({name} >> {bit}) & 1")
            self.line("", f"{other} = ({other} + sum(all_[(t & ~31) + k] << k for k in range(32))) & {MASK}")
        else:
            self.line(f"{other} += __syncthreads_count({name} & 1u);", f"all_ = yield {name} & 1")
            self.line("", f"{other} = ({other} + sum(all_)) & {MASK}")


def make(seed: int) -> tuple[str, Callable[[int, int, int, list[int]], Iterator[Any]]]:
    """CUDA C++ of a kernel `random_kernel(const u *in, u *out, int n)`, and the model of a thread: (block, t, n, [a, b]) → generator."""
    maker = Maker(seed)
    while maker.budget > 0:
        maker.statement(True, False)
    cuda = "\n".join(maker.cuda)
    source = f"""{HELPERS}
extern "C" __global__ void random_kernel(const u *in, u *out, int n) {{
    __shared__ u s[{BLOCK}]; u t = threadIdx.x, g = blockIdx.x * {BLOCK}u + t; s[t] = 0;
    u a = in[g], b = in[g] * 2654435761u, c = n, d = 5; u m[8]; for (u i = 0; i < 8; i++) m[i] = a + i * b;
{cuda}
    u r = a ^ b * 3u ^ c * 5u ^ d * 7u; for (u i = 0; i < 8; i++) r = r * 31u + m[i];
    out[g] = r;
}}
"""
    body = "\n".join(maker.python)
    text = f"""def thread(block, t, n, a):
    b, c, d = a * 2654435761 & {MASK}, n, 5
    m = [(a + i * b) & {MASK} for i in range(8)]
    if False: yield
{body}
    r = a ^ (b * 3 & {MASK}) ^ (c * 5 & {MASK}) ^ (d * 7 & {MASK})
    for i in range(8): r = (r * 31 + m[i]) & {MASK}
    return r
"""
    names: dict[str, Any] = {"twist": twist, "pick": pick}
    exec(text, names)  # noqa: S102 - our own text, of a fixed number
    return source, names["thread"]


def modelled(thread: Callable[..., Iterator[Any]], block: int, n: int, given: list[int]) -> list[int]:
    """The results of one block's threads."""
    running = [thread(block, t, n, given[t]) for t in range(len(given))]
    results: list[int] = [0] * len(given)
    sent: Any = None
    while True:
        yielded = []
        for t, generator in enumerate(running):
            try:
                yielded.append(generator.send(sent))  # type: ignore[attr-defined]
            except StopIteration as end:
                results[t] = end.value
        if not yielded:
            return results
        assert len(yielded) == len(running)
        sent = yielded
