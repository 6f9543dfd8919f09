from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given

from kube_fairlead_apiserver.attributes import Attributes
from kube_fairlead_apiserver.security import rbac_coverage
from kube_fairlead_apiserver.security.rbac_coverage import TooManyCombinations, uncovered
from kube_fairlead_apiserver.security.rbac_rules import Rule, RuleSet, describe
from tests.unit.security.test_rbac_rules import QUESTIONS, RULES, rule


@given(RULES, RULES, QUESTIONS)
def test_who_covers_all_may_do_all(owned: list[Rule], wanted: list[Rule], question: Attributes) -> None:
    if not uncovered(owned, wanted) and RuleSet(wanted).allows(question):
        assert RuleSet(owned).allows(question)


@given(RULES, RULES)
def test_what_is_missing_is_all_that_is_missing(owned: list[Rule], wanted: list[Rule]) -> None:
    missing = uncovered(owned, wanted)
    assert not uncovered([*owned, *missing], wanted)
    assert not uncovered(wanted, missing)


def test_describe() -> None:
    missing = uncovered(
        [rule("get", "pods")], [rule("get,list,watch", "pods,secrets", names="x"), rule("get", urls="/a")]
    )
    assert sorted(map(describe, missing)) == [
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["x"], Verbs:["list" "watch"]}',
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["x"], Verbs:["get" "list" "watch"]}',
        '{NonResourceURLs:["/a"], Verbs:["get"]}',
    ]


def parts(rule: Rule) -> set[tuple[tuple[str, str], ...]]:
    """Every combination of the values of a rule."""
    fields = [[(name, value) for value in values] for name, values in sorted(rule.items()) if values]
    return set(itertools.product(*fields))


@given(RULES, RULES)
def test_the_answer_is_that_of_comparing_part_by_part(owned: list[Rule], wanted: list[Rule]) -> None:
    expected = {
        part
        for one in wanted
        for part in parts(one)
        if all(uncovered([held], [{name: [value] for name, value in part}]) for held in owned)
    }
    missing = [part for one in uncovered(owned, wanted) for part in parts(one)]
    assert set(missing) == expected


def test_a_rule_of_a_few_kilobytes_is_not_taken_apart_into_millions() -> None:
    many = [f"{number:x}" for number in range(300)]
    wide: Rule = {"verbs": many, "apiGroups": many, "resources": many, "resourceNames": many}
    assert uncovered([rule("get", "pods")], [wide, rule("list", "pods")]) == [wide, rule("list", "pods")]
    halves: list[Rule] = [{**wide, "apiGroups": many[:150]}, {**wide, "apiGroups": many[150:]}]
    assert uncovered(halves, [wide]) == []
    assert uncovered([halves[0], {**halves[1], "verbs": many[1:]}], [wide]) == [wide]


def test_long_values_are_not_repeated_with_every_part() -> None:
    long: Rule = {"verbs": ["get"], "apiGroups": ["x" * 1000], "resources": [str(number) for number in range(2000)]}
    assert uncovered([], [long]) == [long]
    short: Rule = {**long, "apiGroups": ["x"]}
    assert len(uncovered([], [short])) == 2000


def test_many_rules_against_many_are_found_by_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def spent(count: int) -> int:
        rules = [rule("get", f"r{number}", names=f"n{number}") for number in range(count)]
        found: list[int] = []
        spend = rbac_coverage._Held._spend

        def counting(held: Any, combinations: int) -> None:
            found.append(combinations)
            spend(held, combinations)

        with monkeypatch.context() as patched:
            patched.setattr(rbac_coverage._Held, "_spend", counting)
            assert uncovered(rules, rules) == []
        return sum(found)

    assert spent(2000) <= 2 * spent(1000)


def test_rules_that_overlap_in_too_many_ways_are_refused() -> None:
    values = [str(number) for number in range(60)]
    owned = [
        {**dict.fromkeys(("verbs", "apiGroups", "resources"), values), name: values[:at] + values[at + 1 :]}
        for name in ("verbs", "apiGroups", "resources")
        for at in range(60)
    ]
    with pytest.raises(TooManyCombinations):
        uncovered(owned, [dict.fromkeys(("verbs", "apiGroups", "resources"), values)])
