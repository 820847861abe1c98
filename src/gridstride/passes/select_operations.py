"""PTX instructions to IR operations; device functions are inlined on the way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
from gridstride.passes.check_operands import check_operands
from gridstride.passes.select_calls import CallSelection
from gridstride.passes.select_mbarrier import select_mbarrier
from gridstride.passes.select_real_calls import CallGraph, analyse_calls, begin_body, begin_function, end_body
from gridstride.passes.select_stack import select_stack, stack_pointer, takes_stack
from gridstride.passes.select_video import select_video
from gridstride.ptx import nodes as ptx
from gridstride.ptx.places import user_location

assert families  # importing it fills the registry

_SPACES = {"global", "shared", "local", "const", "param"}
_ORDERINGS = {"volatile", "relaxed", "acquire", "release", "acq_rel", "weak", "mmio"}
_SCOPES = {"cta", "cluster", "gpu", "sys", "gl"}
MAX_INLINED_OPERATIONS = 200_000
MAX_LOCAL_BYTES = 512 << 10  # of one thread (CUDA C++ Programming Guide, technical specifications)


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
    stack: int | None = None  # register with the stack as the function found it, if it takes from it


def select_operations(module: ptx.Module, name: str, graph: CallGraph | None = None, sites: list[Site] | None = None) -> Function:
    """The IR of entry (or device function) `name`. Raises UnsupportedError naming the instruction and its line."""
    return Selector(module, module.functions[name], graph or analyse_calls(module), sites if sites is not None else []).run()


class Selector(CallSelection):
    def __init__(self, module: ptx.Module, source: ptx.Function, graph: CallGraph, sites: list[Site]) -> None:
        self.graph = graph
        self.called = set()
        self.module = module
        self.source = source
        self.function = Function(source.name, source.parameters, source.returns, source.entry, sites=sites)
        if not source.entry:
            begin_function(self)
        self.block = Block(label="entry")
        self.function.blocks.append(self.block)
        self.carry: int | None = None
        self.stack: int | None = None
        self.instances = 0
        self.operations = 0
        self.frame = self.enter(source, None, ())

    def run(self) -> Function:
        if not self.source.entry:
            begin_body(self, self.source.line)
        self.body()
        self.function.calls = frozenset(self.called)
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
            else:  # one copy, which the parser has put among the module's
                variables[variable.name] = f"{source.name}:{variable.name}"
        stack = None
        if callers and takes_stack(source):
            stack = function.new_register(TYPES["b64"], prefix + "%stack")
            self.emit(Op(Kind.MOVE, lookup("mov.u64"), [stack], [Reg(stack_pointer(self))]))
        return Frame(source, registers, blocks, variables, after, len(callers), callers, stack)

    def place_local(self, name: str, variable: ptx.Variable) -> None:
        align = max(4, variable.align)
        start = -(-self.function.local_bytes // align) * align
        self.function.local_offsets[name] = start
        self.function.local_bytes = start + (variable.size or 0)
        if self.function.local_bytes > MAX_LOCAL_BYTES:
            raise UnsupportedError(
                f"PTX line {variable.line}: `{variable.name}` brings the local memory of a thread to {self.function.local_bytes:,} bytes; "
                f"a device has at most {MAX_LOCAL_BYTES:,}"
            )

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
        self.operations += 1
        if self.operations > MAX_INLINED_OPERATIONS:
            raise UnsupportedError(
                f"PTX line {op.line or self.source.line}: kernel `{self.source.name}` grows past {MAX_INLINED_OPERATIONS:,} operations "
                "with its calls inlined"
            )
        return op

    def jump(self, target: Block) -> None:
        self.emit(Op(Kind.JUMP, None, [], []))
        self.block.targets = [target]

    def branch(self, predicate: Reg, taken: Block, otherwise: Block, at: ptx.Instruction) -> None:
        self.emit(Op(Kind.BRANCH, None, [], [predicate], at.line, at.loc, site=self.site(at)))
        self.block.targets = [taken, otherwise]

    def leave(self) -> None:
        if self.frame.stack is not None:
            self.emit(Op(Kind.MOVE, lookup("mov.u64"), [stack_pointer(self)], [Reg(self.frame.stack)]))
        if self.frame.after is not None:
            self.jump(self.frame.after)
        else:
            if not self.source.entry:
                end_body(self, self.source.line)
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
        check_operands(at, form, self.frame.function.registers)
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
        loc, _ = user_location(at.loc, self.module.files)
        return "" if loc is None else f" ({self.module.files.get(loc.file, '?')}:{loc.line})"

    def effect(self, at: ptx.Instruction, form: Form, head: str) -> None:
        if head in ("ld", "ldu", "st", "atom", "red"):
            self.select_access(at, form, head)
        elif head == "mbarrier":
            select_mbarrier(self, at, form)
        elif head == "ret":
            self.leave()
        elif head == "exit":
            self.emit(Op(Kind.EXIT, None, [], [], info="exit"))
        elif head == "brx":
            self.select_brx(at)
        elif head == "call":
            self.select_call(at)
        elif head in ("alloca", "stacksave", "stackrestore"):
            select_stack(self, at, head)
        elif head in ("bar", "barrier") and "cluster" not in form:
            self.select_barrier(at, form)
        elif head == "barrier":
            self.select_cluster_barrier(at, form)
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
        if "warp" in form:
            self.emit(Op(Kind.EFFECT, lookup("warp_synced"), [], list(op.args), at.line, at.loc))
        if results:
            answer = lookup_result(form.types[0])
            self.emit(Op(Kind.EFFECT, answer, results, [], at.line, at.loc))

    def select_cluster_barrier(self, at: ptx.Instruction, form: Form) -> None:
        """Arriving is an operation like others, waiting leaves the kernel's function as a barrier of the block does."""
        op = self.emit(Op(Kind.EFFECT, form, [], [], at.line, at.loc, site=self.site(at)))
        if "wait" in form:
            op.info = "suspends"
            self.start(Block(label=f"after barrier@{at.line}"))
            self.emit(Op(Kind.EFFECT, lookup("cluster_synced"), [], [], at.line, at.loc, site=op.site))

    def select_bra(self, at: ptx.Instruction, guard: Reg | None) -> None:
        if at.opcode not in ("bra", "bra.uni"):
            raise ParseError(f"PTX line {at.line}: `{at.opcode}` is no instruction; a branch is `bra` or `bra.uni`")
        if at.guard is not None and self.frame.function.registers[at.guard.name].kind != "p":
            raise ParseError(f"PTX line {at.line}: `{at.opcode}`: its guard is no predicate")
        target = at.operands[0] if len(at.operands) == 1 else None
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
        index, table = at.operands if len(at.operands) == 2 else (None, None)
        if not isinstance(table, ptx.Symbol) or table.name not in self.frame.function.branch_targets:
            raise ParseError(f"PTX line {at.line}: `brx.idx` needs an index and a `.branchtargets` list")
        if not isinstance(index, ptx.Register) or self.frame.function.registers[index.name].bits != 32:
            raise ParseError(f"PTX line {at.line}: the index of `brx.idx` is a register of 32 bits")
        labels = self.frame.function.branch_targets[table.name]
        missing = [label for label in labels if label not in self.frame.blocks]
        if missing:
            raise ParseError(f"PTX line {at.line}: `brx.idx` goes to an unknown label `{missing[0]}`")
        targets = [self.frame.blocks[label] for label in labels]
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
            found = self.address_of(operand.name, operand.offset, at)
            if found.space == "param" and self.is_call_parameter(found.name):
                raise UnsupportedError(f"PTX line {at.line}: taking the address of `{operand.name}`, a parameter of a call, is not supported yet")
            return found
        raise ParseError(f"PTX line {at.line}: `{at.opcode}` cannot take this operand")

    def address_of(self, name: str, offset: int, at: ptx.Instruction) -> AddressOf:
        unique = self.frame.variables.get(name)
        if unique is not None:
            declared = self.frame.function.variables.get(name)  # None: a formal parameter of an inlined call
            return AddressOf("param" if declared is None else declared.space, unique, offset)
        if any(p.name == name for p in (*self.frame.function.parameters, *self.frame.function.returns)):
            in_memory = self.frame.depth == 0 and not self.source.entry
            return AddressOf("local" if in_memory else "param", name, offset)
        name = self.module.aliases.get(name, name)
        variable = self.module.variables.get(name)
        if variable is not None:
            if variable.space not in ("global", "const", "shared"):
                raise UnsupportedError(f"PTX line {at.line}: `{name}` is a .{variable.space} variable outside of all functions, which is not supported")
            if variable.space != "shared" and (variable.extern or variable.size is None):
                raise ParseError(f"PTX line {at.line}: `{name}` is declared (line {variable.line}), but defined nowhere in this program")
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
        if entry.opcode in ("mapa", "getctarank"):
            args = [*args[: len(entry.arguments) - 1], SpecialRegister("%cluster_ctarank")]  # hidden: which block's own memory it is
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
        destination, source = at.operands  # check_operands has seen to it
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
            name = word.split("::", 1)[0]
            if name in _SPACES:
                space = name
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
        address = operands.pop(0)
        assert isinstance(address, ptx.Address)
        symbol = address.base if isinstance(address.base, ptx.Symbol) else None
        base = self.argument(address.base, at) if symbol is None else self.address_of(symbol.name, symbol.offset, at)
        offset = address.offset
        if isinstance(base, AddressOf):
            base = AddressOf(base.space, base.name, base.offset + offset)
            offset = 0
            if base.space == "local":
                space = "local"  # a parameter of a function that is called for real
            if space == "generic" and base.space in _SPACES:
                space = base.space
            if space != base.space:
                raise ParseError(f"PTX line {at.line}: `{at.opcode}` cannot reach `{base.name}`, which is in .{base.space}")
        elif space == "param" and not self.source.entry:
            space = "local"  # through the address of such a parameter
        if isinstance(base, AddressOf) and base.space == "param" and not self.is_call_parameter(base.name):
            size = next((p.size or 0 for p in self.source.parameters if p.name == base.name), 0)
            if not 0 <= base.offset <= size - element.bytes * count:
                raise ParseError(f"PTX line {at.line}: `{at.opcode}` goes outside the {size} bytes of `{base.name}`")
        if head == "st" and (space == "const" or (space == "param" and not (isinstance(base, AddressOf) and self.is_call_parameter(base.name)))):
            raise ParseError(f"PTX line {at.line}: `{at.opcode}`: {'constants' if space == 'const' else 'parameters of a kernel'} are only read")
        if head in ("st", "atom", "red") and operands and isinstance(operands[0], ptx.VectorOperand):
            operands[0:1] = list(operands[0].items)
        values = [self.argument(o, at) for o in operands]
        if head == "st":
            values = values[:count]  # a cache policy may follow
        if isinstance(base, AddressOf) and base.space == "param" and self.is_call_parameter(base.name):
            self.access_call_parameter(at, head, base, element, results, values)
            return
        access = Access(space, element, count, offset, ordering, scope, "shared::cluster" in words)
        kind = {"ld": Kind.LOAD, "ldu": Kind.LOAD, "st": Kind.STORE}.get(head, Kind.ATOMIC)
        op = Op(kind, form, results, [base, *values], at.line, at.loc, access=access)
        op.site = self.site(at, space, access.bytes)
        if kind is Kind.ATOMIC:
            self.emit_atomic(op, access, words)
        else:
            self.emit(op)

    def emit_atomic(self, op: Op, access: Access, words: list[str]) -> None:
        """One atomic for each element: a vector's are not indivisible as a whole (PTX ISA 9.7.13.5). A cache policy is left out."""
        base, *values = op.args
        info = next(w for w in words if w in ("and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max"))
        operands = 2 if info == "cas" else 1
        for k in range(access.count):
            element = replace(access, count=1, offset=access.offset + k * access.element.bytes)
            if isinstance(base, AddressOf):  # its offset is in the address
                element = replace(access, count=1)
                base = AddressOf(base.space, base.name, base.offset + (access.element.bytes if k else 0))
            args = [base, *values[k * operands : (k + 1) * operands]]
            self.emit(Op(op.kind, op.form, op.results[k : k + 1], args, op.line, op.loc, access=element, site=op.site, info=info))


def lookup_result(kind: ScalarType) -> Form:
    """The operation that reads what a reducing barrier gave."""
    return lookup(f"barrier_result.{kind.name}")
