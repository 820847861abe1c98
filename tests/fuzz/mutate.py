"""Corrupted kernels and launches, each made from one number: the same seed gives the same case on every machine.

A case is one kernel of the truth set, cut out of its file, with some corruptions of its PTX, of its launch, or of both.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TRUTH = Path(__file__).parent.parent / "truth"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TYPES = _words("pred b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64")
MODIFIERS = _words(
    "rn rz rm rp rni rzi ftz sat approx full wide lo hi cc sync aligned uni volatile relaxed acquire release gpu sys cta nc ca cg v2 v4 v8 global shared "
    "local const param idx up down bfly all any ballot add min max and or xor exch cas inc dec popc red arrive warp to eq ne lt le gt ge num nan x y"
)
INTEGERS = (0, 1, -1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256, 1023, 4096, 65535, 2**20, 2**31 - 1, 2**31, 2**32 - 1, 2**32,
            2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**100, -2, -4, -128, -(2**31), -(2**63))
SPECIALS = _words(
    "%tid.x %tid.y %tid.z %ntid.x %ctaid.x %ctaid.z %nctaid.y %laneid %warpid %nwarpid %smid %nsmid %gridid %lanemask_lt %lanemask_ge %clock %clock64 "
    "%globaltimer %dynamic_smem_size %total_smem_size %envreg1 %envreg9 %clusterid.x %cluster_ctarank %tid %tid.w %lanemask_ %pm0 %nosuch"
)
PUNCTUATION = ("{", "}", "[", "]", "(", ")", ";", ",", ":", "|", "!", "@", "-", "+", "_", "%", ".", "<", ">", '"', "/*", "//", "\0", "é", "=", "\\", "$", "0x", "1e999")
_OPERAND = re.compile(r"%\w+(?:\.\w+)?|\b0[fd][0-9A-Fa-f]+\b|-?\b\d+\b|\$\w+")
_REGISTER = re.compile(r"%(?:rs|rd|fd|p|r|f|h|b)\d+\b")
_INSTRUCTION = re.compile(r"^(\s*(?:@!?%\w+\s+)?)([a-z][\w.:]*)(.*)$", re.DOTALL)


@dataclass(frozen=True)
class Case:
    """`arguments` as in a case file. `whole_parameters`: they are checked against the kernel's parameters first, as a
    caller's are; otherwise their bytes are handed over as they come. `what`: the corruptions, in their order."""

    seed: int
    kernel: str
    ptx: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    arguments: list[list[Any]]
    whole_parameters: bool
    order: int | None
    threads: int | None
    watched: str  # "", "checks" or "profile": what looks on while it runs
    what: list[str]


@dataclass(frozen=True)
class Kernel:
    """A kernel cut out of its file: the lines before all kernels that it needs, its own lines, a launch of it."""

    name: str
    head: list[str]
    body: list[str]
    launch: dict[str, Any]


@functools.cache
def kernels() -> tuple[Kernel, ...]:
    """Every kernel of the truth set that has a launch."""
    found = []
    for file, cases in (("kernels.ptx", "cases.json"), ("bugs.ptx", "bug_cases.json"), ("clusters/kernels.ptx", "clusters/cases.json")):
        launches: dict[str, dict[str, Any]] = {}
        for case in json.loads((TRUTH / cases).read_text()):
            launches.setdefault(case["kernel"], case)
        head: list[str] = []
        body: list[str] = []
        name, depth = "", 0
        for line in (TRUTH / file).read_text().splitlines():
            if line.startswith(".visible .entry"):
                name, body = line.split()[2].split("(")[0], [line]
            elif name:
                body.append(line)
                depth += line.count("{") - line.count("}")  # inline assembly has blocks of its own
                if line == "}" and depth == 0:
                    found.append(Kernel(name, list(head), [b for b in body if not re.match(r"\s*(//|$)", b)], launches[name]))
                    name = ""
            elif line.startswith(("\t.file", "\t.section")):
                break
            elif line and not line.startswith("//"):
                head.append(line)
    return tuple(found)


@functools.cache
def opcodes() -> dict[str, tuple[str, ...]]:
    """Instruction words of the truth set, by family (the part before the first dot)."""
    words = {m[2] for kernel in kernels() for line in kernel.body if (m := _INSTRUCTION.match(line)) and line.rstrip().endswith(";")}
    words |= {form["ptx"].split()[0] for form in json.loads((TRUTH / "conformance" / "forms.json").read_text())}
    families: dict[str, list[str]] = {}
    for word in sorted(words):
        families.setdefault(word.split(".")[0], []).append(word)
    return {family: tuple(members) for family, members in families.items()}


