from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.client.objects import Key, key_of
from kube_fairlead.client.store import Store

Object = dict[str, Any]


def item(name: str, namespace: str = "", *colors: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "colors": list(colors)}


def colored() -> Store[Object]:
    return Store({"color": lambda found: found["colors"]})


def test_objects_by_key_and_namespace() -> None:
    store = colored()
    for one in (item("a", "x"), item("a", "y"), item("node")):
        store.put(one)
    assert store.get("a", "x") == item("a", "x")
    assert store.get("node") == item("node")
    assert store.get("a") is None
    assert store.by_key(Key("y", "a")) == item("a", "y")
    assert store.select(namespace="x") == [item("a", "x")]
    assert store.select(where=lambda found: found["metadata"]["name"] == "a") == [item("a", "x"), item("a", "y")]
    assert store.keys() == [Key("x", "a"), Key("y", "a"), Key("", "node")]
    assert Key("x", "a") in store
    assert str(Key("x", "a")) == "x/a"
    assert str(Key("", "node")) == "node"


def test_what_is_replaced_or_removed_is_given_back() -> None:
    store = colored()
    assert store.put(item("a", "", "red")) is None
    assert store.put(item("a", "", "blue")) == item("a", "", "red")
    assert store.by_index("color", "red") == []
    assert store.remove(Key("", "a")) == item("a", "", "blue")
    assert store.remove(Key("", "a")) is None
    assert len(store) == 0


def test_an_index_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        colored().by_index("size", "big")


def test_a_walk_over_the_store_may_change_it() -> None:
    store = colored()
    for name in "abc":
        store.put(item(name))
    for one in store:
        store.remove(key_of(one))
    assert len(store) == 0


NAMES = st.sampled_from("abc")
COLORS = st.lists(st.sampled_from(["red", "green"]), max_size=2)


@given(st.lists(st.tuples(st.booleans(), NAMES, COLORS), max_size=30))
def test_indexes_say_the_same_as_a_search(steps: list[tuple[bool, str, list[str]]]) -> None:
    store = colored()
    for put, name, colors in steps:
        if put:
            store.put(item(name, "", *colors))
        else:
            store.remove(Key("", name))
    for color in ("red", "green"):
        by_index = sorted(found["metadata"]["name"] for found in store.by_index("color", color))
        by_search = sorted(found["metadata"]["name"] for found in store if color in found["colors"])
        assert by_index == by_search
