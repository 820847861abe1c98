"""One kernel for many instruction forms, and what it must leave behind.

Every form becomes a `Fragment`: a few PTX statements on the registers that `HEADER` loads, and a function from the
inputs of all threads to the bits that the fragment stores. Thread t of a launch owns word t of each input and output.
Computing forms are compared with their entry's Python meaning, all others with the few lines of Python here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import gridstride.isa.families  # noqa: F401  (fills the registry)
from gridstride.isa.registry import Form, lookup
from gridstride.isa.types import ScalarType

Bits = npt.NDArray[np.uint64]

THREADS = 64
NAN = 0x7FFFFFFF
OPERANDS = 4  # registers of each kind that hold inputs
CELL = 32  # bytes of memory that a fragment's thread owns

# kind of register -> (PTX type, name, bits)
REGISTERS = {"p": ("pred", "p", 1), "h": ("b16", "h", 16), "w": ("b32", "w", 32), "q": ("b64", "q", 64), "f": ("f32", "f", 32), "d": ("f64", "d", 64)}


@dataclass(frozen=True)
class Fragment:
    """body: PTX statements in which `$o` is the number of the first output slot; want: inputs -> one array a slot."""

    form: str
    body: str
    want: Callable[[Inputs], list[Bits]]
    slots: int = 1


class Inputs:
    """The input registers of all threads, as raw bits: `inputs["w", 0]`."""

    def __init__(self) -> None:
        random = np.random.default_rng(20)
        self.data: dict[tuple[str, int], Bits] = {}
        for k in range(OPERANDS):
            words = random.integers(0, 1 << 64, THREADS, np.uint64) >> random.choice(np.array([0, 20, 40, 58], np.uint64), THREADS)
            singles = (random.standard_normal(THREADS) * 10.0 ** random.integers(-3, 4, THREADS)).astype(np.float32)
            doubles = random.standard_normal(THREADS) * 10.0 ** random.integers(-3, 4, THREADS)
            self.data["q", k] = words
            self.data["w", k] = words & np.uint64(0xFFFFFFFF)
            self.data["h", k] = (random.standard_normal(THREADS).astype(np.float16)).view(np.uint16).astype(np.uint64)
            self.data["f", k] = singles.view(np.uint32).astype(np.uint64)
            self.data["d", k] = doubles.view(np.uint64)
            self.data["p", k] = random.integers(0, 2, THREADS).astype(np.uint64)

    def __getitem__(self, key: tuple[str, int]) -> Bits:
        return self.data[key]

    def buffer(self) -> Bits:
        """What the kernel's input buffer holds: 64 bits an input and thread."""
        return np.concatenate([self.data[kind, k] for kind in REGISTERS for k in range(OPERANDS)])


def kernel(name: str, fragments: list[Fragment]) -> str:
    """PTX of a kernel (in, out, cells: u64) that runs the fragments one after the other."""
    lines = [f".visible .entry {name}(.param .u64 in, .param .u64 out, .param .u64 cells, .param .align 16 .b8 bytes[{CELL}])", "{"]
    for ptx_type, register, _ in REGISTERS.values():
        lines.append(f"  .reg .{ptx_type} %{register}<{OPERANDS}>, %{register}r<8>;")
    lines += ["  .reg .b64 %in, %out, %cells, %cell, %a<4>;", "  .reg .b32 %t, %x<4>;", "  .reg .b8 %c<4>;"]
    lines += [f"  .shared .align 16 .b8 sh[{CELL * THREADS}];", f"  .local .align 16 .b8 lo[{CELL}];"]
    lines += [
        "  ld.param.u64 %in, [in];", "  ld.param.u64 %out, [out];", "  ld.param.u64 %cells, [cells];",
        "  mov.u32 %x0, %tid.y; mov.u32 %x1, %ntid.x; mov.u32 %x2, %tid.x; mad.lo.u32 %t, %x0, %x1, %x2;",
        "  mov.u32 %x0, %ctaid.x; mov.u32 %x2, %ntid.y; mul.lo.u32 %x1, %x1, %x2; mad.lo.u32 %t, %x0, %x1, %t;",
        "  mul.wide.u32 %a0, %t, 8; add.u64 %in, %in, %a0; add.u64 %out, %out, %a0;",
        f"  mul.wide.u32 %a0, %t, {CELL}; add.u64 %cell, %cells, %a0;",
    ]  # fmt: skip
    for n, (kind, k) in enumerate((kind, k) for kind in REGISTERS for k in range(OPERANDS)):
        _, register, bits = REGISTERS[kind]
        if kind == "p":
            lines.append(f"  ld.global.u32 %x0, [%in+{8 * n * THREADS}]; setp.ne.u32 %p{k}, %x0, 0;")
        else:
            lines.append(f"  ld.global.b{bits} %{register}{k}, [%in+{8 * n * THREADS}];")
    slot = 0
    for fragment in fragments:
        lines.append("  " + fragment.body.replace("$o", str(slot)).replace("$O", f"out{slot}").replace("\n", "\n  "))
        slot += fragment.slots
    return "\n".join(_with_slots(lines)) + "\n  ret;\n}\n"