def make_case(seed: int) -> Case:
    """The case of a seed. One in eight has an untouched kernel, so that the launch's corruptions reach its code."""
    rng = random.Random(seed)
    kernel = rng.choice(kernels())
    text = _Text(rng, list(kernel.head), list(kernel.body))
    count = rng.choice((0, 1, 1, 1, 2, 2, 3, 5))
    while count and len(text.what) < count:
        rng.choices(_CORRUPTIONS, _WEIGHTS)[0](text)
    ptx = "\n".join([*text.head, *text.body]) + "\n"
    if rng.random() < 0.02:
        ptx = _broken_text(rng, ptx, text.what)
    return _launch(rng, seed, kernel, ptx, text.what, gently=count > 0 and rng.random() < 0.7)


# ---- the kernel's text ------------------------------------------------------------------------------------------


@dataclass
class _Text:
    """A kernel's lines under corruption. Each corruption notes what it did in `what`, or finds no place and does nothing."""

    rng: random.Random
    head: list[str]
    body: list[str]
    what: list[str] = field(default_factory=list)

    def lines(self, pattern: str) -> list[int]:
        return [k for k, line in enumerate(self.body) if re.search(pattern, line)]

    def instructions(self) -> list[int]:
        return [k for k, line in enumerate(self.body) if line.rstrip().endswith(";") and re.match(r"\s*(@!?%\w+\s+)?[a-z]", line)]

    def change(self, place: int, line: str, how: str) -> None:
        if line != self.body[place]:
            self.what.append(f"{how}: {self.body[place].strip()} -> {line.strip()}")
            self.body[place] = line

    def registers(self, kind: str | None = None) -> list[str]:
        found = sorted(set(_REGISTER.findall("\n".join(self.body))))
        return [r for r in found if kind is None or re.match(kind + r"\d", r)] or found or ["%r1"]

    def operand(self) -> str:
        """Something that may stand as an operand, mostly not here."""
        rng: random.Random = self.rng
        kind = rng.randrange(10)
        if kind < 4:
            return rng.choice(self.registers())
        if kind < 6:
            return str(rng.choice(INTEGERS))
        if kind == 6:
            return rng.choice(SPECIALS)
        if kind == 7:
            return rng.choice(("0f7FC00000", "0fFF800000", "0d7FF0000000000001", "1.5", "-0.0", "0f00000001", "WARP_SZ"))
        if kind == 8:
            text = "\n".join((*self.head, *self.body))
            names: list[str] = [*re.findall(r"\$\w+", text), *re.findall(r"\.b8 (\w+)\[", text), "nosuch"]
            return rng.choice(names)
        one, two = rng.choice(self.registers()), rng.choice(self.registers())
        return rng.choice(("_", f"[{one}]", f"[{one}+{rng.choice(INTEGERS)}]", f"{{{one}, {two}}}", f"{one}|{two}", f"!{one}", f"-{one}", "()", "{}", f"({one})"))


def _swap_register(t: _Text) -> None:
    places = [k for k in t.instructions() if _REGISTER.search(t.body[k])]
    if places:
        place = t.rng.choice(places)
        found = t.rng.choice(list(_REGISTER.finditer(t.body[place])))
        kind = found[0].rstrip("0123456789") if t.rng.random() < 0.85 else None
        new = t.rng.choice(t.registers(kind))
        t.change(place, t.body[place][: found.start()] + new + t.body[place][found.end() :], "register")


def _operand(t: _Text) -> None:
    places = [k for k in t.instructions() if _OPERAND.search(t.body[k])]
    if places:
        place = t.rng.choice(places)
        found = t.rng.choice(list(_OPERAND.finditer(t.body[place])))
        t.change(place, t.body[place][: found.start()] + t.operand() + t.body[place][found.end() :], "operand")


def _immediate(t: _Text) -> None:
    pattern = re.compile(r"(?<=[\s,+{(])-?\d+(?=[\s,;\]})])|0[fd][0-9A-F]+")
    places = [k for k in t.instructions() if pattern.search(t.body[k])]
    if places:
        place = t.rng.choice(places)
        found = t.rng.choice(list(pattern.finditer(t.body[place])))
        new = f"0f{t.rng.getrandbits(32):08X}" if found[0].startswith("0") and len(found[0]) > 1 else str(t.rng.choice(INTEGERS))
        t.change(place, t.body[place][: found.start()] + new + t.body[place][found.end() :], "immediate")


