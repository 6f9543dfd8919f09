from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import selectors

LABELS = {"app": "web", "tier": "a", "n": "10", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("missing!=x", True),
        ("missing=", False),
        ("empty=", True),
        ("tier in (a,b)", True),
        ("tier notin (a,b)", False),
        ("missing notin (a)", True),
        ("missing in (a)", False),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("!app", False),
        ("n>9", True),
        ("n>10", False),
        ("n<11", True),
        ("app>1", False),
        ("missing<5", False),
        ("app=web,tier in (a),!missing", True),
        ("app=web,tier=b", False),
    ],
)
def test_label_matching(selector: str, *, matches: bool) -> None:
    assert selectors.parse_label_selector(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_label_selector_objects(selector: dict[str, Any] | None, *, matches: bool) -> None:
    assert selectors.label_selector_from(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "Gt"}]}, '"Gt" is not a valid label selector operator'),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]},
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        ),
    ],
)
def test_label_selector_objects_refused(selector: dict[str, Any], message: str) -> None:
    with pytest.raises(selectors.SelectorError) as caught:
        selectors.label_selector_from(selector)
    assert str(caught.value) == message


def test_matchers_tell_what_they_demand() -> None:
    labels = selectors.parse_label_selector("app=web,tier in (a,b)")
    assert (labels.exact("app"), labels.exact("tier"), labels.exact("x")) == ("web", None, None)
    assert selectors.EVERYTHING.empty
    assert not selectors.NOTHING.empty
    assert not selectors.NOTHING.matches({})
    fields = selectors.parse_field_selector("spec.nodeName=a,status.phase!=Running")
    assert (fields.exact("spec.nodeName"), fields.exact("status.phase")) == ("a", None)
    assert selectors.EVERYTHING.matches(None)


def test_field_matching() -> None:
    matcher = selectors.parse_field_selector("spec.nodeName=a,status.phase!=Running")
    assert matcher.matches({"spec.nodeName": "a", "status.phase": "Pending"})
    assert not matcher.matches({"spec.nodeName": "a", "status.phase": "Running"})
    assert not matcher.matches({"status.phase": "Pending"})
    assert selectors.parse_field_selector("spec.nodeName=").matches({})
    assert selectors.parse_field_selector("").empty


def test_field_transform() -> None:
    matcher = selectors.parse_field_selector("name=a,old=b")
    changed = matcher.transform(lambda field, value: ("", "") if field == "old" else (f"metadata.{field}", value))
    assert str(changed) == "metadata.name=a"
