"""metav1: what all kinds have in common, and the objects of the API's own conversation.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/types.go
"""

from __future__ import annotations

import enum
from typing import Any, Self

import msgspec

from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.parts import Part, Time, always, mapping, named

__all__ = [
    "Condition",
    "ConditionStatus",
    "DeleteOptions",
    "KubeObject",
    "LabelSelector",
    "LabelSelectorRequirement",
    "ListMeta",
    "ManagedFieldsEntry",
    "ObjectMeta",
    "OwnerReference",
    "PatchType",
    "Preconditions",
    "PropagationPolicy",
    "Status",
    "StatusCause",
    "StatusDetails",
    "WatchEvent",
    "WatchEventType",
]


class OwnerReference(Part):
    """Who owns an object; without its owners it is collected."""

    MERGE_KEY = ("uid",)

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedFieldsEntry(Part):
    """Which fields one manager owns under server-side apply."""

    MERGE_KEY = ("manager", "operation", "api_version", "subresource")

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: Time | None = None
    fields_type: str = ""
    fields_v1: Any = named("fieldsV1", None)
    subresource: str = ""


class ObjectMeta(Part):
    """An object's identity and bookkeeping."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = mapping()
    annotations: dict[str, str] = mapping()
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object, if one does."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class KubeObject(Part, dict=True, gc=True):
    """An object of the API. `kube_fairlead.api.wire` keeps the bytes it came from in its `__dict__`."""

    api_version: str = always("")
    kind: str = always("")
    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The object's namespace; empty for cluster-wide kinds."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """The object's unique id, which no later object of the same name shares."""
        return self.metadata.uid

    @property
    def key(self) -> str:
        """`namespace/name`, or just the name of a cluster-wide object: how caches and queues call it."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def deleting(self) -> bool:
        """Whether a deletion was requested."""
        return self.metadata.deletion_timestamp is not None

    @property
    def group_version_kind(self) -> GroupVersionKind:
        """What the object says it is."""
        return GroupVersionKind.of(self.api_version, self.kind)


class ListMeta(Part):
    """The bookkeeping of a list."""

    resource_version: str = ""
    continue_token: str = named("continue")
    remaining_item_count: int | None = None


class LabelSelectorRequirement(Part):
    """One condition of a label selector; the operator is In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Part):
    """Which objects are meant, by their labels. `selectors.label_selector_from(wire.to_dict(it))` matches."""

    match_labels: dict[str, str] = mapping()
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ConditionStatus(enum.StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Part):
    """metav1.Condition: one aspect of an object's state."""

    MERGE_KEY = ("type",)

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class Preconditions(Part):
    """What must hold for a deletion to go ahead."""

    uid: str | None = None
    resource_version: str | None = None


class PropagationPolicy(enum.StrEnum):
    """What becomes of an object's dependents when it is deleted."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class DeleteOptions(Part):
    """How to delete."""

    api_version: str = always("v1")
    kind: str = always("DeleteOptions")
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: tuple[str, ...] = ()
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None


class StatusCause(Part):
    """One reason for a failure; `field` is set for a field that is wrong."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Part):
    """What a Status is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Part):
    """The answer to a request that has no object to answer with."""

    api_version: str = always("v1")
    kind: str = always("Status")
    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class PatchType(enum.StrEnum):
    """The kinds of patch; the value is the content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC_MERGE = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"

    @classmethod
    def of(cls, content_type: str) -> Self | None:
        """The patch type of a Content-Type header, parameters aside; None if it is none."""
        media_type = content_type.partition(";")[0].strip().lower()
        return next((patch_type for patch_type in cls if patch_type == media_type), None)


class WatchEventType(enum.StrEnum):
    """What a watch event reports about an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class WatchEvent(Part):
    """One line of a watch; the object stays bytes until someone knows its kind."""

    type: str
    object: msgspec.Raw
