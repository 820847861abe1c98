"""See `BankConflict`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule, by_place
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

_RATIO = 1.5
_SHARE = 0.05
_BANKS = 32


class BankConflict(Rule):
    """Lanes of a warp access different words of one bank of shared memory, so that the access takes several passes. Word `w` (4 bytes)
    lies in bank `w % 32`: a column of a tile 32 words wide is a single bank.

    Bad: 32 passes for each load.

        __shared__ float tile[32][32];
        out = tile[threadIdx.x][j];

    Good: an element of padding in each row puts the column's words in different banks, 1 pass.

        __shared__ float tile[32][33];
        out = tile[threadIdx.x][j];
    """

    code = "GA02"
    name = "bank-conflict"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        total = launch.shared_load_wavefronts + launch.shared_store_wavefronts
        for place, members in by_place(launch.instructions, lambda i: i.space == "shared" and i.access in ("load", "store")):
            wavefronts = sum(i.wavefronts for i in members)
            fewest = sum(i.ideal_wavefronts for i in members)
            if wavefronts < _RATIO * fewest or wavefronts - fewest < _SHARE * total:
                continue
            executions = sum(i.executions for i in members)
            width = max(i.bytes for i in members)
            yield self.advice(
                "bank_conflicts",
                wavefronts - fewest,
                0,
                (wavefronts - fewest) / total,
                f"each access takes {wavefronts / executions:.3g} passes over the banks of shared memory where {fewest / executions:.3g} would do",
                padding(width),
                place,
            )


def padding(width: int) -> str:
    """The padding that takes strides of powers of two apart, for elements of `width` bytes.

    Rows of a whole number of 128 bytes (the width of all banks) and an element more put the elements of a column one element apart,
    modulo 128 bytes. Shorter strides: with an element more after every 128 bytes, those that would meet in a bank are in different
    groups of 128 bytes, and so differ by an element each.
    """
    elements = max(1, _BANKS * 4 // width)
    extra = max(1, 4 // width)
    more = "one element" if extra == 1 else f"{extra} elements"
    index = f"i + i / {elements}" if extra == 1 else f"i + {extra} * (i / {elements})"
    return f"pad each row by {more} (`tile[HEIGHT][WIDTH + {extra}]`) where lanes go down a column; where they go in strides shorter than {elements}, use `{index}` in place of `i`"
