"""Merges an applied configuration into an object, and removes fields from an object.

Upstream: sigs.k8s.io/structured-merge-diff/v6@v6.3.3/typed/merge.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/typed/remove.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.patch.apply.fieldset import FieldSet
from kube_fairlead_apiserver.patch.apply.relations import ListRelation, child, item_element, list_relation
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode

__all__ = ["merge", "remove_fields"]

_GONE: Any = object()


def merge(node: SchemaNode, live: Any, applied: Any) -> Any:
    """Merge the applied value into the live one; nothing is removed. Null leaves a container as it is."""
    if isinstance(live, dict) and live and (isinstance(applied, dict) or applied is None):
        if node.map_type == "atomic":
            return applied
        return _merge_maps(node, live, applied or {})
    if isinstance(live, list) and live and (isinstance(applied, list) or applied is None):
        relation = list_relation(node)
        if relation is None:
            return applied
        return _merge_lists(node.items or ANYTHING, relation, live, applied or [])
    return applied


def _merge_maps(node: SchemaNode, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] | None = None
    for name, value in applied.items():
        current = live.get(name, _GONE)
        joined = value if current is _GONE else merge(child(node, name), current, value)
        if joined is not current:
            merged = dict(live) if merged is None else merged
            merged[name] = joined
    return live if merged is None else merged


def _merge_lists(node: SchemaNode, relation: ListRelation, live: list[Any], applied: list[Any]) -> list[Any]:
    """Merge both lists. Applied items have the order of the applied list.

    The other items keep their places between them.
    """
    if not applied:
        return live
    live_elements = [item_element(relation, item) for item in live]
    live_items: dict[str | None, Any] = {}
    for element, item in zip(live_elements, live, strict=True):
        # Items with the same key are not merged, because they cannot be distinguished.
        live_items[element] = _GONE if element in live_items else item
    applied_items = {item_element(relation, item): item for item in applied}

    def joined(element: str | None) -> Any:
        current = live_items.get(element, _GONE)
        return applied_items[element] if current is _GONE else merge(node, current, applied_items[element])

    merged: list[Any] = []
    waiting = [element for element in applied_items if element in live_items]  # shared, in the applied order
    waiting.reverse()
    pending = list(applied_items)
    pending.reverse()
    done: set[str | None] = set()
    position = 0
    while position < len(live) or pending:
        if position < len(live) and pending:
            element = live_elements[position]
            if element == pending[-1]:
                merged.append(joined(element))
                done.add(element)
                position += 1
                pending.pop()
                _advance(waiting, element)
                continue
            if element in applied_items and waiting and waiting[-1] != element:
                position += 1  # added later, in the applied order
                continue
        if position < len(live):
            element = live_elements[position]
            if element not in applied_items:
                merged.append(live[position])
                position += 1
                continue
            if element in done:
                position += 1
        if pending:
            element = pending.pop()
            merged.append(joined(element))
            done.add(element)
            _advance(waiting, element)
    return merged


def _advance(waiting: list[str | None], element: str | None) -> None:
    if waiting and waiting[-1] == element:
        waiting.pop()


def remove_fields(
    node: SchemaNode, value: dict[str, Any], fields: FieldSet, *, mark_emptied: bool = False
) -> dict[str, Any]:
    """Return the object without these fields.

    If a container loses all its fields and is not among the removed fields itself, it is removed too, provided that the
    schema declares it and it is empty otherwise. With `mark_emptied` it becomes null instead: for field ownership it is
    present and empty.
    """
    rest = _without(node, value, fields, mark_emptied=mark_emptied)
    return rest if isinstance(rest, dict) else {}


def _without(node: SchemaNode, value: Any, fields: FieldSet, *, mark_emptied: bool) -> Any:
    """Return the rest of a value after the removal of some parts; None if nothing is left."""
    if isinstance(value, dict):
        if node.map_type == "atomic":
            return None
        kept: dict[str, Any] = {}
        for name, item in value.items():
            below = fields.get("f:" + name)
            if below is None:
                kept[name] = item
            elif below and "." not in below:
                rest = _without(child(node, name), item, below, mark_emptied=mark_emptied)
                if rest is not None or mark_emptied:
                    kept[name] = rest
                elif name not in node.properties:
                    kept[name] = type(item)()
        return kept or None
    if isinstance(value, list):
        relation = list_relation(node)
        if relation is None:
            return None
        items: list[Any] = []
        for item in value:
            element = item_element(relation, item)
            below = None if element is None else fields.get(element)
            if below is None:
                items.append(item)
            elif below and "." not in below:
                rest = _without(node.items or ANYTHING, item, below, mark_emptied=mark_emptied)
                items.append({} if rest is None and not mark_emptied else rest)
        return items or None
    return value
