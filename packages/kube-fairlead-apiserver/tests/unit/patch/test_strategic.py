from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api import errors
from kube_fairlead_apiserver.patch import strategic
from kube_fairlead_apiserver.patch.strategic import apply_strategic_merge_patch
from kube_fairlead_apiserver.schema.model import compile_schema

STRING = {"type": "string"}
KEYED_LIST = {
    "type": "array",
    "x-kubernetes-patch-strategy": "merge",
    "x-kubernetes-patch-merge-key": "name",
    "items": {
        "type": "object",
        "properties": {
            "name": STRING,
            "value": STRING,
            "image": STRING,
            "args": {"type": "array", "items": STRING},
            "source": {"type": "object", "properties": {"a": STRING, "b": STRING}},
        },
    },
}
NODE = compile_schema(
    {
        "type": "object",
        "properties": {
            "scalar": STRING,
            "labels": {"type": "object", "additionalProperties": STRING},
            "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace", "properties": {"a": STRING}},
            "containers": KEYED_LIST,
            "volumes": KEYED_LIST | {"x-kubernetes-patch-strategy": "merge,retainKeys"},
            "finalizers": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": STRING},
            "args": {"type": "array", "items": STRING},
            "strategy": {
                "type": "object",
                "x-kubernetes-patch-strategy": "retainKeys",
                "properties": {"type": STRING, "rollingUpdate": {"type": "object"}},
            },
            "broken": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": {"type": "object"}},
        },
    }
)


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


