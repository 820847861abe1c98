"""What kernels ask of the host while they run: printf, assert, malloc, free."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import GridstrideError, LaunchError
from gridstride.findings import Dim3
from gridstride.isa.windows import LOCAL_WINDOW, SHARED_WINDOW
from gridstride.lower.records import BLOCK, FAULT_ASSERT, FAULT_BOUNDS, HOST_REQUESTS, ORDER_REQUESTS, WARP, WORKER
from gridstride.machine.happens_before import BLOCK_SCOPE, DEVICE_SCOPE, HappensBefore
from gridstride.machine.memory import Allocation, Memory
from gridstride.machine.printf import format_printf
from gridstride.machine.program import Program

HEAP_BYTES = 8 << 20  # of device-side malloc, as cudaLimitMallocHeapSize starts out
MAX_TABLE_BYTES = 1 << 30  # of tables of what was allocated at some time, where several workers search them
PRINT_LIMIT = 1 << 20  # characters; older output is dropped, as CUDA's ring buffer does


@dataclass(frozen=True)
class WorkerView:
    """The fields of a worker's record that say what is allocated, and its memory of what each access hit."""

    table: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]


@dataclass
class HostRequests:
    """Answers the requests of one launch. Requests come from worker threads; the interpreter lock orders them."""

    program: Program
    memory: Memory
    block: Dim3
    assertion: str = ""
    printed: dict[int, list[str]] = field(default_factory=dict)
    printed_characters: int = 0
    heap_used: int = 0
    views: list[WorkerView] = field(default_factory=list)
    _tables: list[npt.NDArray[np.int64]] = field(default_factory=list)
    _table_bytes: int = 0

    def __post_init__(self) -> None:
        kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3, *[ctypes.c_int] * 3)
        self._callback = kind(self._request)
        self._lock = threading.Lock()
        self.order = HappensBefore()
        asks = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3, ctypes.c_int, ctypes.c_int64)
        self._order_callback = asks(self._ordered)

    @property
    def callback_address(self) -> int:
        return ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def close(self) -> None:
        """Break the cycle between this object and the foreign function."""
        del self._callback, self._order_callback

    # ---- requests --------------------------------------------------------------------------------------------

    def _request(self, worker: int, block: int, warp: int, what: int, site: int, mask: int) -> int:
        try:
            with self._lock:
                lanes = [k for k in range(32) if mask >> k & 1]
                arguments = [_i64s(worker + WORKER.offset("host_arguments") + 256 * k) for k in range(5)]
                name = HOST_REQUESTS[what]
                if name in ORDER_REQUESTS:
                    self._order(name, worker, block, warp, lanes, arguments[0])
                elif name == "vprintf":
                    self._print(worker, block, warp, lanes, arguments)
                elif name == "__assertfail":
                    self._assert(worker, block, warp, lanes, site, arguments)
                elif name == "malloc":
                    for lane in lanes:
                        arguments[0][lane] = self._malloc(arguments[0][lane])
                    self._publish_allocations()
                else:
                    for lane in lanes:
                        self._free(worker, block, warp, site, lane, arguments[0][lane])
                    self._publish_allocations()
        except BadAddress as error:
            _fault(worker, block, warp, site, FAULT_BOUNDS, 1 << error.lane)
            ctypes.c_int32.from_address(worker + WORKER.offset("fault_bytes")).value = 4
            _i64s(worker + WORKER.offset("fault_address"))[error.lane] = error.address
        except Exception as error:  # noqa: BLE001 - nothing may leave a foreign function's callback
            self.assertion = f"a request of the kernel failed: {error}"
            _fault(worker, block, warp, site, FAULT_ASSERT, mask & 0xFFFFFFFF)
        return 0

    def _order(self, name: str, worker: int, block: int, warp: int, lanes: list[int], addresses: Any) -> None:
        if name == "cluster.arrive":
            self.order.arrive(block, warp, lanes)
            return
        if name == "cluster.wait":
            self.order.depart(block, warp, lanes)
            return
        if name.startswith("fence"):
            self.order.fence(block, warp, lanes, BLOCK_SCOPE if name == "fence.cta" else DEVICE_SCOPE)
            return
        places = [addresses[lane] for lane in lanes]
        if name.startswith("mbarrier"):
            scope = BLOCK_SCOPE if name.endswith(".cta") else DEVICE_SCOPE
            if ".wait" in name:
                self.order.wait_at_mbarrier(block, warp, lanes, places, scope)
                return
            start = ctypes.c_int64.from_address(block + BLOCK.offset("shared")).value
            size = ctypes.c_int64.from_address(worker + WORKER.offset("shared_bytes")).value
            self.order.arrive_at_mbarrier(block, warp, lanes, places, [start <= place < start + size for place in places], scope)
            return
        self.order.access(block, warp, lanes, places, name != "order.write", name != "order.read")

    def _ordered(self, worker: int, block: int, warp: int, lane: int, cell: int) -> int:
        with self._lock:
            return int(self.order.ordered(block, warp, lane, cell & (2**64 - 1)))

    @property
    def order_address(self) -> int:
        """What native code asks whether an access is known to come before."""
        return ctypes.cast(self._order_callback, ctypes.c_void_p).value or 0

    def _print(self, worker: int, block: int, warp: int, lanes: list[int], arguments: list[Any]) -> None:
        linear = ctypes.c_int64.from_address(block + BLOCK.offset("linear")).value
        out = self.printed.setdefault(linear, [])
        for lane in lanes:
            text = self._string(arguments[0][lane])
            shown, taken = format_printf(text, _Arguments(self, worker, warp, block, lane, arguments[1][lane]).read, self._string)
            out.append(shown)
            self.printed_characters += len(shown)
            arguments[0][lane] = taken  # what printf returns on the device
        if self.printed_characters > 4 * PRINT_LIMIT:
            self._drop_older()

    def _drop_older(self) -> None:
        """Forget what could not be handed out in the end anyway: all but the last characters, blocks in ascending order."""
        kept = 0
        for linear in sorted(self.printed, reverse=True):
            pieces = self.printed[linear]
            for k in range(len(pieces) - 1, -1, -1):
                if kept >= PRINT_LIMIT:
                    del pieces[: k + 1]
                    break
                kept += len(pieces[k])
        self.printed = {linear: pieces for linear, pieces in self.printed.items() if pieces}
        self.printed_characters = kept

    def _assert(self, worker: int, block: int, warp: int, lanes: list[int], site: int, arguments: list[Any]) -> None:
        lane = lanes[0]
        message, file, function = (self._string(arguments[k][lane]) for k in (0, 1, 3))
        self.assertion = f"assertion `{message}` failed in `{function}` ({file}:{arguments[2][lane] & 0xFFFFFFFF})"
        _fault(worker, block, warp, site, FAULT_ASSERT, sum(1 << k for k in lanes))

    def _malloc(self, size: int) -> int:
        if size <= 0 or self.heap_used + size > HEAP_BYTES or self._table_bytes > MAX_TABLE_BYTES:
            return 0
        try:
            allocation = self.memory.allocate(size, name="device-side malloc")
        except LaunchError:
            return 0
        self.heap_used += size
        _heap(self.memory)[allocation.address] = allocation
        return allocation.address

    def _free(self, worker: int, block: int, warp: int, site: int, lane: int, address: int) -> None:
        if address == 0:
            return
        allocation = _heap(self.memory).pop(address, None)
        if allocation is None:
            _fault(worker, block, warp, site, FAULT_BOUNDS, 1 << lane)
            _i64s(worker + WORKER.offset("fault_address"))[lane] = address
            return
        self.memory.free(allocation)
        self.heap_used -= allocation.size
        for view in self.views:
            view.slots[view.slots[:, 0] == address] = (-1, 0)

    def _publish_allocations(self) -> None:
        """Let native code see what is allocated now. Tables that another worker may still search are kept."""
        table = np.ascontiguousarray(self.memory.table())
        if len(self.views) == 1:
            self._tables.clear()
        self._tables.append(table)
        self._table_bytes += table.nbytes if len(self.views) > 1 else 0
        for view in self.views:
            if len(table) > view.count[0]:
                view.table[0] = table.ctypes.data
                view.count[0] = len(table)
            else:
                view.count[0] = len(table)
                view.table[0] = table.ctypes.data

    # ---- reading device memory -------------------------------------------------------------------------------

    def _string(self, address: int) -> str:
        data = bytearray()
        allocation = self.memory.find(address)
        if allocation is None:
            return "(null)" if address == 0 else "(invalid pointer)"
        view = self.memory.bytes_view(address, allocation.address + allocation.size - address)
        end = np.flatnonzero(view == 0)
        data += view[: int(end[0]) if end.size else view.size].tobytes()
        return data.decode("utf-8", "replace")

    def flush(self, stdout: Callable[[str], object]) -> None:
        """Hand out what was printed: blocks in ascending order, within one in the order of execution."""
        text = "".join(piece for linear in sorted(self.printed) for piece in self.printed[linear])
        self.printed = {}
        if text:
            stdout(text[-PRINT_LIMIT:])


