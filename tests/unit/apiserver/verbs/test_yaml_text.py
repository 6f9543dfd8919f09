from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.errors import BadRequest
from fairlead.apiserver.verbs.yaml_text import read_yaml


@pytest.mark.parametrize(
    ("text", "value", "repeated"),
    [
        ("", None, []),
        ("a: 1", {"a": 1}, []),
        ("a: {b: [1, {c: yes}]}", {"a": {"b": [1, {"c": True}]}}, []),
        ("a: 1\nb: 2\na: 3", {"a": 3, "b": 2}, ['line 3: key "a" already set in map']),
        # The line is the value's, and what is inside comes first.
        (
            "a:\n  b: 1\na:\n  c: 2\n  c: 3",
            {"a": {"c": 3}},
            [f'line {n}: key "{k}" already set in map' for n, k in ((5, "c"), (4, "a"))],
        ),
        ("- {x: 1, x: 2}\n- {x: 1}", [{"x": 2}, {"x": 1}], ['line 1: key "x" already set in map']),
        ("a: 2026-01-01\nb: 2026-01-01T00:00:00Z", {"a": "2026-01-01", "b": "2026-01-01T00:00:00Z"}, []),
    ],
)
def test_a_document_and_the_keys_it_has_twice(text: str, value: Any, repeated: list[str]) -> None:
    assert read_yaml(text.encode()) == (value, repeated)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [1]\nb: *x",
        "a: &x text\nb: *x",
        "a: &x [*x]",
        "a: 1\n---\na: 2",
        "a: [",
        "!!python/object/apply:os.getcwd []",
        "[" * 5000,
    ],
)
def test_what_no_json_says_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="error converting YAML to JSON: "):
        read_yaml(text.encode())