CASES: dict[str, tuple[Any, Any, Any]] = {
    "scalars replace": ({"scalar": "a"}, {"scalar": "b"}, {"scalar": "b"}),
    "null deletes": ({"scalar": "a"}, {"scalar": None, "labels": None}, {}),
    "maps merge": (
        {"labels": {"a": "1", "b": "2"}},
        {"labels": {"b": None, "c": "3"}},
        {"labels": {"a": "1", "c": "3"}},
    ),
    "a map with strategy replace replaces": (
        {"whole": {"a": "1", "b": "2"}},
        {"whole": {"c": "3"}},
        {"whole": {"c": "3"}},
    ),
    "$patch replace": ({"labels": {"a": "1"}}, {"labels": {"$patch": "replace", "b": "2"}}, {"labels": {"b": "2"}}),
    "$patch delete": ({"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}),
    "$patch delete of nothing": ({}, {"labels": {"$patch": "delete"}}, {}),
    "lists without strategy replace": ({"args": ["a", "b"]}, {"args": ["c"]}, {"args": ["c"]}),
    "primitive lists merge": (
        {"finalizers": ["a", "b"]},
        {"finalizers": ["b", "c"]},
        {"finalizers": ["a", "b", "c"]},
    ),
    "$deleteFromPrimitiveList": (
        {"finalizers": ["a", "b", "c"]},
        {"$deleteFromPrimitiveList/finalizers": ["a", "x"]},
        {"finalizers": ["b", "c"]},
    ),
    "$deleteFromPrimitiveList beside an addition": (
        {"finalizers": ["a", "b"]},
        {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]},
        {"finalizers": ["c", "b"]},
    ),
    "$deleteFromPrimitiveList of nothing": ({}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {}),
    "$setElementOrder of primitives": (
        {"finalizers": ["a", "b"]},
        {"$setElementOrder/finalizers": ["c", "b", "a"], "finalizers": ["c"]},
        {"finalizers": ["c", "b", "a"]},
    ),
    "keyed items merge": (
        {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}]},
        {"containers": [{"name": "a", "image": "2"}]},
        {"containers": [{"name": "a", "image": "2", "args": ["x"]}, {"name": "b"}]},
    ),
    "a new keyed item loses its nulls": (
        {"containers": named("a")},
        {"containers": [{"name": "b", "image": None, "source": {"a": None}}]},
        {"containers": [{"name": "b", "source": {}}, {"name": "a"}]},
    ),
    "keyed items are deleted": (
        {"containers": named("a", "b", "c")},
        {"containers": [{"name": "b", "$patch": "delete"}]},
        {"containers": named("a", "c")},
    ),
    "a keyed item is replaced": (
        {"containers": [{"name": "a", "image": "1", "value": "2"}]},
        {"containers": [{"name": "a", "$patch": "delete"}, {"name": "a", "image": "3"}]},
        {"containers": [{"name": "a", "image": "3"}]},
    ),
    "a keyed list is replaced": (
        {"containers": named("a", "b")},
        {"containers": [{"name": "c"}, {"$patch": "replace"}]},
        {"containers": named("c")},
    ),
    "a list replaced by nothing": (
        {"containers": named("a")},
        {"containers": [{"$patch": "replace"}]},
        {"containers": []},
    ),
    "$setElementOrder alone reorders": (
        {"containers": named("a", "b", "c")},
        {"$setElementOrder/containers": named("c", "a")},
        {"containers": named("b", "c", "a")},
    ),
    "$setElementOrder with changes": (
        {"containers": [{"name": "a", "image": "1"}, {"name": "server"}, {"name": "b"}]},
        {
            "$setElementOrder/containers": named("new", "b", "a"),
            "containers": [{"name": "new"}, {"name": "a", "image": "2"}],
        },
        {"containers": [{"name": "new"}, {"name": "server"}, {"name": "b"}, {"name": "a", "image": "2"}]},
    ),
    "$setElementOrder with a deletion": (
        {"containers": named("a", "b")},
        {"$setElementOrder/containers": named("b"), "containers": [{"name": "a", "$patch": "delete"}]},
        {"containers": named("b")},
    ),
    "$setElementOrder for a new list": (
        {},
        {"$setElementOrder/containers": named("a", "b"), "containers": named("a", "b")},
        {"containers": named("a", "b")},
    ),
    "$setElementOrder for nothing": ({}, {"$setElementOrder/containers": named("a")}, {}),
    "$retainKeys": (
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        {"strategy": {"type": "Recreate"}},
    ),
    "$retainKeys in a list item": (
        {"volumes": [{"name": "v", "source": {"a": "1"}}]},
        {"volumes": [{"name": "v", "$retainKeys": ["name", "value"], "value": "x"}]},
        {"volumes": [{"name": "v", "value": "x"}]},
    ),
    "directives in what is new vanish": (
        {},
        {
            "labels": {"a": "1", "$retainKeys": ["a"]},
            "containers": [{"name": "a", "$patch": "delete"}, {"name": "b"}],
            "strategy": {"$setElementOrder/x": []},
        },
        {"labels": {"a": "1"}, "containers": named("b"), "strategy": {}},
    ),
    "types that differ replace": ({"labels": {"a": "1"}}, {"labels": ["x"]}, {"labels": ["x"]}),
    "unknown fields merge as maps": ({"other": {"a": 1}}, {"other": {"b": 2}}, {"other": {"a": 1, "b": 2}}),
    "empty lists": ({"containers": []}, {"containers": []}, {"containers": []}),
}


