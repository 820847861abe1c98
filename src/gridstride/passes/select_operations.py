"""PTX instructions to IR operations; device functions are inlined on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

from gridstride.errors import ParseError, UnsupportedError
from gridstride.ir.nodes import (
    TERMINATORS,
    Access,
    AddressOf,
    Arg,
    Block,
    Const,
    Function,
    Kind,
    Op,
    Reg,
    Site,
    SpecialRegister,
)
from gridstride.isa import families
from gridstride.isa.registry import Effect, Form, lookup
from gridstride.isa.types import TYPES, ScalarType
from gridstride.passes.select_calls import CallSelection
from gridstride.passes.select_video import select_video
from gridstride.ptx import nodes as ptx

assert families  # importing it fills the registry

_SPACES = {"global", "shared", "local", "const", "param"}
_ORDERINGS = {"volatile", "relaxed", "acquire", "release", "acq_rel", "weak", "mmio"}
_SCOPES = {"cta", "cluster", "gpu", "sys", "gl"}
MAX_INLINED_OPERATIONS = 200_000


@dataclass
class Frame:
    """One function body being selected: the kernel's own, or an inlined call's."""

    function: ptx.Function
    registers: dict[str, int]
    blocks: dict[str, Block]
    variables: dict[str, str]  # name in this body -> unique name in the whole kernel
    after: Block | None  # where `ret` goes; None: the kernel ends
    depth: int = 0
    callers: tuple[str, ...] = field(default_factory=tuple)


def select_operations(module: ptx.Module, name: str) -> Function:
    """The IR of entry (or device function) `name`. Raises UnsupportedError naming the instruction and its line."""
    return _Selector(module, module.functions[name]).run()


class _Selector(CallSelection):
    def __init__(self, module: ptx.Module, source: ptx.Function) -> None:
        self.module = module
        self.source = source
        self.function = Function(source.name, source.parameters, source.returns, source.entry)
        self.block = Block(label="entry")
        self.function.blocks.append(self.block)
        self.carry: int | None = None
        self.instances = 0
        self.frame = self.enter(source, None, ())

    def run(self) -> Function:
        self.body()
        return self.function

    def enter(self, source: ptx.Function, after: Block | None, callers: tuple[str, ...]) -> Frame:
        """Registers, blocks and variables of one more instance of a function body."""
        self.instances += 1
        prefix = "" if self.instances == 1 else f"{source.name}#{self.instances}:"
        function = self.function
        registers = {n: function.new_register(t, prefix + n) for n, t in source.registers.items()}
        blocks = {label: Block(label=prefix + label) for label in source.labels}
        variables: dict[str, str] = {}
        for variable in source.variables.values():
            unique = prefix + variable.name
            variables[variable.name] = unique
            if variable.space == "shared":
                # one block-wide copy however often the function is inlined
                variables[variable.name] = f"{source.name}:{variable.name}"
                function.shared[variables[variable.name]] = variable
            elif variable.space == "local":
                self.place_local(unique, variable)
            elif variable.space == "param":
                self.call_parameter_sizes[unique] = variable.size or 0
            else:
                self.module.variables.setdefault(unique, variable)
        return Frame(source, registers, blocks, variables, after, len(callers), callers)

    def place_local(self, name: str, variable: ptx.Variable) -> None:
        align = max(4, variable.align)
        start = -(-self.function.local_bytes // align) * align
        self.function.local_offsets[name] = start
        self.function.local_bytes = start + (variable.size or 0)

    # ---- bodies ----------------------------------------------------------------------------------------------

    def body(self) -> None:
        frame = self.frame
        starts: dict[int, list[Block]] = {}
        for label, position in frame.function.labels.items():
            starts.setdefault(position, []).append(frame.blocks[label])
        for position, instruction in enumerate(frame.function.body):
            for block in starts.get(position, ()):
                self.start(block)
            self.instruction(instruction)
        for block in starts.get(len(frame.function.body), ()):
            self.start(block)
        if not self.terminated():
            self.leave()
        if sum(len(b.ops) for b in self.function.blocks) > MAX_INLINED_OPERATIONS:
            raise UnsupportedError(f"kernel `{self.source.name}` grows past {MAX_INLINED_OPERATIONS:,} operations when its calls are inlined")

    def terminated(self) -> bool:
        return bool(self.block.ops) and self.block.ops[-1].kind in TERMINATORS

    def start(self, block: Block) -> None:
        """Begin `block`; what came before falls through into it."""
        if not self.terminated():
            self.jump(block)
        self.block = block
        self.function.blocks.append(block)

    def emit(self, op: Op) -> Op:
        if self.terminated():  # unreachable code after a branch, no label: keep it out of the graph
            self.block = Block(label="unreachable")
            self.function.blocks.append(self.block)
        self.block.ops.append(op)
        return op

    def jump(self, target: Block) -> None:
        self.emit(Op(Kind.JUMP, None, [], []))
        self.block.targets = [target]

    def branch(self, predicate: Reg, taken: Block, otherwise: Block, at: ptx.Instruction) -> None:
        self.emit(Op(Kind.BRANCH, None, [], [predicate], at.line, at.loc, site=self.site(at)))
        self.block.targets = [taken, otherwise]

    def leave(self) -> None:
        if self.frame.after is not None:
            self.jump(self.frame.after)
        else:
            self.emit(Op(Kind.EXIT, None, [], []))

    def site(self, at: ptx.Instruction, space: str = "", size: int = 0) -> int:
        self.function.sites.append(Site(at.line, at.loc, at.opcode, space, size))
        return len(self.function.sites) - 1

    # ---- one instruction -------------------------------------------------------------------------------------

    def instruction(self, at: ptx.Instruction) -> None:
        head = at.opcode.split(".", 1)[0]
        guard = None if at.guard is None else Reg(self.frame.registers[at.guard.name], at.guard_negated)
        if head == "bra":
            self.select_bra(at, guard)
            return
        form = self.form(at)
        if form.operation.effects is Effect.NONE:
            if head == "mov":
                op = self.select_move(at, form)
            elif form.operation.module == "gridstride.isa.video":
                op = select_video(at, form, self.register, self.argument)
            else:
                op = self.select_generic(at, form, Kind.COMPUTE)
            op.guard = guard
            self.emit(op)
            return
        if guard is None:
            self.effect(at, form, head)
            return
        run, after = Block(label=f"guarded@{at.line}"), Block(label=f"after@{at.line}")
        self.branch(guard, run, after, at)
        self.block = run
        self.function.blocks.append(run)
        self.effect(at, form, head)
        self.start(after)

    def form(self, at: ptx.Instruction) -> Form:
        try:
            return lookup(at.opcode)
        except UnsupportedError as error:
            raise UnsupportedError(f"PTX line {at.line}{self.where(at)}: {error}") from None

    def where(self, at: ptx.Instruction) -> str:
        if at.loc is None:
            return ""
        return f" ({self.module.files.get(at.loc.file, '?')}:{at.loc.line})"

    def effect(self, at: ptx.Instruction, form: Form, head: str) -> None:
        if head in ("ld", "ldu", "st", "atom", "red"):
            self.select_access(at, form, head)
        elif head == "ret":
            self.leave()
        elif head == "exit":
            self.emit(Op(Kind.EXIT, None, [], []))
        elif head == "brx":
            self.select_brx(at)
        elif head == "call":
            self.select_call(at)
        elif head in ("bar", "barrier"):
            self.select_barrier(at, form)
        else:
            op = self.select_generic(at, form, Kind.EFFECT)
            op.site = self.site(at)
            self.emit(op)
            if head == "trap":
                self.emit(Op(Kind.EXIT, None, [], []))

    def select_barrier(self, at: ptx.Instruction, form: Form) -> None:
        """The warp leaves the kernel's function at a barrier: what follows is a block of its own."""
        op = self.select_generic(at, form, Kind.EFFECT)
        op.site = self.site(at)
        op.info = "suspends"
        results, op.results = op.results, []
        self.emit(op)
        self.start(Block(label=f"after barrier@{at.line}"))
        if results:
            answer = lookup_result(form.types[0])
            self.emit(Op(Kind.EFFECT, answer, results, [], at.line, at.loc))

    def select_bra(self, at: ptx.Instruction, guard: Reg | None) -> None:
        target = at.operands[0]
        if not isinstance(target, ptx.Symbol) or target.name not in self.frame.blocks:
            raise ParseError(f"PTX line {at.line}: `bra` goes to an unknown label")
        block = self.frame.blocks[target.name]
        if guard is None:
            self.jump(block)
            return
        after = Block(label=f"after@{at.line}")
        self.branch(guard, block, after, at)
        self.block = after
        self.function.blocks.append(after)

    def select_brx(self, at: ptx.Instruction) -> None:
        index, table = at.operands
        if not isinstance(table, ptx.Symbol) or table.name not in self.frame.function.branch_targets:
            raise ParseError(f"PTX line {at.line}: `brx.idx` needs a `.branchtargets` list")
        targets = [self.frame.blocks[label] for label in self.frame.function.branch_targets[table.name]]
        selector = self.argument(index, at)
        equal = lookup("setp.eq.u32")
        for number, block in enumerate(targets[:-1]):
            hit = self.function.new_register(TYPES["pred"])
            self.emit(Op(Kind.COMPUTE, equal, [hit, None], [selector, Const(number)], at.line, at.loc))
            after = Block(label=f"brx@{at.line}.{number}")
            self.branch(Reg(hit), block, after, at)
            self.block = after
            self.function.blocks.append(after)
        self.jump(targets[-1])

    # ---- operands --------------------------------------------------------------------------------------------

    def register(self, operand: ptx.Operand | None, at: ptx.Instruction) -> int | None:
        if operand is None or isinstance(operand, ptx.Sink):
            return None
        if isinstance(operand, ptx.Register):
            return self.frame.registers[operand.name]
        raise ParseError(f"PTX line {at.line}: `{at.opcode}` needs a register as its destination")

    def argument(self, operand: ptx.Operand, at: ptx.Instruction) -> Arg:
        if isinstance(operand, ptx.Register):
            return Reg(self.frame.registers[operand.name])
        if isinstance(operand, ptx.Negated) and isinstance(operand.operand, ptx.Register):
            return Reg(self.frame.registers[operand.operand.name], True)
        if isinstance(operand, ptx.Immediate):
            return Const(operand.value)
        if isinstance(operand, ptx.FloatImmediate):
            return Const(operand.bits, operand.width)
        if isinstance(operand, ptx.Special):
            return SpecialRegister(operand.name)
        if isinstance(operand, ptx.Symbol):
            return self.address_of(operand.name, operand.offset, at)
        raise ParseError(f"PTX line {at.line}: `{at.opcode}` cannot take this operand")

    def address_of(self, name: str, offset: int, at: ptx.Instruction) -> AddressOf:
        unique = self.frame.variables.get(name)
        if unique is not None:
            declared = self.frame.function.variables.get(name)  # None: a formal parameter of an inlined call
            return AddressOf("param" if declared is None else declared.space, unique, offset)
        if any(p.name == name for p in (*self.frame.function.parameters, *self.frame.function.returns)):
            return AddressOf("param", name, offset)
        name = self.module.aliases.get(name, name)
        variable = self.module.variables.get(name)
        if variable is not None:
            if variable.space == "shared":
                self.function.shared[name] = variable
            return AddressOf(variable.space, name, offset)
        if name in self.module.functions:
            return AddressOf("function", name, offset)
        raise ParseError(f"PTX line {at.line}: `{name}` is not declared")

    def select_generic(self, at: ptx.Instruction, form: Form, kind: Kind) -> Op:
        """Operands after the registry entry's signature."""
        entry, operands = form.operation, list(at.operands)
        results: list[int | None] = []
        if entry.results:
            first = operands.pop(0) if operands else None
            if isinstance(first, ptx.Pair):
                results = [self.register(first.first, at), self.register(first.second, at)]
            else:
                results = [self.register(first, at)]
        required = sum(not token.endswith("?") for token in entry.arguments)
        flat: list[ptx.Operand] = []
        for operand in operands:
            if isinstance(operand, ptx.Address):  # of a hint: nobody goes there
                operand = operand.base
            flat += operand.items if isinstance(operand, ptx.VectorOperand) else [operand]
        carry_in = at.opcode.split(".", 1)[0] in ("addc", "subc", "madc")
        if carry_in:
            required -= 1
        if not required <= len(flat) <= len(entry.arguments):
            raise ParseError(f"PTX line {at.line}: `{at.opcode}` has {len(flat)} arguments, it takes {required}")
        args = [self.argument(operand, at) for operand in flat]
        if carry_in:
            args.append(Reg(self.carry_register()))
        if "cc" in form:
            results = [results[0], self.carry_register()]
        results += [None] * (len(entry.results) - len(results))
        return Op(kind, form, results, args, at.line, at.loc)

    def carry_register(self) -> int:
        if self.carry is None:
            self.carry = self.function.new_register(TYPES["pred"], "%cc")
        return self.carry

    def select_move(self, at: ptx.Instruction, form: Form) -> Op:
        destination, source = at.operands
        if isinstance(destination, ptx.VectorOperand):
            results = [self.register(item, at) for item in destination.items]
        else:
            results = [self.register(destination, at)]
        items = source.items if isinstance(source, ptx.VectorOperand) else (source,)
        return Op(Kind.MOVE, form, results, [self.argument(item, at) for item in items], at.line, at.loc)

    # ---- memory ----------------------------------------------------------------------------------------------

    def select_access(self, at: ptx.Instruction, form: Form, head: str) -> None:
        words = at.opcode.split(".")[1:]
        space, ordering, scope, count = "generic", "weak", "gpu", 1
        for word in words:
            base = word.split("::", 1)[0]
            if base in _SPACES:
                space = base
                if word == "shared::cluster":
                    raise UnsupportedError(f"PTX line {at.line}: `{at.opcode}`: clusters are not supported yet")
            elif word in _ORDERINGS:
                ordering = word
            elif word in _SCOPES:
                scope = word
            elif word in ("v2", "v4", "v8"):
                count = int(word[1])
        if head in ("atom", "red") and ordering == "weak":
            ordering = "relaxed"
        element = form.types[-1]
        operands = list(at.operands)
        results: list[int | None] = []
        if head in ("ld", "ldu", "atom"):
            destination = operands.pop(0)
            items = destination.items if isinstance(destination, ptx.VectorOperand) else (destination,)
            results = [self.register(item, at) for item in items]
            if head != "atom" and len(items) != count:
                raise ParseError(f"PTX line {at.line}: `{at.opcode}` needs {count} destination registers")
        address = operands.pop(0)
        if not isinstance(address, ptx.Address):
            raise ParseError(f"PTX line {at.line}: `{at.opcode}` needs an address in brackets")
        base = self.argument(address.base, at)
        offset = address.offset
        if isinstance(base, AddressOf):
            base = AddressOf(base.space, base.name, base.offset + offset)
            offset = 0
            if space == "generic" and base.space in ("shared", "global", "const", "local", "param"):
                space = base.space
        if head == "st" and operands and isinstance(operands[0], ptx.VectorOperand):
            operands[0:1] = list(operands[0].items)
        values = [self.argument(o, at) for o in operands]
        if head == "st":
            values = values[:count]  # a cache policy may follow
        if isinstance(base, AddressOf) and base.space == "param" and self.is_call_parameter(base.name):
            self.access_call_parameter(at, head, base, element, results, values)
            return
        access = Access(space, element, count, offset, ordering, scope)
        kind = {"ld": Kind.LOAD, "ldu": Kind.LOAD, "st": Kind.STORE}.get(head, Kind.ATOMIC)
        op = Op(kind, form, results, [base, *values], at.line, at.loc, access=access)
        op.site = self.site(at, space, access.bytes)
        if kind is Kind.ATOMIC:
            op.info = next(w for w in words if w in ("and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max"))
            if op.info != "cas":
                op.args = [base, *values[:1]]
        self.emit(op)


def lookup_result(kind: ScalarType) -> Form:
    """The operation that reads what a reducing barrier gave."""
    return lookup(f"barrier_result.{kind.name}")
