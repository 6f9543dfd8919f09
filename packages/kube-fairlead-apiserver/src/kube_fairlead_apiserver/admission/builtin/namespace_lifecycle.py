"""NamespaceLifecycle: nothing is created in a namespace that does not exist or is terminating.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/namespace/lifecycle/admission.go
"""

from __future__ import annotations

from kube_fairlead.api import errors
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation
from kube_fairlead_apiserver.admission.object_reader import ObjectReader

__all__ = ["NamespaceLifecycle"]

_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
# An error about a missing namespace would disclose which namespaces exist.
_ACCESS_REVIEW = ("authorization.k8s.io", "localsubjectaccessreviews")
_NAMESPACES = GroupResource("", "namespaces")


class NamespaceLifecycle(AdmissionPlugin):
    """Rejects creates in missing or terminating namespaces, and deletes of protected namespaces."""

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """Deletes of namespaces, and everything but deletes of what is in them."""
        del subresource
        if (group, plural) == ("", "namespaces"):
            return operation == "DELETE"
        return operation in {"CREATE", "UPDATE"} and (group, plural) != _ACCESS_REVIEW

    async def admit(self, operation: Operation) -> None:
        """Reject objects without an active namespace."""
        if operation.is_namespace:
            if operation.name in _IMMORTAL:
                raise errors.forbidden(_NAMESPACES, operation.name, "this namespace may not be deleted")
            return
        name = operation.namespace
        if not name:
            return
        namespace = self._objects.namespace(name)
        if namespace is None:
            raise errors.not_found(_NAMESPACES, name)
        if operation.operation == "CREATE" and namespace.fields.get("status.phase") == "Terminating":
            raise _terminating(operation, name)


def _terminating(operation: Operation, namespace: str) -> errors.Forbidden:
    refusal = operation.forbidden(
        f"unable to create new content in namespace {namespace} because it is being terminated"
    )
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return errors.Forbidden(refusal.message, details={**(refusal.details or {}), "causes": [cause]})
