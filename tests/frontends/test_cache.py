from __future__ import annotations

import os
from pathlib import Path

import pytest

from gridstride.cache import DiskCache, cache_directory, key_of
from gridstride.frontends.includes import inclusions


def test_values_come_back_and_damaged_ones_do_not(fresh_results: Path) -> None:
    cache = DiskCache("room")
    assert cache.get("a") is None
    cache.put("a", {"x": [1, 2.5, "µ"]})
    assert cache.get("a") == {"x": [1, 2.5, "µ"]}
    path = fresh_results / "room" / "a.json"
    intact = path.read_bytes()
    for damaged in (b"", intact[:-1], intact.replace(b"2.5", b"3.5"), b"\xff" * 80):
        path.write_bytes(damaged)
        assert cache.get("a") is None
    cache.put("a", 1)
    assert cache.get("a") == 1


def test_the_least_recently_used_leave_first(fresh_results: Path) -> None:
    cache = DiskCache("room", limit_bytes=500)
    for name, time in (("old", 1), ("used", 2), ("new", 3)):
        cache.put(name, "x" * 80)
        os.utime(fresh_results / "room" / f"{name}.json", (time, time))
    assert cache.get("old") is not None  # which makes it the latest
    for number in range(2):
        cache.put(f"more{number}", "x" * 80)
    assert cache.get("old") is not None
    assert cache.get("used") is None
    assert sum(path.stat().st_size for path in (fresh_results / "room").iterdir()) <= 500


def test_a_folder_that_cannot_be_written_hinders_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRIDSTRIDE_CACHE_DIR", str(tmp_path / "file"))
    cache = DiskCache("room")
    cache.put("a", 1)
    assert cache.get("a") is None


def test_the_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRIDSTRIDE_CACHE_DIR", "/somewhere/else")
    assert cache_directory() == Path("/somewhere/else")


def test_keys_tell_parts_apart() -> None:
    assert len({key_of("a", "b"), key_of("ab"), key_of(["a", "b"]), key_of("a", "b", None)}) == 4


def test_includes_are_followed_through_all_folders(tmp_path: Path) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    near.mkdir()
    (far / "deep").mkdir(parents=True)
    (near / "a.h").write_text('#ifdef X\n# include "b.h" // then\n#endif\n#include <deep/c.h>')
    (near / "b.h").write_text('#include "a.h"\n/* #include "no.h" */')
    (far / "deep" / "c.h").write_text('#include "d.h"\n#include <vector>')
    (far / "deep" / "d.h").write_text("")
    found = inclusions('#include "a.h"\n#include <cuda_fp16.h>\n', near, [far])
    assert set(found.files) == {near / "a.h", near / "b.h", far / "deep" / "c.h", far / "deep" / "d.h"}
    assert found.standard == {"vector", "cuda_fp16.h"}
    assert found.complete


def test_what_cannot_be_followed_is_not_complete(tmp_path: Path) -> None:
    assert not inclusions("#define H <a.h>\n#include H\n", tmp_path, []).complete
    assert not inclusions("const char* when = __DATE__;", tmp_path, []).complete
