"""Validates the defaults in a CRD's schema: each must be valid, pruned and, in metadata, valid metadata.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/defaulting/validation.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kube_fairlead.api.fielderrors import FieldError, FieldPath, aggregate
from kube_fairlead_apiserver.schema import validation_rules
from kube_fairlead_apiserver.schema.defaulting import copy_json
from kube_fairlead_apiserver.schema.embedded_resources import coerce_embedded, validate_embedded
from kube_fairlead_apiserver.schema.model import SchemaNode
from kube_fairlead_apiserver.schema.pruning import prune
from kube_fairlead_apiserver.schema.validation import validate_schema

__all__ = ["validate_defaults"]

Wrap = Callable[[Any], Any]

_META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


@dataclasses.dataclass(frozen=True, slots=True)
class _DefaultContext:
    """The place of a default: the resource around it, and how to build that resource from the default alone."""

    root: SchemaNode
    wrap: Wrap
    inside_metadata: bool
    require_pruned: bool


def validate_defaults(node: SchemaNode, path: FieldPath, *, require_pruned: bool = True) -> list[FieldError]:
    """Return the errors of every default below a schema's root."""
    root = dataclasses.replace(node, embedded_resource=True)
    place = _DefaultContext(root, _resource, inside_metadata=False, require_pruned=require_pruned)
    return list(_walk(root, path, place))


def _resource(value: Any) -> Any:
    return {"apiVersion": "validation/v1", "kind": "Validation", **value}


def _walk(node: SchemaNode, path: FieldPath, place: _DefaultContext) -> Iterator[FieldError]:
    if node.embedded_resource:
        place = dataclasses.replace(place, root=node, wrap=_resource, inside_metadata=False)
    if node.default is not None:
        check = _inside_metadata if place.inside_metadata else _outside_metadata
        yield from check(node, path.child("default"), place)
    # Not below additionalProperties: the default of a value there depends on the unknown key.
    if node.items is not None:
        inner = place.wrap
        below = dataclasses.replace(place, wrap=lambda value: inner([value]))
        yield from _walk(node.items, path.child("items"), below)
    for name, child in node.properties.items():
        is_meta = place.inside_metadata or (node.embedded_resource and name in _META_FIELDS)
        below = dataclasses.replace(place, wrap=_wrap_field(place.wrap, name), inside_metadata=is_meta)
        yield from _walk(child, path.child("properties").key(name), below)


def _wrap_field(wrap: Wrap, name: str) -> Wrap:
    return lambda value: wrap({name: value})


def _inside_metadata(node: SchemaNode, path: FieldPath, place: _DefaultContext) -> Iterator[FieldError]:
    resource = place.wrap(copy_json(node.default))
    error, _ = coerce_embedded(place.root, resource)
    if error is not None:
        yield FieldError.invalid(path, node.default, f"must result in valid metadata: {error}")
        return
    errors = validate_embedded(place.root, resource, root=True)
    if errors:
        yield FieldError.invalid(path, node.default, f"must result in valid metadata: {aggregate(errors)}")
        return
    yield from _values(node, path, place)


def _outside_metadata(node: SchemaNode, path: FieldPath, place: _DefaultContext) -> Iterator[FieldError]:
    if place.require_pruned and prune(node, copy_json(node.default), root=node.embedded_resource):
        yield FieldError.invalid(path, node.default, "must not have unknown fields")
    error, _ = coerce_embedded(node, copy_json(node.default), root=node.embedded_resource)
    if error is not None:
        yield msgspec.structs.replace(error, field=f"{path}.{error.field}")
        return
    errors = validate_embedded(node, node.default, path, root=node.embedded_resource)
    if errors:
        yield from errors
        return
    yield from _values(node, path, place)


def _values(node: SchemaNode, path: FieldPath, place: _DefaultContext) -> Iterator[FieldError]:
    errors = validate_schema(node, node.default, path)
    if not errors:
        # A default must be valid as an existing value and as a new one.
        resource = node is place.root
        errors = validation_rules.validate_rules(node, node.default, path, old=node.default, root=resource)
        errors = errors or validation_rules.validate_rules(node, node.default, path, root=resource)
    yield from errors
