"""Writes pages of the documentation: `python -m gridstride.gallery docs/gallery [NAME …]`; without names all, and the index."""

import json
import sys
from pathlib import Path

from gridstride.gallery import Workshop, climb, labs, ladder, ladders, measuring, pages


def measured_page(folder: Path) -> str:
    """The table of predicted and measured times, from the results that lie in the folder."""
    measured, modelled = (json.loads((folder / name).read_text(encoding="utf-8")) for name in ("h200.json", "modelled.json"))
    return measuring.table(measured, modelled, list(ladders()))


def write(folder: Path, names: list[str]) -> int:
    wrong = 0
    for found in map(ladder, names) if names else ladders():
        # a device of its own for each: some counts depend a little on where arrays lie, and so on what ran before
        climbed = climb(found, found.steps, Workshop("sim"))
        for complaint in (complaint for one in climbed for complaint in one.complaints):
            print(complaint, file=sys.stderr)
            wrong = 1
        (folder / f"{found.name}.md").write_text(pages.page(found, climbed), encoding="utf-8")
    if not names:
        measured = (folder / "h200.json").exists()
        (folder / "README.md").write_text(pages.index(ladders(), labs(), measured=measured), encoding="utf-8")
        if measured:
            (folder / "h200.md").write_text(measured_page(folder), encoding="utf-8")
    return wrong


if __name__ == "__main__":
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("write python -m gridstride.gallery FOLDER [NAME …], where FOLDER is the one of the pages")
    sys.exit(write(Path(sys.argv[1]), sys.argv[2:]))
