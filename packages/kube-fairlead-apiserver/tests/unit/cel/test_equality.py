from __future__ import annotations

import copy
import random
from typing import Any

import hypothesis
from hypothesis import strategies as st

from kube_fairlead_apiserver.cel import equality, values
from kube_fairlead_apiserver.schema import expression_types, model

_SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.0, 1.0, 2.5]) | st.text("ab", max_size=2)
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)
)


@hypothesis.given(_JSON, _JSON)
def test_equality_is_symmetric_and_reflexive(left: Any, right: Any) -> None:
    assert equality.equals(left, copy.deepcopy(left))
    assert equality.equals(left, right) == equality.equals(right, left)


@hypothesis.given(st.integers(-(2**63), 2**63 - 1))
def test_a_number_equals_itself_in_any_type(number: int) -> None:
    assert equality.equals(number, float(number))
    if number >= 0:
        assert equality.equals(values.Uint(number), number)
    assert not equality.equals(number, str(number))
    assert not equality.equals(True, 1)


@hypothesis.given(st.lists(st.integers(-3, 3)), st.lists(st.integers(-3, 3)))
def test_order_and_equality_agree(left: list[int], right: list[int]) -> None:
    for one, other in zip(left, right, strict=False):
        assert (equality.compare(one, float(other)) == 0) == equality.equals(one, other)
        assert equality.compare(one, other) == -equality.compare(other, one)


_NODE = model.compile_schema(
    {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "when": {"type": "string", "format": "date-time"},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {
                    "type": "object",
                    "properties": {
                        "port": {"type": "integer"},
                        "protocol": {"type": "string"},
                        "name": {"type": "string"},
                    },
                },
            },
        },
    }
)
_PORT: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"port": st.integers(1, 3), "protocol": st.sampled_from(["TCP", "UDP"]), "name": st.text("ab")}
)


def _port_key(port: dict[str, Any]) -> tuple[Any, Any]:
    return port["port"], port["protocol"]


_PORTS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(_PORT, unique_by=_port_key)
_OBJECT: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "tags": st.lists(st.sampled_from("abcd"), unique=True),
        "when": st.sampled_from(["2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00"]),
        "ports": _PORTS,
    }
)


@hypothesis.given(_OBJECT, st.randoms(use_true_random=False))
def test_objects_compare_by_their_schema(subject: dict[str, Any], shuffler: random.Random) -> None:
    same = equality.equality_for(expression_types.from_schema(_NODE))
    assert same is not None
    other = copy.deepcopy(subject)
    shuffler.shuffle(other["tags"])
    shuffler.shuffle(other["ports"])
    other["when"] = "2020-01-01T00:00:00.000Z"
    assert same(subject, other)
    assert not same(subject, {**other, "tags": [*other["tags"], "new"]})
    if other["ports"]:
        other["ports"][0]["name"] += "!"
        assert not same(subject, other)
