"""Which class stands for which kind, and where the API serves it.

A class is imported when it is first used, so that knowing all kinds costs no memory. The group of the lifecycle
kinds is a setting, so a scheme is made for one: `Scheme(lifecycle_group=...)`.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from typing import Any, Final

from kube_fairlead.api import reserved
from kube_fairlead.api.gvk import GroupVersion, GroupVersionKind, GroupVersionResource

__all__ = ["Kind", "Scheme"]


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its coordinates, its resource, and the class that reads it."""

    gvk: GroupVersionKind
    resource: str  # plural
    namespaced: bool
    module: str = dataclasses.field(repr=False)

    @property
    def gvr(self) -> GroupVersionResource:
        """What URLs name."""
        return GroupVersionResource(self.gvk.group, self.gvk.version, self.resource)

    @property
    def api_version(self) -> str:
        """What objects of the kind say in `apiVersion`."""
        return self.gvk.api_version

    @property
    def cls(self) -> type[Any]:
        """The class of the kind, imported now if it was not."""
        found: type[Any] = getattr(importlib.import_module(self.module), self.gvk.kind)
        return found


_CLUSTER: Final = False
_NAMESPACED: Final = True
# module, kind, resource, scope; the group and version are the module's.
_KINDS: Final = (
    ("core_v1", "Binding", "bindings", _NAMESPACED),
    ("core_v1", "ConfigMap", "configmaps", _NAMESPACED),
    ("core_v1", "Endpoints", "endpoints", _NAMESPACED),
    ("core_v1", "Event", "events", _NAMESPACED),
    ("core_v1", "Namespace", "namespaces", _CLUSTER),
    ("core_v1", "Node", "nodes", _CLUSTER),
    ("core_v1", "Pod", "pods", _NAMESPACED),
    ("core_v1", "Secret", "secrets", _NAMESPACED),
    ("core_v1", "Service", "services", _NAMESPACED),
    ("core_v1", "ServiceAccount", "serviceaccounts", _NAMESPACED),
    ("apps_v1", "DaemonSet", "daemonsets", _NAMESPACED),
    ("apps_v1", "Deployment", "deployments", _NAMESPACED),
    ("apps_v1", "ReplicaSet", "replicasets", _NAMESPACED),
    ("apps_v1", "StatefulSet", "statefulsets", _NAMESPACED),
    ("policy_v1", "PodDisruptionBudget", "poddisruptionbudgets", _NAMESPACED),
    ("coordination_v1", "Lease", "leases", _NAMESPACED),
    ("discovery_v1", "EndpointSlice", "endpointslices", _NAMESPACED),
    ("events_v1", "Event", "events", _NAMESPACED),
    ("storage_v1", "VolumeAttachment", "volumeattachments", _CLUSTER),
    ("scheduling_v1", "PriorityClass", "priorityclasses", _CLUSTER),
    ("rbac_v1", "ClusterRole", "clusterroles", _CLUSTER),
    ("rbac_v1", "ClusterRoleBinding", "clusterrolebindings", _CLUSTER),
    ("rbac_v1", "Role", "roles", _NAMESPACED),
    ("rbac_v1", "RoleBinding", "rolebindings", _NAMESPACED),
    ("authentication_v1", "TokenReview", "tokenreviews", _CLUSTER),
    ("apiextensions_v1", "CustomResourceDefinition", "customresourcedefinitions", _CLUSTER),
    ("lifecycle_v1alpha1", "LifecycleEvent", "lifecycleevents", _CLUSTER),
    ("lifecycle_v1alpha1", "LifecycleTransition", "lifecycletransitions", _CLUSTER),
    ("lifecycle_v1alpha1", "NodeLifecycleRecord", "nodelifecyclerecords", _CLUSTER),
)
_GROUP_VERSIONS: Final = {
    "core_v1": GroupVersion("", "v1"),
    "apps_v1": GroupVersion("apps", "v1"),
    "policy_v1": GroupVersion("policy", "v1"),
    "coordination_v1": GroupVersion("coordination.k8s.io", "v1"),
    "discovery_v1": GroupVersion("discovery.k8s.io", "v1"),
    "events_v1": GroupVersion("events.k8s.io", "v1"),
    "storage_v1": GroupVersion("storage.k8s.io", "v1"),
    "scheduling_v1": GroupVersion("scheduling.k8s.io", "v1"),
    "rbac_v1": GroupVersion("rbac.authorization.k8s.io", "v1"),
    "authentication_v1": GroupVersion("authentication.k8s.io", "v1"),
    "apiextensions_v1": GroupVersion("apiextensions.k8s.io", "v1"),
}


class Scheme:
    """All kinds that have a class, found by coordinates, by resource or by class. A KeyError means there is none."""

    def __init__(self, lifecycle_group: str = reserved.LIFECYCLE_GROUP) -> None:
        self._lifecycle_group = lifecycle_group
        lifecycle = GroupVersion(lifecycle_group, reserved.LIFECYCLE_VERSION)
        groups = {**_GROUP_VERSIONS, "lifecycle_v1alpha1": lifecycle}
        kinds = [
            Kind(groups[module].kind(kind), resource, namespaced, f"kube_fairlead.api.{module}")
            for module, kind, resource, namespaced in _KINDS
        ]
        self._by_resource = {kind.gvr: kind for kind in kinds}
        self._by_name = {(kind.module, kind.gvk.kind): kind for kind in kinds}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_resource.values())

    def is_lifecycle(self, kind: Kind) -> bool:
        """Whether a kind is in the group that is a setting."""
        return kind.gvk.group == self._lifecycle_group

    def by_resource(self, gvr: GroupVersionResource) -> Kind:
        """The kind that a URL names."""
        return self._by_resource[gvr]

    def by_class(self, cls: type[Any]) -> Kind:
        """The kind that a class stands for."""
        # The files of a package such as core_v1 are not named in the table.
        module = ".".join(cls.__module__.split(".")[:3])
        return self._by_name[module, cls.__name__]
