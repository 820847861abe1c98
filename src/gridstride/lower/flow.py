"""Control flow under masks, suspensions and resumption.

Where lanes part, the lanes that go to the block with the higher index wait there: `waiting[k]` is the mask of the
lanes that wait to enter block k. Only blocks at which lanes can wait have one. Whoever finishes a block while lanes
may wait between it and its target hands its lanes over and asks the blocks in ascending order ("lanes waiting here?
run it : ask the next"). Blocks are ordered so (see `order_blocks`) that this reconverges as early as possible.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gridstride.ir.nodes import Block, Const, Kind, Op
from gridstride.lower import absent_lanes, calls, checking, counting
from gridstride.lower.emitter import I1, I8, I32, I64, MASK_TYPE, Emitter
from gridstride.lower.native import stack_slot
from gridstride.lower.records import BARRIER, BLOCK, CLUSTER, DONE, FRAME, STOPPED, WARP, WARP_SYNC, WORKER, YIELD
from gridstride.lower.values import part_types
from gridstride.passes.find_waiting import single_exit

RESUME_START, RESUME_WAITING = 0, 1


class Flow:
    """Emits the function's blocks; `emit_op` lowers everything that is not control flow."""

    def __init__(self, emitter: Emitter, emit_op: Callable[[Op], None], spinning: set[int], latches: set[int], pending: list[set[int]], splits: bool, first_number: int = 0) -> None:
        self.e = emitter
        self.emit_op = emit_op
        self.first_number = first_number  # of this function's blocks among all of the kernel's
        self.spinning = spinning  # latches at which a warp may wait for others
        self.latches = latches
        self.blocks = emitter.function.blocks
        self.pending = pending
        self.splits = splits  # whether lanes may run apart in groups
        self.waits = sorted(set().union(*self.pending)) if self.pending else []
        self.bodies = [emitter.native.append_basic_block(f"b{k}") for k in range(len(self.blocks))]
        self.chains: dict[tuple[tuple[int, ...], bool], ir.Block] = {}
        self.finished = emitter.native.append_basic_block("finished")
        builder = ir.IRBuilder(emitter.allocation_block)
        self.active = stack_slot(builder, I32)
        self.alive = stack_slot(builder, I32)
        emitter.alive_slot = self.alive
        self.waiting = {k: stack_slot(builder, I32) for k in self.waits}
        for slot in (self.active, self.alive):
            emitter.initial.store(ir.Constant(I32, 0), slot)
        self.resumes: list[tuple[ir.Block, int]] = []
        self.frame_places: dict[int, list[int]] = {}
        self.frame_bytes = FRAME.size if emitter.stack else WARP.size
        self.wait_places = {k: self._frame_place(4) for k in self.waits}
        self.everything = 0  # registers alive wherever lanes can wait
        for k in self.waits:
            self.everything |= emitter.live.live_in[k]

    # ---- analysis --------------------------------------------------------------------------------------------

    def merge_table(self) -> list[tuple[int, int]]:
        """(offset in the frame, bytes of one lane; 0: a mask of lanes) of everything that differs between lanes."""
        table = [(place, 0) for place in self.wait_places.values()]
        for register, places in {**self.frame_places, **self.e.homes}.items():
            for place, kind in zip(places, part_types(self.e.shape(register), self.e.storage(register)), strict=True):
                if kind == MASK_TYPE:
                    table.append((place, 0))
                elif isinstance(kind, ir.VectorType):
                    table.append((place, _bytes(kind) // 32))
        return table

    def _frame_place(self, size: int) -> int:
        start = -(-self.frame_bytes // size) * size
        self.frame_bytes = start + size
        return start

    # ---- emission --------------------------------------------------------------------------------------------

    def _place_homes(self) -> None:
        """Registers that are alive across suspensions live in the frame: written where they are assigned, nothing to
        save or restore. Not those that a loop without suspension uses: such a loop keeps its values in processor
        registers, and they are saved and restored around suspensions."""
        e = self.e
        alive = 0
        busy = 0  # used or assigned in a loop that runs without suspension
        for block in self.blocks:
            if any(op.info == "suspends" for op in block.ops):
                alive |= e.live.live_in[block.targets[0].index] | (self.everything if self.pending[block.index] else 0)
        for latch in self.latches:
            header = self.blocks[latch].targets[0].index
            body = self.blocks[header : latch + 1]  # loops are contiguous, their latch is last
            if latch in self.spinning or any(op.info == "suspends" for b in body for op in b.ops):
                continue
            for block in body:
                for op in block.ops:
                    for register in (*op.uses(), *(r for r in op.results if r is not None)):
                        busy |= 1 << register
        for register in self._saved(alive & ~busy & ~e.live.live_in[0]):
            if e.storage(register) != "i1":
                e.homes[register] = [self._frame_place(_bytes(k)) for k in part_types(e.shape(register), e.storage(register))]

    def run(self) -> None:
        e = self.e
        self._place_homes()
        passed = absent_lanes.operations_passed(self.blocks) if self.splits and "warp-mask" in e.checks else {}
        for block in self.blocks:
            e.b.position_at_end(self.bodies[block.index])
            self._enter(block)
            if e.counting:
                counting.count_block(e, self.first_number + block.index)
            e.cache = {}
            e.current_live_out = e.live.live_out[block.index]
            if block.index in passed:
                absent_lanes.check_passing(e, block, passed[block.index])
            for op in block.ops[:-1]:
                if op.info == "suspends":
                    self._suspend(op, block)
                    break
                self.emit_op(op)
            else:
                self._terminate(block)
        e.b.position_at_end(self.finished)
        if not e.function.entry:
            calls.leave_function(self)
        else:
            if not e.stack:
                self._finish_warp()
            e.b.ret(ir.Constant(I32, DONE))
        e.b.position_at_end(e.stopped)
        e.b.ret(ir.Constant(I32, STOPPED))
        self._prologue()

    def _enter(self, block: Block) -> None:
        e, k = self.e, block.index
        active: ir.Value = e.b.load(self.active, typ=I32)
        if k in self.waiting:
            active = e.b.or_(active, e.b.load(self.waiting[k], typ=I32))
            e.b.store(active, self.active)
            e.b.store(ir.Constant(I32, 0), self.waiting[k])
        e.active = active
        e.active_lanes = e.b.bitcast(active, MASK_TYPE)

    def _prologue(self) -> None:
        """Jump from the prologue to the start or to a resume point."""
        e = self.e
        b = e.prologue
        alive = e.field(b, WARP, e.warp, "alive")
        b.store(alive, self.alive)
        resume = e.field(b, WARP, e.warp, "resume")
        start = e.native.append_basic_block("start")
        if not self.resumes:
            b.branch(start)
        else:
            switch = b.switch(resume, start)
            waiting = e.native.append_basic_block("resume.waiting")
            switch.add_case(ir.Constant(I32, RESUME_WAITING), waiting)
            inner = ir.IRBuilder(waiting)
            if self.waits:
                self._restore(inner, self.everything, set(self.waits))
                inner.store(ir.Constant(I32, 0), self.active)
                inner.branch(self._ask(set(self.waits), certain=True))
            else:
                inner.branch(self.finished)
            for number, (entry, _) in enumerate(self.resumes):
                switch.add_case(ir.Constant(I32, number + 2), entry)
        first = ir.IRBuilder(start)
        first.store(alive, self.active)
        for k in self._unknown(0, set()):
            first.store(ir.Constant(I32, 0), self.waiting[k])
        first.branch(self.bodies[0])
        ir.IRBuilder(e.allocation_block).branch(e.initial_block)
        e.initial.branch(e.prologue_block)

    def _ask(self, blocks: set[int], certain: bool) -> ir.Block:
        """Where to go when the running block has no lanes left and some may wait at `blocks`: a chain that asks them
        in ascending order. `certain`: somebody does wait, so the last need not be asked."""
        e = self.e
        if not blocks:
            return self.finished
        first, *rest = sorted(blocks)
        unknown = self._unknown(first, blocks)
        if certain and not rest and not unknown:
            return self.bodies[first]
        key = ((first, *rest), certain)
        if key not in self.chains:
            self.chains[key] = chain = e.native.append_basic_block(f"ask{first}")
            b = ir.IRBuilder(chain)
            some = b.icmp_unsigned("!=", b.load(self.waiting[first], typ=I32), ir.Constant(I32, 0))
            for k in unknown:
                b.store(ir.Constant(I32, 0), self.waiting[k])
            if certain and not rest:
                b.branch(self.bodies[first])
            else:
                b.cbranch(some, self.bodies[first], self._ask(set(rest), certain))
        return self.chains[key]

    def _go(self, block: Block, target: int, active: ir.Value | None) -> None:
        """An edge taken by all of `active` (None: as it is). The builder's block is terminated."""
        e, waiting = self.e, self.pending[block.index]
        if active is not None:
            e.b.store(active, self.active)
        if not any(block.index < k < target for k in waiting) or block.index in self.latches:
            self._nobody_waits(target, waiting)
            e.b.branch(self.bodies[target])
            return
        self._wait_at(block, target, active if active is not None else e.active)
        e.b.store(ir.Constant(I32, 0), self.active)
        e.b.branch(self._ask(waiting | {target}, certain=True))

    def _wait_at(self, block: Block, target: int, lanes: ir.Value) -> None:
        b, slot = self.e.b, self.waiting[target]
        b.store(b.or_(b.load(slot, typ=I32), lanes) if target in self.pending[block.index] else lanes, slot)

    def _unknown(self, target: int, known: set[int]) -> list[int]:
        """The masks in `waiting` that block `target` relies on and that are not among the `known`: nobody waits there.

        A mask is only defined while lanes may wait for its block, so that it is not carried everywhere.
        """
        return sorted(k for k in self.pending[target] | {target} if k in self.waiting and k not in known)

    def _nobody_waits(self, target: int, known: set[int]) -> None:
        """Before a jump to `target`: define the masks that the running block does not know."""
        for k in self._unknown(target, known):
            self.e.b.store(ir.Constant(I32, 0), self.waiting[k])

    def _end_lanes(self, lanes: ir.Value) -> None:
        b = self.e.b
        b.store(b.and_(b.load(self.alive, typ=I32), b.not_(lanes)), self.alive)

    def _terminate(self, block: Block) -> None:
        e, op = self.e, block.terminator
        if op.kind is Kind.EXIT:
            self._end_lanes(e.active)
            if not single_exit(block):
                checking.note_ending(e, early=False)
            if e.stack and op.info == "exit":
                e.put_field(WARP, e.warp, "exited", e.b.or_(e.field(e.b, WARP, e.warp, "exited"), e.active))
            e.b.store(ir.Constant(I32, 0), self.active)
            e.b.branch(self._ask(self.pending[block.index], certain=False))
        elif op.kind is Kind.JUMP:
            target = block.targets[0].index
            if block.index in self.latches:
                self._poll(block, target)
            else:
                if single_exit(self.blocks[target]):
                    checking.note_ending(e, early=False)
                self._go(block, target, None)
        elif block.index not in e.shapes.divergent:
            self._uniform_branch(block, op)
        else:
            self._divergent_branch(block, op)

    def _uniform_branch(self, block: Block, op: Op) -> None:
        e = self.e
        condition = e.read(op.args[0], "i1").parts[0]
        places = [e.native.append_basic_block(f"edge{block.index}.{t.index}") for t in block.targets]
        e.b.cbranch(condition, *places)
        for place, target in zip(places, block.targets, strict=True):
            e.b.position_at_end(place)
            if single_exit(self.blocks[target.index]):
                checking.note_ending(e, early=True)
            self._go(block, target.index, None)

    def _divergent_branch(self, block: Block, op: Op) -> None:
        e, b = self.e, self.e.b
        condition = b.bitcast(e.lane_vector(op.args[0], "i1"), I32)
        taken = b.and_(e.active, condition)
        other = b.and_(e.active, b.not_(condition))
        if e.counting:
            counting.count_divergence(e, block, taken, other)
        masks = {block.targets[0].index: taken, block.targets[1].index: other}
        (low, low_mask), (high, high_mask) = sorted(masks.items(), key=lambda item: item[0])
        nothing = ir.Constant(I32, 0)
        for index, mask, rest, rest_mask in ((low, low_mask, high, high_mask), (high, high_mask, low, low_mask)):
            if single_exit(self.blocks[index]):  # lanes end here and now instead of waiting for the others
                self._end_lanes(mask)
                if "divergent-barrier" in e.checks:
                    some = b.icmp_unsigned("!=", mask, nothing)
                    leaves, others = e.native.append_basic_block("leaves"), e.native.append_basic_block("others")
                    b.cbranch(some, leaves, others)
                    b.position_at_end(leaves)
                    checking.note_ending(e, early=True)
                    b.branch(others)
                    b.position_at_end(others)
                go, none = e.native.append_basic_block("stay"), e.native.append_basic_block("ended")
                b.cbranch(b.icmp_unsigned("!=", rest_mask, nothing), go, none)
                b.position_at_end(none)
                b.store(nothing, self.active)
                b.branch(self._ask(self.pending[block.index], certain=False))
                b.position_at_end(go)
                self._go(block, rest, rest_mask)
                return
        waiting = self.pending[block.index]
        self._wait_at(block, high, high_mask)
        if not any(block.index < k < low for k in waiting):
            go, none = e.native.append_basic_block("part"), e.native.append_basic_block("none")
            b.cbranch(b.icmp_unsigned("!=", low_mask, nothing), go, none)
            b.position_at_end(go)
            b.store(low_mask, self.active)
            self._nobody_waits(low, waiting | {high})
            b.branch(self.bodies[low])
            b.position_at_end(none)
            b.store(nothing, self.active)
            b.branch(self._ask(waiting | {high}, certain=True))
            return
        self._wait_at(block, low, low_mask)
        b.store(nothing, self.active)
        b.branch(self._ask(waiting | {low, high}, certain=True))

    # ---- polling and suspension ------------------------------------------------------------------------------

    def _poll(self, block: Block, header: int) -> None:
        """At a back edge: now and then look at the stop flag; where others may be waited for, let them run."""
        e, b = self.e, self.e.b
        place = b.gep(e.worker, [ir.Constant(I64, WORKER.offset("polls"))], source_etype=I8)
        left = b.sub(b.load(place, typ=I64), ir.Constant(I64, 1))
        b.store(left, place)
        self._nobody_waits(header, self.pending[block.index])
        look = e.native.append_basic_block("look")
        branch = b.cbranch(b.icmp_signed(">", left, ir.Constant(I64, 0)), self.bodies[header], look)
        branch.set_weights([1000000, 1])
        b.position_at_end(look)
        if block.index in self.spinning:
            # what the loop looks at, for the report of a deadlock
            places = [op.site for body in self.blocks[header : block.index + 1] for op in body.ops if op.access is not None and op.site >= 0]
            if places:
                e.put_field(WARP, e.warp, "site", ir.Constant(I32, places[0]))
            self._leave(block, YIELD, header)
        else:
            self._call_poll(header)

    def _call_poll(self, header: int) -> None:
        from gridstride.lower.runtime_table import call_runtime

        e, b = self.e, self.e.b
        stop = call_runtime(e, "poll", [e.worker])
        b.cbranch(b.icmp_unsigned("==", stop, ir.Constant(I32, 0)), self.bodies[header], e.stopped)

    def _suspend(self, op: Op, block: Block) -> None:
        """A barrier: everything before it in the block is done; the rest is the target block."""
        target = block.targets[0].index
        if op.form is not None and op.form.operation.opcode == "call":
            calls.call(self, op, block)
            return
        self.emit_op(op)
        state = BARRIER
        if op.form is not None:
            state = WARP_SYNC if "warp" in op.form else CLUSTER if "cluster" in op.form else BARRIER
        if state == WARP_SYNC:
            self._warp_sync(block, target)
            return
        self._leave(block, state, target)

    def _warp_sync(self, block: Block, target: int) -> None:
        """bar.warp.sync: nothing to do where no named lane is elsewhere (the mask is in the warp's record)."""
        e, b = self.e, self.e.b
        if not self.splits:
            self._go(block, target, None)
            return
        elsewhere = e.field(b, WARP, e.warp, "others")
        for k in self.pending[block.index]:
            elsewhere = b.or_(elsewhere, b.load(self.waiting[k], typ=I32))
        missing = b.and_(e.field(b, WARP, e.warp, "sync_mask"), elsewhere)
        here = e.native.append_basic_block("all here")
        wait = e.native.append_basic_block("wait")
        b.cbranch(b.icmp_unsigned("==", missing, ir.Constant(I32, 0)), here, wait)
        b.position_at_end(here)
        self._go(block, target, None)
        b.position_at_end(wait)
        self._leave(block, WARP_SYNC, target)

    def _leave(self, block: Block, state: int, target: int) -> None:
        """Save what is alive, return `state`; make the resume point at `target`."""
        e, b = self.e, self.e.b
        number = self.save(block, target)
        pending: ir.Value = ir.Constant(I32, 0)
        for k in self.pending[block.index]:
            pending = b.or_(pending, b.load(self.waiting[k], typ=I32))
        e.put_field(WARP, e.warp, "resume", ir.Constant(I32, number))
        e.put_field(WARP, e.warp, "active", b.load(self.active, typ=I32))
        e.put_field(WARP, e.warp, "alive", b.load(self.alive, typ=I32))
        e.put_field(WARP, e.warp, "pending", pending)
        if state == BARRIER and not e.stack and self._waits_for_the_block(block):
            self._turn_to_next_warp(pending if self.pending[block.index] else None)
        b.ret(ir.Constant(I32, state))

    def save(self, block: Block, target: int) -> int:
        """Save what is alive at `target` in the frame; make the resume point there and return its number."""
        e, b = self.e, self.e.b
        waits = self.pending[block.index]
        live = e.live.live_in[target] | (self.everything if waits else 0)
        for register in self._saved(live):
            places = self._places(register)
            for slot, place, kind in zip(e.slots_of(register), places, part_types(e.shape(register), e.storage(register)), strict=True):
                self._frame_store(b, b.load(slot, typ=kind), place)
        for k in self.waits if waits else ():
            lanes = b.load(self.waiting[k], typ=I32) if k in waits else ir.Constant(I32, 0)
            self._frame_store(b, lanes, self.wait_places[k])
        number = len(self.resumes) + 2
        entry = e.native.append_basic_block(f"resume{number}")
        self.resumes.append((entry, target))
        inner = ir.IRBuilder(entry)
        self._restore(inner, live, waits)
        active = e.field(inner, WARP, e.warp, "active")
        inner.store(active, self.active)
        if target in self.waiting and target not in waits:
            inner.store(ir.Constant(I32, 0), self.waiting[target])
        if e.stack:  # all lanes may have ended in a called function
            inner.cbranch(inner.icmp_unsigned("!=", active, ir.Constant(I32, 0)), self.bodies[target], self._ask(waits, certain=False))
        else:
            inner.branch(self.bodies[target])
        return number

    @staticmethod
    def _waits_for_the_block(block: Block) -> bool:
        """Whether the barrier that ends `block` is the plain one, __syncthreads()."""
        op = block.ops[-2]
        return op.form is not None and "sync" in op.form and len(op.args) == 1 and op.args[0] == Const(0)

    def _turn_to_next_warp(self, pending: ir.Value | None) -> None:
        """Where all warps of the block go from barrier to barrier, the next one (after the last: the first, since
        all have arrived) runs on at once, without the scheduler."""
        e, b = self.e, self.e.b
        fast = b.icmp_unsigned("==", e.field(b, BLOCK, e.block, "fast"), ir.Constant(I32, 1))
        if pending is not None:
            fast = b.and_(fast, b.icmp_unsigned("==", pending, ir.Constant(I32, 0)))
        turn, leave = e.native.append_basic_block("turn"), e.native.append_basic_block("leave")
        b.cbranch(fast, turn, leave)
        b.position_at_end(turn)
        self._next_warp(wrap=True)
        b.position_at_end(leave)

    def _finish_warp(self) -> None:
        """All lanes of the warp have ended: run the next one, if the scheduler need not know."""
        e, b = self.e, self.e.b
        if not self.resumes:
            self._next_warp(wrap=False)
            return
        turn, leave = e.native.append_basic_block("ended.turn"), e.native.append_basic_block("ended.leave")
        b.cbranch(b.icmp_unsigned("==", e.field(b, BLOCK, e.block, "fast"), ir.Constant(I32, 0)), leave, turn)
        b.position_at_end(turn)
        e.put_field(BLOCK, e.block, "fast", ir.Constant(I32, 2))
        e.put_field(WARP, e.warp, "state", ir.Constant(I32, DONE))
        self._next_warp(wrap=False)
        b.branch(leave)
        b.position_at_end(leave)

    def _next_warp(self, wrap: bool) -> None:
        """Run the block's next warp from its resume point. After the last comes the first if `wrap`; otherwise the
        builder is left where there is none."""
        e, b = self.e, self.e.b
        frame = e.field(b, WORKER, e.worker, "frame_bytes")
        following: ir.Value = b.gep(e.warp, [frame], source_etype=I8)
        index = b.add(e.field(b, WARP, e.warp, "index"), ir.Constant(I32, 1))
        last = b.icmp_unsigned("==", index, e.field(b, BLOCK, e.block, "warp_count"))
        if wrap:
            following = b.select(last, e.field(b, BLOCK, e.block, "warps"), following)
        else:
            more, none = e.native.append_basic_block("more"), e.native.append_basic_block("no more")
            b.cbranch(last, none, more)
            b.position_at_end(more)
        b.store(following, e.warp_slot)
        if self.resumes:
            e.put_field(BLOCK, e.block, "current", following)
        b.branch(e.initial_block)
        if not wrap:
            b.position_at_end(none)

    def _saved(self, live: int) -> list[int]:
        found, register = [], 0
        while live:
            if live & 1 and register not in self.e.fixed and register not in self.e.homes:
                found.append(register)
            live >>= 1
            register += 1
        return found

    def _places(self, register: int) -> list[int]:
        if register not in self.frame_places:
            sizes = []
            for kind in part_types(self.e.shape(register), self.e.storage(register)):
                sizes.append(self._frame_place(_bytes(kind)))
            self.frame_places[register] = sizes
        return self.frame_places[register]

    def _frame_store(self, b: ir.IRBuilder, value: ir.Value, place: int) -> None:
        if value.type == MASK_TYPE:
            value = b.bitcast(value, I32)
        elif value.type == I1:
            value = b.zext(value, I8)
        b.store(value, b.gep(self.e.frame, [ir.Constant(I64, place)], source_etype=I8), align=64 if isinstance(value.type, ir.VectorType) else None)

    def _restore(self, b: ir.IRBuilder, live: int, waits: set[int]) -> None:
        e = self.e
        for register in self._saved(live):
            kinds = part_types(e.shape(register), e.storage(register))
            for slot, place, kind in zip(e.slots_of(register), self._places(register), kinds, strict=True):
                at = b.gep(e.frame, [ir.Constant(I64, place)], source_etype=I8)
                if kind == MASK_TYPE:
                    value = b.bitcast(b.load(at, typ=I32), MASK_TYPE)
                elif kind == I1:
                    value = b.trunc(b.load(at, typ=I8), I1)
                else:
                    value = b.load(at, typ=kind, align=64 if isinstance(kind, ir.VectorType) else None)
                b.store(value, slot)
        for k in waits:
            lanes: ir.Value = b.load(b.gep(e.frame, [ir.Constant(I64, self.wait_places[k])], source_etype=I8), typ=I32)
            if e.stack:  # those that have become a group of their own, or have ended, are no longer here
                lanes = b.and_(lanes, b.and_(e.field(b, WARP, e.warp, "lanes"), b.not_(e.field(b, WARP, e.warp, "exited"))))
            b.store(lanes, self.waiting[k])


def _bytes(kind: ir.Type) -> int:
    if kind == MASK_TYPE:
        return 4
    if isinstance(kind, ir.VectorType):
        return max(64, _bytes(kind.element) * kind.count)
    if isinstance(kind, ir.IntType):
        return max(1, kind.width // 8)
    return 8 if isinstance(kind, ir.DoubleType | ir.PointerType) else 4

