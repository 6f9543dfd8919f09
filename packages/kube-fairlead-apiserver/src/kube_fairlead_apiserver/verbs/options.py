"""Options in the query: validated as one object, with all field errors.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/validation/validation.go,
    k8s.io/apimachinery@v0.36.4/pkg/apis/meta/internalversion/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Iterable

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.gvk import GroupKind
from kube_fairlead_apiserver.http.messages import Query

__all__ = ["check_list_options", "check_watch_options", "check_write_options", "refuse"]

_MANAGER_MAX = 128
_VALIDATION = ("", "Ignore", "Strict", "Warn")


def refuse(kind: str, problems: Iterable[FieldError]) -> errors.Invalid:
    """422: the options object is invalid."""
    return errors.invalid(GroupKind("meta.k8s.io", kind), "", problems)


def check_write_options(kind: str, query: Query, *, applies: bool) -> None:
    """dryRun, fieldManager, fieldValidation and force of a write."""
    problems: list[FieldError] = []
    dry_run = query.all("dryRun")
    if dry_run not in ([], ["All"]):
        problems.append(FieldError.not_supported(FieldPath("dryRun"), dry_run, ("All",)))
    manager = query.get("fieldManager")
    if applies and not manager:
        problems.append(FieldError.required(FieldPath("fieldManager"), "is required for apply patch"))
    if len(manager.encode()) > _MANAGER_MAX:
        problems.append(FieldError.too_long(FieldPath("fieldManager"), manager, _MANAGER_MAX))
    for position, char in enumerate(manager):
        if not char.isprintable():
            detail = f"invalid character {char!r} (at position {position})"
            problems.append(FieldError.invalid(FieldPath("fieldManager"), manager, detail))
    if kind == "PatchOptions" and not applies and "force" in query:
        problems.append(FieldError.forbidden(FieldPath("force"), "may not be specified for non-apply patch"))
    validation = query.get("fieldValidation")
    if validation not in _VALIDATION:
        problems.append(FieldError.not_supported(FieldPath("fieldValidation"), validation, _VALIDATION))
    if problems:
        raise refuse(kind, problems)


def check_list_options(query: Query) -> None:
    """Validate resourceVersionMatch with its related options."""
    if "sendInitialEvents" in query:
        problem = FieldError.forbidden(FieldPath("sendInitialEvents"), "sendInitialEvents is forbidden for list")
        raise refuse("ListOptions", [problem])
    match, version = query.get("resourceVersionMatch"), query.get("resourceVersion")
    path = FieldPath("resourceVersionMatch")
    if not match:
        return
    problems: list[FieldError] = []
    if query.get("continue"):
        problems.append(FieldError.forbidden(path, "resourceVersionMatch is forbidden for continue"))
    if not version:
        problems.append(
            FieldError.forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided")
        )
    if match not in {"Exact", "NotOlderThan"}:
        problems.append(FieldError.not_supported(path, match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and version == "0":
        problems.append(FieldError.forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if problems:
        raise refuse("ListOptions", problems)


def check_watch_options(query: Query) -> None:
    """SendInitialEvents and resourceVersionMatch need each other."""
    match = query.get("resourceVersionMatch")
    path = FieldPath("resourceVersionMatch")
    problems: list[FieldError] = []
    if query.get("continue"):
        problems.append(FieldError.forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
    if "sendInitialEvents" not in query:
        if match:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            problems.append(FieldError.forbidden(path, detail))
    elif match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        problems.append(FieldError.forbidden(path, detail))
        if match:
            problems.append(FieldError.not_supported(path, match, ("NotOlderThan",)))
    if problems:
        raise refuse("ListOptions", problems)
