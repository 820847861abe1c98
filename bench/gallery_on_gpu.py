"""Times of the gallery's ladders on a GPU, and what the model predicts for them.

    python bench/gallery_on_gpu.py measured.json                    on a machine with a GPU: every step, verified and timed
    python bench/gallery_on_gpu.py measured.json --only transpose   one ladder; repeat for more
    python bench/gallery_on_gpu.py --predict modelled.json          on any machine: the modelled times of the same launches on a simulated H200

The results belong into docs/gallery/h200.json and docs/gallery/modelled.json; `python -m gridstride.gallery docs/gallery` makes the table of them.
Exit status: 1 where an output is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from gridstride import gallery
from gridstride.gallery import measuring


def write(file: Path, found: dict[str, Any]) -> None:
    """The whole file or the one before."""
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    fresh.replace(file)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="where the JSON goes; ladders that are in it and not measured now are kept")
    parser.add_argument("--only", action="append", metavar="LADDER")
    parser.add_argument("--predict", action="store_true", help="model instead of measuring")
    parser.add_argument("--device", default=None, metavar="DEVICE", help="gpu, gpu:N; with --predict sim, sim:NAME")
    given = parser.parse_args()
    ladders = [gallery.ladder(name) for name in given.only or gallery.LADDERS]
    workshop = gallery.Workshop(given.device or ("sim" if given.predict else "gpu"))
    began = time.perf_counter()

    def progress(said: str) -> None:
        print(f"{time.perf_counter() - began:6.1f} s  {said}", file=sys.stderr, flush=True)

    found: dict[str, Any] = {"steps": []}
    if given.only and given.file.exists():
        kept = json.loads(given.file.read_text(encoding="utf-8"))
        found["steps"] = [one for one in kept["steps"] if one["ladder"] not in given.only]
    for ladder in ladders:  # written after each, so that a run that is cut off leaves what it has
        made = (measuring.predict if given.predict else measuring.measure)([ladder], workshop, progress)
        found = {**made, "steps": [*found["steps"], *made["steps"]]}
        write(given.file, found)
    wrong = [one for one in found["steps"] if "wrong" in one]
    for one in wrong:
        print(f"{one['ladder']}/{one['step']} at {one['size']}: {one['wrong']}", file=sys.stderr)
    for one in found["steps"]:
        if "gbs" in one:
            shares = f"{one['gbs'] / found['copy_gbs']:6.1%} of copy, {one['tflops'] / found['peak_tflops']:6.1%} of peak"
            print(f"{one['ladder'] + '/' + one['step']:32} {one['size']!s:24} {one['us']:12.1f} µs  {shares}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
