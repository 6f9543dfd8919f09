from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api import errors
from kube_fairlead_apiserver.patch import json_patch

GENERIC = "the server rejected our request due to an error in our request"


def op(kind: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": kind, "path": path} | {name.rstrip("_"): value for name, value in rest.items()}


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        # RFC 6902, appendix A
        ({"foo": "bar"}, [op("add", "/baz", value="qux")], {"baz": "qux", "foo": "bar"}),
        ({"foo": ["bar", "baz"]}, [op("add", "/foo/1", value="qux")], {"foo": ["bar", "qux", "baz"]}),
        ({"baz": "qux", "foo": "bar"}, [op("remove", "/baz")], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [op("remove", "/foo/1")], {"foo": ["bar", "baz"]}),
        ({"baz": "qux", "foo": "bar"}, [op("replace", "/baz", value="boo")], {"baz": "boo", "foo": "bar"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [op("move", "/qux/thud", from_="/foo/waldo")],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        (
            {"foo": ["all", "grass", "cows", "eat"]},
            [op("move", "/foo/3", from_="/foo/1")],
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        (
            {"baz": "qux", "foo": ["a", 2, "c"]},
            [op("test", "/baz", value="qux"), op("test", "/foo/1", value=2)],
            {"baz": "qux", "foo": ["a", 2, "c"]},
        ),
        ({"foo": "bar"}, [op("add", "/child", value={"grandchild": {}})], {"foo": "bar", "child": {"grandchild": {}}}),
        ({"/": 9, "~1": 10}, [op("test", "/~01", value=10)], {"/": 9, "~1": 10}),
        ({"foo": ["bar"]}, [op("add", "/foo/-", value=["abc", "def"])], {"foo": ["bar", ["abc", "def"]]}),
        ({"foo": None}, [op("test", "/foo", value=None)], {"foo": None}),
        ({"a": {"b": 1}}, [op("copy", "/c", from_="/a"), op("add", "/c/b", value=2)], {"a": {"b": 1}, "c": {"b": 2}}),
        ({"a": 1}, [op("replace", "", value={"b": 2}), op("add", "/c", value=3)], {"b": 2, "c": 3}),
        ({"a": 1}, [op("test", "", value={"a": 1})], {"a": 1}),
        # Where Kubernetes is more lenient than the RFC
        ({}, [op("replace", "/a", value=1)], {"a": 1}),
        ({"a": [1, 2, 3]}, [op("remove", "/a/-1")], {"a": [1, 2]}),
        ({"a": [1, 2, 3]}, [op("add", "/a/-1", value=4)], {"a": [1, 2, 3, 4]}),
        ({}, [op("test", "/a", value=None)], {}),
        ({}, [op("add", "a/b", value=1)], {"b": 1}),
        ({}, [op("add", "/a")], {"a": None}),
    ],
)
def test_apply(document: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((document, patch))
    assert json_patch.apply_json_patch(document, patch) == result
    assert (document, patch) == before


@pytest.mark.parametrize(
    ("patch", "detail"),
    [
        ([op("test", "/a", value=2)], "testing value /a failed: test failed"),
        ([op("test", "/a", value=True)], "testing value /a failed: test failed"),
        ([op("test", "/a", value=None)], "testing value /a failed: test failed"),
        ([op("test", "/x/y", value=1)], 'doc is missing path: "/x/y"'),
        ([op("add", "/x/y", value=1)], 'add operation does not apply: doc is missing path: "/x/y": missing value'),
        ([op("add", "", value={})], 'doc is missing path: ""'),
        ([op("add", "/a/b", value=1)], 'doc is missing path: "/a/b"'),
        ([op("add", "/list/5", value=1)], "Unable to access invalid index: 5"),
        ([op("add", "/list/x", value=1)], "value was not a proper array index: 'x'"),
        ([op("remove", "/list/-")], "value was not a proper array index: '-'"),
        ([op("remove", "/x")], "Unable to remove nonexistent key: x"),
        ([op("replace", "/list/2", value=1)], "Unable to access invalid index: 2"),
        ([op("replace", "", value=1)], "must be object or array"),
        ([op("move", "/b", from_="/x")], "Unable to remove nonexistent key: x"),
        ([op("move", "/map/b/c", from_="/map")], 'doc is missing path: "/map/b/c"'),
        ([op("copy", "/b")], "copy operation failed to decode from"),
        ([{"op": "add", "value": 1}], "add operation failed to decode path"),
        ([{"path": "/a"}], "Unexpected kind: unknown"),
        ([op("increment", "/a")], "Unexpected kind: increment"),
    ],
)
def test_inapplicable(patch: Any, detail: str) -> None:
    with pytest.raises(errors.Invalid) as caught:
        json_patch.apply_json_patch({"a": 1, "list": [1, 2], "map": {}}, patch)
    assert caught.value.message == GENERIC
    assert detail in caught.value.causes[0]["message"]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({}, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (None, "cannot unmarshal null into Go value"),
        ([1], "cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], "cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ],
)
def test_undecodable(patch: Any, message: str) -> None:
    with pytest.raises(errors.BadRequest, match=r"^error decoding patch: json: ") as caught:
        json_patch.apply_json_patch({}, patch)
    assert message in caught.value.message


def test_a_failing_operation_changes_nothing() -> None:
    document = {"a": [1]}
    with pytest.raises(errors.Invalid):
        json_patch.apply_json_patch(document, [op("add", "/a/0", value=0), op("test", "/a/0", value=9)])
    assert document == {"a": [1]}


def test_untouched_parts_are_shared() -> None:
    document = {"spec": {"a": 1}, "status": {"b": 2}}
    result = json_patch.apply_json_patch(document, [op("add", "/spec/a", value=2)])
    assert result["status"] is document["status"]


def test_too_many_operations() -> None:
    with pytest.raises(errors.RequestEntityTooLarge) as caught:
        json_patch.apply_json_patch({}, [op("test", "/a")] * 10_001)
    assert caught.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_copies_that_double_are_stopped() -> None:
    grow = [op("copy", f"/{n + 1}", from_=f"/{n}") for n in range(5)]
    double = [
        operation for n in range(30) for operation in (op("copy", "/0/x", from_="/0"), op("copy", "/0/y", from_="/0"))
    ]
    assert json_patch.apply_json_patch({"0": {"a": 1}}, grow)["5"] == {"a": 1}
    with pytest.raises(errors.Invalid) as caught:
        json_patch.apply_json_patch({"0": {"a": "x" * 1000}}, double)
    assert "the accumulated size increase of copy is" in caught.value.causes[0]["message"]


def test_depth_is_bounded() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(errors.BadRequest, match="exceeded max depth"):
        json_patch.apply_json_patch({}, [op("add", "/x", value=deep)])
    with pytest.raises(errors.BadRequest, match="exceeded max depth"):
        json_patch.apply_json_patch({}, [op("add", "/x", value=deep), op("copy", "/y", from_="/x")])
    nest = [op("add", "/a" * (n + 1), value={}) for n in range(400)]
    with pytest.raises(errors.BadRequest, match="exceeded max depth"):
        json_patch.apply_json_patch({}, nest)


def test_unknown_fields_of_operations() -> None:
    patch = [op("add", "/a", value=1), op("add", "/a", value=1, valeu=2)]
    assert json_patch.unknown_operation_fields(patch) == ['json patch unknown field "[1].valeu"']


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("ab/~", max_size=2), JSON, max_size=3), st.text("ab/~", max_size=3), JSON)
def test_add_then_test_then_remove_restores(document: dict[str, Any], key: str, value: Any) -> None:
    pointer = "/" + key.replace("~", "~0").replace("/", "~1")
    before = copy.deepcopy(document)
    added = json_patch.apply_json_patch(document, [op("add", pointer, value=value), op("test", pointer, value=value)])
    assert added == {**before, key: value}
    assert json_patch.apply_json_patch(added, [op("remove", pointer)]) == {
        name: old for name, old in before.items() if name != key
    }
    assert document == before


def test_copies_of_text_count() -> None:
    # A thousand copies of a megabyte take no memory in Python, and a gigabyte when they are written.
    document = {"a": "x" * 1_000_000}
    copies = [{"op": "copy", "from": "/a", "path": f"/a{n}"} for n in range(4)]
    assert len(json_patch.apply_json_patch(document, copies[:3])) == 4
    with pytest.raises(errors.Invalid) as caught:
        json_patch.apply_json_patch(document, copies)
    assert "exceeding the limit" in (caught.value.details or {})["causes"][0]["message"]
