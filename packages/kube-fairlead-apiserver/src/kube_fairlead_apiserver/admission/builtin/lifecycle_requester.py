"""The requester of a LifecycleEvent: the server records the user of the create request, immutably."""

from __future__ import annotations

from kube_fairlead.api.reserved import ANNOTATION_REQUESTED_BY, LIFECYCLE_GROUP, LIFECYCLE_GROUP_ALTERNATIVE
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation

__all__ = ["LifecycleRequester"]

_GROUPS = frozenset({LIFECYCLE_GROUP, LIFECYCLE_GROUP_ALTERNATIVE})


class LifecycleRequester(AdmissionPlugin):
    """Writes the user into an annotation of a new event, and keeps that annotation as it is.

    On stock Kubernetes a MutatingAdmissionPolicy that `fairlead install` prints does the same. A field of the status
    is no alternative: the status is cleared when an object is created.
    """

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """Events, when they are created or changed."""
        return (
            plural == "lifecycleevents" and not subresource and group in _GROUPS and operation in {"CREATE", "UPDATE"}
        )

    async def admit(self, operation: Operation) -> None:
        """Set the annotation to the user, whatever the request has."""
        if operation.obj is None:
            return
        metadata = operation.obj.setdefault("metadata", {})
        annotations = dict(metadata.get("annotations") or {})
        if operation.operation == "CREATE":
            user = operation.user.name
        else:
            before = (operation.old or {}).get("metadata", {}).get("annotations") or {}
            user = before.get(ANNOTATION_REQUESTED_BY, "")
        if annotations.get(ANNOTATION_REQUESTED_BY, "") == user:
            return
        annotations.pop(ANNOTATION_REQUESTED_BY, None)
        metadata["annotations"] = annotations | ({ANNOTATION_REQUESTED_BY: user} if user else {})
