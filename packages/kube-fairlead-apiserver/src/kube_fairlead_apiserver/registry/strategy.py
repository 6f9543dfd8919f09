"""The strategy of one kind: defaulting, validation and preparation of objects before they are stored. Pure.

Upstream: k8s.io/apiserver@v0.36.4/pkg/registry/rest/create.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/rest/update.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError
from kube_fairlead.api.json_object import Json

__all__ = ["ALL_METADATA", "Strategy"]


# The metadata that a client can change.
ALL_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


class Strategy:
    """The rules that most kinds share. A strategy of a kind overrides those that differ.

    Methods whose name begins with ``prepare`` or ``default``, and ``canonicalize``, change the object in place; the
    others only read it.
    """

    # Kinds that count changes of the desired state (spec) in metadata.generation.
    tracks_generation: bool = False
    # Kinds whose status only the status subresource can write.
    has_status: bool = False
    # The metadata that a write to the status does not change. For most kinds it may change everything.
    metadata_kept_by_status: tuple[str, ...] = ()
    # Kinds whose PUT creates a missing object.
    allow_create_on_update: bool = False
    # Kinds whose PUT may omit the resourceVersion, and so overwrites any stored version.
    allow_unconditional_update: bool = True
    # Kinds whose DELETE returns the object even when it is removed at once.
    returns_deleted_object: bool = False
    # Kinds whose content is deleted first (namespaces, definitions): a deletion sets neither grace nor generation.
    emptied_first: bool = False
    # A warning in every response about the kind.
    deprecation: str = ""
    # The default propagation policy (Job and some other kinds orphan dependents in older versions).
    default_propagation: str = "Background"

    # Lists that are written even when they are empty: as null, which is Go's form of a nil list.
    always_written: tuple[str, ...] = ()

    # Validates a name: returns its problems.
    name_rule: Callable[..., list[str]] = staticmethod(names.name_is_dns_subdomain)
    # The fields that `fields` returns for every object.
    selectable: frozenset[str] = frozenset()

    def default(self, obj: Json) -> None:
        """Set the defaults of absent fields."""

    def prepare_create(self, obj: Json) -> None:
        """Remove the fields that a client may not set on create."""
        if self.has_status:
            obj.pop("status", None)

    def prepare_update(self, obj: Json, old: Json) -> None:
        """Restore the fields that a client may not change through the main resource."""
        if self.has_status:
            _restore(obj, old, "status")

    def prepare_status_update(self, obj: Json, old: Json) -> None:
        """Restore everything but status (and the metadata that a status write may change)."""
        status = obj.get("status")
        metadata = obj["metadata"]
        kept = {key: value for key, value in old.items() if key != "metadata"}
        obj.clear()
        obj.update(kept)
        obj["metadata"] = metadata
        for field in self.metadata_kept_by_status:
            _restore(metadata, old["metadata"], field)
        if status is None:
            obj.pop("status", None)
        else:
            obj["status"] = status

    def prepare_subresource_update(self, subresource: str, obj: Json, old: Json) -> None:
        """Restore the fields that a subresource other than status does not write.

        A write to scale, binding or finalize starts from the stored object, so it has nothing to restore.
        """

    def set_times(self, obj: Json, old: Json, now: str) -> None:
        """Set the times that the client left out in a write to a subresource."""

    def validate_subresource_update(self, subresource: str, obj: Json, old: Json) -> list[FieldError]:
        """Return the errors of a change through a subresource other than status."""
        del subresource, obj, old
        return []

    def validate(self, obj: Json) -> list[FieldError]:
        """Return the errors of a new object."""
        del obj
        return []

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Return the errors of a change."""
        del old
        return self.validate(obj)

    def validate_status_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Return the errors of a change of status."""
        del obj, old
        return []

    def canonicalize(self, obj: Json) -> None:
        """Convert a valid object to its canonical stored form."""
        for field in self.always_written:
            if not obj.get(field):
                obj[field] = None

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """Return whether the desired state differs."""
        return bool(obj.get("spec") != old.get("spec"))

    def fields(self, obj: Json) -> dict[str, str]:
        """Return the selectable fields, besides metadata.name and metadata.namespace."""
        del obj
        return {}

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        """Warnings for the client about an accepted object."""
        del obj, old
        return []

    def weight(self, obj: Json) -> int:
        """Return the weight of an object, in bytes, when its validation takes longer than its size suggests."""
        del obj
        return 0

    def grace_seconds(self, obj: Json, requested: int | None) -> int | None:
        """Return the grace period of a deletion; None: not deleted gracefully (only pods are)."""
        del obj, requested
        return None

    def prepare_delete(self, obj: Json, now: dt.datetime) -> None:
        """Change the object when a deletion begins (a namespace's phase, a CRD's clean-up finalizer)."""
        del obj, now

    def held_by(self, obj: Json) -> int:
        """Return how many entries besides metadata.finalizers hold a deleted object (a namespace's spec.finalizers)."""
        del obj
        return 0


def _restore(obj: Json, old: Json, field: str) -> None:
    if field in old:
        obj[field] = old[field]
    else:
        obj.pop(field, None)
