"""Which images and videos are meant: files, folders, glob patterns, numbered sequences, standard input."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from gridstride.errors import UsageError
from gridstride.pipeline import images, video_reading

STANDARD = Path("-")
"""Standard input as an image, standard output as the place for its edges."""

_OF_A_FOLDER = images.SUFFIXES | video_reading.SUFFIXES - {".ts"}
"""Files of a folder that are taken; `.ts` is as often a program's source, and a video only where it is named."""

_NUMBER = re.compile(r"%(0(\d+))?d")


def images_named(inputs: Sequence[Path], not_ending: str | None) -> list[Path]:
    """The image files that `inputs` name, in order. not_ending: files of folders that end so are results of an earlier run, and left out.

    A file of exactly this name is always that file. Otherwise `*`, `?`, `[…]` and `**` are a pattern, and `%d` or `%04d` in the file's name
    stands for its number in a sequence, whose images come by their numbers. Raises `UsageError` for what names no image.
    """
    found: list[Path] = []
    for path in inputs:
        if path.is_dir():
            found += [file for file in images.images_in(path, _OF_A_FOLDER) if not _is_result(file, not_ending)]
        elif path == STANDARD or path.exists():
            found.append(path)
        elif _NUMBER.search(path.name):
            found += _sequence(path)
        elif glob.has_magic(str(path)):
            found += _matching(path, not_ending)
        else:
            found.append(path)  # reading it tells that it is missing, and the others are done
    if found.count(STANDARD) > 1:
        raise UsageError("standard input (-) holds one image and can be named once")
    return found


def _is_result(file: Path, ending: str | None) -> bool:
    """Whether a file's name ends as those of results do: an image's, or with the ending of a video."""
    if ending is None:
        return False
    return file.name.endswith(ending) or (file.suffix.lower() in video_reading.SUFFIXES and file.stem.endswith(Path(ending).stem))


def _matching(pattern: Path, not_ending: str | None) -> list[Path]:
    files = sorted(Path(name) for name in glob.glob(str(pattern), recursive=True))
    files.sort(key=lambda file: len(file.parts))  # so that of a link that leads round in a circle the file itself is taken, and once
    places = {os.path.realpath(file): file for file in reversed(files) if file.is_file() and not _is_result(file, not_ending)}
    chosen = sorted(places.values())
    if not chosen and not set("*?") & set(str(pattern)):
        return [pattern]  # brackets alone are more often part of a name, of a file that is missing
    if not chosen:
        raise UsageError(f"no file matches {pattern}")
    return chosen


def _sequence(pattern: Path) -> list[Path]:
    number = _NUMBER.search(pattern.name)
    assert number is not None
    digits = rf"\d{{{number[2]},}}" if number[2] else r"\d+"
    name = re.compile(re.escape(pattern.name[: number.start()]) + f"({digits})" + re.escape(pattern.name[number.end() :]))
    folder = pattern.parent
    numbered = [(int(match[1]), file) for file in (folder.iterdir() if folder.is_dir() else ()) if (match := name.fullmatch(file.name))]
    if not numbered:
        raise UsageError(f"no file is one of the sequence {pattern}")
    return [file for _, file in sorted(numbered)]