def _with_slots(lines: list[str]) -> Iterator[str]:
    """`SLOT(n+k)` becomes the address of that output."""
    for line in lines:
        while "SLOT(" in line:
            before, _, rest = line.partition("SLOT(")
            expression, _, after = rest.partition(")")
            line = f"{before}[%out+{8 * THREADS * sum(int(part) for part in expression.split('+'))}]{after}"
        yield line


# ---- registers -----------------------------------------------------------------------------------------------------


def register_kind(kind: ScalarType) -> str:
    if kind.kind == "p":
        return "p"
    if kind.kind == "f":
        return "f" if kind.bits == 32 else "d"
    return {8: "h", 16: "h", 32: "w", 64: "q"}[kind.bits]


def keep(kind: str, register: str, k: int) -> str:
    """Statements that store a result register to output slot `$o` + k."""
    if kind == "p":
        return f"selp.u32 %x3, 1, 0, {register}; st.global.u32 SLOT($o+{k}), %x3;"
    return f"st.global.b{REGISTERS[kind][2]} SLOT($o+{k}), {register};"


# ---- computing forms -----------------------------------------------------------------------------------------------


def computing(text: str) -> Fragment:
    """A form without effects, on input registers; its meaning says what comes out."""
    form = lookup(text)
    entry = form.operation
    tokens = [t for t in entry.arguments if not t.endswith("?")]
    used: dict[str, int] = {}
    operands: list[str] = []
    sources: list[tuple[str, int] | int] = []
    carry = entry.opcode in ("addc", "subc", "madc")
    for place, token in enumerate(tokens):
        if carry and place == len(tokens) - 1:
            continue
        kind = form.operand_type(token)
        if kind is None:
            operands.append("3")
            sources.append(3)
            continue
        letter = register_kind(kind)
        number = used.get(letter, 0)
        used[letter] = number + 1
        operands.append(f"%{REGISTERS[letter][1]}{number}")
        sources.append((letter, number))
    results = [t for t in entry.results]
    named = results[:1] if "cc" in form else results
    kinds = [register_kind(form.operand_type(t) or form.type) for t in named]
    names = [f"%{REGISTERS[letter][1]}r{k}" for k, letter in enumerate(kinds)]
    body = f"{text} {'|'.join(names)}, {', '.join(operands)};\n" + " ".join(keep(letter, names[k], k) for k, letter in enumerate(kinds))
    if carry:
        body = "add.cc.u32 %x3, %w3, %w2;\n" + body

    def want(inputs: Inputs) -> list[Bits]:
        columns: list[list[int]] = [[] for _ in kinds]
        for t in range(THREADS):
            arguments = [s if isinstance(s, int) else int(inputs[s][t]) for s in sources]
            if carry:
                arguments.append((int(inputs["w", 3][t]) + int(inputs["w", 2][t])) >> 32)
            arguments = [_cut(form, token, a) for token, a in zip(tokens, arguments, strict=True)]
            assert entry.meaning is not None, text
            produced = entry.meaning(form, *arguments, *[None] * (len(entry.arguments) - len(arguments)))
            produced = produced if isinstance(produced, tuple) else (produced,)
            for column, token, letter, bits in zip(columns, named, kinds, produced, strict=False):
                column.append(_extended(form.operand_type(token), bits, REGISTERS[letter][2]))
        return [np.array(c, np.uint64) for c in columns]

    return Fragment(text, body, want, len(kinds))


