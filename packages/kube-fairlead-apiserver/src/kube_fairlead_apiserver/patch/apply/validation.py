"""Validates an applied configuration against its schema, as far as ownership needs it.

JSON types, keys, declared fields.

Upstream: sigs.k8s.io/structured-merge-diff/v6@v6.3.3/typed/validate.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/typed/helpers.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.patch.apply import elements
from kube_fairlead_apiserver.patch.apply.relations import ListRelation, child, item_element, list_relation
from kube_fairlead_apiserver.patch.goformat import go_type, go_value
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode

__all__ = ["problems", "summary"]


def problems(node: SchemaNode, value: dict[str, Any]) -> list[str]:
    """Return every problem with its path: `.spec.ports: duplicate entries for key [port=80]`."""
    found: list[str] = []
    _check(node, value, "", open_below=False, found=found)
    return found


def summary(found: list[str]) -> str:
    """Return one problem as it is, several below a heading."""
    return found[0] if len(found) == 1 else "\n  ".join(["errors:", *found])


def _check(node: SchemaNode, value: Any, path: str, *, open_below: bool, found: list[str]) -> None:
    if value is None:
        return
    open_below = open_below or node.preserve_unknown_fields
    if isinstance(value, dict) and node.type in {"", "object"}:
        _check_map(node, value, path, open_below=open_below, found=found)
    elif isinstance(value, list) and node.type in {"", "array"}:
        _check_list(node, value, path, open_below=open_below, found=found)
    elif (problem := _kind_problem(node, value)) is not None:
        found.append(_located(path, problem))


def _located(path: str, problem: str) -> str:
    return f"{path}: {problem}" if path else problem


def _kind_problem(node: SchemaNode, value: Any) -> str | None:
    match node.type:
        case "object":
            return f"expected map, got &{{{go_value(value)}}}"
        case "array":
            return f"expected list, got &{{{go_value(value)}}}"
        case "integer" | "number":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return f"expected numeric (int or float), got {go_type(value)}"
        case "boolean":
            if not isinstance(value, bool):
                return f"expected boolean, got &{{{go_value(value)}}}"
        case "string":
            if node.format in {"", "byte"} and not node.int_or_string:
                if not isinstance(value, str):
                    return f"expected string, got &value.valueUnstructured{{Value:{go_value(value)}}}"
            elif isinstance(value, (dict, list)):
                return f"expected any scalar, got &{{{go_value(value)}}}"
        case _:
            return None
    return None


def _check_map(node: SchemaNode, value: dict[str, Any], path: str, *, open_below: bool, found: list[str]) -> None:
    closed = bool(node.properties) and node.additional is None and not open_below
    for name, item in value.items():
        if closed and name not in node.properties:
            found.append(f"{path}.{name}: field not declared in schema")
        else:
            _check(child(node, name), item, f"{path}.{name}", open_below=open_below, found=found)


def _check_list(node: SchemaNode, value: list[Any], path: str, *, open_below: bool, found: list[str]) -> None:
    relation = list_relation(node)
    seen: set[str] = set()
    for position, item in enumerate(value):
        if relation is None:
            place = f"{path}[{position}]"
        else:
            element = item_element(relation, item)
            if element is None:
                found.append(_located(path, f"element {position}: {_element_problem(relation, item)}"))
                return
            if element in seen:
                found.append(_located(path, f"duplicate entries for key {elements.describe(element)}"))
            seen.add(element)
            place = path + elements.describe(element)
        _check(node.items or ANYTHING, item, place, open_below=open_below, found=found)


def _element_problem(relation: ListRelation, item: Any) -> str:
    if not relation.keys:
        if isinstance(item, dict):
            return "associative list without keys has an element that's a map type"
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        return "associative list without keys has an element that's an explicit null"
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    names = " ".join(f'"{name}"' for name, _, _ in relation.keys)
    return (
        f"associative list with keys has an element that omits all key fields [{names}] "
        "(and doesn't have default values for any key fields)"
    )
