"""The body of a PTX function: scopes, registers, labels, instructions."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import TYPE_CHECKING

from gridstride.errors import ParseError
from gridstride.isa.types import TYPES, ScalarType
from gridstride.ptx.expressions import constant_expression, constant_product
from gridstride.ptx.lexer import parse_float
from gridstride.ptx.nodes import (
    Address,
    FloatImmediate,
    Function,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Part,
    Register,
    Sink,
    SourceLocation,
    Special,
    Symbol,
    Variable,
    VectorOperand,
)
from gridstride.ptx.scopes import Family, Scope

if TYPE_CHECKING:
    from gridstride.ptx.parser import _ModuleParser

_MEMORY_SPACES = {".shared", ".local", ".global", ".const", ".param"}
_SINK = Sink()
_MAX_DEPTH = 8  # of braces and brackets in an operand
_MAX_INLINED = 64  # functions inlined into each other that a location tells of


class BodyParser:
    """Fills in a `Function` from its `{` to its `}`. Registers and labels of inner scopes get unique names."""

    def __init__(self, outer: _ModuleParser, function: Function) -> None:
        self.outer = outer
        self.stream = outer.stream
        self.function = function
        self.scope = Scope(None)
        self.depth = 0  # of the operand being read
        self.copies: dict[str, int] = {}
        self.in_call = False  # parentheses hold the operands of a call, else an expression
        self.loc: SourceLocation | None = None
        self.locations: dict[tuple[int, int], SourceLocation] = {}
        self.unresolved: list[tuple[Instruction, Scope]] = []
        self.pending_lists: list[tuple[str, list[str], Scope]] = []
        for variable in (*function.parameters, *function.returns):
            if variable.space == "reg":
                self._declare_register(variable.name, variable.type)
            else:
                self.scope.names[variable.name] = Symbol(variable.name)

    def run(self) -> None:
        s, depth = self.stream, 1
        while depth:
            token = s.peek()
            if token == "{":
                s.next()
                depth += 1
                self.scope = Scope(self.scope)
            elif token == "}":
                s.next()
                depth -= 1
                self.scope = self.scope.parent or self.scope
            elif token == ";":
                s.next()
            elif token.kind == "directive":
                self._directive()
            elif token.kind == "name" and s.peek(1) == ":":
                self._label()
            else:
                self._instruction()
        self._resolve_labels()

    # ---- directives ------------------------------------------------------------------------------------------

    def _directive(self) -> None:
        s = self.stream
        token = s.next()
        if token == ".reg":
            self._registers()
        elif token in _MEMORY_SPACES:
            for variable in self.outer.variables(token[1:]):
                self._declare_variable(variable)
        elif token == ".loc":
            self._loc()
        elif token == ".pragma":
            while s.next() != ";":
                pass
        elif token == ".file":
            self.outer._file()
        elif token == ".section":
            self.outer._skip_section()
        else:
            s.fail(f"directive `{token}` is not known here", token)

    def _loc(self) -> None:
        s = self.stream
        file, line, _column = s.integer(), s.integer(), s.integer()
        inlined = None
        while s.accept(","):
            word = s.name()
            if word == "inlined_at":
                f, at, _ = s.integer(), s.integer(), s.integer()
                inlined = self.locations.get((f, at)) or SourceLocation(f, at)
                if _inlining_depth(inlined) > _MAX_INLINED:
                    inlined = SourceLocation(f, at)
            else:
                s.name()
                if s.accept("+"):
                    s.integer()
        self.loc = SourceLocation(file, line, inlined)
        self.locations[file, line] = self.loc

    def _registers(self) -> None:
        s = self.stream
        token, elements = s.next(), 1
        if token in (".v2", ".v4"):
            elements = int(token[2])
            token = s.next()
        kind = TYPES.get(token[1:])
        if kind is None:
            s.fail(f"`{token}` is not a type", token)
        while True:
            name = str(s.name())
            if s.accept("<"):
                count = s.integer()
                s.expect(">")
                if name in self.scope.families:
                    s.fail(f"the registers `{name}<…>` are declared twice")
                self.scope.families[name] = Family(count, kind, elements)
            else:
                if name in self.scope.names:
                    s.fail(f"`{name}` is declared twice")
                self._declare_register(name, kind, elements)
            if not s.accept(","):
                break
        s.expect(";")

    def _declare_register(self, name: str, kind: ScalarType, elements: int = 1, scope: Scope | None = None) -> None:
        """One register, or the `elements` registers of a vector, which are also its .x … .w and .r … .a."""
        names = (scope or self.scope).names
        if elements > 1:
            for letter, colour in zip("xyzw"[:elements], "rgba", strict=False):
                self._declare_register(f"{name}.{letter}", kind, 1, scope)
                names[f"{name}.{colour}"] = names[f"{name}.{letter}"]
            names[name] = VectorOperand(tuple(names[f"{name}.{letter}"] for letter in "xyzw"[:elements]))
            return
        unique = self._unique(name, self.function.registers)
        self.function.registers[unique] = kind
        names[name] = Register(unique)

    def _find(self, name: str) -> Operand | None:
        """What a name means here. Of a family only the registers that are used come to be."""
        for scope in self.scope.outwards():
            if name in scope.names:
                return scope.names[name]
            plain = name.split(".")[0]
            family = scope.member(plain)
            if family is not None and plain not in scope.names:
                self._declare_register(plain, family.type, family.elements, scope)
                return scope.names.get(name)
        return None

    def _declare_variable(self, variable: Variable) -> None:
        name = variable.name
        if name in self.scope.names:
            raise ParseError(f"PTX line {variable.line}: `{name}` is declared twice")
        variable.name = self._unique(name, self.function.variables)
        self.function.variables[variable.name] = variable
        self.scope.names[name] = Symbol(variable.name)
        if variable.space in ("global", "const"):  # one copy for all that run the function
            inner = f"{self.function.name}:{variable.name}"
            self.outer.module.variables[inner] = replace(variable, name=inner)

    def _unique(self, name: str, taken: Container[str]) -> str:
        """The name, with a number where inner scopes have used it already."""
        unique = name
        while unique in taken:
            self.copies[name] = self.copies.get(name, 1) + 1
            unique = f"{name}@{self.copies[name]}"
        return unique

    # ---- labels ----------------------------------------------------------------------------------------------

    def _label(self) -> None:
        s = self.stream
        name = str(s.name())
        s.expect(":")
        if s.peek() in (".branchtargets", ".calltargets"):
            s.next()
            targets = [str(s.name())]
            while s.accept(","):
                targets.append(str(s.name()))
            s.expect(";")
            self.pending_lists.append((name, targets, self.scope))
            self.scope.labels[name] = name
            return
        if s.accept(".callprototype"):
            returns = self.outer.parameters() if s.peek() == "(" else []
            s.next()
            parameters = self.outer.parameters() if s.peek() == "(" else []
            while s.peek() != ";":
                s.next()
            s.expect(";")
            self.function.prototypes[name] = (parameters, returns)
            self.scope.labels[name] = name
            return
        if name in self.scope.labels:
            s.fail(f"the label `{name}` is there twice")
        unique = self._unique(name, self.function.labels)
        self.scope.labels[name] = unique
        self.function.labels[unique] = len(self.function.body)

    def _resolve_labels(self) -> None:
        for name, targets, scope in self.pending_lists:
            self.function.branch_targets[name] = tuple(scope.find_label(t) or t for t in targets)
        for instruction, scope in self.unresolved:
            instruction.operands = tuple(self._resolved(operand, scope) for operand in instruction.operands)

    @staticmethod
    def _resolved(operand: Operand, scope: Scope) -> Operand:
        if isinstance(operand, Symbol):
            label = scope.find_label(operand.name)
            if label is not None:
                return Symbol(label, operand.offset)
        return operand

    # ---- instructions ----------------------------------------------------------------------------------------

    def _instruction(self) -> None:
        s = self.stream
        line = s.line
        guard, negated = None, False
        if s.accept("@"):
            negated = s.accept("!")
            found = self._find(s.name())
            if not isinstance(found, Register):
                s.fail("a guard is a predicate register")
            guard = found
        opcode = str(s.name())
        self.in_call = opcode.startswith("call")
        operands: list[Operand] = []
        has_symbol = False
        if s.peek() != ";":
            while True:
                operand = self._operand()
                has_symbol = has_symbol or isinstance(operand, Symbol)
                operands.append(operand)
                if not s.accept(","):
                    break
        s.expect(";")
        instruction = Instruction(opcode, tuple(operands), guard, negated, line, self.loc)
        if has_symbol:
            self.unresolved.append((instruction, self.scope))
        self.function.body.append(instruction)

    def _operand(self) -> Operand:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.stream.fail("this operand is nested too deeply")
        try:
            return self._any_operand()
        finally:
            self.depth -= 1

    def _any_operand(self) -> Operand:
        s = self.stream
        if s.accept("["):
            return self._address()
        if s.peek() == "{" or (s.peek() == "(" and self.in_call):
            close = "}" if s.next() == "{" else ")"
            items: list[Operand] = []
            while not s.accept(close):
                items.append(self._operand())
                if not s.accept(","):
                    s.expect(close)
                    break
            return VectorOperand(tuple(items))
        if s.peek() == "!" and s.peek(1).kind == "name":
            s.next()
            return Negated(self._value())
        value = self._value()
        if s.accept("|"):
            second = self._value()
            return Pair(None if isinstance(value, Sink) else value, None if isinstance(second, Sink) else second)
        return value

    def _value(self) -> Operand:
        s = self.stream
        negative = False
        while s.peek() in ("-", "+"):
            negative ^= s.next() == "-"
        token = s.next()
        if token.kind == "int" or token in ("(", "~", "!"):
            s.position -= 1
            value = constant_expression(s)
            return Immediate(-value if negative else value)
        if token.kind == "float":
            bits, width = parse_float(token)
            return FloatImmediate(bits ^ (1 << (width - 1)) if negative else bits, width)
        if token.kind != "name":
            s.fail(f"`{token}` cannot be an operand", token)
        if token == "_":
            return _SINK
        if token == "WARP_SZ":
            return Immediate(32)
        found = self._find(token)
        if found is None:
            name, _, part = token.partition(".")
            register = self._find(name) if part else None
            if isinstance(register, Register):
                return Part(register, part, negative)
            if register is not None:
                s.fail(f"`{name}` has no element `{part}`", token)
            if token.startswith("%"):
                return Special(str(token))
            found = Symbol(str(token))
        if isinstance(found, Symbol):
            offset = self._offset()
            return Symbol(found.name, offset) if offset else found
        if negative and isinstance(found, Register):
            return Part(found, "", True)
        return found

    def _offset(self) -> int:
        """The constants added to and subtracted from a name or register."""
        s, offset = self.stream, 0
        while s.peek() in ("+", "-"):
            sign = 1 if s.next() == "+" else -1
            offset += sign * constant_product(s)
        if not -(1 << 31) <= offset < 1 << 32:
            s.fail(f"the offset {offset} does not fit 32 bits")
        return offset

    def _address(self) -> Operand:
        s = self.stream
        base = self._value()
        offset = self._offset()
        if s.peek() == ",":  # of textures, surfaces and tensors: an object and coordinates
            items: list[Operand] = [base]
            while s.accept(","):
                items.append(self._operand())
            s.expect("]")
            return VectorOperand(tuple(items))
        s.expect("]")
        if isinstance(base, Symbol):
            return Address(Symbol(base.name), base.offset + offset)
        if isinstance(base, Register | Immediate):
            return Address(base, offset)
        s.fail("an address is a register, a variable or an integer, plus an offset")


def _inlining_depth(location: SourceLocation) -> int:
    depth, outer = 0, location.inlined_at
    while outer is not None:
        depth, outer = depth + 1, outer.inlined_at
    return depth