def _offset(t: _Text) -> None:
    places = t.lines(r"\[[^\]]+\]")
    places = [k for k in t.instructions() if k in places]
    if places:
        place = t.rng.choice(places)
        offset = t.rng.choice((*INTEGERS, t.rng.randrange(-4096, 4096)))
        t.change(place, re.sub(r"(\[[^\]+]+)(?:\+-?\d+)?\]", rf"\g<1>+{offset}]", t.body[place], count=1), "offset")


def _opcode(t: _Text) -> None:
    place = t.rng.choice(t.instructions() or [0])
    match = _INSTRUCTION.match(t.body[place])
    if match and place:
        family = match[2].split(".")[0]
        if t.rng.random() < 0.2:
            family = t.rng.choice(sorted(opcodes()))
        word = t.rng.choice(opcodes().get(family) or ("nop",))
        t.change(place, match[1] + word + match[3], "opcode")


def _word(t: _Text) -> None:
    """A type or a modifier of an instruction, or one of each dropped or added."""
    place = t.rng.choice(t.instructions() or [0])
    match = _INSTRUCTION.match(t.body[place])
    if not match or not place:
        return
    head, *words = match[2].split(".")
    kind = t.rng.randrange(4)
    if kind == 0 or not words:
        words.insert(t.rng.randint(0, len(words)), t.rng.choice((*MODIFIERS, *TYPES)))
    elif kind == 1:
        words.pop(t.rng.randrange(len(words)))
    else:
        k = t.rng.randrange(len(words))
        words[k] = t.rng.choice(TYPES if words[k] in TYPES else MODIFIERS)
    t.change(place, match[1] + ".".join((head, *words)) + match[3], "word")


def _operand_count(t: _Text) -> None:
    place = t.rng.choice(t.instructions() or [0])
    match = _INSTRUCTION.match(t.body[place])
    if match and place:
        parts = match[3].rstrip().removesuffix(";").split(",")
        kind = t.rng.randrange(4)
        k = t.rng.randrange(len(parts))
        if kind == 0:
            parts.pop(k)
        elif kind == 1:
            parts.insert(k, " " + t.operand())
        elif kind == 2:
            parts.append(parts[k] or " %r1")
        else:
            t.rng.shuffle(parts)
        t.change(place, match[1] + match[2] + ",".join(parts) + ";", "operands")


def _guard(t: _Text) -> None:
    place = t.rng.choice(t.instructions() or [0])
    match = _INSTRUCTION.match(t.body[place])
    if match and place:
        guard = t.rng.choice(("", f"@{t.rng.choice(t.registers('%p'))} ", f"@!{t.rng.choice(t.registers('%p'))} ", f"@{t.operand()} "))
        t.change(place, "\t" + guard + match[2] + match[3], "guard")


def _line(t: _Text) -> None:
    """A line deleted, doubled, moved, or exchanged with another."""
    rng, body = t.rng, t.body
    place, other = rng.randrange(len(body)), rng.randrange(len(body))
    kind = rng.randrange(8)
    t.what.append(f"line {('deleted', 'doubled', 'moved', 'exchanged')[kind % 4]}: {body[place].strip()} ({other})")
    if kind % 4 == 0:
        del body[place]
    elif kind % 4 == 1:
        body.insert(place, body[place])
    elif kind % 4 == 2:
        body.insert(other, body.pop(place))
    else:
        body[place], body[other] = body[other], body[place]


def _label(t: _Text) -> None:
    text = "\n".join(t.body)
    labels = sorted(set(re.findall(r"\$\w+", text)))
    if labels:
        old, new = t.rng.choice(labels), t.rng.choice((*labels, "$nosuch"))
        places = [k for k, line in enumerate(t.body) if old in line]
        place = t.rng.choice(places)
        t.change(place, t.body[place].replace(old, new), "label")


def _barrier(t: _Text) -> None:
    places = t.lines(r"\b(bar|barrier|membar|fence)\.")
    if places and t.rng.random() < 0.6:
        place = t.rng.choice(places)
        t.what.append(f"barrier dropped: {t.body.pop(place).strip()}")
        return
    word = t.rng.choice(
        ("bar.sync 0;", "bar.sync 16;", "bar.sync 1, 64;", "bar.sync 0, 33;", "bar.arrive 1, 64;", "bar.red.popc.u32 %r1, 0, %p1;", "bar.warp.sync -1;",
         "bar.sync %r1;", "bar.sync 0, %r1;", "trap;", "exit;", "ret;", "barrier.sync.aligned 3;", "bar.warp.sync 1;", "bar.red.and.pred %p1, 0, 64, %p1;")
    )
    place = t.rng.choice(t.instructions() or [1])
    t.body.insert(place, "\t" + word)
    t.what.append(f"barrier added: {word} ({place})")