def _cut(form: Form, token: str, bits: int) -> int:
    kind = form.operand_type(token)
    return bits if kind is None else bits & ((1 << kind.bits) - 1)


def _extended(kind: ScalarType | None, bits: int, width: int) -> int:
    """A result as a register of `width` bits holds it."""
    assert kind is not None
    if kind.signed and bits >> (kind.bits - 1):
        bits |= (1 << max(width, kind.bits)) - (1 << kind.bits)
    return bits


# ---- loads and stores ----------------------------------------------------------------------------------------------

_SPACES = ("global", "shared", "local", "const", "param")


def _space(words: list[str]) -> str:
    return next((s for s in _SPACES if s in words), "generic")


def _count(words: list[str]) -> int:
    return next((int(w[1]) for w in words if w in ("v2", "v4", "v8")), 1)


def _prepared(space: str) -> tuple[str, str]:
    """Statements that put the bytes of %q0 … %q3 at an address of the space, and that address."""
    four = "\n".join(f"st{{}}.b64 [{{}}+{8 * k}], %q{k};" for k in range(4))
    if space in ("global", "generic"):
        return four.format(*[".global", "%cell"] * 4), "%cell"
    if space == "local":
        return four.format(*[".local", "lo"] * 4), "lo"
    if space == "shared":
        place = f"mov.u64 %a1, sh; mov.u32 %x0, %tid.x; mov.u32 %x1, %tid.y; mad.lo.u32 %x0, %x1, 8, %x0; mul.wide.u32 %a0, %x0, {CELL}; add.u64 %a1, %a1, %a0;\n"
        return place + four.format(*[".shared", "%a1"] * 4), "%a1"
    return "", {"const": "co", "param": "bytes"}[space]


CONSTANT_BYTES = bytes((37 * k + 11) & 255 for k in range(CELL))
MODULE_VARIABLES = f".const .align 16 .b8 co[{CELL}] = {{{', '.join(map(str, CONSTANT_BYTES))}}};\n"


def cell_bytes(inputs: Inputs, t: int) -> bytes:
    return b"".join(struct.pack("<Q", int(inputs["q", k][t])) for k in range(4))


def loading(text: str) -> Fragment:
    words = text.split(".")[1:]
    form, space, count = lookup(text), _space(text.split(".")), _count(words)
    kind = form.types[0]
    letter = register_kind(kind)
    names = [f"%{REGISTERS[letter][1]}r{k}" for k in range(count)]
    prepare, address = _prepared(space)
    target = f"{{{', '.join(names)}}}" if count > 1 else names[0]
    offset = 0 if count * kind.bytes > 16 else 16
    body = f"{prepare}\n{text} {target}, [{address}+{offset}];\n" + " ".join(keep(letter, n, k) for k, n in enumerate(names))

    def want(inputs: Inputs) -> list[Bits]:
        columns: list[list[int]] = [[] for _ in names]
        for t in range(THREADS):
            data = CONSTANT_BYTES if space in ("const", "param") else cell_bytes(inputs, t)
            for k, column in enumerate(columns):
                raw = int.from_bytes(data[offset + k * kind.bytes : offset + (k + 1) * kind.bytes], "little")
                column.append(_extended(kind, raw, REGISTERS[letter][2]))
        return [np.array(c, np.uint64) for c in columns]

    return Fragment(text, body, want, count)


