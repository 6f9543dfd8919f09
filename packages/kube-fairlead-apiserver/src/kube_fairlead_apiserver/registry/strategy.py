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


# The metadata that a client can change at all.
ALL_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


class Strategy:
    """The rules that most kinds share. A kind with rules of its own overrides what differs.

    Methods whose name begins with ``prepare`` or ``default``, and ``canonicalize``, change the object in place; the
    others only look.
    """

    # Kinds that count changes of what their owner asks for (spec) in metadata.generation.
    tracks_generation: bool = False
    # Kinds whose status only the status subresource can write.
    has_status: bool = False
    # What of the metadata a write to the status does not change. Most kinds let it change everything.
    metadata_kept_by_status: tuple[str, ...] = ()
    # Kinds whose PUT creates what is not there.
    allow_create_on_update: bool = False
    # Kinds whose PUT may leave out the resourceVersion and so overwrite whatever is there.
    allow_unconditional_update: bool = True
    # Kinds whose object is handed back by DELETE even when it is gone at once.
    returns_deleted_object: bool = False
    # Kinds that are emptied before they go (namespaces, definitions): neither grace nor generation shows the deletion.
    emptied_first: bool = False
    # A warning in every response about the kind.
    deprecation: str = ""
    # What happens to dependents when a delete does not say (Job and friends orphaned theirs in older versions).
    default_propagation: str = "Background"

    # Lists that are written even when there is nothing in them: as null, which is how Go writes an empty one.
    always_written: tuple[str, ...] = ()

    # What makes a name a good one: given the name, what is wrong with it.
    name_rule: Callable[..., list[str]] = staticmethod(names.name_is_dns_subdomain)
    # The fields that `fields` gives a value for on every object.
    selectable: frozenset[str] = frozenset()

    def default(self, obj: Json) -> None:
        """Fill in what the client left out."""

    def prepare_create(self, obj: Json) -> None:
        """Take out what a client may not set on create."""
        if self.has_status:
            obj.pop("status", None)

    def prepare_update(self, obj: Json, old: Json) -> None:
        """Take back what a client may not change through the main resource."""
        if self.has_status:
            _restore(obj, old, "status")

    def prepare_status_update(self, obj: Json, old: Json) -> None:
        """Take back everything but status (and the metadata that a status write may change)."""
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
        """Take back what another subresource than status does not write.

        Of those whose write begins from what is there (scale, binding, finalize) there is nothing to take back.
        """

    def set_times(self, obj: Json, old: Json, now: str) -> None:
        """Fill in the times of a write to a subresource that the client left out."""

    def validate_subresource_update(self, subresource: str, obj: Json, old: Json) -> list[FieldError]:
        """What is wrong with a change through another subresource than status."""
        del subresource, obj, old
        return []

    def validate(self, obj: Json) -> list[FieldError]:
        """What is wrong with a new object."""
        del obj
        return []

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """What is wrong with a change."""
        del old
        return self.validate(obj)

    def validate_status_update(self, obj: Json, old: Json) -> list[FieldError]:
        """What is wrong with a change of status."""
        del obj, old
        return []

    def canonicalize(self, obj: Json) -> None:
        """Write what is valid in the one way that it is stored in."""
        for field in self.always_written:
            if not obj.get(field):
                obj[field] = None

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """Whether what the owner asks for differs."""
        return bool(obj.get("spec") != old.get("spec"))

    def fields(self, obj: Json) -> dict[str, str]:
        """What field selectors can ask for, besides metadata.name and metadata.namespace."""
        del obj
        return {}

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        """Warnings for the client about an accepted object."""
        del obj, old
        return []

    def weight(self, obj: Json) -> int:
        """As how many bytes of a body an object counts whose validation takes longer than its size says."""
        del obj
        return 0

    def grace_seconds(self, obj: Json, requested: int | None) -> int | None:
        """How long a deletion waits before the object goes; None: not deleted gracefully (only pods are)."""
        del obj, requested
        return None

    def prepare_delete(self, obj: Json, now: dt.datetime) -> None:
        """Change what changes when a deletion begins (a namespace's phase, a CRD's clean-up finalizer)."""
        del obj, now

    def held_by(self, obj: Json) -> int:
        """How many things besides finalizers keep a deleted object (a namespace has finalizers in its spec)."""
        del obj
        return 0


def _restore(obj: Json, old: Json, field: str) -> None:
    if field in old:
        obj[field] = old[field]
    else:
        obj.pop(field, None)