def _directive(t: _Text) -> None:
    """A number, a type or a word of a declaration."""
    rng = t.rng
    pool = [(lines, k) for lines in (t.head, t.body) for k, line in enumerate(lines) if re.match(r"\s*\.(reg|shared|local|param|version|target|address|maxn|reqn|visible|extern|global|const|pragma)|.*\.param", line)]
    if not pool:
        return
    lines, place = rng.choice(pool)
    old = line = lines[place]
    kind = rng.randrange(5)
    if kind < 2:
        numbers = list(re.finditer(r"\d+", line))
        if numbers:
            found = rng.choice(numbers[:6])
            line = line[: found.start()] + str(rng.choice((*INTEGERS, 10**12, 3, 5, 6, 12))) + line[found.end() :]
    elif kind == 2:
        line = re.sub(r"\.(?:[bsuf]\d+|pred)\b", "." + rng.choice(TYPES), line, count=1)
    elif kind == 3:
        words = line.split(" ")
        words.pop(rng.randrange(len(words)))
        line = " ".join(words)
    else:
        where = rng.randint(0, len(lines))
        line = rng.choice(
            (".maxntid 32, 1, 1", ".reqntid 64", ".maxntid 0", ".maxntid", ".shared .align 8 .b8 more[1024];", ".shared .b8 huge[99999999999];", ".local .b8 deep[99999999];",
             ".local .align 16 .b8 depot[64];", ".reg .b32 %extra<1000000>;", ".global .b8 g[0];", ".const .b32 c[3] = {1, 2, 3, 4};", ".pragma \"nounroll\";", ".reg .v4 .f32 %v;",
             ".shared .align 3 .b8 odd[5];", "{", "}", ".global .u64 p = nosuch;", ".extern .shared .b8 e[];", ".branchtargets a;", "$t: .branchtargets $a, $b;", ".reg .pred %p<0>;",
             ".global .align 0 .b32 z;", ".global .b32 neg[-4];", ".func f() { ret; }", ".loc 99 1 1", ".section .s { .b8 1 }", ".alias a, b;")
        )
        lines.insert(where, line)
        t.what.append(f"directive added: {line} ({where})")
        return
    if line != old:
        lines[place] = line
        t.what.append(f"directive: {old.strip()} -> {line.strip()}")


def _vector(t: _Text) -> None:
    places = t.lines(r"\.v[248]\b")
    if not places:
        places = [k for k in t.instructions() if re.search(r"\b(ld|st)\.", t.body[k])]
        if places:
            place = t.rng.choice(places)
            width = t.rng.choice((2, 4, 8))
            one = t.rng.choice(t.registers())
            line = re.sub(r"\.((?:[bsuf])\d+)(\s)", rf".v{width}.\1\2", t.body[place], count=1)
            t.change(place, re.sub(r"(?<![\[\w])%\w+(?=,|;)", "{" + ", ".join([one] * t.rng.choice((width, width, 3))) + "}", line, count=1), "vector")
        return
    place = t.rng.choice(places)
    if t.rng.random() < 0.5:
        t.change(place, re.sub(r"\.v[248]", t.rng.choice((".v2", ".v4", ".v8", ".v3", "")), t.body[place]), "vector")
    else:
        t.change(place, re.sub(r"(%\w+), ", t.rng.choice(("", r"\1, \1, ", "_, ", "{", "7, ")), t.body[place], count=1), "vector")


def _special(t: _Text) -> None:
    places = t.lines(r"%(n?tid|n?ctaid)\.")
    if places:
        place = t.rng.choice(places)
        t.change(place, re.sub(r"%(n?tid|n?ctaid)\.\w+", t.rng.choice(SPECIALS), t.body[place], count=1), "special register")


_Corruption = Callable[[_Text], None]
_TABLE: dict[_Corruption, int] = {
    _swap_register: 16, _operand: 6, _immediate: 10, _offset: 8, _opcode: 10, _word: 6, _operand_count: 2, _guard: 8, _line: 10, _label: 10, _barrier: 5,
    _directive: 4, _vector: 3, _special: 4,
}
_CORRUPTIONS, _WEIGHTS = list(_TABLE), list(_TABLE.values())


def _broken_text(rng: random.Random, ptx: str, what: list[str]) -> str:
    """The text cut off, a piece of it lost, or stray characters in it: what a parser sees of a damaged file."""
    place = rng.randrange(len(ptx))
    kind = rng.randrange(4)
    what.append(f"text {('cut', 'hole', 'stray', 'nested')[kind]} at {place}")
    if kind == 0:
        return ptx[:place]
    if kind == 1:
        return ptx[:place] + ptx[place + rng.randrange(1, 40) :]
    if kind == 2:
        return ptx[:place] + rng.choice(PUNCTUATION) + ptx[place:]
    return ptx[:place] + rng.choice(("{", "(", "[", "!", "-", "/*", "@")) * rng.choice((3, 5000)) + ptx[place:]


