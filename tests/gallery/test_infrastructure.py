"""What the gallery is made of: that a wrong kernel is seen to be wrong, projects, laboratories, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gridstride as gs
from gridstride import gallery
from gridstride.cli import main
from gridstride.errors import UsageError
from gridstride.gallery import measuring
from gridstride.gallery.columns import COLUMNS, column
from gridstride.gallery.model import Launch, Problem, Size, empty, given, uniform
from gridstride.gallery.running import _difference
from gridstride.gallery.sources import parts


@pytest.fixture(scope="module")
def workshop() -> gallery.Workshop:
    return gallery.Workshop("sim")


def status(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["gallery", *words])
    return int(ended.value.code or 0)


WRONG = """
extern "C" __global__ void beyond(const float *a, float *b, int n) { int i = blockIdx.x * 32 + threadIdx.x; b[i] = a[i]; }
extern "C" __global__ void short_of(const float *a, float *b, int n) { int i = blockIdx.x * 32 + threadIdx.x; if (i < n - 1) b[i] = a[i]; }
extern "C" __global__ void off(const float *a, float *b, int n) { int i = blockIdx.x * 32 + threadIdx.x; if (i < n) b[i] = a[i] + 1.0f; }
extern "C" __global__ void right(const float *a, float *b, int n) { int i = blockIdx.x * 32 + threadIdx.x; if (i < n) b[i] = a[i]; }
"""


def copying(tmp_path: Path) -> gallery.Ladder:
    (tmp_path / "wrong.cu").write_text(WRONG)

    def problem(size: Size) -> Problem:
        return Problem({"a": uniform(*size), "b": empty(*size)}, lambda arrays: {"b": arrays["a"]})

    def step(kernel: str) -> gallery.Step:
        return gallery.Step(kernel, "It copies.", lambda size: [Launch(kernel, 2, 32, ("a", "b", *size))])

    steps = tuple(map(step, ("beyond", "short_of", "off", "right")))
    return gallery.Ladder("copying", "Copying", "", "wrong.cu", problem, steps, ("load_sectors",), ((33,),), (64,), (64,), folder=tmp_path)


def test_what_is_wrong_is_found(tmp_path: Path, workshop: gallery.Workshop) -> None:
    ladder = copying(tmp_path)
    climbed = {one.step.name: one for one in gallery.climb(ladder, ladder.steps, workshop)}
    assert climbed["right"].passed and climbed["right"].values == {"load_sectors": 8}
    assert not any(climbed[name].passed for name in ("beyond", "short_of", "off"))
    assert [finding.kind for finding in climbed["beyond"].tried[0].findings] == ["out-of-bounds"]
    assert "uninitialised" in [finding.kind for finding in climbed["short_of"].tried[0].findings]
    (off,) = climbed["off"].tried
    assert off.findings == () and off.wrong is not None and off.wrong.startswith("b[0] is ") and off.wrong.endswith("; 33 of 33 elements differ")


def test_traps_must_give_their_findings_and_no_others(tmp_path: Path, workshop: gallery.Workshop) -> None:
    ladder = copying(tmp_path)
    steps = [replace(ladder[name], finds=("out-of-bounds",)) for name in ("beyond", "right", "short_of")]
    beyond, right, short_of = gallery.climb(ladder, steps, workshop)
    assert beyond.tried[0].passed and not beyond.shown.passed  # at 64 nothing is beyond the end
    assert right.tried[0].complaints == ["there is no finding out-of-bounds"]
    assert [complaint.partition(":")[0] for complaint in short_of.tried[0].complaints] == ["uninitialised", "there is no finding out-of-bounds"]


def test_differences() -> None:
    exact = np.array([1.0, 2.0, np.nan], np.float32)
    assert _difference("x", exact, exact, 0.0, False) == "x[2] is nan, NumPy says nan"
    assert _difference("x", exact[:2], exact[1::-1], 0.0, True) is None
    assert _difference("x", exact[:2], exact[:2] + np.float32(0.1), 0.2, False) is None
    assert _difference("x", exact, np.ones(3, np.float32), 5.0, False) == "x[2] is nan, NumPy says 1.0"
    assert _difference("x", exact, exact[:2], 0.0, False) == "x has the shape (3,), NumPy's (2,)"
    assert _difference("x", np.array(3), np.array(4), 0.0, False) == "x is 3, NumPy says 4"


def test_parts_of_a_source() -> None:
    found = parts("// head\n\n// == one: the first\nint a;\n\n// == two\nint b;\n")
    assert [(part.name, part.title, part.text, part.line) for part in found] == [
        ("common", "", "// head\n", 1), ("one", "the first", "int a;\n", 4), ("two", "", "int b;\n", 7),
    ]  # fmt: skip


def test_data() -> None:
    assert empty(3).host() is None and empty(3, 4).nbytes == 48
    assert given([[1, 2]], "i32").host().tolist() == [[1, 2]]  # type: ignore[union-attr]
    values = uniform(5, seed=7).host()
    assert values is not None and values.dtype == np.float32
    assert np.array_equal(values, np.random.default_rng(7).uniform(-1, 1, 5).astype(np.float32))


def test_wrong_names() -> None:
    with pytest.raises(UsageError, match="the gallery has no ladder 'vektor-add'; did you mean 'vector-add'"):
        gallery.ladder("vektor-add")
    with pytest.raises(UsageError, match="vector-add has no step 'floatt4'; did you mean 'float4'"):
        gallery.find("vector-add/floatt4")
    with pytest.raises(UsageError, match="there is no laboratory 'coalesse'; did you mean 'coalesce'"):
        gallery.lab("coalesse")
    with pytest.raises(UsageError, match="there is no counter 'sectors_a_load'"):
        column("sectors_a_load")
    with pytest.raises(UsageError, match="say which step of vector-add: vector-add/one-thread, "):
        gallery.run("vector-add")


def test_columns_have_values(workshop: gallery.Workshop) -> None:
    ladder, (step,) = gallery.find("vector-add/float4")
    run = workshop.run(ladder, step, (1009,), count=True)
    found = run.values(list(COLUMNS))
    assert found["launches"] == 1 and found["requests"] == 3 * 8 + 3 and found["sectors"] == 3 * (126 + 1)


def test_run_from_python() -> None:
    run = gallery.run("vector-add/float4", (37,))
    assert run.passed and run.size == (37,) and run.values(["flops"]) == {"flops": 37}


def test_benches_give_their_memory_back(workshop: gallery.Workshop) -> None:
    with gs.checking() as findings:
        ladder, (step,) = gallery.find("vector-add/thread-each")
        workshop.run(ladder, step, (33,))
    assert [finding.kind for finding in findings] == []


# ---- times


def test_measuring_and_predicting(workshop: gallery.Workshop) -> None:
    """On the simulator, whose events follow its model: a wrong output is told and not timed; the table has both."""
    ladder = replace(gallery.ladder("vector-add"), large=(5000,), modelled=None)
    ladder = replace(ladder, steps=tuple(replace(step, large=None) for step in ladder.steps if step.name in ("thread-each", "float4")))
    broken = replace(ladder, name="broken", problem=lambda size: replace(ladder.problem(size), reference=lambda arrays: {"c": arrays["a"]}))
    measured = measuring.measure([ladder, broken], workshop, repetitions=3)
    good, bad = measured["steps"][:2], measured["steps"][2:]
    assert [one["step"] for one in good] == ["thread-each", "float4"] and all(one["us"] > 0 and one["size"] == [5000] for one in good)
    assert all(one["gbs"] == pytest.approx(60_000 / one["us"] / 1e3) for one in good)
    assert all("us" not in one and one["wrong"].startswith("c[0] is ") for one in bad)
    assert measured["copy_gbs"] > 1000
    predicted = measuring.predict([ladder], workshop)
    assert all(one["us"] > 1 for one in predicted["steps"])
    page = measuring.table(measured, predicted, [ladder])
    assert "| float4 | 5,000 | " in page and "Sixteen bytes an access" in page


# ---- laboratories


def test_laboratories(workshop: gallery.Workshop) -> None:
    """The starting point of each fails and its solution passes."""
    for lab in gallery.labs():
        begun, solved = (lab.grade(lab.folder / file, workshop) for file in (lab.start, lab.solution))
        assert not begun.passed and begun.hint, lab.name
        assert solved.passed, (lab.name, [judged for judged in solved.judged if not judged.met])
        assert len(lab.hints) >= 2, lab.name


def test_a_laboratory_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("open", "coalesce", str(tmp_path / "lab")) == 0
    assert status("check", "coalesce", str(tmp_path / "lab" / "start.cu"), "--json", str(tmp_path / "grade.json")) == 1
    assert "✗  sectors a load: at most 4" in capsys.readouterr().out
    grade = json.loads((tmp_path / "grade.json").read_text())
    assert grade["passed"] is False and [goal["met"] for goal in grade["goals"]] == [True, True, False, True, True, True]
    assert status("check", "coalesce", str(gallery.lab("coalesce").folder / "solution.cu")) == 0
    assert capsys.readouterr().out.rstrip().endswith("passed")
    assert status("hint", "coalesce", "2") == 0 and "Give each row to a warp" in capsys.readouterr().out
    assert status("hint", "coalesce", "9") == 2 and "coalesce has hints 1 to 3, not '9'" in capsys.readouterr().err


def test_a_solution_that_never_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "endless.cu").write_text(
        'extern "C" __global__ void row_sums(const float *in, volatile float *out, int height, int width) { while (true) out[0] = in[0]; }'
    )
    assert status("check", "coalesce", str(tmp_path / "endless.cu")) == 1
    assert "budget" in capsys.readouterr().out


def test_solutions_that_do_not_compile_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.cu").write_text('extern "C" __global__ void row_sums(const float *in) { no }')
    assert status("check", "coalesce", str(tmp_path / "broken.cu")) == 2
    assert 'identifier "no" is undefined' in capsys.readouterr().err
    (tmp_path / "other.cu").write_text('extern "C" __global__ void sums(const float *in) { }')
    assert status("check", "coalesce", str(tmp_path / "other.cu")) == 2
    assert "row_sums" in capsys.readouterr().err


# ---- the command


def test_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert status() == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in (*gallery.LADDERS, "coalesce"))
    assert status("vector-add/float4") == 0
    shown = capsys.readouterr().out
    assert "add_float4" in shown and "add_one_block" not in shown
    assert status("coalesce") == 0 and "sectors a load: at most 4" in capsys.readouterr().out


def test_run_shows_the_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("run", "vector-add/float4") == 0
    out = capsys.readouterr().out
    assert "Roofline: memory-bound" in out and "9 runs of 1 step: outputs as NumPy's, no findings of any check." in out


def test_compare_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("compare", "vector-add/float4", "--json", "-") == 0
    document = json.loads(capsys.readouterr().out)
    (step,) = document["steps"]
    assert document["ladder"] == "vector-add" and step["passed"] and step["counters"]["load_requests"] == 15_626 and len(step["runs"]) == 9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["vektor-add"], "the gallery has no ladder 'vektor-add'; did you mean 'vector-add'?"),
        (["vector-add", "float4"], "write gridstride gallery NAME[/STEP]"),
        (["open", "vector-add"], "write gridstride gallery open NAME DIR"),
        (["run"], "write gridstride gallery run NAME[/STEP]"),
        (["compare", "vector-add", "--json", "/nowhere/x.json"], "cannot write /nowhere/x.json: No such file or directory"),
        (["vector-add", "--json", "-"], "--json is for run, compare and check"),
        (["check", "coalesce", "/nowhere/x.cu"], "/nowhere/x.cu does not exist"),
    ],
)
def test_words_wrong(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(*words) == 2
    assert capsys.readouterr().err == f"gridstride: {message}\n"


def test_counters_are_the_simulators(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("compare", "vector-add", "--device", "gpu") == 3
    assert "counters and checks are the simulator's" in capsys.readouterr().err


# ---- projects


def test_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "deep" / "mine"
    assert status("open", "vector-add", str(folder)) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "cases.json", "check.py", "vector_add.cu"]
    capsys.readouterr()
    assert status("open", "vector-add", str(folder)) == 2
    assert "exists already" in capsys.readouterr().err

    checked = subprocess.run([sys.executable, folder / "check.py", "float4"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0 and "no findings of any check" in checked.stdout.replace("\n", " "), checked.stderr
    source = folder / "vector_add.cu"
    source.write_text(source.read_text().replace("int tail = 4 * quads + i;", "int tail = 4 * quads + i + 1;"))
    checked = subprocess.run([sys.executable, folder / "check.py", "float4"], capture_output=True, text=True, check=False)
    assert checked.returncode == 1 and "c[0] is" in checked.stdout

    with pytest.raises(SystemExit) as ended:
        main(["check", str(source), "--cases", str(folder / "cases.json"), "--only", "thread-each-1009"])
    assert ended.value.code == 0
    assert "no findings in 1 launch" in capsys.readouterr().out


def test_a_project_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert status("open", "vector-add", str(tmp_path / "file" / "below")) == 2
    assert "cannot make" in capsys.readouterr().err


def test_an_output_that_a_launch_does_not_cover_is_a_finding():
    """Of the slice from element 1 on, the first is left out: said where the ladder's promise holds for that step, too."""
    found = gallery.ladder("saxpy")
    promised = replace(found["slice"], covers=("y",))
    run = gallery.Workshop("sim").run(found, promised, (33,), check=True)
    assert [(finding.kind, finding.message) for finding in run.findings] == [("double-write", "no thread writes `y`[0] of 33 elements")]