_heaps: weakref.WeakKeyDictionary[Memory, dict[int, Allocation]] = weakref.WeakKeyDictionary()


def _heap(memory: Memory) -> dict[int, Allocation]:
    return _heaps.setdefault(memory, {})


def _i64s(address: int) -> Any:
    return (ctypes.c_int64 * 32).from_address(address)


def _fault(worker: int, block: int, warp: int, site: int, code: int, lanes: int) -> None:
    def put(name: str, value: int, kind: Any = ctypes.c_uint32) -> None:
        kind.from_address(worker + WORKER.offset(name)).value = value

    put("fault_code", code)
    put("fault_site", site)
    put("fault_lanes", lanes)
    put("fault_warp", ctypes.c_int32.from_address(warp + WARP.offset("index")).value)
    put("fault_block", ctypes.c_int64.from_address(block + BLOCK.offset("linear")).value, ctypes.c_int64)


class BadAddress(Exception):
    """A lane handed over an address at which there is nothing to read."""

    def __init__(self, lane: int, address: int) -> None:
        super().__init__(f"nothing is at address {address:#x}")
        self.lane, self.address = lane, address


class _Arguments:
    """The argument buffer of one lane's printf: values aligned to their size, in local memory."""

    def __init__(self, host: HostRequests, worker: int, warp: int, block: int, lane: int, address: int) -> None:
        self.host, self.lane, self.offset = host, lane, 0
        self.address = address & (2**64 - 1)
        self.local = ctypes.c_int64.from_address(warp + WARP.offset("local")).value
        self.shared = ctypes.c_int64.from_address(block + BLOCK.offset("shared")).value
        self.local_bytes, self.shared_bytes = (
            ctypes.c_int64.from_address(worker + WORKER.offset(name)).value for name in ("local_bytes", "shared_bytes")
        )

    def read(self, size: int) -> bytes:
        self.offset = -(-self.offset // size) * size
        start, self.offset = self.offset, self.offset + size
        return b"".join(self._word(start + k) for k in range(0, size, 4))

    def _word(self, offset: int) -> bytes:
        address = self.address + offset
        inside = address & ((1 << 56) - 1)
        if address % 4 == 0 and address >> 56 == LOCAL_WINDOW >> 56 and inside + 4 <= self.local_bytes:
            return ctypes.string_at(self.local + inside * 32 + self.lane * 4, 4)
        if address >> 56 == SHARED_WINDOW >> 56 and inside + 4 <= self.shared_bytes:
            return ctypes.string_at(self.shared + inside, 4)
        try:
            return self.host.memory.bytes_view(address, 4).tobytes()
        except GridstrideError:
            raise BadAddress(self.lane, address) from None
