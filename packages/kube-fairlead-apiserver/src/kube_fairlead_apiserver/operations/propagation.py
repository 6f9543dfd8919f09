"""The propagation policy of a delete, as the two finalizers that the garbage collector acts on.

Upstream: k8s.io/apiserver@v0.36.4/pkg/registry/generic/registry/store.go,
    k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.gvk import GroupKind

__all__ = ["FOREGROUND", "ORPHAN", "DeleteRequest", "finalizers_for", "read_delete_options"]

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_POLICIES = ("Foreground", "Background", "Orphan", "nil")


class DeleteRequest(msgspec.Struct, frozen=True):
    """DeleteOptions, decoded and validated."""

    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None  # None: not specified
    dry_run: bool = False
    wire: dict[str, Any] = {}
    # The deprecated orphanDependents=false requests the status code of an unfinished deletion.
    wants_accepted: bool = False
    # One of a collection: admission sees no name, as in Kubernetes.
    of_collection: bool = False


def read_delete_options(wire: dict[str, Any]) -> DeleteRequest:
    """Validate DeleteOptions; an error is a 422 that names the field."""
    problems: list[FieldError] = []
    preconditions = wire.get("preconditions") or {}
    if not isinstance(preconditions, dict) or not all(isinstance(v, str | None) for v in preconditions.values()):
        problems.append(FieldError.invalid(FieldPath("preconditions"), preconditions, "must be an object of strings"))
        preconditions = {}
    grace = wire.get("gracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int) or not -(2**63) <= grace < 2**63):
        problems.append(FieldError.invalid(FieldPath("gracePeriodSeconds"), grace, "must be a whole number of seconds"))
        grace = None
    policy = wire.get("propagationPolicy")
    orphan = wire.get("orphanDependents")
    if policy is not None and orphan is not None:
        problems.append(
            FieldError.invalid(
                FieldPath("propagationPolicy"), policy, "orphanDependents and deletionPropagation cannot be both set"
            )
        )
    elif policy is not None and policy not in _POLICIES[:3]:
        problems.append(FieldError.not_supported(FieldPath("propagationPolicy"), policy, _POLICIES))
    dry_run = wire.get("dryRun") or []
    if dry_run not in ([], ["All"]):
        problems.append(FieldError.not_supported(FieldPath("dryRun"), dry_run, ("All",)))
    if problems:
        raise errors.invalid(GroupKind("meta.k8s.io", "DeleteOptions"), "", problems)
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    return DeleteRequest(
        grace_seconds=grace,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=policy,
        dry_run=bool(dry_run),
        wire=wire,
        wants_accepted=orphan is False,
    )


def finalizers_for(existing: Sequence[str], propagation: str | None, default: str) -> list[str]:
    """Return the finalizers after a delete with this policy. Without a policy the existing finalizers decide."""
    if propagation is None:
        if ORPHAN in existing:
            propagation = "Orphan"
        elif FOREGROUND in existing:
            propagation = "Foreground"
        else:
            propagation = default
    kept = [finalizer for finalizer in existing if finalizer not in {ORPHAN, FOREGROUND}]
    if propagation == "Orphan":
        kept.append(ORPHAN)
    elif propagation == "Foreground":
        kept.append(FOREGROUND)
    return kept if sorted(kept) != sorted(existing) else list(existing)
