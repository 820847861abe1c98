"""Calls that stay calls: functions that recurse, are called through pointers, or are too large to be inlined.

Arguments and results lie in the callee's part of local memory, one after the other, from its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridstride.errors import ParseError
from gridstride.ir.nodes import Access, AddressOf, Arg, Block, Kind, Op, Reg
from gridstride.isa.registry import lookup
from gridstride.isa.types import TYPES
from gridstride.passes.call_parameters import in_memory
from gridstride.ptx import nodes as ptx

if TYPE_CHECKING:
    from gridstride.passes.select_operations import Selector

MAX_INLINED_INSTRUCTIONS = 2_000  # of one function that is called at several places


@dataclass(frozen=True)
class CallGraph:
    """Names of the functions that are called for real, and whether any is called through a pointer."""

    real: frozenset[str]
    addressed: frozenset[str]


def analyse_calls(module: ptx.Module) -> CallGraph:
    """Which functions of a module must not be inlined."""
    callees: dict[str, list[str]] = {}
    addressed: set[str] = set()
    for function in module.functions.values():
        found = callees.setdefault(function.name, [])
        for instruction in function.body:
            is_call = instruction.opcode.split(".", 1)[0] == "call"
            target = _direct_target(module, instruction) if is_call else None
            if target is not None:
                found.append(target)
            for operand in instruction.operands:
                if isinstance(operand, ptx.Symbol) and operand.name in module.functions and not (is_call and operand.name == target):
                    addressed.add(operand.name)
    for variable in module.variables.values():
        addressed.update(r.symbol for r in variable.relocations if r.symbol in module.functions)
    sites: dict[str, int] = {}
    for targets in callees.values():
        for target in targets:
            sites[target] = sites.get(target, 0) + 1
    large = {n for n, count in sites.items() if count > 1 and n in module.functions and len(module.functions[n].body) > MAX_INLINED_INSTRUCTIONS}
    addressed = {n for n in addressed if module.functions[n].has_body and not module.functions[n].entry}
    return CallGraph(frozenset(_recursive(callees) | large | addressed | in_memory(module)), frozenset(addressed))


def _direct_target(module: ptx.Module, instruction: ptx.Instruction) -> str | None:
    for operand in instruction.operands[:2]:
        if isinstance(operand, ptx.Symbol):
            name = module.aliases.get(operand.name, operand.name)
            return name if name in module.functions else None
        if isinstance(operand, ptx.Register):
            return None
    return None


def _recursive(callees: dict[str, list[str]]) -> set[str]:
    """Functions that can reach themselves."""
    found = set()
    for start, called in callees.items():
        seen: set[str] = set()
        stack = list(called)
        while stack:
            name = stack.pop()
            if name == start:
                found.add(start)
                break
            if name not in seen:
                seen.add(name)
                stack += callees.get(name, [])
    return found


def parameter_places(parameters: Sequence[ptx.Variable], returns: Sequence[ptx.Variable]) -> tuple[dict[str, int], int]:
    """Offsets of formal parameters and results in the callee's local memory, in order, and their end."""
    places: dict[str, int] = {}
    end = 0
    for number, formal in enumerate((*parameters, *returns)):
        align = max(4, formal.align)
        start = -(-end // align) * align
        places[f"{number}"] = start
        end = start + (formal.size or 0)
    return places, end


def select_real_call(
    s: Selector,
    at: ptx.Instruction,
    target: Arg,
    formals: tuple[Sequence[ptx.Variable], Sequence[ptx.Variable]],
    arguments: Sequence[ptx.Operand],
    returns: Sequence[ptx.Operand],
) -> None:
    """Store the arguments, call, load the results."""
    parameters, results = formals
    if len(arguments) != len(parameters) or len(returns) != len(results):
        raise ParseError(f"PTX line {at.line}: the call does not fit the declaration of what it calls")
    places, _ = parameter_places(parameters, results)
    for number, (formal, actual) in enumerate(zip(parameters, arguments, strict=True)):
        place = places[f"{number}"]
        if isinstance(actual, ptx.Symbol):
            name = s.actual_name(actual, at)
            for (piece_name, offset, width), piece in list(s.call_pieces.items()):
                if piece_name == name:
                    _access(s, at, Kind.STORE, place + offset, width, Reg(piece))
        else:
            _access(s, at, Kind.STORE, place, formal.type.bytes, s.argument(actual, at))
    form = lookup("call.function")
    s.emit(Op(Kind.EFFECT, form, [], [target], at.line, at.loc, info="suspends", site=s.site(at)))
    s.start(Block(label=f"after call@{at.line}"))
    for number, (formal, actual) in enumerate(zip(results, returns, strict=True)):
        place = places[f"{len(parameters) + number}"]
        if isinstance(actual, ptx.Symbol):
            name = s.actual_name(actual, at)
            for offset, width in _pieces_read(s, name, formal):
                _access(s, at, Kind.LOAD, place + offset, width, s.piece(name, offset, TYPES[f"b{8 * width}"]))
        elif not isinstance(actual, ptx.Sink):
            register = s.register(actual, at)
            if register is not None:
                _access(s, at, Kind.LOAD, place, formal.type.bytes, register)


def _pieces_read(s: Selector, name: str, formal: ptx.Variable) -> list[tuple[int, int]]:
    """(offset, bytes) of what the caller's code reads of a result: found in the text, since it comes after the call."""
    found: set[tuple[int, int]] = set()
    for instruction in s.frame.function.body:
        words = instruction.opcode.split(".")
        if words[0] == "ld" and "param" in "".join(words) and len(instruction.operands) == 2:
            address = instruction.operands[1]
            if isinstance(address, ptx.Address) and isinstance(address.base, ptx.Symbol):
                unique = s.frame.variables.get(address.base.name, address.base.name)
                if unique == name:
                    kind = TYPES[words[-1]]
                    count = next((int(w[1]) for w in words if w in ("v2", "v4", "v8")), 1)
                    start = address.base.offset + address.offset
                    found |= {(start + k * kind.bytes, kind.bytes) for k in range(count)}
    return sorted(found) or [(0, formal.type.bytes)]


def _access(s: Selector, at: ptx.Instruction, kind: Kind, place: int, width: int, value: Arg | int) -> None:
    element = TYPES[f"b{8 * width}"]
    access = Access("local", element, 1, 0)
    base = AddressOf("local", "@callee", place)
    if kind is Kind.STORE:
        assert not isinstance(value, int)
        op = Op(kind, lookup(f"st.local.{element}"), [], [base, value], at.line, at.loc, access=access)
    else:
        assert isinstance(value, int)
        op = Op(kind, lookup(f"ld.local.{element}"), [value], [base], at.line, at.loc, access=access)
    op.site = s.site(at, "local", width)
    s.emit(op)


def select_indirect_call(
    s: Selector,
    at: ptx.Instruction,
    target: Arg,
    formals: tuple[Sequence[ptx.Variable], Sequence[ptx.Variable]],
    arguments: Sequence[ptx.Operand],
    returns: Sequence[ptx.Operand],
) -> None:
    """Lanes may call different functions: those that want what the first one wants go, then the rest."""
    again, chosen, after = Block(label=f"call loop@{at.line}"), Block(label=f"call@{at.line}"), Block(label=f"called@{at.line}")
    done = s.function.new_register(TYPES["pred"], "%called")
    s.start(again)
    same = s.function.new_register(TYPES["pred"], "%same")
    s.emit(Op(Kind.EFFECT, lookup("call.same_target"), [same], [target], at.line, at.loc))
    s.emit(Op(Kind.MOVE, lookup("mov.pred"), [done], [Reg(same)], at.line, at.loc))
    tail = Block(label=f"call tail@{at.line}")
    s.branch(Reg(same), chosen, tail, at)
    s.block = chosen
    s.function.blocks.append(chosen)
    select_real_call(s, at, target, formals, arguments, returns)
    s.start(tail)
    s.branch(Reg(done), after, again, at)
    s.block = after
    s.function.blocks.append(after)


def begin_function(s: Selector) -> None:
    """The formal parameters of a function that is called for real lie at the beginning of its local memory."""
    source = s.source
    places, end = parameter_places(source.parameters, source.returns)
    s.function.local_bytes = end
    for number, formal in enumerate((*source.parameters, *source.returns)):
        s.function.local_offsets[formal.name] = places[f"{number}"]


def begin_body(s: Selector, line: int) -> None:
    """Formal parameters that are registers are loaded."""
    for formal in s.source.parameters:
        if formal.space == "reg":
            _formal(s, line, Kind.LOAD, formal)


def end_body(s: Selector, line: int) -> None:
    """Results that are registers are stored."""
    for formal in s.source.returns:
        if formal.space == "reg":
            _formal(s, line, Kind.STORE, formal)


def _formal(s: Selector, line: int, kind: Kind, formal: ptx.Variable) -> None:
    element = TYPES[f"b{8 * formal.type.bytes}"]
    base = AddressOf("local", formal.name)
    register = s.frame.registers[formal.name]
    access = Access("local", element, 1, 0)
    if kind is Kind.LOAD:
        op = Op(kind, lookup(f"ld.local.{element}"), [register], [base], line, access=access)
    else:
        op = Op(kind, lookup(f"st.local.{element}"), [], [base, Reg(register)], line, access=access)
    op.site = s.site(ptx.Instruction("call", (), None, False, line, None), "local", element.bytes)
    s.emit(op)
