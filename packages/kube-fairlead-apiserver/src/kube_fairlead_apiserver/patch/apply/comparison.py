"""Compares two versions of an object: the fields that a write removed, modified and added.

Only the differences are walked. Two versions of an object share their unchanged parts, and shared parts compare by
identity, so the cost depends on the change and not on the size of the object.

Upstream: sigs.k8s.io/structured-merge-diff/v6@v6.3.3/typed/compare.go
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kube_fairlead_apiserver.patch.apply.elements import SELF
from kube_fairlead_apiserver.patch.apply.extraction import every_field
from kube_fairlead_apiserver.patch.apply.fieldset import FieldSet, recursive_difference
from kube_fairlead_apiserver.patch.apply.relations import (
    ListRelation,
    child,
    implied_structs,
    item_element,
    list_relation,
    zero_values,
)
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode

__all__ = ["Comparison", "compare"]

_MISSING: Any = object()


class Comparison(NamedTuple):
    """Three disjoint sets of fields; all are empty when no tracked field changed."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    def without(self, fields: FieldSet) -> Comparison:
        """Return the comparison without these fields and all fields below them."""
        if not fields:
            return self
        return Comparison(*(recursive_difference(part, fields) for part in self))


def compare(node: SchemaNode, before: dict[str, Any], after: dict[str, Any]) -> Comparison:
    """Compare two objects of a kind. `node` is the schema of the whole object."""
    result = Comparison({}, {}, {})
    _compare_maps(node, before, after, result, whole_object=True)
    return result


def _put(target: Comparison, element: str, parts: Comparison) -> None:
    """Add the fields that were found below an element to the sets of its parent."""
    for around, below in zip(target, parts, strict=True):
        if below:
            around[element] = below


def _compare_values(node: SchemaNode, before: Any, after: Any, target: Comparison, element: str) -> None:
    """Compare two unequal values that are both present."""
    if isinstance(before, dict) and isinstance(after, dict):
        if node.map_type != "atomic":
            parts = Comparison({}, {}, {})
            _compare_maps(node, before, after, parts)
            _put(target, element, parts)
            return
    elif isinstance(before, list) and isinstance(after, list):
        relation = list_relation(node)
        if relation is not None:
            parts = Comparison({}, {}, {})
            _compare_lists(node.items or ANYTHING, relation, before, after, parts)
            _put(target, element, parts)
            return
    else:
        _compare_kinds(node, before, after, target, element)
        return
    target.modified[element] = {}


def _compare_kinds(node: SchemaNode, before: Any, after: Any, target: Comparison, element: str) -> None:
    """Compare values of different JSON types.

    The field is modified, the fields of the old value are removed, those of the new one are added.
    """
    gone = _inside(every_field(node, before))
    new = _inside(every_field(node, after))
    if gone:
        target.removed[element] = gone
    if new:
        target.added[element] = new
    if not (before is None and new) and not (after is None and gone):
        target.modified[element] = {}


def _inside(fields: FieldSet) -> FieldSet:
    return {element: below for element, below in fields.items() if element != SELF}


def _compare_maps(
    node: SchemaNode, before: dict[str, Any], after: dict[str, Any], target: Comparison, *, whole_object: bool = False
) -> None:
    for name, old in before.items():
        new = after.get(name, _MISSING)
        if new is old or new == old:
            continue
        if new is _MISSING:
            new = _implied(node, name, whole_object=whole_object)
        if new is _MISSING:
            target.removed["f:" + name] = every_field(child(node, name), old)
        elif new != old:
            _compare_values(child(node, name), old, new, target, "f:" + name)
    for name, new in after.items():
        if name in before:
            continue
        old = _implied(node, name, whole_object=whole_object)
        if old is _MISSING:
            target.added["f:" + name] = every_field(child(node, name), new)
        elif new != old:
            _compare_values(child(node, name), old, new, target, "f:" + name)


def _implied(node: SchemaNode, name: str, *, whole_object: bool) -> Any:
    """Return the value that an absent field stands for: a struct that is always present has its required fields, too.

    So a new item of a required list is added, and the list is not. When an object is created, it is compared with
    nothing, and its required fields are added.
    """
    if whole_object:
        return {} if name in implied_structs(node) else _MISSING
    return zero_values(node).get(name, _MISSING)


def _compare_lists(
    node: SchemaNode, relation: ListRelation, before: list[Any], after: list[Any], target: Comparison
) -> None:
    old_items = _by_element(relation, before)
    new_items = _by_element(relation, after)
    for element, old in old_items.items():
        new = new_items.get(element)
        if new is None:
            target.removed[element] = every_field(node, old[0]) if len(old) == 1 else {}
        elif len(old) == 1 and len(new) == 1:
            if old[0] is not new[0] and old[0] != new[0]:
                _compare_values(node, old[0], new[0], target, element)
        elif len(old) > 1 and len(new) > 1:
            if old != new:
                target.modified[element] = {}
        elif len(old) > 1:  # duplicates became one item: they are removed as a whole, and the remaining item is added
            target.removed[element] = {}
            target.added[element] = every_field(node, new[0])
        else:
            target.removed[element] = every_field(node, old[0])
            target.added[element] = {}
    for element, new in new_items.items():
        if element not in old_items:
            target.added[element] = every_field(node, new[0]) if len(new) == 1 else {}


def _by_element(relation: ListRelation, items: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        element = item_element(relation, item)
        if element is not None:
            found.setdefault(element, []).append(item)
    return found