def storing(text: str) -> Fragment:
    words = text.split(".")[1:]
    form, space, count = lookup(text), _space(words), _count(words)
    kind = form.types[0]
    letter = register_kind(kind)
    if space == "param":
        body = f"{{ .param .align 8 .b8 q[16]; {text} [q+{8}], %{REGISTERS[letter][1]}1; }}\nst.global.b32 SLOT($o), %w0;"
        return Fragment(text, body, lambda inputs: [inputs["w", 0]], 1)
    names = [f"%{REGISTERS[letter][1]}{k % OPERANDS}" for k in range(count)]
    prepare, address = _prepared(space)
    source = f"{{{', '.join(names)}}}" if count > 1 else names[0]
    back = space if space != "generic" else "global"
    body = f"{prepare}\n{text} [{address}], {source};\n"
    body += " ".join(f"ld.{back}.b64 %qr{k}, [{address}+{8 * k}]; {keep('q', f'%qr{k}', k)}" for k in range(4))

    def want(inputs: Inputs) -> list[Bits]:
        rows = []
        for t in range(THREADS):
            data = bytearray(cell_bytes(inputs, t))
            for k in range(count):
                data[k * kind.bytes : (k + 1) * kind.bytes] = (int(inputs[letter, k % OPERANDS][t]) & ((1 << kind.bits) - 1)).to_bytes(kind.bytes, "little")
            rows.append(struct.unpack("<4Q", bytes(data)))
        return [np.array(column, np.uint64) for column in zip(*rows, strict=True)]

    return Fragment(text, body, want, 4)


# ---- atomics: one cell a thread pair, so that old values and sums are known ------------------------------------------


def _float(bits: int, kind: ScalarType) -> np.floating:
    code = {"f16": (np.uint16, np.float16), "f32": (np.uint32, np.float32), "f64": (np.uint64, np.float64)}[kind.name]
    return np.array([bits], code[0]).view(code[1])[0]


def _atomic_result(name: str, kind: ScalarType, old: int, b: int, c: int) -> int:
    mask = (1 << kind.bits) - 1

    def signed(v: int) -> int:
        return v - (1 << kind.bits) if kind.signed and v >> (kind.bits - 1) else v

    if name == "add" and kind.name == "f16x2":
        with np.errstate(invalid="ignore"):
            pairs = [_float(old >> s & 0xFFFF, _F16) + _float(b >> s & 0xFFFF, _F16) for s in (0, 16)]
        return sum((0x7FFF if np.isnan(v) else int(np.array([v], np.float16).view(np.uint16)[0])) << s for v, s in zip(pairs, (0, 16), strict=True))
    if name == "add" and kind.kind == "f":
        total = np.array([_float(old, kind) + _float(b, kind)])
        return int(total.view(np.uint32 if kind.bits == 32 else np.uint64)[0])
    return {
        "add": lambda: old + b & mask,
        "and": lambda: old & b,
        "or": lambda: old | b,
        "xor": lambda: old ^ b,
        "exch": lambda: b,
        "cas": lambda: c if old == b else old,
        "min": lambda: min(old, b, key=signed),
        "max": lambda: max(old, b, key=signed),
        "inc": lambda: 0 if old >= b else old + 1,
        "dec": lambda: b if old == 0 or old > b else old - 1,
    }[name]()


_F16 = lookup("add.f16").type


