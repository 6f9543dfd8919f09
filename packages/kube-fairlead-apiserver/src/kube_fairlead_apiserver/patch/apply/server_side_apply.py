"""Server-side apply: merges an applied configuration and keeps the fields of other managers.

live + applied --merge--> merged --prune--> result      prune: what the manager applied before, no longer applies
                                                        and no other manager owns is removed
result vs. live: fields that change and belong to others are conflicts, unless the client forces

Upstream: sigs.k8s.io/structured-merge-diff/v6@v6.3.3/merge/update.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/structuredmerge.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/versioncheck.go
"""

from __future__ import annotations

import datetime as dt
import functools
from typing import Any

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time
from kube_fairlead_apiserver.patch.apply import fieldset, last_applied, managers, validation
from kube_fairlead_apiserver.patch.apply.conflicts import conflict_error, find_conflicts
from kube_fairlead_apiserver.patch.apply.extraction import applied_fields, name_structs, reconciled
from kube_fairlead_apiserver.patch.apply.fieldset import FieldSet
from kube_fairlead_apiserver.patch.apply.manager_versions import Version, Versions
from kube_fairlead_apiserver.patch.apply.managers import Identity, Managed
from kube_fairlead_apiserver.patch.apply.merge import merge, remove_fields
from kube_fairlead_apiserver.patch.apply.relations import rooted
from kube_fairlead_apiserver.patch.apply.update_tracking import (
    UNTRACKED,
    compare_tracked,
    disown,
    record_update,
    tracked_changes,
)
from kube_fairlead_apiserver.patch.depth_limit import ensure_depth
from kube_fairlead_apiserver.patch.json_equality import same_json
from kube_fairlead_apiserver.schema.model import SchemaNode

__all__ = ["apply"]


_BEFORE_FIRST_APPLY = "before-first-apply"


class _Request(msgspec.Struct, frozen=True):
    """One apply request, with the schema and the versions of its kind."""

    node: SchemaNode
    identity: Identity
    api_version: str
    now: dt.datetime
    reset_fields: FieldSet
    versions: Versions | None

    def version_node(self, version: str) -> SchemaNode:
        """Return the schema of the version that an entry is written in."""
        known = (self.versions or {}).get(version)
        return self.node if known is None or known.shown is None else rooted(known.node)


def apply(
    node: SchemaNode,
    live: Json | None,
    applied: Any,
    manager: str,
    *,
    force: bool,
    api_version: str,
    kind: str,
    now: dt.datetime,
    subresource: str = "",
    reset_fields: FieldSet | None = None,
    versions: Versions | None = None,
) -> tuple[Json, list[Json]]:
    """Apply a configuration. Returns the object, `managedFields` included, and those `managedFields`.

    `live` is None when the object does not exist yet. When nothing changes, the object is `live` itself. For
    `reset_fields` and `versions` see `update_tracking.track_update`. The caller applies defaults and validates.
    """
    _check_applied(node, applied, api_version, kind)
    request = _Request(
        node=rooted(node),
        identity=Identity.of(manager, "Apply", api_version, subresource),
        api_version=api_version,
        now=now,
        reset_fields=reset_fields or {},
        versions=versions,
    )
    start: Json = live if live is not None else {"apiVersion": api_version, "kind": kind, "metadata": {}}
    stored = (start.get("metadata") or {}).get("managedFields")
    managed = managers.read_stored(stored)
    if not managed:
        managed = _owned_before(request, start)
    managed = {
        identity: {**found, "fieldsV1": after} if after is not found["fieldsV1"] else found
        for identity, found in managed.items()
        for after in (reconciled(request.version_node(found["apiVersion"]), found["fieldsV1"]),)
    }
    result, managed = _merge_and_own(request, start, applied, managed, force=force)
    if manager == last_applied.MANAGER:
        result = last_applied.refreshed(result, applied)
    entries = managers.encode(managed)
    if live is not None and result is start and entries == (stored or []):
        return live, stored or []
    return managers.with_managed_fields(result, entries), entries


def _check_applied(node: SchemaNode, applied: Any, api_version: str, kind: str) -> None:
    if not isinstance(applied, dict):
        raise errors.BadRequest("error decoding YAML: the applied configuration must be an object")
    ensure_depth(applied)
    if applied.get("apiVersion") != api_version or applied.get("kind") != kind:
        found = f"{applied.get('apiVersion') or ''}, Kind={applied.get('kind') or ''}"
        raise errors.BadRequest(f"invalid object type: {found}")
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise errors.BadRequest("metadata.managedFields must be nil")
    found_problems = validation.problems(rooted(node), applied)
    if found_problems:
        names = metadata if isinstance(metadata, dict) else {}
        raise errors.BadRequest(
            f"failed to create typed patch object ({names.get('namespace', '')}/{names.get('name', '')}; "
            f"{api_version}, Kind={kind}): {validation.summary(found_problems)}"
        )


