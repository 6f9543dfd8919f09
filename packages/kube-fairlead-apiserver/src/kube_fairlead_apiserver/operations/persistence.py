"""The last step of a write: from an object to bytes, labels and fields in the store.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/rest.go
"""

from __future__ import annotations

from collections.abc import Mapping

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.registry.resource import Resource, encode_tail
from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.storage.pending_write import SLACK_BYTES, leads_to_removal

__all__ = ["index", "put"]

# etcd's limit: a request of 1.5 MiB, a part of which is not the object.
_MOST_BYTES = 1_572_864 - 256
# kube-apiserver stores built-in kinds as protobuf, which is shorter. What it accepts must be accepted here.
_MOST_BUILTIN_BYTES = 2 << 20
_NO_LABELS: Mapping[str, str] = {}


def index(resource: Resource, stored: Json) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Labels and selectable fields of an object in its stored form, as the store keeps them beside it."""
    metadata = stored["metadata"]
    fields = resource.strategy.fields(stored)
    fields["metadata.name"] = metadata["name"]
    if resource.namespaced:
        fields["metadata.namespace"] = metadata.get("namespace", "")
    return metadata.get("labels") or _NO_LABELS, fields


def _encoded(resource: Resource, obj: Json) -> tuple[Mapping[str, str], Mapping[str, str], bytes]:
    stored = resource.stored(obj)
    return *index(resource, stored), encode_tail(stored)


async def put(
    core: Core, resource: Resource, key: str, obj: Json, *, expected: int, for_deletion: bool = False
) -> Entry:
    """Store an object; its resourceVersion is set when that is durable.

    ``for_deletion``: a deletion follows from it, of this object or another.
    """
    labels, fields, tail = await core.offload.run(_encoded, resource, obj)
    # An object that is being deleted can be written on a full disk too: its finalizers are removed.
    terminating = "deletionTimestamp" in obj["metadata"]
    most = _MOST_BYTES if resource.is_custom else _MOST_BUILTIN_BYTES
    before = core.store.newest(resource.table, key)
    if terminating and before is not None:
        most = max(most + SLACK_BYTES, len(before.tail) + len(key))
    if len(tail) + len(key) > most:
        # As kube-apiserver forwards etcd's error: without a reason.
        raise errors.ApiError("etcdserver: request is too large")
    entry = await core.store.put(
        resource.table,
        key,
        tail,
        labels,
        fields,
        resource.origin,
        expected=expected,
        freeing=(terminating or for_deletion) and leads_to_removal(before, len(tail)),
    )
    obj["metadata"]["resourceVersion"] = str(entry.revision)
    return entry
