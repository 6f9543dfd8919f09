"""The lifecycle kinds, built in: the same schema and rules that their CustomResourceDefinitions carry elsewhere."""

from __future__ import annotations

from fairlead.api.crds import crds
from fairlead.apiserver.crd.definition import compile_kinds
from fairlead.apiserver.registry.resource import Resource
from fairlead.apiserver.registry.strategies.custom import custom_resource

__all__ = ["lifecycle_resources"]


def lifecycle_resources(group: str) -> list[Resource]:
    """LifecycleTransition and LifecycleEvent, in the group they are to be served under."""
    return [custom_resource(kind) for crd in crds(group) for kind in compile_kinds(crd).values() if kind.served]
