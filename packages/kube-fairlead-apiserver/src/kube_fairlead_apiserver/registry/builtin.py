"""The built-in resources: Kubernetes' table of resources, joined with the strategies."""

from __future__ import annotations

import functools
from typing import Final

from kube_fairlead.api.gvk import GroupKind, GroupVersionKind
from kube_fairlead_apiserver.registry.autoscaler_conversion import AUTOSCALER_CONVERSION, default_served
from kube_fairlead_apiserver.registry.event_conversion import EVENT_CONVERSION, EVENT_FIELD_ALIASES
from kube_fairlead_apiserver.registry.resource import Resource, Subresource
from kube_fairlead_apiserver.registry.strategies.by_resource import strategy_for
from kube_fairlead_apiserver.registry.strategies.converted import ConvertedStrategy
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode
from kube_fairlead_apiserver.types import resources, schemas

__all__ = ["builtin_resources"]

# Resources that are stored in another version or group.
_CONVERSIONS: Final = {
    GroupVersionKind("events.k8s.io", "v1", "Event"): EVENT_CONVERSION,
    GroupVersionKind("autoscaling", "v1", "HorizontalPodAutoscaler"): AUTOSCALER_CONVERSION,
}


def builtin_resources() -> list[Resource]:
    """Return every built-in resource, ready to be served."""
    return [_resource(known) for known in resources.builtin_resources()]


def _resource(known: resources.BuiltinResource) -> Resource:
    subresources = {
        name: Subresource(sub.name, sub.kind, sub.group, sub.version, sub.verbs)
        for name, sub in known.subresources.items()
    }
    strategy = strategy_for(known.group, known.plural, has_status="status" in subresources)
    conversion = _CONVERSIONS.get(known.gvk)
    if conversion is AUTOSCALER_CONVERSION:
        strategy = ConvertedStrategy(strategy, conversion, default_served)
    resource = Resource(
        group=known.group,
        version=known.version,
        plural=known.plural,
        kind=known.kind,
        namespaced=known.namespaced,
        strategy=strategy,
        schema=functools.cache(functools.partial(_schema, known)),
        singular=known.singular,
        list_kind=known.list_kind,
        short_names=known.short_names,
        categories=known.categories,
        verbs=known.verbs,
        subresources=subresources,
        table="events" if known.group == "events.k8s.io" else "",
        field_aliases=EVENT_FIELD_ALIASES if known.group == "events.k8s.io" else {},
        conversion=conversion,
        shared=any(known.kind == gvk.kind for gvk in _CONVERSIONS),
    )
    if known.group == "events.k8s.io":
        resource.group_kind = GroupKind("", known.kind)  # its errors name the stored kind
    return resource


def _schema(known: resources.BuiltinResource) -> SchemaNode:
    return schemas.node(known.gvk) or ANYTHING
