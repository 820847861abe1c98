"""Every rule speaks about its bad kernel, not about its good twin, and the twin's counter is what the advice promised."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import gridstride as gs
from gridstride.cases import read_cases, run_cases
from gridstride.observers.metrics import advice as room
from gridstride.observers.metrics.advice import RULES, Advice, advise, find_rule
from gridstride.observers.metrics.advice.rule import Rule
from gridstride.observers.metrics.derived import PLAIN_METRICS
from gridstride.observers.metrics.launch_metrics import LAUNCH_METRICS, LaunchMetrics
from gridstride.observers.metrics.profile import LaunchProfile
from metrics.advice_kernels import PAIRS, Pair, run

TRUTH = Path(__file__).parent.parent / "truth"


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_twin_gets_what_the_advice_promised(pair: Pair) -> None:
    given = [a for a in advise(run(pair.source, pair.bad, pair.device)) if a.code == pair.code]
    assert given, f"no {pair.code} on the bad kernel"
    fixed = run(pair.source, pair.good, pair.device)
    assert [a for a in advise(fixed) if a.code == pair.code] == []
    for advice in given:
        assert advice.now != advice.then
        assert 0 < advice.weight <= 1
        assert getattr(fixed, advice.metric) == pytest.approx(advice.then), advice


def test_every_rule_has_its_pair() -> None:
    assert {pair.code for pair in PAIRS} == {rule.code for rule in RULES}


def test_every_file_is_a_listed_rule() -> None:
    files = {found.name for found in pkgutil.iter_modules(room.__path__)} - {"rule"}
    listed = {type(rule).__module__.rpartition(".")[2] for rule in RULES}
    assert listed == files
    for name in files:
        module = importlib.import_module(f"{room.__name__}.{name}")
        own = [c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, Rule) and c is not Rule]
        assert len(own) == 1, f"{name} holds one rule"
        assert re.sub(r"(?<!^)(?=[A-Z])", "-", own[0].__name__).lower() == own[0].name == name.replace("_", "-")


def test_codes_are_stable_and_names_unique() -> None:
    assert [rule.code for rule in RULES] == [f"GA{number:02}" for number in range(1, len(RULES) + 1)]
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_is_documented_with_a_bad_and_a_good_example(rule: Rule) -> None:
    text = type(rule).explanation()
    assert text.startswith(f"{rule.code} {rule.name}\n")
    bad, good = text.index("Bad:"), text.index("Good:")
    assert bad < good
    for part in (text[bad:good], text[good:]):
        assert re.search(r"^ {4}\S.*;", part, re.MULTILINE), "an example is indented code"
    assert find_rule(rule.code.lower()) is rule
    assert find_rule(rule.name) is rule


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_advice_says_where_with_what_number_and_how(pair: Pair) -> None:
    for advice in advise(run(pair.source, pair.bad, pair.device)):
        assert advice.metric in PLAIN_METRICS + LAUNCH_METRICS
        assert re.search(r"\d", advice.message)
        assert advice.how
        assert "nan" not in advice.message
        assert (advice.line is None) == (advice.ptx_line is None)
        if advice.line is not None:
            text = pair.source.splitlines()[advice.line - 1]
            assert re.search(r"[\[(]", text), "the line has an access or a branch"


def test_no_such_rule() -> None:
    assert find_rule("GA99") is None


# ---- what takes more registers or other devices than a small kernel can have ---------------------------------------------


def given(code: str, *, block: int = 256, blocks: int = 100_000, registers: int = 32, shared: int = 0, device: str = "h200", spills: int = 0) -> list[Advice]:
    profile = LaunchProfile("k", device, (blocks, 1, 1), (block, 1, 1), shared, 0, registers, 0.0, ())
    return [advice for advice in advise(LaunchMetrics.of(profile, spill_bytes=spills)) if advice.code == code]


@pytest.mark.parametrize(("registers", "now", "fewer"), [(128, 25.0, 64), (96, 25.0, 64), (255, 12.5, 64), (168, 12.5, 64)])
def test_registers_bind(registers: int, now: float, fewer: int) -> None:
    """Blocks of 256 threads: 64 registers give four blocks, half of the warps."""
    (advice,) = given("GA04", registers=registers)
    assert (advice.now, advice.then) == (now, 50.0)
    assert advice.how == f"at most {fewer} registers a thread (now {registers}): __launch_bounds__(256, 4) asks for them"
    assert given("GA04", registers=fewer) == []


def test_small_blocks_bind() -> None:
    """A GeForce RTX 3060 holds 16 blocks and 48 warps: 16 warps of blocks of 32, 32 of blocks of 64."""
    (advice,) = given("GA04", block=32, device="rtx3060")
    assert advice.now == pytest.approx(100 / 3)
    assert advice.then == pytest.approx(200 / 3)
    assert advice.how == "blocks of 64 threads (now 32)"
    assert given("GA04", block=64, device="rtx3060") == []


def test_a_grid_that_fits_needs_no_more_occupancy() -> None:
    assert given("GA04", registers=128, blocks=2 * 132) == []
    assert given("GA04", registers=128, blocks=2 * 132 + 1) != []


def test_spills() -> None:
    (advice,) = given("GA09", spills=48)
    assert (advice.metric, advice.now, advice.then) == ("spill_bytes", 48, 0)
    assert given("GA09") == []


def test_full_waves_are_no_tail() -> None:
    assert given("GA06", blocks=1056) == []
    assert given("GA06", blocks=2112) == []
    (advice,) = given("GA06", blocks=1057)
    assert advice.now == pytest.approx(1057 / 2112)
    assert advice.message == "1.00 waves: the last one has 1 blocks where the device holds 1,056"


# ---- the truth set: what is said about kernels that show one thing each, and what is not said about good ones -----------


@pytest.fixture(scope="module")
def said() -> dict[str, set[str]]:
    module = gs.device("sim:h200").compile(TRUTH / "kernels.ptx")
    results = run_cases(read_cases(TRUTH / "cases.json"), module, profile=True)
    return {r.name: {a.name for a in advise(r.metrics)} - {"small-launch"} for r in results if r.metrics is not None}


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("strided_read_8", "uncoalesced-access"),
        ("aos_field", "uncoalesced-access"),
        ("transpose_naive", "uncoalesced-access"),
        ("transpose_tile", "bank-conflict"),
        ("reduce_strided", "bank-conflict"),
        ("shared_stride_32", "bank-conflict"),
        ("branch_parity", "divergence"),
        ("reduce_interleaved", "divergence"),
        ("const_divergent", "constant-divergence"),
        ("local_array", "local-memory"),
        ("partial_block", "partial-warps"),
        ("sgemm_naive", "repeated-reads"),
        ("blur_h", "repeated-reads"),
    ],
)
def test_advice_on_kernels_that_need_it(case: str, name: str, said: dict[str, set[str]]) -> None:
    assert name in said[case]


@pytest.mark.parametrize(
    "case",
    ["vec_add", "saxpy_gridstride", "saxpy_vec4", "strided_read_1", "strided_read_offset1", "soa_field", "transpose_pad", "reduce_tree"]
    + ["reduce_full", "branch_block", "const_broadcast", "hash64", "daxpy", "shared_f128", "hist_private", "volume3d"],
)
def test_no_advice_on_good_kernels(case: str, said: dict[str, set[str]]) -> None:
    assert said[case] == set()


@pytest.mark.parametrize(("bad", "good", "name"), [("sgemm_naive", "sgemm_tiled", "repeated-reads"), ("conv2d_naive", "conv2d_tiled", "repeated-reads")])
def test_tiles_end_the_advice_to_use_them(bad: str, good: str, name: str, said: dict[str, set[str]]) -> None:
    assert name in said[bad] and name not in said[good]