def atomic(text: str) -> Fragment:
    """Lanes with the same number modulo 8 in one warp meet in one cell: old values go up in lane order."""
    words = text.split(".")
    space, kind = _space(words), lookup(text).type
    name = next(w for w in words[1:] if w in ("add", "and", "or", "xor", "exch", "cas", "min", "max", "inc", "dec"))
    letter = register_kind(kind)
    reg = REGISTERS[letter][1]
    if space == "shared":
        prepare = f"mov.u64 %a1, sh; and.b32 %x0, %t, 39; mul.wide.u32 %a0, %x0, {CELL}; add.u64 %a1, %a1, %a0; bar.sync 0; st.shared.b64 [%a1], 77; bar.sync 0;"
    else:
        prepare = f"and.b32 %x0, %t, 39; mul.wide.u32 %a0, %x0, {CELL}; add.u64 %a1, %cells, %a0; bar.sync 0; st.global.b64 [%a1], 77; bar.sync 0;"
    values = f"%{reg}0" + (f", %{reg}1" if name == "cas" else "")
    result = "" if words[0] == "red" else f"%{reg}r0, "
    back = "shared" if space == "shared" else "global"
    body = f"{prepare}\n{text} {result}[%a1], {values};\nbar.sync 0;\n"
    slots = 1
    if result:
        body += keep(letter, f"%{reg}r0", 1)
        slots = 2
    whole = "q" if kind.bits == 64 else "w"
    body += f"\nld.{back}.b{kind.bits} %{whole}r7, [%a1]; " + keep(whole, f"%{whole}r7", 0)
    body += "\nbar.sync 0;"

    def want(inputs: Inputs) -> list[Bits]:
        cells: dict[int, int] = {}
        before = []
        for t in range(THREADS):
            old = cells.get(t & 39, 77)
            before.append(old)
            cells[t & 39] = _atomic_result(name, kind, old, int(inputs[letter, 0][t]), int(inputs[letter, 1][t]))
        final = np.array([cells[t & 39] for t in range(THREADS)], np.uint64)
        return [final, np.array(before, np.uint64)][:slots]

    return Fragment(text, body, want, slots)


# ---- across lanes, barriers, hints -----------------------------------------------------------------------------------


def _by_warp(values: Bits, function: Callable[[list[int]], list[int]]) -> Bits:
    return np.array([x for w in range(0, THREADS, 32) for x in function([int(v) for v in values[w : w + 32]])], np.uint64)


def _shuffled(mode: str, lanes: list[int]) -> list[int]:
    sources = {"up": lambda k: k - 3 if k >= 3 else k, "down": lambda k: k + 3 if k + 3 < 32 else k, "bfly": lambda k: k ^ 3, "idx": lambda k: 3}[mode]
    return [lanes[sources(k)] for k in range(32)]


def across(text: str) -> Fragment:
    words = text.split(".")
    head = words[0]
    if head == "shfl":
        mode = next(w for w in words if w in ("up", "down", "bfly", "idx"))
        body = f"{text} %wr0|%pr0, %w0, 3, {0 if mode == 'up' else 31}, -1;" + keep("w", "%wr0", 0)
        return Fragment(text, body, lambda i: [_by_warp(i["w", 0], lambda lanes: _shuffled(mode, lanes))])
    if head == "vote":
        mode = next(w for w in words if w in ("all", "any", "ballot", "uni"))
        mask = ", -1" if "sync" in words else ""
        kind = "w" if mode == "ballot" else "p"
        body = f"{text} %{kind}r0, %p0{mask};" + keep(kind, f"%{kind}r0", 0)
        reduce = {
            "all": lambda lanes: [int(all(lanes))] * 32,
            "any": lambda lanes: [int(any(lanes))] * 32,
            "uni": lambda lanes: [int(len(set(lanes)) == 1)] * 32,
            "ballot": lambda lanes: [sum(b << k for k, b in enumerate(lanes))] * 32,
        }[mode]
        return Fragment(text, body, lambda i: [_by_warp(i["p", 0], reduce)])
    if head == "match":
        kind = "q" if words[-1] == "b64" else "w"
        body = f"and.b{words[-1][1:]} %{kind}r1, %{kind}0, 3; {text} %wr0, %{kind}r1, -1;" + keep("w", "%wr0", 0)
        return Fragment(text, body, lambda i: [_by_warp(i[kind, 0] & np.uint64(3), lambda v: [sum((x == y) << k for k, y in enumerate(v)) for x in v])])
    if head == "redux":
        name, kind = words[2], lookup(text).type
        body = f"{text} %wr0, %w0, -1;" + keep("w", "%wr0", 0)

        def reduced(lanes: list[int]) -> list[int]:
            total = lanes[0]
            for lane in lanes[1:]:
                total = _atomic_result(name, kind, total, lane, 0)
            return [total] * 32

        return Fragment(text, body, lambda i: [_by_warp(i["w", 0], reduced)])
    assert head == "activemask"
    return Fragment(text, f"{text} %wr0;" + keep("w", "%wr0", 0), lambda i: [np.full(THREADS, 0xFFFFFFFF, np.uint64)])


