"""`Graph`: operations and what each follows, captured from streams or built by hand; instantiated once, launched as one, any number of times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gridstride.errors import UsageError
from gridstride.runtime.array import Array
from gridstride.runtime.commands import Allocate, Command, Copy, Fill, Free, HostCall, Launch, Prefetch, copy_command, fill_command, label

if TYPE_CHECKING:
    from gridstride.runtime.device import Device
    from gridstride.runtime.module import Configured
    from gridstride.runtime.streams import Stream


@dataclass(eq=False, repr=False)
class Node:
    """One operation of a graph. `number` counts from 0; `after` are the nodes that it follows."""

    number: int
    command: Command
    after: tuple[Node, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        return self.command.what.replace("`", "")

    def __repr__(self) -> str:
        after = f" after {', '.join(str(node.number) for node in self.after)}" if self.after else ""
        return f"<gridstride.Node {self.number}: {self.name}{after}>"


class Graph:
    """A graph that grows: `kernel`, `copy`, `fill`, `call` add a node each, after the nodes that are named.

        graph = device.graph()
        first = graph.kernel(scale[blocks, 256], n, x)
        graph.copy(staged, x, after=[first])
        replay = graph.instantiate()
        replay.launch(stream)
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.nodes: list[Node] = []
        self.streams: list[Stream] = []  # that are being captured into it, the one where the capture began first
        self.capturing = False

    def add(self, command: Command, after: Iterable[Node] | Node = ()) -> Node:
        """A node for an operation. Raises UsageError for one that no graph holds, or where `after` names nodes of another graph."""
        if isinstance(command, Allocate | Free | Prefetch):
            raise UsageError(f"{command.what} cannot be part of a graph")
        before = (after,) if isinstance(after, Node) else tuple(dict.fromkeys(after))
        for node in before:
            if not isinstance(node, Node) or not (node.number < len(self.nodes) and self.nodes[node.number] is node):
                raise UsageError("a node can only follow nodes of the same graph")
        node = Node(len(self.nodes), command, before)
        self.nodes.append(node)
        return node

    def kernel(self, configured: Configured, *arguments: Any, after: Iterable[Node] | Node = (), **options: Any) -> Node:
        """A launch: `graph.kernel(scale[blocks, 256], n, x, shared=…)`."""
        if not hasattr(configured, "launches"):
            raise UsageError(f"give the kernel with its grid and block, as in graph.kernel(kernel[blocks, 256], …), not {configured!r:.60}")
        return self.add(configured.command(arguments, **options), after)

    def copy(self, destination: Any, source: Any, after: Iterable[Node] | Node = ()) -> Node:
        """A copy between arrays of the same shape and type."""
        from gridstride.runtime.streams import end_of_copy  # here: streams know graphs

        return self.add(copy_command(end_of_copy(destination), end_of_copy(source)), after)

    def fill(self, array: Array, value: Any, after: Iterable[Node] | Node = ()) -> Node:
        return self.add(fill_command(array, value), after)

    def call(self, function: Callable[..., object], *arguments: Any, after: Iterable[Node] | Node = ()) -> Node:
        """A function of the host, which must not use the device."""
        if not callable(function):
            raise UsageError(f"a host function is something to call, not {type(function).__name__}")
        return self.add(HostCall(function, arguments), after)

    def instantiate(self) -> Replay:
        """The graph made ready to be launched; what is added later is not part of it."""
        if self.capturing:
            raise UsageError("the graph is still being captured")
        return Replay(self.device, tuple(self.nodes))

    def dot(self) -> str:
        """The graph in Graphviz's language."""
        lines = ["digraph graph_of_operations {", "  rankdir=LR;", '  node [shape=box, fontname="sans-serif"];']
        lines += [f"  n{node.number} [label={_quoted(_describe(node.command))}];" for node in self.nodes]
        lines += [f"  n{before.number} -> n{node.number};" for node in self.nodes for before in node.after]
        return "\n".join([*lines, "}"]) + "\n"

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<gridstride.Graph of {len(self.nodes)} operations on {self.device}>"

    # ---- capture, which streams drive --------------------------------------------------------------------------------

    def begin_capture(self, stream: Stream) -> None:
        self.capturing = True
        stream.graph, stream.tail = self, ()
        self.streams.append(stream)
        self.device.captures += 1

    def end_capture(self, origin: Stream, *, whole: bool = True) -> None:
        """The capture is over. `whole`: as its user wanted it, so streams that did not come back to the origin are an error."""
        reached = _reachable(origin.tail)
        lost = [stream for stream in self.streams if stream is not origin and any(node not in reached for node in stream.tail)]
        for stream in self.streams:
            stream.graph, stream.tail = None, ()
        self.streams.clear()
        self.capturing = False
        self.device.captures -= 1
        if whole and lost:
            self.nodes.clear()
            raise UsageError(
                f"the capture forked to {lost[0].name} and never joined it again: before it ends, let {origin.name} wait for an event recorded there"
            )


