from __future__ import annotations

import pytest

from kube_fairlead_apiserver.schema.field_paths import resolve_field_path
from kube_fairlead_apiserver.schema.model import compile_schema

NODE = compile_schema(
    {
        "properties": {
            "spec": {"properties": {"a.b": {"type": "string"}, "m": {"additionalProperties": {"type": "integer"}}}},
            "any": {"additionalProperties": True},
        }
    }
)


@pytest.mark.parametrize(
    ("text", "path", "kind"),
    [
        (".spec", "spec", ""),
        (".spec['a.b']", "spec.a.b", "string"),
        (".spec.m.x", "spec.m[x]", "integer"),
        (".spec.m['it\\'s']", "spec.m[it's]", "integer"),
        ("['spec'].m", "spec.m", ""),
    ],
)
def test_a_path_leads_to_its_node(text: str, path: str, kind: str) -> None:
    found, node = resolve_field_path(text, NODE)
    assert str(found) == path
    assert node.type == kind


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("spec", "expected [ or . but got: spec"),
        (".nope", "does not refer to a valid field"),
        (".spec.m.x.y", "does not refer to a valid field"),
        (".any.x", "does not refer to a valid field"),
        (".", "unexpected end of JSON path"),
        (".spec[", "unexpected end of JSON path"),
        (".spec[m]", "expected single quoted string but got m"),
        (".spec['m'", "unexpected end of JSON path"),
        (".spec['m'.", "expected ] but got ."),
        (".spec['\\q']", "invalid string literal: invalid escape char \\q"),
    ],
)
def test_a_wrong_path_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        resolve_field_path(text, NODE)
    assert str(error.value) == problem


def test_brackets_can_be_forbidden() -> None:
    with pytest.raises(ValueError, match="array notation is not allowed"):
        resolve_field_path(".spec['m']", NODE, brackets=False)
