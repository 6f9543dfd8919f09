from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead_apiserver.crd.definition import CustomResourceKind, compile_kinds
from kube_fairlead_apiserver.openapi.documents import OpenApi
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.resource import Resource, Subresource
from kube_fairlead_apiserver.registry.strategy import Strategy
from kube_fairlead_apiserver.schema.model import SchemaNode
from kube_fairlead_apiserver.types import resources

WIDGET_SCHEMA = {
    "type": "object",
    "description": "A widget.",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9.5},
                "color": {"type": "string", "nullable": True, "enum": ["red", "blue"], "default": "red"},
                "either": {"x-kubernetes-int-or-string": True},
                "whole": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "many": {"type": "array", "items": {"x-kubernetes-int-or-string": True}},
                "free": {"type": "object", "additionalProperties": True},
            },
        }
    },
}


def widget_kinds(schema: dict[str, Any] | None = None) -> dict[str, CustomResourceKind]:
    def version(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": name, "served": True, "storage": name == "v1"}
        if name == "v1":
            found["schema"] = {"openAPIV3Schema": WIDGET_SCHEMA if schema is None else schema}
            found["selectableFields"] = [{"jsonPath": ".spec.color"}]
        return found

    names = {"plural": "widgets", "kind": "Widget", "listKind": "WidgetList"}
    versions = [version("v1"), version("v1beta1")]
    return compile_kinds(
        {"spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}}
    )


def widget(version: str = "v1", schema: dict[str, Any] | None = None) -> Resource:
    kind = widget_kinds(schema)[version]
    subresources = {
        "status": Subresource("status", "Widget"),
        "scale": Subresource("scale", "Scale", "autoscaling", "v1"),
    }
    return Resource(
        "example.com",
        version,
        "widgets",
        "Widget",
        namespaced=True,
        strategy=Strategy(),
        schema=lambda: kind.node,
        subresources=subresources if version == "v1" else {},
        custom=kind,
    )


def builtin() -> list[Resource]:
    return [
        Resource(
            known.group,
            known.version,
            known.plural,
            known.kind,
            namespaced=known.namespaced,
            strategy=Strategy(),
            schema=SchemaNode,
            singular=known.singular,
            verbs=known.verbs,
            subresources={
                name: Subresource(name, sub.kind, sub.group, sub.version, sub.verbs)
                for name, sub in known.subresources.items()
            },
        )
        for known in resources.builtin_resources()
    ]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog([*builtin(), widget(), widget("v1beta1")])


@pytest.fixture(scope="module")
def openapi(catalog: Catalog) -> OpenApi:
    return OpenApi(catalog)


@pytest.fixture
def make_widget() -> Callable[..., Resource]:
    return widget
