"""The metadata that the server owns: set on create, immutable on update.

Upstream: k8s.io/apiserver@v0.36.4/pkg/registry/rest/meta.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/rest/create.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/rest/update.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/names/generate.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/generic/registry/store.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/errors.go
"""

from __future__ import annotations

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.gvk import GroupKind
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["begin_create", "begin_update", "check_namespace", "drop_empty", "name_from", "require_metadata"]


_GENERATED_BASE_MAX = 58  # 63 less the five random characters
# Fields that only the server writes. An update without them keeps them; validation rejects an update that changes
# them.
_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName")


def require_metadata(obj: Json) -> Json:
    """Return the object's metadata, created if it is absent."""
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise errors.BadRequest(f"metadata must be an object, not {type(metadata).__name__}")
    return metadata


def drop_empty(metadata: Json) -> None:
    """Remove empty lists and maps: they mean the same as absent ones, and Kubernetes stores none.

    A client resets the tracking by an empty entry in managedFields.
    """
    for field in ("labels", "annotations", "finalizers", "ownerReferences", "generateName"):
        if field in metadata and not metadata[field]:
            del metadata[field]


def begin_create(core: Core, resource: Resource, obj: Json, namespace: str) -> None:
    """Set the server's fields of a new object."""
    metadata = require_metadata(obj)
    drop_empty(metadata)
    check_namespace(resource, metadata, namespace)
    if metadata.get("resourceVersion"):
        # kube-apiserver answers 500; a client's mistake should not be an internal error.
        raise errors.BadRequest("resourceVersion should not be set on objects to be created")
    for field in ("resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(field, None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = name_from(core, metadata["generateName"])
    metadata["uid"] = core.ids.uuid()
    metadata["creationTimestamp"] = format_time(core.clock.now())
    if resource.strategy.tracks_generation:
        metadata["generation"] = 1
    else:
        metadata.pop("generation", None)


def name_from(core: Core, base: str) -> str:
    """Return a name that begins with ``base``, cut so that the whole fits a label."""
    return base[:_GENERATED_BASE_MAX] + core.ids.name_suffix()


def check_namespace(resource: Resource, metadata: Json, namespace: str) -> None:
    """Set the object's namespace to the request's, or check that it has none."""
    if not resource.namespaced:
        if metadata.get("namespace"):
            metadata.pop("namespace")
        return
    if not metadata.get("namespace"):
        metadata["namespace"] = namespace
    elif metadata["namespace"] != namespace:
        raise errors.BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def begin_update(resource: Resource, obj: Json, old: Json, namespace: str, *, replaces: bool) -> None:
    """Keep the fields that only the server writes, and check that the update names the same object.

    ``replaces``: the object came from the client as a whole (PUT), so a uid in it is a precondition, and of some kinds
    it must say which version it is made from.
    """
    metadata = require_metadata(obj)
    drop_empty(metadata)
    check_namespace(resource, metadata, namespace)
    was = old["metadata"]
    asked = metadata.get("resourceVersion")
    if replaces and not asked and not resource.strategy.allow_unconditional_update:
        problem = FieldError.invalid(FieldPath("metadata", "resourceVersion"), 0, "must be specified for an update")
        # The resource, not the kind, as in Kubernetes.
        raise errors.invalid(GroupKind(resource.group, resource.plural), was["name"], [problem])
    if asked and asked != was["resourceVersion"]:
        raise errors.conflict(
            resource.group_resource,
            was["name"],
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    uid = metadata.get("uid")
    if replaces and uid and uid != was["uid"]:
        raise errors.conflict(
            resource.group_resource,
            was["name"],
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {was['uid']}",
        )
    for field in _SERVER_OWNED:
        if metadata.get(field) is None:
            if field in was:
                metadata[field] = was[field]
            else:
                metadata.pop(field, None)
    metadata.pop("selfLink", None)
    metadata["resourceVersion"] = was["resourceVersion"]
    if "generation" in was:
        metadata["generation"] = was["generation"]
    else:
        metadata.pop("generation", None)
