from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api import errors
from kube_fairlead_apiserver.patch.merge_patch import apply_merge_patch


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        # RFC 7386, appendix A, as far as both are objects
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
        ({"a": 1}, {"a": {}}, {"a": {}}),
        # Kubernetes drops nulls of objects inside a new list
        ({}, {"a": [{"b": None, "c": 1}, None]}, {"a": [{"c": 1}, None]}),
        ({"a": {"x": 1}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
    ],
)
def test_apply(document: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((document, patch))
    assert apply_merge_patch(document, patch) == result
    assert (document, patch) == before


@pytest.mark.parametrize(("patch", "kind"), [([], "array"), (None, "null"), ("x", "string"), (1.5, "number")])
def test_a_patch_must_be_an_object(patch: Any, kind: str) -> None:
    with pytest.raises(errors.BadRequest) as caught:
        apply_merge_patch({}, patch)
    assert caught.value.message == (
        f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    )


def test_untouched_parts_are_shared_and_a_no_op_is_the_document() -> None:
    document = {"a": {"b": {"c": 1}}, "d": {"e": 2}}
    assert apply_merge_patch(document, {}) is document
    assert apply_merge_patch(document, {"a": {"b": {}}, "x": None}) is document
    assert apply_merge_patch(document, {"a": {"z": 1}})["d"] is document["d"]


def test_depth_is_bounded() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(errors.BadRequest, match="exceeded max depth"):
        apply_merge_patch({}, deep)


OBJECTS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 3), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | st.integers(0, 3) | st.none(), max_size=3),
    max_leaves=6,
)


@given(OBJECTS, OBJECTS)
def test_applying_twice_is_applying_once(document: dict[str, Any], patch: dict[str, Any]) -> None:
    once = apply_merge_patch(document, patch)
    assert apply_merge_patch(once, patch) == once
