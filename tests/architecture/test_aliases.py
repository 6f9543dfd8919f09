"""One alias for objects as decoded JSON: `kube_fairlead.api.json_object.Json`."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.source import Source, assert_clean, fairlead_modules, snippet

HOME = "kube_fairlead.api.json_object"


def second_aliases(source: Source) -> list[str]:
    if source.name == HOME:
        return []
    return [
        source.finding(node.lineno, f"use {HOME}.Json instead of an alias of {ast.unparse(value)}")
        for node in source.tree.body
        if (value := _alias_of(node)) is not None and ast.unparse(value) in {"dict[str, Any]", "dict[str, object]"}
    ]


def _alias_of(node: ast.stmt) -> ast.expr | None:
    """What a statement gives a second name to."""
    return node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None


def test_json_objects_have_one_alias() -> None:
    assert_clean(fairlead_modules(), second_aliases)


@pytest.mark.parametrize(
    "text", ["Json = dict[str, Any]", "Object: TypeAlias = dict[str, Any]", "_Fields = dict[str, object]"]
)
def test_a_second_alias_is_found(text: str) -> None:
    assert second_aliases(snippet(text, "kube_fairlead.agent.x"))
    assert second_aliases(snippet(text, HOME)) == []


@pytest.mark.parametrize("text", ["fields: dict[str, Any] = {}", "Labels = dict[str, str]", "Json = Mapping[str, Any]"])
def test_other_names_pass(text: str) -> None:
    assert second_aliases(snippet(text, "kube_fairlead.agent.x")) == []
