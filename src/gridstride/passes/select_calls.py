"""Calls: device functions inlined, built-in functions turned into effects.

The `.param` variables of calls are turned into registers, one for each piece that is stored or loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridstride.errors import ParseError, UnsupportedError
from gridstride.ir.nodes import AddressOf, Arg, Block, Function, Kind, Op, Reg
from gridstride.isa.registry import lookup
from gridstride.isa.types import TYPES, ScalarType
from gridstride.passes.select_real_calls import CallGraph, select_indirect_call, select_real_call
from gridstride.ptx import nodes as ptx

if TYPE_CHECKING:
    from gridstride.passes.select_operations import Frame

MAX_CALL_DEPTH = 64
BUILTINS = {
    "vprintf": ("b64", "b64"),
    "__assertfail": ("b64", "b64", "b32", "b64", "b64"),
    "malloc": ("b64",),
    "free": ("b64",),
}


class CallSelection:
    """The part of the selector that deals with calls."""

    module: ptx.Module
    function: Function
    block: Block
    frame: Frame
    graph: CallGraph
    called: set[str]  # functions that are called for real

    def __init__(self) -> None:  # pragma: no cover - the selector sets everything
        raise NotImplementedError

    @property
    def call_parameter_sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = self.__dict__.setdefault("_call_parameter_sizes", {})
        return sizes

    @property
    def call_pieces(self) -> dict[tuple[str, int, int], int]:
        pieces: dict[tuple[str, int, int], int] = self.__dict__.setdefault("_call_pieces", {})
        return pieces

    @property
    def pieces_of(self) -> dict[str, list[tuple[int, int]]]:
        """Offset and bytes of the pieces of each parameter variable."""
        pieces: dict[str, list[tuple[int, int]]] = self.__dict__.setdefault("_pieces_of", {})
        return pieces

    def is_call_parameter(self, name: str) -> bool:
        """Whether a `.param` name is of a call (and not a parameter of the kernel)."""
        return name in self.call_parameter_sizes or self.frame.depth > 0

    def piece(self, name: str, offset: int, kind: ScalarType) -> int:
        """The register that stands for `kind.bytes` bytes at `offset` of a call's parameter variable, by its unique name."""
        key = (name, offset, kind.bytes)
        if key not in self.call_pieces:
            pieces = self.pieces_of.setdefault(name, [])
            pieces.append((offset, kind.bytes))
            for start, size in pieces[:-1]:
                if start < offset + kind.bytes and offset < start + size:
                    raise UnsupportedError(
                        f"function `{self.frame.function.name}` (PTX line {self.frame.function.line}): bytes {offset} to {offset + kind.bytes - 1} "
                        f"of `{name}`, a parameter of a call, are written and read in different pieces, which is not supported yet"
                    )
            bits = max(16, kind.bits) if kind.kind != "p" else 16
            self.call_pieces[key] = self.function.new_register(TYPES[f"b{bits}"], f"{name}+{offset}")
        return self.call_pieces[key]

    def access_call_parameter(
        self, at: ptx.Instruction, head: str, base: AddressOf, element: ScalarType, results: list[int | None], values: list[Arg]
    ) -> None:
        if head not in ("ld", "st"):
            raise ParseError(f"PTX line {at.line}: `{at.opcode}` cannot reach the parameter of a call")
        items = values if head == "st" else results
        size = self.call_parameter_sizes.get(base.name)
        if size is not None and not 0 <= base.offset <= size - len(items) * element.bytes:
            raise ParseError(f"PTX line {at.line}: `{at.opcode}` goes outside the {size} bytes of `{base.name}`")
        for k, item in enumerate(items):
            register = self.piece(base.name, base.offset + k * element.bytes, element)
            move = lookup("call.copy." + _copy_type(element))
            if head == "st":
                assert not isinstance(item, int | None)
                self.emit(Op(Kind.COMPUTE, move, [register], [item], at.line, at.loc))
            elif item is not None:
                assert isinstance(item, int)
                self.emit(Op(Kind.COMPUTE, move, [item], [Reg(register)], at.line, at.loc))

    def select_call(self, at: ptx.Instruction) -> None:
        operands = list(at.operands)
        returns: tuple[ptx.Operand, ...] = ()
        if operands and isinstance(operands[0], ptx.VectorOperand):
            returns = operands.pop(0).items  # type: ignore[union-attr]
        target = operands.pop(0) if operands else None
        arguments = operands[0].items if operands and isinstance(operands[0], ptx.VectorOperand) else ()
        if target is None or isinstance(target, ptx.VectorOperand):
            raise ParseError(f"PTX line {at.line}: `{at.opcode}` does not say which function it calls")
        if not isinstance(target, ptx.Symbol):
            self.call_pointer(at, target, returns, arguments, operands)
            return
        name = self.module.aliases.get(target.name, target.name)
        if name in BUILTINS:
            self.call_builtin(at, name, returns, arguments)
            return
        callee = self.module.functions.get(name)
        if callee is None or not callee.has_body:
            raise UnsupportedError(f"PTX line {at.line}: function `{name}` is called but has no body here")
        if name in self.graph.real:
            self.called.add(name)
            target_arg = AddressOf("function", name)
            select_real_call(self, at, target_arg, (callee.parameters, callee.returns), arguments, returns)  # type: ignore[arg-type]
            return
        if self.frame.depth >= MAX_CALL_DEPTH:
            raise UnsupportedError(f"PTX line {at.line}: calls are nested more than {MAX_CALL_DEPTH} deep")
        self.inline(at, callee, returns, arguments)

    def call_pointer(
        self, at: ptx.Instruction, target: ptx.Operand, returns: tuple[ptx.Operand, ...], arguments: tuple[ptx.Operand, ...], rest: list[ptx.Operand]
    ) -> None:
        """A call through a register; its prototype, or a list of targets, is the last operand."""
        prototype = rest[-1] if rest and isinstance(rest[-1], ptx.Symbol) else None
        formals = self.frame.function.prototypes.get(prototype.name) if prototype is not None else None
        if formals is None:
            raise ParseError(f"PTX line {at.line}: an indirect call needs the label of its `.callprototype`")
        self.called.update(self.graph.addressed)
        select_indirect_call(self, at, self.argument(target, at), formals, arguments, returns)  # type: ignore[arg-type]

    def actual_name(self, operand: ptx.Operand, at: ptx.Instruction) -> str:
        """The unique name of the `.param` variable given as an actual parameter."""
        if isinstance(operand, ptx.Symbol):
            return self.frame.variables.get(operand.name, operand.name)
        raise ParseError(f"PTX line {at.line}: a call takes `.param` variables, registers or constants")

    def inline(self, at: ptx.Instruction, callee: ptx.Function, returns: tuple[ptx.Operand, ...], arguments: tuple[ptx.Operand, ...]) -> None:
        if len(arguments) != len(callee.parameters) or len(returns) != len(callee.returns):
            raise ParseError(f"PTX line {at.line}: the call of `{callee.name}` does not fit its declaration")
        caller = self.frame
        after = Block(label=f"return@{at.line}")
        names: dict[str, str] = {}
        copies_back: list[tuple[ptx.Operand, str, ScalarType]] = []
        copies_in: list[tuple[str, ScalarType, Arg]] = []
        for formal, actual in zip((*callee.parameters, *callee.returns), (*arguments, *returns), strict=True):
            if isinstance(actual, ptx.Symbol):
                names[formal.name] = self.actual_name(actual, at)
                continue
            names[formal.name] = f"{callee.name}.{formal.name}@{id(after)}"
            self.call_parameter_sizes[names[formal.name]] = formal.size or 0
            if formal in callee.returns:
                copies_back.append((actual, names[formal.name], formal.type))
            else:
                copies_in.append((names[formal.name], formal.type, self.argument(actual, at)))
        for name, kind, value in copies_in:
            self.emit(Op(Kind.COMPUTE, lookup("call.copy." + _copy_type(kind)), [self.piece(name, 0, kind)], [value], at.line, at.loc))
        self.frame = self.enter(callee, after, (*caller.callers, callee.name))
        self.frame.variables.update(names)
        own = self.frame.registers
        for formal in callee.parameters:  # formal parameters that are registers of the callee (PTX ISA 7.1)
            if formal.space == "reg":
                value = Reg(self.piece(names[formal.name], 0, formal.type))
                self.emit(Op(Kind.COMPUTE, lookup("call.copy." + _copy_type(formal.type)), [own[formal.name]], [value], at.line, at.loc))
        self.body()
        self.frame = caller
        self.block = after
        self.function.blocks.append(after)
        for formal in callee.returns:
            if formal.space == "reg":
                value = Reg(own[formal.name])
                self.emit(Op(Kind.COMPUTE, lookup("call.copy." + _copy_type(formal.type)), [self.piece(names[formal.name], 0, formal.type)], [value], at.line, at.loc))
        for actual, name, kind in copies_back:
            register = self.register(actual, at)
            self.emit(Op(Kind.COMPUTE, lookup("call.copy." + _copy_type(kind)), [register], [Reg(self.piece(name, 0, kind))], at.line, at.loc))

    def call_builtin(self, at: ptx.Instruction, name: str, returns: tuple[ptx.Operand, ...], arguments: tuple[ptx.Operand, ...]) -> None:
        form = lookup(f"call.{name}")
        if len(arguments) != len(BUILTINS[name]) or len(returns) > len(form.operation.results):
            raise ParseError(f"PTX line {at.line}: the call of `{name}` does not fit its declaration")
        args: list[Arg] = []
        for kind, actual in zip(BUILTINS[name], arguments, strict=True):
            if isinstance(actual, ptx.Symbol):
                args.append(Reg(self.piece(self.actual_name(actual, at), 0, TYPES[kind])))
            else:
                args.append(self.argument(actual, at))
        results: list[int | None] = []
        for token, actual in zip(form.operation.results, returns, strict=False):
            if isinstance(actual, ptx.Symbol):
                results.append(self.piece(self.actual_name(actual, at), 0, TYPES[token]))
            else:
                results.append(self.register(actual, at))
        results += [None] * (len(form.operation.results) - len(results))
        self.emit(Op(Kind.EFFECT, form, results, args, at.line, at.loc, site=self.site(at)))

    # provided by the selector
    def emit(self, op: Op) -> Op:
        raise NotImplementedError

    def enter(self, source: ptx.Function, after: Block | None, callers: tuple[str, ...]) -> Frame:
        raise NotImplementedError

    def body(self) -> None:
        raise NotImplementedError

    def argument(self, operand: ptx.Operand, at: ptx.Instruction) -> Arg:
        raise NotImplementedError

    def register(self, operand: ptx.Operand | None, at: ptx.Instruction) -> int | None:
        raise NotImplementedError

    def site(self, at: ptx.Instruction, space: str = "", size: int = 0) -> int:
        raise NotImplementedError


def _copy_type(kind: ScalarType) -> str:
    return f"b{kind.bits}" if kind.bits in (8, 16, 32, 64, 128) else "b16"
