"""`--html` of `launch`, `check` and `profile`: a sound page with the numbers of the JSON result, the findings with both sides, and nothing that is code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gridstride.cli import main
from gridstride.report.html.number import Number
from report.page_reader import Element, read, require_sound

SOURCE = r"""
__global__ void scale(float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && a > 0.0f) x[i] = a * x[i] + 1.0f;  // <script>alert("x")</script>
}
__global__ void race(int* sum) {
    __shared__ int total;
    if (threadIdx.x % 32 == 0) total = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) sum[blockIdx.x] = total;
}
__global__ void past(float* x) { x[threadIdx.x + 1] = 1.0f; }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "k&k.cu"
    path.write_text(SOURCE)
    return path


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments), "--device", "sim"])
    return int(ended.value.code or 0)


def page_of(path: Path) -> Element:
    text = path.read_text()
    assert "<script" not in text
    document = read(text)
    require_sound(document)
    return document


def rows(document: Element, name: str) -> dict[str, list[Element]]:
    (table,) = (table for table in document.all("table") if any(e.attributes.get("id") == name for e in table.all("span")))
    return {row.all("th")[0].text.strip(): row.all("td") for row in table.all("tbody")[0].all("tr")}


def test_profile_page_has_the_counters_of_the_json_result(source: Path, tmp_path: Path) -> None:
    arguments = ("profile", source, "scale", "--grid", "4", "--block", "128", "--arg", "n=500", "--arg", "a=2.0", "--arg", "x=f32[n]:ones:out")
    assert call(*arguments, "--html", tmp_path / "p.html", "--json", tmp_path / "p.json") == 0
    document = page_of(tmp_path / "p.html")
    assert document.all("h1")[0].text == "scale of k&k.cu"
    (case,) = json.loads((tmp_path / "p.json").read_text())["cases"]
    shown = rows(document, "t-counters-0")
    marks = case["profile"]["marks"]
    by_name = {cells[1].text: cells[0].all("data")[0] for cells in shown.values()}
    assert {name: value for name, value in case["counters"].items() if value} == {name: float(data.attributes["value"]) for name, data in by_name.items()}
    assert {name: marks[name] for name in by_name} == {name: data.attributes["class"] for name, data in by_name.items()}
    assert float(by_name["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"].attributes["value"]) == 16  # 500 threads are 16 warps
    (work,) = rows(document, "t-work-0").values()
    assert [float(cell.all("data")[0].attributes["value"]) for cell in work[:3]] == [4000 + 2 * 16, 4000, 1000]  # 500 floats end in the middle of a sector
    lines = rows(document, "t-lines-0")
    assert lines["4"][4].text == 'if (i < n && a > 0.0f) x[i] = a * x[i] + 1.0f;  // <script>alert("x")</script>'
    limits = rows(document, "t-limits-0")
    assert {float(cells[0].all("data")[0].attributes["value"]) for cells in limits.values()} == set(map(float, case["occupancy"]["limits"].values()))
    assert {drawing.all("title")[0].text for drawing in document.all("svg")} == {"Roofline", "Occupancy over block sizes"}
    assert "3 3 3 3 3 3 …" in rows(document, "t-outputs-0")["x"][1].text


def test_findings_have_both_sides_with_their_source(source: Path, tmp_path: Path) -> None:
    assert call("check", source, "race", "--grid", "1", "--block", "64", "--arg", "sum=i32[1]:zeros:out", "--html", tmp_path / "c.html") == 1
    document = page_of(tmp_path / "c.html")
    (found,) = (article for article in document.all("article") if "race" in article.attributes["aria-label"])
    lines = [code.text for pre in found.all("pre") for code in pre.all("code")]
    assert lines == ["8 | if (threadIdx.x % 32 == 0) total = threadIdx.x;"] * 2
    assert "The other side: " in found.text and "thread (" in found.text
    assert "bad" in next(p.attributes["class"] for p in document.all("p") if "verdict" in p.attributes.get("class", ""))


def test_a_launch_that_is_stopped(source: Path, tmp_path: Path) -> None:
    assert call("launch", source, "past", "--grid", "1", "--block", "32", "--arg", "x=f32[32]:zeros:out", "--html", tmp_path / "l.html") == 1
    document = page_of(tmp_path / "l.html")
    (cells,) = rows(document, "t-summary").values()
    assert cells[1].text.strip() == "out-of-bounds" and "`x`[32]" in cells[5].text


def test_cases_are_listed(source: Path, tmp_path: Path) -> None:
    arguments = [["buf", "f32", 20, "ones", {"out": True}], ["f32", 1.0], ["i32", 20]]
    cases = [{"name": f"<i>{number}</i>", "kernel": "scale", "grid": [1, 1, 1], "block": [32, 1, 1], "smem": 0, "args": arguments} for number in range(3)]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    assert call("launch", source, "--cases", tmp_path / "cases.json", "--html", tmp_path / "l.html") == 0
    document = page_of(tmp_path / "l.html")
    assert list(rows(document, "t-summary")) == ["<i>0</i>", "<i>1</i>", "<i>2</i>"]
    assert [heading.text for heading in document.all("h2")][1:-1] == ["<i>0</i>", "<i>1</i>", "<i>2</i>"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234567, "1,234,567"), (0.5, "0.500"), (12.3456, "12.3"), (123456.7, "123,457"), (1e-7, "1e-07"), (float("nan"), "—"), (None, "—"), (float("inf"), "∞")],
)
def test_numbers_as_people_read_them(value: float | None, text: str) -> None:
    assert Number(value, "exact").text == text
