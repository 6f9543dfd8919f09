from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kube_fairlead_apiserver.crd.conditions import find_condition
from kube_fairlead_apiserver.crd.naming import accept_names, decide_names

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(hours=1)
NAMES = {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList", "shortNames": ["fo", "f"]}


def _crd(group: str = "example.com", **names: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": {"group": group, "names": {**NAMES, **names}}}


def _accepted(**names: Any) -> dict[str, Any]:
    crd = _crd(**names)
    accept_names(crd, [], NOW)
    return crd


def test_free_names_are_accepted_and_the_crd_is_established() -> None:
    crd = _accepted()
    assert crd["status"]["acceptedNames"] == NAMES
    assert crd["status"]["conditions"] == [
        {
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "type": "NamesAccepted",
            "status": "True",
            "reason": "NoConflicts",
            "message": "no conflicts found",
        },
        {
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    assert not accept_names(crd, [], LATER)


@pytest.mark.parametrize(
    ("other", "reason", "message"),
    [
        ({"plural": "foo"}, "SingularConflict", '"foo" is already in use'),
        ({"plural": "x", "singular": "foos"}, "PluralConflict", '"foos" is already in use'),
        ({"plural": "f", "singular": "fo"}, "ShortNamesConflict", '["fo" is already in use, "f" is already in use]'),
        ({"kind": "FooList"}, "ListKindConflict", '"FooList" is already in use'),
        ({"listKind": "Foo"}, "KindConflict", '"Foo" is already in use'),
    ],
)
def test_a_taken_name_is_refused_with_the_last_conflict(other: dict[str, str], reason: str, message: str) -> None:
    base = {"plural": "bars", "singular": "bar", "kind": "Bar", "listKind": "BarList", "shortNames": []}
    holder = _accepted(**{**base, **other})
    crd = _crd()
    accept_names(crd, [holder], NOW)
    names = find_condition(crd, "NamesAccepted")
    established = find_condition(crd, "Established")
    assert names is not None
    assert (names["status"], names["reason"], names["message"]) == ("False", reason, message)
    assert established is not None
    assert (established["status"], established["reason"]) == ("False", "NotAccepted")
    assert established["message"] == "not all names are accepted"


def test_a_name_in_another_group_does_not_conflict() -> None:
    other = _crd("other.com")
    accept_names(other, [], NOW)
    names, verdict, established = decide_names(_crd(), [other])
    assert names == NAMES
    assert verdict["status"] == "True"
    assert (established["status"], established["reason"]) == ("False", "Installing")


def test_a_freed_name_goes_to_the_one_who_waits() -> None:
    first, second = _accepted(), _crd(plural="others", singular="other", shortNames=[], listKind="OtherList")
    accept_names(second, [first], NOW)
    assert second["status"]["acceptedNames"] == {"plural": "others", "singular": "other", "listKind": "OtherList"}
    assert accept_names(second, [], LATER)
    assert second["status"]["acceptedNames"]["kind"] == "Foo"
    accepted = find_condition(second, "NamesAccepted")
    assert accepted is not None
    assert accepted["lastTransitionTime"] == "2026-01-01T01:00:00Z"


def test_an_established_crd_keeps_its_names_and_stays_established() -> None:
    crd = _accepted()
    crd["spec"]["names"] = {**NAMES, "singular": "bar", "shortNames": ["f", "g"], "categories": ["all"]}
    taken = _accepted(plural="bars", singular="bar", kind="Bar", listKind="BarList", shortNames=[])
    accept_names(crd, [taken], LATER)
    assert crd["status"]["acceptedNames"] == {**NAMES, "shortNames": ["f", "g"], "categories": ["all"]}
    names, established = find_condition(crd, "NamesAccepted"), find_condition(crd, "Established")
    assert names is not None
    assert established is not None
    assert (names["status"], established["status"]) == ("False", "True")
