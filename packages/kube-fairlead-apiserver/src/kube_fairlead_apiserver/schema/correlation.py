"""Correlates each part of an updated object with the same part of the old object.

Ratcheting and transition rules need the old value. Fields correlate by name, items of a list by their map keys; items
of any other list correlate with nothing.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/common/equality.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/validation/ratcheting.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.schema.model import SchemaNode

__all__ = ["CorrelatedValue", "map_key", "same_json"]


class CorrelatedValue:
    """A new value and the old value in its place. A part without an old counterpart has None instead."""

    __slots__ = ("_equal", "_old_items", "new", "node", "old")

    def __init__(self, node: SchemaNode, new: Any, old: Any) -> None:
        self.node = node
        self.new = new
        self.old = old
        self._equal: bool | None = None
        self._old_items: dict[Any, Any] | None = None

    def field(self, name: str) -> CorrelatedValue | None:
        """Correlate one field of two objects."""
        if self.new.__class__ is not dict or self.old.__class__ is not dict:
            return None
        if name not in self.new or name not in self.old:
            return None
        child = self.node.child(name)
        return None if child is None else CorrelatedValue(child, self.new[name], self.old[name])

    def item(self, index: int) -> CorrelatedValue | None:
        """Correlate one item of two lists of type map."""
        node = self.node
        if node.list_type != "map" or node.items is None:
            return None
        if self.new.__class__ is not list or self.old.__class__ is not list:
            return None
        if self._old_items is None:
            self._old_items = {}
            for item in self.old:
                if (key := map_key(node, item)) is not None:
                    self._old_items.setdefault(key, item)
        key = map_key(node, self.new[index])
        old = None if key is None else self._old_items.get(key)
        return None if old is None else CorrelatedValue(node.items, self.new[index], old)

    def unchanged(self) -> bool:
        """Return whether both values are equal; the order of a list of type map does not count."""
        if self._equal is None:
            self._equal = self._compare()
        return self._equal

    def _compare(self) -> bool:
        new, old = self.new, self.old
        if new.__class__ is dict and old.__class__ is dict:
            if len(new) != len(old):
                return False
            return all((pair := self.field(name)) is not None and pair.unchanged() for name in new)
        if new.__class__ is list and old.__class__ is list and self.node.list_type == "map":
            if len(new) != len(old):
                return False
            return all((pair := self.item(index)) is not None and pair.unchanged() for index in range(len(new)))
        return same_json(new, old)


def map_key(node: SchemaNode, item: Any) -> tuple[Any, ...] | None:
    """Return the identity of an item of a list of type map; None when a key is missing or not a scalar."""
    if item.__class__ is not dict or not node.list_map_keys:
        return None
    key: list[Any] = []
    for name in node.list_map_keys:
        value = item.get(name)
        if value is None or value.__class__ is dict or value.__class__ is list:
            return None
        key.append((value.__class__, value))  # True == 1 == 1.0 in Python, but not in JSON
    return tuple(key)


def same_json(left: Any, right: Any) -> bool:
    """Compare JSON values as Go does: true is not 1 and 1.0 is not 1."""
    if left.__class__ is not right.__class__:
        return False
    if left.__class__ is dict:
        return len(left) == len(right) and all(
            key in right and same_json(value, right[key]) for key, value in left.items()
        )
    if left.__class__ is list:
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)
