"""Returns the set of fields of a value: all fields of a new value, or the fields of an applied configuration.

Upstream: sigs.k8s.io/structured-merge-diff/v6@v6.3.3/typed/tofieldset.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/typed/typed.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/typed/reconcile_schema.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.patch.apply.elements import SELF
from kube_fairlead_apiserver.patch.apply.fieldset import FieldSet
from kube_fairlead_apiserver.patch.apply.relations import (
    ListRelation,
    child,
    implied_structs,
    item_element,
    list_relation,
    zero_values,
)
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode

__all__ = ["applied_fields", "every_field", "name_structs", "new_fields", "reconciled"]


_LEAF: FieldSet = {}  # shared: a set is never changed


def every_field(node: SchemaNode, value: Any) -> FieldSet:
    """Return the node for a value that is added or removed as a whole: itself and all its fields."""
    if value.__class__ is dict:
        if node.map_type == "atomic":
            return _LEAF
        fields: FieldSet = {SELF: _LEAF}
        properties, others = node.properties, node.additional or ANYTHING
        for name, item in value.items():
            if item.__class__ is dict or item.__class__ is list:
                fields["f:" + name] = every_field(properties.get(name) or others, item)
            else:
                fields["f:" + name] = _LEAF
        if implied := implied_structs(node):
            for name, schema in implied.items():
                if name not in value:
                    fields["f:" + name] = every_field(schema, {})
        return fields if len(fields) > 1 else _LEAF
    if value.__class__ is list and value:
        relation = list_relation(node)
        if relation is None:
            return _LEAF
        fields = {SELF: _LEAF}
        items = node.items or ANYTHING
        for item in value:
            element = item_element(relation, item)
            if element is not None:
                # Items with the same key are one field as a whole: they cannot be distinguished.
                fields[element] = _LEAF if element in fields else every_field(items, item)
        return fields if len(fields) > 1 else _LEAF
    return _LEAF


def new_fields(node: SchemaNode, value: Any, *, whole_object: bool = False) -> FieldSet:
    """Return the owned fields of a struct that was empty before: what a comparison with the empty struct finds.

    A struct that is always present is not new, and neither is a required list; only their content is. Any other
    required field is owned unless it has its zero value. A whole object has no required fields before it is created.
    """
    fields: FieldSet = {}
    properties, others = node.properties, node.additional or ANYTHING
    zeros = implied_structs(node) if whole_object else zero_values(node)
    for name, item in value.items():
        if name not in zeros:
            if item.__class__ is dict or item.__class__ is list:
                fields["f:" + name] = every_field(properties.get(name) or others, item)
            else:
                fields["f:" + name] = _LEAF
            continue
        schema = properties.get(name) or others
        zero = {} if whole_object else zeros[name]
        if item == zero:
            continue
        if item.__class__ is not dict and item.__class__ is not list:
            fields["f:" + name] = _LEAF
        elif zero is None:
            fields["f:" + name] = {key: below for key, below in every_field(schema, item).items() if key != SELF}
        elif schema.map_type == "atomic":
            fields["f:" + name] = _LEAF
        elif inside := new_fields(schema, item):
            fields["f:" + name] = inside
    return fields


def applied_fields(node: SchemaNode, value: dict[str, Any]) -> FieldSet:
    """Return the fields that an object sets: leaves, list items and map entries, but not the structs around them."""
    fields: FieldSet = {}
    for name, item in value.items():
        schema = child(node, name)
        below: FieldSet = {}
        member = name not in node.properties
        if isinstance(item, dict) and item and schema.map_type != "atomic":
            below = applied_fields(schema, item)
        elif isinstance(item, list) and (relation := list_relation(schema)) is not None:
            below = _applied_items(schema.items or ANYTHING, relation, item)
        else:
            member = True  # a scalar, null, an empty map, or an atomic value
        if below:
            fields["f:" + name] = {SELF: {}, **below} if member else below
        elif member:
            fields["f:" + name] = {}
    return fields


def _applied_items(node: SchemaNode, relation: ListRelation, items: list[Any]) -> FieldSet:
    fields: FieldSet = {}
    for item in items:
        element = item_element(relation, item)
        if element is None:
            continue
        below: FieldSet = {}
        if isinstance(item, dict) and node.map_type != "atomic" and element not in fields:
            below = applied_fields(node, item)
        fields[element] = {SELF: {}, **below} if below else {}
    return fields


def name_structs(node: SchemaNode, fields: FieldSet) -> FieldSet:
    """Add the declared fields around the members to a set: removing all members of a struct removes it."""
    result: FieldSet = {}
    for element, below in fields.items():
        if not below:
            result[element] = below
            continue
        name = element[2:] if element[0] == "f" else ""
        if element[0] == "f":
            schema = child(node, name)
        elif element[0] == "k":
            schema = node.items or ANYTHING
        else:
            schema = ANYTHING
        named = name_structs(schema, below)
        if element[0] == "f" and name in node.properties and SELF not in named:
            named = {SELF: {}, **named}
        result[element] = named
    return result


def reconciled(node: SchemaNode, fields: FieldSet) -> FieldSet:
    """Return the set after its schema changed from granular to atomic: the owner of a part now owns the whole field."""
    result: FieldSet | None = None
    for element, below in fields.items():
        if not below:
            continue
        if element[0] == "f":
            schema = child(node, element[2:])
        elif element[0] == "k":
            schema = node.items or ANYTHING
        else:
            continue
        by_name = next((key[0] == "f" for key in below if key != SELF), True)
        now_atomic = (
            schema.map_type == "atomic" if by_name else schema.type == "array" and list_relation(schema) is None
        )
        if now_atomic:
            after: FieldSet = {}
        else:
            after = reconciled(schema, below)
        if after is not below:
            result = dict(fields) if result is None else result
            result[element] = after
    return fields if result is None else result