# ---- the launch -------------------------------------------------------------------------------------------------


def _launch(rng: random.Random, seed: int, kernel: Kernel, ptx: str, what: list[str], gently: bool) -> Case:
    launch = kernel.launch
    grid, block, shared = list(launch["grid"]), list(launch["block"]), launch["smem"]
    arguments = [list(a[:3]) for a in launch["args"]]
    while grid[0] * grid[1] * grid[2] > 6:  # what a few blocks do the others would too
        axis = max(range(3), key=lambda k: grid[k])
        grid[axis] = max(1, grid[axis] // 2)
    if rng.random() < 0.8:
        _fit(rng, [g * b for g, b in zip(grid, block, strict=True)], arguments)
    for argument in arguments:
        if argument[0] == "buf":
            argument.append(rng.choice(("zeros", "ones", "random", "small", "small")))
    for _ in range(0 if gently else rng.choice((0, 1, 1, 2, 3))):
        kind = rng.randrange(8)
        if kind == 0:
            grid[rng.randrange(3)] = rng.choice((0, 1, 2, 3, 7, 65535, 65536, 2**31 - 1, 2**31, -1, 2**40))
        elif kind in (1, 2):
            block = list(rng.choice(((1, 1, 1), (31, 1, 1), (33, 1, 1), (3, 5, 7), (8, 8, 4), (2, 16, 2), (1, 1, 64), (1024, 1, 1), (16, 64, 1), (1, 1024, 1),
                                     (1025, 1, 1), (0, 1, 1), (64, 1, 65), (-32, 1, 1), (4, 4, 1), (1, 32, 2), (2**33, 1, 1), (5, 1, 13))))
        elif kind == 3:
            shared = rng.choice((0, 1, 4, 100, 1024, 49152, 227 * 1024, 228 * 1024, -1, 2**40))
        elif arguments:
            argument = rng.choice(arguments)
            if argument[0] == "buf" and kind < 6:
                less = rng.choice((0, 1, argument[2] // 2, argument[2] - 1, argument[2] - 3, argument[2] - 17, argument[2] - 40, 31, 33, 65))
                argument[2] = max(0, less)
            elif argument[0] in ("buf", "ptr"):
                argument[:] = ["ptr", rng.choice((0, 4, 2**64 - 4, 2**63, 1 << 56, (1 << 56) + 2**20, 2 << 56, (2 << 56) - 1, 4 << 56, rng.getrandbits(64), rng.getrandbits(48) << 8))]
            elif argument[0] in ("f32", "f64"):
                argument[1] = rng.choice((0.0, -0.0, 1e30, float("inf"), float("nan"), 1e-40))
            else:
                argument[1] = rng.choice((0, 1, -1, 31, 2**31 - 1, -(2**31), 1 << 20, 1000))
        what.append(f"launch: {grid} {block} {shared} {[a[:3] for a in arguments]}")
    order = rng.randrange(1000) if rng.random() < 0.2 else None
    threads = 2 if rng.random() < 0.1 else None
    x, y, z = grid
    bx, by, bz = block
    whole = rng.random() < 0.3
    watched = rng.choice(("", "", "", "", "checks", "profile"))
    return Case(seed, kernel.name, ptx, (x, y, z), (bx, by, bz), shared, arguments, whole, order, threads, watched, what)


def _fit(rng: random.Random, extents: list[int], arguments: list[list[Any]]) -> None:
    """Make the problem as small as the grid, so that its last threads are at the ends of the buffers: sizes become about
    the grid's extents, and buffers that had a size, or the product of two, times a small number, get the new one."""
    used = [extent for extent in extents if extent > 1] or [1]
    old, new = [], []
    for argument in arguments:
        if argument[0] in ("i32", "u32") and argument[1] > 8:
            size = used[min(len(old), len(used) - 1)] - rng.choice((0, 0, 1, 5, 17))
            old.append(argument[1])
            argument[1] = min(argument[1], max(size, 1))
            new.append(argument[1])
    products = {a: b for a, b in zip(old, new, strict=True)}
    products |= {a * c: b * d for a, b in zip(old, new, strict=True) for c, d in zip(old, new, strict=True)}
    for argument in arguments:
        for before in sorted(products, reverse=True):
            if argument[0] == "buf" and argument[2] % before == 0 and argument[2] // before <= 8:
                argument[2] = argument[2] // before * products[before]
                break
