from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.schema.duplicates import duplicate_fields


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ('{"a":1}', []),
        ('{"a":1,"a":2}', ["a"]),
        ('{"spec":{"foo":1,"b":{"foo":1},"foo":2,"foo":3}}', ["spec.foo"]),
        ('{"l":[{"x":1},{"x":1,"x":{"y":1,"y":1}}]}', ["l[1].x", "l[1].x.y"]),
        ('{ "a" : 1 , "a" : 2 }', ["a"]),
        (r'{"a\\":1,"b":1,"b":2}', ["b"]),
        (r'{"note":"{\"a\":1,\"a\":2}"}', []),
        (r'{"a":1,"\u0061":2}', ["a"]),
        ('{"a":":\\"","b":"x\\":"}', []),
        ("[1,2]", []),
        ('{ "a" : %s }' % ("9" * 5000), []),
    ],
)
def test_repeated_keys_are_found_with_their_paths(body: str, paths: list[str]) -> None:
    assert duplicate_fields(body.encode(), json.loads(body, parse_int=str)) == paths


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a":\\ {}', max_size=6),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(alphabet='ab":\\ ', max_size=4), children, max_size=3)
    ),
)


@given(_json, st.sampled_from([None, 1]), st.sampled_from([(",", ":"), (" ,", " : ")]))
def test_a_body_without_repeated_keys_has_none(value: Any, indent: int | None, separators: tuple[str, str]) -> None:
    body = json.dumps(value, indent=indent, separators=separators).encode()
    assert duplicate_fields(body, value) == []


@given(_json, _json)
def test_a_repeated_key_is_found_whatever_surrounds_it(first: Any, second: Any) -> None:
    body = f'{{"x":{json.dumps(first)},"k":{json.dumps(second)},"k":{json.dumps(first)}}}'
    assert duplicate_fields(body.encode(), json.loads(body)) == ["k"]
