"""Calls: device functions inlined, built-in functions turned into effects.

The `.param` variables of calls are turned into registers, one for each piece that is stored or loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridstride.errors import ParseError, UnsupportedError
from gridstride.ir.nodes import AddressOf, Arg, Block, Function, Kind, Op, Reg
from gridstride.isa.registry import lookup
from gridstride.isa.types import TYPES, ScalarType
from gridstride.ptx import nodes as ptx

if TYPE_CHECKING:
    from gridstride.passes.select_operations import Frame

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

    def is_call_parameter(self, name: str) -> bool:
        """Whether a `.param` name is of a call (and not a parameter of the kernel)."""
        return name in self.call_parameter_sizes or self.frame.depth > 0

    def piece(self, name: str, offset: int, kind: ScalarType) -> int:
        """The register that stands for `kind.bytes` bytes at `offset` of a call's parameter variable, by its unique name."""
        key = (name, offset, kind.bytes)
        if key not in self.call_pieces:
            bits = max(16, kind.bits) if kind.kind != "p" else 16
            self.call_pieces[key] = self.function.new_register(TYPES[f"b{bits}"], f"{name}+{offset}")
        return self.call_pieces[key]

    def access_call_parameter(
        self, at: ptx.Instruction, head: str, base: AddressOf, element: ScalarType, results: list[int | None], values: list[Arg]
    ) -> None:
        for k, item in enumerate(values if head == "st" else results):
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
        target = operands.pop(0)
        arguments = operands[0].items if operands and isinstance(operands[0], ptx.VectorOperand) else ()
        if not isinstance(target, ptx.Symbol):
            raise UnsupportedError(f"PTX line {at.line}: indirect calls are not supported yet")
        name = self.module.aliases.get(target.name, target.name)
        if name in BUILTINS:
            self.call_builtin(at, name, returns, arguments)
            return
        callee = self.module.functions.get(name)
        if callee is None or not callee.has_body:
            raise UnsupportedError(f"PTX line {at.line}: function `{name}` is called but has no body here")
        if name == self.function.name or name in self.frame.callers:
            raise UnsupportedError(f"PTX line {at.line}: `{name}` is recursive, which is not supported yet")
        self.inline(at, callee, returns, arguments)

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
