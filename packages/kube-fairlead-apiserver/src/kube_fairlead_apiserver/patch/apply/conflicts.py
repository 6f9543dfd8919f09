"""Finds the fields that an apply would change although other managers own them.

Upstream: sigs.k8s.io/structured-merge-diff/v6@v6.3.3/merge/conflict.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/conflict.go
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kube_fairlead.api import errors
from kube_fairlead_apiserver.patch.apply import elements, fieldset
from kube_fairlead_apiserver.patch.apply.manager_versions import Changes
from kube_fairlead_apiserver.patch.apply.managers import Identity, Managed

__all__ = ["Conflict", "conflict_error", "find_conflicts"]


class Conflict(NamedTuple):
    """One field and one of its owners."""

    owner: Identity
    path: tuple[str, ...]

    @property
    def field(self) -> str:
        """The path, as error messages show it."""
        return "".join(elements.describe(element) for element in self.path)


def find_conflicts(managed: Managed, changes: Changes, applier: Identity) -> list[Conflict]:
    """Return the changed fields that other managers own, by owner and path, each as a path of its owner's version."""
    conflicts: list[Conflict] = []
    changed: dict[str, fieldset.FieldSet] = {}
    for owner in sorted(managed):
        version = managed[owner]["apiVersion"]
        if owner == applier or (seen := changes.of(version)) is None:
            continue
        if version not in changed:
            changed[version] = fieldset.union(seen.modified, seen.added)
        shared = fieldset.intersection(managed[owner]["fieldsV1"], changed[version])
        conflicts += (Conflict(owner, path) for path in fieldset.paths(shared))
    return conflicts


def conflict_error(conflicts: list[Conflict]) -> errors.Conflict:
    """Build the 409 that lists the fields and their owners.

    The client resolves it by force, or by applying the same value.
    """
    causes: list[dict[str, Any]] = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {found.owner}", "field": found.field}
        for found in conflicts
    ]
    if len(conflicts) == 1:
        only = conflicts[0]
        message = f"Apply failed with 1 conflict: conflict with {only.owner}: {only.field}"
        return errors.apply_conflict(causes, message)
    lines: list[str] = []
    previous: Identity | None = None
    for found in conflicts:
        if found.owner != previous:
            lines.append(f"conflicts with {found.owner}:")
            previous = found.owner
        lines.append(f"- {found.field}")
    return errors.apply_conflict(causes, f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines))