@pytest.mark.parametrize("name", CASES)
def test_apply(name: str) -> None:
    document, patch, result = CASES[name]
    before = copy.deepcopy((document, patch))
    assert apply_strategic_merge_patch(NODE, document, patch) == result
    assert (document, patch) == before


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ([], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ({"labels": {"$patch": "merge"}}, "unknown patch type: merge in map: map[$patch:merge]"),
        ({"containers": [{"image": "x"}]}, "map: map[image:x] does not contain declared merge key: name"),
        ({"containers": [{"$patch": "merge"}]}, "merging lists cannot yet be specified in the patch"),
        (
            {"containers": [{"name": "a", "$patch": "x"}]},
            "unknown patch type: x in map: map[$patch:x name:a]",
        ),
        ({"containers": ["x"]}, "list element types are not identical: [[map[name:a]] [x]]"),
        ({"broken": [{"a": 1}]}, "cannot merge lists without merge key for struct"),
        ({"strategy": {"$retainKeys": "type"}}, "invalid patch format of retainKeys"),
        ({"strategy": {"$retainKeys": ["type"], "x": 1}}, "invalid patch format of retainKeys"),
        ({"$setElementOrder/containers": {}}, "invalid patch format of setElementOrder list"),
        ({"$setElementOrder": []}, "invalid patch format of setElementOrder list"),
        ({"$deleteFromPrimitiveList": []}, "invalid patch format of primitive list"),
        ({"$deleteFromPrimitiveList/containers": []}, "invalid patch format of primitive list"),
        ({"$setElementOrder/labels": []}, "expected a []interface {}, but received a map[string]interface {}"),
        (
            {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "c"}]},
            "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
    ],
)
def test_malformed(patch: Any, message: str) -> None:
    document = {"containers": named("a"), "labels": {"a": "1"}, "broken": [{"a": 1}], "strategy": {}}
    with pytest.raises(errors.BadRequest) as caught:
        apply_strategic_merge_patch(NODE, document, patch)
    assert caught.value.message == message


def test_lists_of_lists_are_unprocessable() -> None:
    with pytest.raises(errors.Invalid):
        apply_strategic_merge_patch(NODE, {"finalizers": ["a"]}, {"finalizers": [["a"]]})


def test_depth_is_bounded() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"labels": deep}
    with pytest.raises(errors.BadRequest, match="exceeded max depth"):
        apply_strategic_merge_patch(NODE, {}, deep)


NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@given(NAMES, NAMES)
def test_the_client_order_wins_and_the_server_order_stays(server: list[str], client: list[str]) -> None:
    merged = apply_strategic_merge_patch(
        NODE,
        {"containers": named(*server)},
        {"$setElementOrder/containers": named(*client), "containers": named(*client)},
    )
    names = [item["name"] for item in merged["containers"]]
    assert sorted(names) == sorted({*server, *client})
    assert [name for name in names if name in client] == client
    assert [name for name in names if name not in client] == [name for name in server if name not in client]


def test_many_deletions_from_a_long_list_look_at_each_item_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_at(count: int) -> int:
        looks = 0

        def counting(item: Any, merge_key: str) -> Any:
            nonlocal looks
            looks += 1
            return key(item, merge_key)

        original = named(*(f"n{number}" for number in range(count)))
        patch = [{"name": f"n{number}", "$patch": "delete"} for number in range(1, 2 * count)]
        with monkeypatch.context() as patched:
            key = strategic._key
            patched.setattr(strategic, "_key", counting)
            assert apply_strategic_merge_patch(NODE, {"containers": original}, {"containers": patch}) == {
                "containers": named("n0")
            }
        return looks

    assert looked_at(200) <= 2 * looked_at(100)


def test_many_keys_to_retain_are_looked_up() -> None:
    def compared(count: int) -> int:
        comparisons = 0

        class Counted(str):
            __slots__ = ()
            __hash__ = str.__hash__

            def __eq__(self, other: object) -> bool:
                nonlocal comparisons
                comparisons += 1
                return str(self) == other

        values = {str(number): "x" for number in range(count)}
        patch = {"$retainKeys": [Counted(number) for number in range(count)], **values}
        assert apply_strategic_merge_patch(NODE, {"labels": values}, {"labels": patch}) == {"labels": values}
        return comparisons

    assert compared(200) <= 3 * compared(100)  # some of the hashes are alike


def test_one_item_is_changed_a_few_times_only() -> None:
    changes = [{"name": "a", "value": str(number)} for number in range(strategic.MAX_REPEATED)]
    before = {"containers": named("a")}
    assert apply_strategic_merge_patch(NODE, before, {"containers": changes}) == {"containers": changes[-1:]}
    with pytest.raises(errors.BadRequest, match="more than 16 changes of one item: a"):
        apply_strategic_merge_patch(NODE, before, {"containers": [*changes, {"name": "a"}]})