def _owned_before(request: _Request, live: Json) -> Managed:
    """Give an object without managedFields a manager, so that the first apply can conflict."""
    identity = Identity.of(_BEFORE_FIRST_APPLY, "Update", request.api_version, request.identity.subresource)
    return record_update(
        {}, request.node, {}, live, identity, request.api_version, request.now, reset_fields=request.reset_fields
    )


def _merge_and_own(
    request: _Request, live: Json, applied: Json, managed: Managed, *, force: bool
) -> tuple[Json, Managed]:
    """Return the merged object (`live` itself if it is equal) and the entries after the apply."""
    last = managed.get(request.identity)
    fields = fieldset.recursive_difference(applied_fields(request.node, applied), request.reset_fields)
    merged = merge(request.node, live, applied)
    claims = {**managed, request.identity: {"apiVersion": request.api_version, "fieldsV1": fields}}
    given_up = {} if last is None else _given_up(request.node, merged, last["fieldsV1"], claims)
    if given_up:
        given_up = fieldset.difference(given_up, _owned_elsewhere(request, merged, given_up, claims))
    result = remove_fields(request.node, merged, given_up) if given_up else merged
    marked = remove_fields(request.node, merged, given_up, mark_emptied=True) if given_up else merged
    changes = tracked_changes(request.api_version, request.node, live, marked, request.reset_fields, request.versions)
    conflicts = find_conflicts(claims, changes, request.identity)
    if conflicts and not force:
        if request.identity.manager == last_applied.MANAGER:
            allowed = last_applied.fields_in_force(request.node, live, request.api_version)
            conflicts = [found for found in conflicts if not fieldset.has(allowed, found.path)]
        if conflicts:
            raise conflict_error(conflicts)
    after = disown(managed, changes, keep=request.identity)
    same = same_json(live, result)
    owned = fieldset.difference(fields, UNTRACKED)
    after = {identity: found for identity, found in after.items() if identity != request.identity}
    if owned:
        # The time is that of the manager's last change, so an apply that changes nothing keeps it.
        time = format_time(request.now) if not same else None if last is None else last.get("time")
        after[request.identity] = managers.entry(request.identity, request.api_version, owned, time)
    return (live if same else result), after


def _given_up(node: SchemaNode, merged: Json, last: FieldSet, claims: Managed) -> FieldSet:
    """Return the fields to remove from the merged object: those that only the last apply of this manager owned."""
    claimed = _everything_owned(claims)
    if fieldset.is_subset(last, claimed):
        return {}
    last = name_structs(node, last)
    present = _present(node, merged)
    # First remove everything that the last apply owned, then restore what any manager owns...
    kept = fieldset.union(_present(node, _marked(node, merged, last)), name_structs(node, claimed))
    left = _present(node, _marked(node, merged, fieldset.difference(present, kept)))
    # ...and restore what was removed with them and was not owned by the last apply.
    return fieldset.intersection(fieldset.difference(present, left), last)


def _owned_elsewhere(request: _Request, merged: Json, given_up: FieldSet, claims: Managed) -> FieldSet:
    """Of the fields to remove, return those that another manager owns under their name in another version."""
    others = [
        (version, found["fieldsV1"])
        for found in claims.values()
        for version in ((request.versions or {}).get(found["apiVersion"]),)
        if found["apiVersion"] != request.api_version and version is not None and version.shown is not None
    ]
    every = list(fieldset.paths(given_up)) if others else []
    kept = [found for version, fields in others for found in _seen_by(request, merged, every, version, fields)]
    return fieldset.union_all(kept)


def _seen_by(
    request: _Request, merged: Json, some: list[tuple[str, ...]], version: Version, fields: FieldSet
) -> list[FieldSet]:
    """Return the fields whose removal changes one of `fields` in another version.

    Usually there is none, so all are removed at once first. If that changes a field, each half is tried.
    """
    removed = fieldset.union_all(
        [functools.reduce(lambda below, element: {element: below}, reversed(path), FieldSet()) for path in some]
    )
    rest = remove_fields(request.node, merged, removed)
    seen = compare_tracked(version.node, version.show(merged), version.show(rest))
    if not fieldset.intersection(fields, fieldset.union(seen.removed, seen.modified)):
        return []
    if len(some) == 1:
        return [removed]
    middle = len(some) // 2
    return [
        found for half in (some[:middle], some[middle:]) for found in _seen_by(request, merged, half, version, fields)
    ]


def _present(node: SchemaNode, value: Json) -> FieldSet:
    return name_structs(node, applied_fields(node, value))


def _marked(node: SchemaNode, value: Json, fields: FieldSet) -> Json:
    return remove_fields(node, value, fields, mark_emptied=True)


def _everything_owned(managed: Managed) -> FieldSet:
    """Return the fields that any manager owns."""
    return fieldset.union_all([found["fieldsV1"] for found in managed.values()])
