from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_fairlead.api.yamltext.emitter import write, write_all
from kube_fairlead.api.yamltext.parser import read

_TEXT = st.one_of(
    st.text(max_size=20),
    st.text("yYnNoOeEtTfF~.0123456789+-_:xXbB", max_size=6),
    st.sampled_from(["y", "N", "on", "1e3", "0o7", "0777", ".5", "1:1", "<<", "", " ", "null", "2026-01-01", "- a"]),
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), _TEXT),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
@settings(max_examples=300, deadline=None)
def test_what_is_written_is_what_is_read(value: Any) -> None:
    assert read(write(value)) == value


@pytest.mark.parametrize("text", ["y", "n", "1e3", "0o7", "08", ".7_3"])
def test_text_that_only_kubernetes_takes_for_something_else_has_quotes(text: str) -> None:
    assert write({"a": text}) == f"a: '{text}'\n"


def test_forms() -> None:
    shared = {"b": "ä"}
    assert write({"z": shared, "a": [shared, 1.5]}) == "z:\n  b: ä\na:\n- b: ä\n- 1.5\n"
    assert write({"z": 1, "a": 2}, sort_keys=True) == "a: 2\nz: 1\n"
    assert write_all([{"a": 1}, {"b": 2}]) == "a: 1\n---\nb: 2\n"
