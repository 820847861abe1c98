"""See `UncoalescedAccess`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule, by_place, ceil_div
from gridstride.observers.metrics.derived import GLOBAL, SECTOR_BYTES
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

_RATIO = 2.0
_SHARE = 0.05


class UncoalescedAccess(Rule):
    """The lanes of a warp access global memory in places that lie apart, so that more sectors of 32 bytes are moved than the bytes
    asked for would fill.

    Bad: neighbouring lanes are a row apart, 32 sectors for 128 bytes.

        y[i] = x[i * 1024];

    Good: neighbouring lanes access neighbouring elements, 4 sectors.

        y[i] = x[i];
    """

    code = "GA01"
    name = "uncoalesced-access"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        total = launch.load_sectors + launch.store_sectors
        for access, word in (("load", "load"), ("store", "store")):
            for place, members in by_place(launch.instructions, lambda i, access=access: i.access == access and i.space in GLOBAL):  # type: ignore[misc]
                requests = sum(i.requests for i in members)
                sectors = sum(i.sectors for i in members)
                # one request at least moves one sector, and its bytes fill so many
                fewest = sum(max(i.requests, ceil_div(i.lanes * i.bytes, SECTOR_BYTES)) for i in members)
                if sectors < _RATIO * fewest or sectors - fewest < _SHARE * total:
                    continue
                asked = sum(i.lanes * i.bytes for i in members)
                yield self.advice(
                    f"sectors_per_{access}",
                    sectors / requests,
                    fewest / requests,
                    (sectors - fewest) / total,
                    f"each {word} moves {sectors / requests:.3g} sectors of 32 bytes where {fewest / requests:.3g} would hold what its lanes ask for: "
                    f"{100 * asked / (SECTOR_BYTES * sectors):.3g} % of the bytes moved are used",
                    "let neighbouring lanes (threadIdx.x) access neighbouring elements: swap the indices, keep one array a field instead of "
                    "an array of structures, or go through a tile in shared memory",
                    place,
                )
