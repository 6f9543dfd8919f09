from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_fairlead.api import selectors

KEYS = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.sampled_from(["", "1", "2", "30", "x", "y"])
NUMBERS = st.sampled_from(["0", "1", "2", "29"])
REQUIREMENTS = st.one_of(
    st.builds("{}{}{}".format, KEYS, st.sampled_from(["=", "==", "!="]), VALUES),
    st.builds("{} {} ({},{})".format, KEYS, st.sampled_from(["in", "notin"]), VALUES, VALUES),
    st.builds("{}{}{}".format, KEYS, st.sampled_from(["<", ">"]), NUMBERS),
    st.builds("{}{}".format, st.sampled_from(["", "!"]), KEYS),
)
FIELD_REQUIREMENTS = st.builds("{}{}{}".format, KEYS, st.sampled_from(["=", "==", "!="]), VALUES)


class CountedLabels(dict[str, str]):
    """Labels that count how often a selector asks for one."""

    asked = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.asked += 1
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self.asked += 1
        return super().__getitem__(key)


@settings(max_examples=300, deadline=None)
@given(st.lists(REQUIREMENTS, max_size=6), st.dictionaries(KEYS, VALUES))
def test_the_compact_form_selects_the_same_labels(requirements: list[str], labels: dict[str, str]) -> None:
    matcher = selectors.parse_label_selector(",".join(requirements))
    assert selectors.CompactLabels(matcher).matches(labels) is matcher.matches(labels)


@settings(max_examples=300, deadline=None)
@given(st.lists(FIELD_REQUIREMENTS, max_size=6), st.dictionaries(KEYS, VALUES))
def test_the_compact_form_selects_the_same_fields(requirements: list[str], fields: dict[str, str]) -> None:
    matcher = selectors.parse_field_selector(",".join(requirements))
    assert selectors.CompactFields(matcher).matches(fields) is matcher.matches(fields)


def test_the_selector_of_nothing_stays_that() -> None:
    nothing, everything = (selectors.CompactLabels(one) for one in (selectors.NOTHING, selectors.EVERYTHING))
    assert not nothing.matches({})
    assert everything.matches({})
    assert nothing != everything


@pytest.mark.parametrize("form", ["k{}!=v", "!k{}", "k{} notin (v,w)", "a!=v{}", "n>{}", "n<1{:05}", "a notin (v{})"])
def test_matching_takes_as_long_as_the_object_has_labels(form: str) -> None:
    asked = set()
    for size in (1000, 2000):
        text = ",".join(form.format(number) for number in range(size))
        labels = CountedLabels({"a": "1", "b": "2", "n": "9999"})
        assert selectors.CompactLabels(selectors.parse_label_selector(text)).matches(labels)
        asked.add(labels.asked)
    assert asked <= {0, 1, 2, 3}


def test_a_selector_that_repeats_itself_is_one_requirement() -> None:
    assert str(selectors.parse_label_selector(",".join(["a!=b"] * 1000 + ["zz=1"]))) == "a!=b,zz=1"
    assert str(selectors.parse_field_selector(",".join(["a!=b"] * 1000 + ["zz=1"]))) == "a!=b,zz=1"


def test_two_selectors_of_one_meaning_are_filed_together() -> None:
    one, other = (selectors.CompactLabels(selectors.parse_label_selector(text)) for text in ("b=1,a=2", "a=2,b=1"))
    assert one == other
    assert hash(one) == hash(other)
    assert one != selectors.CompactLabels(selectors.parse_label_selector("a=2"))
