from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.patch.apply import elements, fieldset
from kube_fairlead_apiserver.patch.apply.elements import MalformedFieldsError
from kube_fairlead_apiserver.patch.apply.fieldset import FieldSet

ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "i:0"])
PATHS = st.frozensets(st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple), max_size=8)


def make(paths: Any) -> FieldSet:
    """The set of these paths, built the plain way."""
    root: dict[str, Any] = {}
    for path in sorted(paths):
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}

    def tidy(node: dict[str, Any]) -> dict[str, Any]:
        below = {key: tidy(value) for key, value in node.items() if key != "."}
        return {".": {}, **below} if "." in node and below else below

    return tidy(root)


def paths_of(fields: FieldSet) -> frozenset[tuple[str, ...]]:
    found = list(fieldset.paths(fields))
    assert len(found) == len(set(found))
    return frozenset(found)


@given(PATHS)
def test_round_trip(paths: frozenset[tuple[str, ...]]) -> None:
    fields = make(paths)
    assert paths_of(fields) == paths
    assert fieldset.parse(fields) == fields
    assert all(fieldset.has(fields, path) for path in paths)


@given(PATHS, PATHS)
def test_algebra_is_that_of_sets(left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]) -> None:
    one, other = make(left), make(right)
    assert fieldset.union(one, other) == make(left | right)
    assert fieldset.intersection(one, other) == make(left & right)
    assert fieldset.difference(one, other) == make(left - right)
    assert fieldset.is_subset(one, other) == (left <= right)
    below = {path for path in left if any(path[: len(prefix)] == prefix for prefix in right)}
    assert fieldset.recursive_difference(one, other) == make(left - below)
    assert (one, other) == (make(left), make(right))


@given(PATHS, PATHS)
def test_what_does_not_change_is_shared(left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]) -> None:
    one = make(left)
    assert fieldset.difference(one, make(right - left)) is one
    assert fieldset.union(one, make(left & right)) is one or not left


def test_has() -> None:
    fields: FieldSet = {"f:a": {"f:b": {}}, "f:c": {".": {}, "f:d": {}}}
    assert not fieldset.has(fields, ())
    assert not fieldset.has(fields, ("f:a",))
    assert fieldset.has(fields, ("f:a", "f:b"))
    assert not fieldset.has(fields, ("f:a", "f:b", "f:c"))
    assert fieldset.has(fields, ("f:c",))


def test_paths_come_members_first() -> None:
    fields: FieldSet = {"f:b": {".": {}, "f:c": {}}, "f:a": {"f:z": {}}, "f:d": {}}
    assert list(fieldset.paths(fields)) == [("f:b",), ("f:d",), ("f:a", "f:z"), ("f:b", "f:c")]


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (None, {}),
        ({}, {}),
        ({".": {}}, {}),
        ({"f:a": {".": {}}}, {"f:a": {}}),
        ({"f:a": None}, {"f:a": {}}),
        ({"x:future": {}, "f:a": {"x:future": {}}}, {"f:a": {}}),
        ({'k:{ "b": 2, "a": "<" }': {}}, {'k:{"a":"\\u003c","b":2}': {}}),
        ({"v:80.0": {}, "i:007": {}}, {"v:80": {}, "i:7": {}}),
    ],
)
def test_parse_makes_canonical(sent: Any, read: Any) -> None:
    assert fieldset.parse(sent) == read


@pytest.mark.parametrize("sent", [[], {"f": {}}, {"fa": {}}, {"k:{": {}}, {"k:1": {}}, {"i:x": {}}, {"v:": {}}])
def test_malformed(sent: Any) -> None:
    with pytest.raises(MalformedFieldsError):
        fieldset.parse(sent)


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ("f:spec", ".spec"),
        ('k:{"port":80,"protocol":"TCP"}', '[port=80,protocol="TCP"]'),
        ('v:"a\\"b"', '[="a\\"b"]'),
        ("v:true", "[=true]"),
        ("v:1.5", "[=1.5]"),
        ("i:3", "[3]"),
    ],
)
def test_describe(element: str, text: str) -> None:
    assert elements.describe(element) == text


@given(st.lists(PATHS, max_size=5))
def test_union_of_many(every: list[frozenset[tuple[str, ...]]]) -> None:
    assert fieldset.union_all([make(paths) for paths in every]) == make(frozenset().union(*every))


@pytest.mark.parametrize("operation", [fieldset.difference, fieldset.recursive_difference])
def test_a_few_fields_are_not_compared_with_all_of_many(operation: Callable[[FieldSet, FieldSet], FieldSet]) -> None:
    class Counted(dict[str, Any]):
        looks = 0

        def __contains__(self, key: object) -> bool:
            self.looks += 1
            return super().__contains__(key)

        def __iter__(self) -> Iterator[str]:
            self.looks += len(self)
            return super().__iter__()

        def items(self) -> Any:
            self.looks += len(self)
            return super().items()

    many = Counted({f"f:{number}": {} for number in range(1000)})
    assert operation({"f:7": {}, "f:x": {}}, many) == {"f:x": {}}
    assert many.looks == 2
