"""A warp-wide operation names lanes that do not take part in it, or reads one that does not.

The mask of `__shfl_sync`, `__ballot_sync`, `__syncwarp` and their like names the lanes that meet. An error is: a shuffle that reads a lane which has
ended, never existed (the last warp of a block may be partial), is elsewhere, or is not in the mask; a caller that is not in its own mask; a named lane that
still runs but goes elsewhere. A mask that names lanes which have ended is legal as long as nobody reads them, so votes and `__syncwarp` after an early return
are clean, whatever the lanes did before they returned: what tells them from lanes of another branch is that those go on past the join of the two and do
something there (write, meet others). Where that is only a last store before the kernel's end, and the source returns somewhere before, it is a note:
compilers make one store of two, and lanes that return after one of them then look like lanes that go on.

Bad:

    __global__ void sum(const float* a, float* b, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        float v = a[i];
        for (int o = 16; o; o >>= 1)
            v += __shfl_down_sync(0xffffffffu, v, o);  // reads lanes that returned
        if (threadIdx.x % 32 == 0) b[i / 32] = v;
    }

Good:

    __global__ void sum(const float* a, float* b, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        float v = i < n ? a[i] : 0.0f;
        for (int o = 16; o; o >>= 1)
            v += __shfl_down_sync(0xffffffffu, v, o);
        if (threadIdx.x % 32 == 0 && i < n) b[i / 32] = v;
    }

What to do:
Let the whole warp reach the operation and give lanes without work a neutral value; or take the mask from `__ballot_sync` before the branch.
"""

from __future__ import annotations

from typing import cast

from gridstride.findings import Severity
from gridstride.machine.raw_findings import FOR_EVER, RawFinding
from gridstride.observers.checks.check import Check, Told
from gridstride.observers.checks.scene import Scene, place

_STORIES = {
    "reads-absent-lane": (
        "reads {other} that does not take part: it has ended, never existed, is elsewhere or is not in the mask",
        "let every lane that is read reach the operation and be in its mask; give lanes without work a neutral value instead of returning early",
    ),
    "caller-not-in-mask": (
        "takes part in an operation whose mask does not name it",
        "pass a mask that names every lane that gets here, such as the result of __ballot_sync before the branch",
    ),
    "lane-elsewhere": (
        "waits in an operation whose mask names {other} that still runs but goes on without it",
        "move the operation out of the branch, or name only the lanes that get here: take the mask from __ballot_sync before the branch",
    ),
    FOR_EVER: (
        "waits in an operation whose mask names {other} that waits elsewhere",
        "let all lanes that the mask names come to the same operation, or name only the lanes that get here",
    ),
}


def tell(raw: RawFinding, scene: Scene) -> Told:
    """Which lane, what it did, and with which other."""
    here = scene.site(raw.site, raw.block, raw.thread)
    lane = f"lane {raw.thread % 32}" if raw.thread >= 0 else "a lane"
    other = f"a lane ({raw.other_thread % 32})" if raw.other_thread >= 0 else "a lane"
    what, advice = _STORIES.get(raw.detail, _STORIES["lane-elsewhere"])
    severity = cast(Severity, raw.severity)
    operation = _operation(scene.opcode(raw.site))
    where = place(here)
    if raw.detail == FOR_EVER:
        what += f" at {place(scene.site(raw.other_site))}, and neither can go on: a deadlock"
    elif raw.other_site >= 0:
        what += f", to {place(scene.site(raw.other_site))}"
    if raw.detail == "lane-in-the-tail" and scene.returns_before(raw.site, raw.other_site):
        # two stores before the end of a kernel may have become one, and then lanes that return look like lanes that go on
        severity, what = "note", what + ", which is fine if it returns there"
    return Told(severity, f"{operation}{lane} {what.format(other=other)}{f' ({where})' if where else ''}", advice)


def _operation(opcode: str) -> str:
    names = {"shfl": "shuffle: ", "vote": "vote: ", "match": "match: ", "redux": "warp reduction: ", "bar": "__syncwarp: ", "barrier": "__syncwarp: "}
    return names.get(opcode.partition(".")[0], "")


CHECK = Check("GS402", "warp-mask", ("error", "note"), __doc__ or "", native=True, tell=tell)
