"""What every cluster begins with: namespaces, priorities, default roles, and the server's own service."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from fairlead.api import errors
from fairlead.apiserver.admission.builtin.priority import SYSTEM_CLASSES
from fairlead.apiserver.operations.core import Core, Json
from fairlead.apiserver.operations.internal import Inside
from fairlead.apiserver.registry.resource import Resource
from fairlead.apiserver.schema.defaulting import copy_json
from fairlead.base.tasks import TaskScope

__all__ = ["bootstrap"]

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


async def bootstrap(core: Core, policy: Iterable[Json], *, service_port: int) -> None:
    """Create what is missing; what is there is left as it is, whoever changed it. Safe to run at every start."""
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in _NAMESPACES]
    await _create_missing(core, namespaces)
    await _create_missing(core, [*copy_json(list(SYSTEM_CLASSES)), _service(service_port), *policy])


async def _create_missing(core: Core, objects: Iterable[Json]) -> None:
    """All at once, so that they share commits."""
    inside = Inside(core, "fairlead-apiserver")
    async with TaskScope("bootstrap") as scope:
        for obj in objects:
            resource = core.catalog.of_kind(obj["apiVersion"], obj["kind"])
            if resource is None:
                raise LookupError(f"{obj['apiVersion']} {obj['kind']} is not served")
            metadata = obj["metadata"]
            namespace = metadata.get("namespace", "")
            if core.store.newest(resource.table, resource.key(namespace, metadata["name"])) is None:
                scope.start(_create(inside, resource, obj, namespace), name=metadata["name"])


async def _create(inside: Inside, resource: Resource, obj: Json, namespace: str) -> None:
    with contextlib.suppress(errors.AlreadyExists):
        await inside.create(resource, obj, namespace=namespace)


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
