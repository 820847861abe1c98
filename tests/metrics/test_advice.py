"""Every rule speaks about its bad kernel, not about its good twin, and the twin's counter is what the advice promised."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest
from metrics.advice_kernels import PAIRS, Pair, run

from gridstride.observers.metrics import advice as room
from gridstride.observers.metrics.advice import RULES, advise, find_rule
from gridstride.observers.metrics.advice.rule import Rule
from gridstride.observers.metrics.launch_metrics import LAUNCH_METRICS
from gridstride.observers.metrics.derived import PLAIN_METRICS


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
        assert re.search(r"^ {4}\S.*;", part, re.M), "an example is indented code"
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