def barrier(text: str, block: int) -> Fragment:
    """`block` threads meet."""
    if "red" not in text.split("."):
        body = f"{text} {'-1' if 'warp' in text else '0'};" + keep("w", "%w0", 0)
        return Fragment(text, body, lambda i: [i["w", 0]])
    kind = "w" if "popc" in text else "p"
    body = f"{text} %{kind}r0, 0, %p0;" + keep(kind, f"%{kind}r0", 0)

    def want(inputs: Inputs) -> list[Bits]:
        groups = inputs["p", 0].reshape(-1, block)
        function = {"or": np.max, "and": np.min, "popc": np.sum}[next(w for w in text.split(".") if w in ("or", "and", "popc"))]
        return [np.repeat(function(groups, axis=1), block).astype(np.uint64)]

    return Fragment(text, body, want)


def mbarrier(text: str) -> Fragment:
    """A thread with an mbarrier of its own that awaits two arrivals, after the first and after the second."""
    place, address = _prepared("shared")
    arrive = f"mbarrier.arrive.shared.b64 %qr0, [{address}];"
    look = f"mbarrier.test_wait.parity.shared.b64 %pr0, [{address}], 0;" if "test_wait" not in text else f"{text} %pr0, [{address}], {'0' if 'parity' in text else '%qr0'};"
    body = f"{place}\nmbarrier.init.shared.b64 [{address}], 2; {arrive} {look} " + keep("p", "%pr0", 0) + f" {arrive} {look} " + keep("p", "%pr0", 1)
    if "inval" in text:
        body += f" {text} [{address}]; st.shared.b64 [{address}], %q0;"
    return Fragment(text, body, lambda i: [np.zeros(THREADS, np.uint64), np.ones(THREADS, np.uint64)], 2)


def hint(text: str) -> Fragment:
    operands = {"nanosleep": " 20", "prefetch": " [%cell]"}.get(text.split(".")[0], "")
    return Fragment(text, f"{text}{operands};" + keep("w", "%w0", 0), lambda i: [i["w", 0]])


def control(text: str) -> Fragment:
    """Branches and calls around one store; `ret` and `exit` stand in half of the threads' way."""
    head = text.split(".")[0]
    if head == "bra":
        body = f"mov.b32 %wr0, %w1; @%p0 {text} L$o; mov.b32 %wr0, %w2;\nL$o: " + keep("w", "%wr0", 0)
        return Fragment(text, body, lambda i: [np.where(i["p", 0] != 0, i["w", 1], i["w", 2])])
    assert head == "call"
    body = (
        "{ .param .b32 a$o; .param .b32 r$o; st.param.b32 [a$o+0], %w1;\n"
        f"{text} (r$o), twice, (a$o);\nld.param.b32 %wr0, [r$o+0]; }}\n" + keep("w", "%wr0", 0)
    )
    return Fragment(text, body, lambda i: [i["w", 1] * np.uint64(2) & np.uint64(0xFFFFFFFF)])


FUNCTIONS = """
.func (.param .b32 r) twice(.param .b32 a)
{
  .reg .b32 %y<2>;
  ld.param.b32 %y0, [a]; add.u32 %y1, %y0, %y0; st.param.b32 [r], %y1;
  ret;
}
"""

_BY_HEAD: dict[str, Callable[[str], Fragment]] = {
    "ld": loading, "st": storing, "atom": atomic, "red": atomic,
    **dict.fromkeys(("shfl", "vote", "match", "redux", "activemask"), across),
    **dict.fromkeys(("membar", "fence", "nanosleep", "prefetch"), hint),
    **dict.fromkeys(("bra", "call"), control), "mbarrier": mbarrier,
}  # fmt: skip


def fragment(text: str, block: int) -> Fragment:
    """The fragment of one form (see the module's docstring); `block`: threads of a block."""
    head = text.split(".")[0]
    if head in ("bar", "barrier"):
        return barrier(text, block)
    if text in ("or.pred", "and.pred", "xor.pred", "not.pred", "mov.pred"):
        return computing(text)
    return _BY_HEAD.get(head, computing)(text)
