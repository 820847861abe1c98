"""Do an instruction's operands fit it: their number, their kind, their types (PTX ISA 9.2 to 9.4)?

Everything after this pass relies on it. Types fit as PTX ISA 9.4.1 says: a register has the size of the instruction's
type (for ld, st and cvt it may be wider), and untyped bits go with everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from gridstride.errors import ParseError, UnsupportedError
from gridstride.isa.registry import Form
from gridstride.isa.special_registers import SPECIAL_REGISTERS, exists
from gridstride.isa.types import TYPES, ScalarType
from gridstride.ptx import nodes as ptx

_WIDER = {"ld", "ldu", "st", "cvt"}  # instructions whose registers may be wider than their type
_CARRY_IN = {"addc", "subc", "madc"}
_WIDEST_VECTORS = {"v2": 64, "v4": 64, "v8": 32}  # bits of an element


def check_operands(at: ptx.Instruction, form: Form, registers: Mapping[str, ScalarType]) -> None:
    """Raise ParseError (UnsupportedError for what PTX has and we have not), naming the line, where they do not."""
    checker = _Checker(at, form, registers)
    if at.guard is not None and registers[at.guard.name].kind != "p":
        checker.fail(f"its guard `{_shown(at.guard)}` is no predicate")
    head = form.operation.opcode
    if head == "mov":
        checker.move()
    elif head in ("ld", "ldu", "st", "atom", "red"):
        checker.access(head)
    elif form.operation.module == "gridstride.isa.video":
        checker.video()
    elif head != "call" and head != "brx":
        checker.generic(head)


class _Checker:
    def __init__(self, at: ptx.Instruction, form: Form, registers: Mapping[str, ScalarType]) -> None:
        self.at, self.form, self.registers = at, form, registers
        self.wider = form.operation.opcode in _WIDER

    def fail(self, what: str) -> NoReturn:
        raise ParseError(f"PTX line {self.at.line}: `{self.at.opcode}`: {what}")

    # ---- whole instructions ----------------------------------------------------------------------------------

    def generic(self, head: str) -> None:
        """Operands after the signature of the registry."""
        entry, operands = self.form.operation, list(self.at.operands)
        if entry.results:
            if not operands:
                self.fail("it has no destination")
            hidden = "cc" in self.form  # the carry flag is no operand
            self.destinations(operands.pop(0), entry.results[:1] if hidden else entry.results)
        tokens = self.arguments(head, len(operands))
        if len(tokens) != len(operands):
            self.fail(f"it has {len(operands)} source operands, it takes {len(tokens)}")
        for token, operand in zip(tokens, operands, strict=True):
            self.argument(token.rstrip("?"), operand)
        if head in ("bar", "barrier"):
            self.barrier(operands)

    def arguments(self, head: str, count: int) -> list[str]:
        """The signature's tokens for `count` operands: optional ones left out from the right, or wanted by a modifier."""
        tokens = list(self.form.operation.arguments)
        if head in _CARRY_IN:
            tokens.pop()
        if tokens and tokens[-1] == "pred?":
            tokens[-1:] = ["pred"] if self.form.one_of("and", "or", "xor") else []
        elif tokens and tokens[-1] == "u32?" and head in ("shfl", "vote"):
            tokens[-1:] = ["u32"] if "sync" in self.form else []
        for k in range(len(tokens) - 1, -1, -1):
            if len(tokens) > count and tokens[k].endswith("?"):
                del tokens[k]
        return tokens

    def barrier(self, operands: list[ptx.Operand]) -> None:
        if "warp" in self.form or "cluster" in self.form:
            return
        number, *rest = operands
        if isinstance(number, ptx.Immediate) and not 0 <= number.value < 16:
            self.fail(f"there are barriers 0 to 15, not {number.value}")
        for operand in rest:
            if isinstance(operand, ptx.Immediate) and not (0 < operand.value <= 1024 and operand.value % 32 == 0):
                self.fail(f"a barrier waits for a multiple of 32 threads, up to 1,024, not for {operand.value}")

    def video(self) -> None:
        """Three or four operands of 32 bits, of which those after the first may be parts of registers."""
        operands = self.at.operands
        most = 1 + sum(token != "imm?" for token in self.form.operation.arguments)
        least = most - sum(token not in ("imm", "imm?") and token.endswith("?") for token in self.form.operation.arguments)
        if not least <= len(operands) <= most:
            self.fail(f"it takes {least} operands, not {len(operands)}")
        if isinstance(operands[0], ptx.Part):
            self.register(operands[0].register, TYPES["b32"])
        else:
            self.destination(operands[0], TYPES["b32"])
        for operand in operands[1:]:
            self.value(operand.register if isinstance(operand, ptx.Part) else operand, TYPES["b32"])

    def move(self) -> None:
        kind = self.form.types[0]
        if len(self.at.operands) != 2:
            self.fail(f"it takes a destination and a source, not {len(self.at.operands)} operands")
        destination, source = self.at.operands
        parts = [o for o in (destination, source) if isinstance(o, ptx.VectorOperand)]
        if len(parts) == 2:
            self.fail("it packs or unpacks, not both")
        if parts and (kind.kind != "b" or len(parts[0].items) not in (2, 4) or kind.bits // len(parts[0].items) not in (8, 16, 32, 64)):
            self.fail(f"it cannot divide .{kind.name} by {len(parts[0].items)}")
        for operand, check in ((destination, self.destination), (source, self.value)):
            if isinstance(operand, ptx.VectorOperand):
                piece = TYPES[f"b{kind.bits // len(operand.items)}"]
                for item in operand.items:
                    check(item, piece)
            else:
                check(operand, kind)

    def access(self, head: str) -> None:
        element, operands = self.form.types[-1], list(self.at.operands)
        vector = self.form.one_of("v2", "v4", "v8")
        count = int(vector[1]) if vector else 1
        most = 128 // count if head in ("atom", "red") else _WIDEST_VECTORS.get(vector, 128)
        if element.bits > most or (vector == "v8" and head in ("ld", "st") and element.bits < 32):
            self.fail(f"there are no vectors of {count} elements of .{element.name}")
        if head in ("ld", "ldu", "atom"):
            self.elements(operands, count, self.destination, element, "destination")
        if not operands or not isinstance(operands[0], ptx.Address):
            self.fail("it needs an address in brackets")
        self.address(operands.pop(0))
        if head == "st":
            self.elements(operands, count, self.value, element, "source")
        for _ in range(0 if head in ("ld", "ldu", "st") else 2 if "cas" in self.form else 1):
            self.elements(operands, count, self.value, element, "source")
        if "L2::cache_hint" in self.form:
            self.elements(operands, 1, self.value, TYPES["b64"], "cache policy")
        if operands:
            self.fail("it has too many operands")

    def elements(self, operands: list[ptx.Operand], count: int, check: Callable[[ptx.Operand, ScalarType], None], element: ScalarType, what: str) -> None:
        """Take one operand, or `count` of them in braces, off the list."""
        if not operands:
            self.fail(f"its {what} is missing")
        operand = operands.pop(0)
        items = operand.items if isinstance(operand, ptx.VectorOperand) else (operand,)
        if len(items) != count:
            self.fail(f"it needs {count} {what} operand{'s in braces' if count > 1 else ''}, not {len(items)}")
        for item in items:
            check(item, element)

    def address(self, operand: ptx.Operand) -> None:
        base = operand.base if isinstance(operand, ptx.Address) else operand
        if isinstance(base, ptx.Register):
            kind = self.registers[base.name]
            if kind.kind not in "sub" or kind.bits not in (32, 64):
                self.fail(f"an address is in a register of 32 or 64 bits, `{_shown(base)}` is .{kind.name}")

    # ---- single operands -------------------------------------------------------------------------------------

    def destinations(self, operand: ptx.Operand, tokens: tuple[str, ...]) -> None:
        if isinstance(operand, ptx.Pair):
            if len(tokens) < 2:
                self.fail("it has one destination, not two")
            given = [operand.first, operand.second]
        else:
            given = [operand]
        for token, one in zip(tokens, given, strict=False):
            kind = self.form.operand_type(token)
            if one is not None and kind is not None:
                self.destination(one, kind)

    def destination(self, operand: ptx.Operand, kind: ScalarType) -> None:
        if isinstance(operand, ptx.Register):
            self.register(operand, kind)
        elif isinstance(operand, ptx.Part):
            self.part(operand, kind)
        elif not isinstance(operand, ptx.Sink):
            self.fail("its destination is no register")

    def argument(self, token: str, operand: ptx.Operand) -> None:
        if token == "addr":
            if not isinstance(operand, ptx.Address):
                self.fail("it needs an address in brackets")
            self.address(operand)
        elif token == "imm":
            if not isinstance(operand, ptx.Immediate):
                self.fail("one of its operands must be an integer constant")
        else:
            kind = self.form.operand_type(token)
            assert kind is not None
            self.value(operand, kind)

    def value(self, operand: ptx.Operand, kind: ScalarType) -> None:
        """A source operand of type `kind`."""
        if isinstance(operand, ptx.Register):
            self.register(operand, kind)
        elif isinstance(operand, ptx.Part):
            self.part(operand, kind)
        elif isinstance(operand, ptx.Negated):
            if kind.kind != "p" or not isinstance(operand.operand, ptx.Register):
                self.fail("only a predicate register can be negated with `!`")
            self.register(operand.operand, kind)
        elif isinstance(operand, ptx.Special):
            self.special(operand.name, kind)
        elif isinstance(operand, ptx.Immediate):
            if kind.kind == "f" and operand.value:
                self.fail(f"the integer {operand.value} is no .{kind.name}; write a decimal point, or the bits as 0f… or 0d…")
            if kind.kind == "p" and operand.value not in (0, 1, -1):  # compilers write true as -1
                self.fail(f"{operand.value} is no predicate")
        elif isinstance(operand, ptx.FloatImmediate):
            if kind.kind not in "fb" or kind.bits not in (32, 64):
                self.fail(f"a floating-point constant is no .{kind.name}")
        elif isinstance(operand, ptx.Symbol):
            if kind.kind not in "sub" or kind.bits not in (32, 64):
                self.fail(f"the address of `{operand.name}` is no .{kind.name}")
        else:
            self.fail("this kind of operand cannot stand here")

    def special(self, name: str, kind: ScalarType) -> None:
        if name not in SPECIAL_REGISTERS:
            if exists(name):
                raise UnsupportedError(f"PTX line {self.at.line}: special register `{name}` is not supported")
            self.fail(f"`{name}` is not declared")
        own = SPECIAL_REGISTERS[name]
        legacy = own == 32 and kind.bits == 16 and self.form.operation.opcode == "mov"  # once they had 16 bits
        if (kind.kind == "p") != (own == 1) or kind.kind not in "subp" or (kind.bits != own and not legacy):
            self.fail(f"special register `{name}` is no .{kind.name}")

    def part(self, operand: ptx.Part, kind: ScalarType) -> None:
        """`select_video` knows which parts there are."""
        if self.form.operation.module != "gridstride.isa.video":
            what = f"`{_shown(operand.register)}.{operand.part}` names a part of a register" if operand.part else "a minus stands before a register"
            self.fail(f"{what}, which only video instructions take")
        self.register(operand.register, kind)

    def register(self, operand: ptx.Register, kind: ScalarType) -> None:
        own = self.registers[operand.name]
        predicates = (own.kind == "p") == (kind.kind == "p")
        size = own.bits >= kind.bits if self.wider else own.bits == kind.bits
        meaning = "b" in (own.kind, kind.kind) or own.kind == kind.kind or {own.kind, kind.kind} == {"s", "u"}
        if not predicates or not size or not meaning:
            self.fail(f"`{_shown(operand)}` is .{own.name}, which does not fit .{kind.name}")


def _shown(register: ptx.Register) -> str:
    """The name as the program has it."""
    return register.name.split("@")[0]
