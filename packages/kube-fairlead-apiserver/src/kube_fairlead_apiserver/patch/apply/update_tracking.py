"""Tracks field ownership after a write that is not an apply: create, update and the other patches.

Upstream: sigs.k8s.io/structured-merge-diff/v6@v6.3.3/merge/update.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/structuredmerge.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/stripmeta.go
"""

from __future__ import annotations

import datetime as dt

from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time
from kube_fairlead_apiserver.patch.apply import fieldset, managers
from kube_fairlead_apiserver.patch.apply.comparison import Comparison, compare
from kube_fairlead_apiserver.patch.apply.elements import SELF, MalformedFieldsError
from kube_fairlead_apiserver.patch.apply.extraction import new_fields
from kube_fairlead_apiserver.patch.apply.fieldset import FieldSet
from kube_fairlead_apiserver.patch.apply.manager_versions import Changes, Versions
from kube_fairlead_apiserver.patch.apply.managers import Identity, Managed
from kube_fairlead_apiserver.patch.apply.relations import child, rooted
from kube_fairlead_apiserver.schema.model import SchemaNode

__all__ = ["UNTRACKED", "compare_tracked", "disown", "record_update", "track_update", "tracked_changes"]


_UNTRACKED_META = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
# Fields that identify an object or belong to the server have no owner.
UNTRACKED: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {SELF: {}} | {"f:" + name: {} for name in _UNTRACKED_META},
}


def track_update(
    node: SchemaNode,
    live: Json | None,
    new: Json,
    manager: str,
    api_version: str,
    now: dt.datetime,
    subresource: str = "",
    *,
    reset_fields: FieldSet | None = None,
    versions: Versions | None = None,
) -> list[Json]:
    """Return the `managedFields` of `new`, which replaces `live` (None: it is created), after a change by `manager`.

    `reset_fields` are those that the server resets after this write: the status in a write to the main resource, all
    but the status in a write to the status. The write gives no manager ownership of them. `versions` are all served
    versions of the kind; entries of a removed version are dropped. Without it, all versions are assumed to have the
    same fields.

    An unchanged list is returned as the same object.
    """
    found = _starting_point(live, new, ignore_request=bool(subresource))
    managed = managers.read_stored(found)
    if not managed and live is not None and (live.get("metadata") or {}).get("uid"):
        return []  # not tracked yet, and an update does not begin to track
    identity = Identity.of(manager, "Update", api_version, subresource)
    if live is None and not managed:
        # A new object takes no field from any manager.
        fields = _created(node, new, reset_fields)
        return [managers.entry(identity, api_version, fields, format_time(now))] if fields else []
    after = record_update(
        managed,
        node,
        live or {},
        new,
        identity,
        api_version,
        now,
        reset_fields=reset_fields,
        versions=versions,
    )
    return found if after is managed else managers.encode(managers.capped(after))


def _starting_point(live: Json | None, new: Json, *, ignore_request: bool) -> list[Json]:
    """Return the entries to start from: the client's if they are valid, else those of the live object."""
    stored = ((live or {}).get("metadata") or {}).get("managedFields") or []
    if ignore_request:
        return stored
    sent = (new.get("metadata") or {}).get("managedFields")
    if sent is None or sent is stored or sent == stored:
        return stored
    if managers.is_reset(sent):
        return []
    try:
        managed = managers.read_untrusted(sent)
    except MalformedFieldsError:
        return stored
    return managers.encode(managed) or stored


def record_update(
    managed: Managed,
    node: SchemaNode,
    before: Json,
    after: Json,
    identity: Identity,
    api_version: str,
    now: dt.datetime,
    *,
    reset_fields: FieldSet | None = None,
    versions: Versions | None = None,
) -> Managed:
    """Return the entries after a change: `identity` owns the changed fields now. The same object if nothing changed."""
    changes = tracked_changes(api_version, node, before, after, reset_fields, versions)
    others = disown(managed, changes)
    taken = fieldset.union(changes.own.modified, changes.own.added)
    if not taken:
        return others
    previous = others.get(identity)
    fields = taken if previous is None else fieldset.union(previous["fieldsV1"], taken)
    return {**others, identity: managers.entry(identity, api_version, fields, format_time(now))}


def tracked_changes(
    api_version: str,
    node: SchemaNode,
    before: Json,
    after: Json,
    reset_fields: FieldSet | None,
    versions: Versions | None,
) -> Changes:
    """Return the changes of fields that can be owned, for every version."""

    def compared(schema: SchemaNode, old: Json, new: Json) -> Comparison:
        return compare_tracked(schema, old, new, reset_fields)

    return Changes(compared, api_version, node, before, after, versions)


def compare_tracked(node: SchemaNode, before: Json, after: Json, reset_fields: FieldSet | None = None) -> Comparison:
    """Compare the fields that can be owned and are not reset."""
    return compare(rooted(node), _tracked(before), _tracked(after)).without(reset_fields or {})


def _created(node: SchemaNode, new: Json, reset_fields: FieldSet | None) -> FieldSet:
    """Return all fields of a new object that can be owned.

    The result of a comparison with nothing, without building it.
    """
    whole, tracked = rooted(node), _tracked(new)
    metadata = new_fields(child(whole, "metadata"), tracked.pop("metadata"))
    fields = {"f:metadata": metadata} if metadata else {}
    fields.update(new_fields(whole, tracked, whole_object=True))
    return fieldset.recursive_difference(fields, reset_fields) if reset_fields else fields


def _tracked(value: Json) -> Json:
    metadata = value.get("metadata") or {}
    owned = {name: item for name, item in metadata.items() if name not in _UNTRACKED_META}
    # Always there, so that metadata itself never counts as added or removed.
    result: Json = {"metadata": owned}
    for name, item in value.items():
        if name not in {"apiVersion", "kind", "metadata"}:
            result[name] = item
    return result


def disown(managed: Managed, changes: Changes, *, keep: Identity | None = None) -> Managed:
    """Remove changed and removed fields from the entries, except from the entry to keep. Empty entries are dropped.

    An entry of another version holds the fields of that version, so it is compared in that version.
    """
    result: Managed = {}
    touched = False
    for identity, found in managed.items():
        if identity == keep:
            result[identity] = found
            continue
        seen = changes.of(found["apiVersion"])
        if seen is None:
            touched = True
            continue
        fields = found.get("fieldsV1") or {}
        rest = fieldset.difference(
            fieldset.difference(fieldset.difference(fields, seen.modified), seen.added), seen.removed
        )
        if rest is fields and fields:
            result[identity] = found
        else:
            touched = True
            if rest:
                result[identity] = {**found, "fieldsV1": rest}
    return result if touched else managed
