"""The objects of a new cluster: namespaces, priority classes, default roles, and the server's own service.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controlplane/controller/systemnamespaces/system_namespaces_controller.go,
    k8s.io/kubernetes@v1.36.4/pkg/controlplane/controller/kubernetesservice/controller.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/scheduling/rest/storage_scheduling.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/rbac/rest/storage_rbac.go
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Iterable

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.admission.builtin.priority import SYSTEM_CLASSES
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.schema.defaulting import copy_json

__all__ = ["bootstrap", "first_objects"]

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def first_objects(policy: Iterable[Json]) -> list[Json]:
    """Return the objects of every new cluster."""
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in _NAMESPACES]
    return [*namespaces, *copy_json(list(SYSTEM_CLASSES)), *policy]


async def bootstrap(core: Core, policy: Iterable[Json], *, service_port: int) -> None:
    """Create missing objects; existing ones stay as they are. Safe to run at every start."""
    client = InternalClient(core, "fairlead-apiserver")
    async with TaskScope("bootstrap") as scope:  # concurrently, so that they share a commit
        for obj in first_objects(policy):
            if (resource := _missing(core, obj)) is not None:
                scope.start(_let_be(client.create_own(resource, obj)), name=obj["metadata"]["name"])
    service = _service(service_port)
    if (resource := _missing(core, service)) is not None:
        await _let_be(client.create(resource, service, namespace=service["metadata"]["namespace"]))


def _missing(core: Core, obj: Json) -> Resource | None:
    """Return the resource of an object that does not exist."""
    resource = core.catalog.of_kind(obj["apiVersion"], obj["kind"])
    if resource is None:
        raise LookupError(f"{obj['apiVersion']} {obj['kind']} is not served")
    metadata = obj["metadata"]
    key = resource.key(metadata.get("namespace", ""), metadata["name"])
    return resource if core.store.newest(resource.table, key) is None else None


async def _let_be(creation: Awaitable[object]) -> None:
    with contextlib.suppress(errors.AlreadyExists):
        await creation


def _service(port: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.0.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    }