def _reachable(tail: Sequence[Node]) -> set[Node]:
    seen: set[Node] = set()
    waiting = list(tail)
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(node.after)
    return seen


class Replay:
    """An instantiated graph. `update` changes what a kernel's node is given; `launch` runs all of it as one operation of a stream."""

    def __init__(self, device: Device, nodes: tuple[Node, ...]) -> None:
        self.device = device
        self.nodes = nodes
        self.commands: list[Command] = [node.command for node in nodes]
        self.native: Any = device.new_replay(self)

    def launch(self, stream: Stream | None = None) -> None:
        """Run the whole graph in a stream, the default stream unless one is given."""
        target = self.device.default_stream if stream is None else stream
        if not hasattr(target, "require_usable"):
            raise UsageError(f"a graph is launched into a stream of device.stream(), not {type(target).__name__} {target!r:.40}")
        target.require_usable(self.device, "the graph")
        if target.graph is not None:
            raise UsageError("a graph cannot be launched into a stream that is being captured")
        self.device.launch_replay(target, self)

    def update(self, node: Node | int, *arguments: Any, **by_name: Any) -> None:
        """Give a kernel's node other arguments from the next launch on: all of them, or some by the names of their parameters.

        Raises LaunchError where they do not fit the kernel.
        """
        number = self._number(node)
        command = self.commands[number]
        if not isinstance(command, Launch):
            raise UsageError(f"node {number} is {command.what}, no kernel whose arguments could change")
        self.commands[number] = command.kernel.command(command.shape, arguments if not by_name else _replaced(command, arguments, by_name))
        self.device.update_replay(self, number)

    def _number(self, node: Node | int) -> int:
        number = node.number if isinstance(node, Node) else node
        if not isinstance(number, int) or not 0 <= number < len(self.nodes) or (isinstance(node, Node) and self.nodes[number] is not node):
            raise UsageError(f"this graph has nodes 0 to {len(self.nodes) - 1}, not {node!r:.60}")
        return number

    def __repr__(self) -> str:
        return f"<gridstride.Replay of {len(self.nodes)} operations on {self.device}>"


def _replaced(command: Launch, arguments: tuple[Any, ...], by_name: Mapping[str, Any]) -> tuple[Any, ...]:
    """A launch's arguments with some changed by the names of their parameters."""
    if arguments:
        raise UsageError("give all arguments of the kernel in their order, or some by name")
    names = command.kernel.argument_names
    unknown = [name for name in by_name if name not in names]
    if unknown:
        raise UsageError(f"{command.kernel.name} has no parameter {unknown[0]!r}; it has {', '.join(names)}")
    return tuple(by_name.get(name, argument) for name, argument in zip(names, command.arguments, strict=True))


def _describe(command: Command) -> str:
    if isinstance(command, Launch):
        shape = command.shape
        return f"{command.kernel.name}\n{_dim(shape.grid)} blocks of {_dim(shape.block)}"
    if isinstance(command, Copy):
        way = "to device" if command.to_device else "to host" if command.to_host else "on device"
        ends = " to ".join(label(end).replace("`", "") for end in (command.source, command.destination))
        return f"copy {way}\n{ends}, {command.nbytes:,} bytes"
    if isinstance(command, Fill):
        return f"fill {label(command.array).replace('`', '')}\n{command.array.nbytes:,} bytes"
    return command.what


def _dim(extents: Sequence[int]) -> str:
    kept = list(extents)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "×".join(map(str, kept))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
