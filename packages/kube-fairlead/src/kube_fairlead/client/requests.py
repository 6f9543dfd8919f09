"""Paths, queries and bodies of the Kubernetes API. Pure: builds requests, sends none.

Upstream: k8s.io/client-go@v0.36.4/rest/request.go
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping
from typing import Any

from kube_fairlead.api.gvk import GroupVersionResource

__all__ = [
    "Query",
    "WriteOptions",
    "delete_body",
    "group_version_path",
    "list_query",
    "resource_path",
    "watch_query",
]

Query = tuple[tuple[str, str], ...]


def group_version_path(group: str, version: str) -> str:
    """Where a group version is served; the core group has a root of its own."""
    return f"/apis/{_segment(group)}/{_segment(version)}" if group else f"/api/{_segment(version)}"


def resource_path(
    gvr: GroupVersionResource, *, namespace: str | None = None, name: str = "", subresource: str = ""
) -> str:
    """The path of a collection, an object in it, or a subresource of that object.

    Raises:
        ValueError: a subresource without a name.
    """
    if subresource and not name:
        raise ValueError(f"a name must be given for the subresource {subresource!r}")
    parts = [group_version_path(gvr.group, gvr.version)]
    if namespace:
        parts += ["namespaces", _segment(namespace)]
    parts.append(_segment(gvr.resource))
    if name:
        parts.append(_segment(name))
    if subresource:
        # "proxy/some/path" and the like are given as one string.
        parts.append(urllib.parse.quote(subresource, safe="/"))
    return "/".join(parts)


def list_query(
    *,
    label_selector: str = "",
    field_selector: str = "",
    resource_version: str = "",
    resource_version_match: str = "",
    limit: int = 0,
    continue_token: str = "",
) -> Query:
    """What narrows a list or a deletecollection down."""
    return _present(
        {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
            "limit": str(limit) if limit else "",
            "continue": continue_token,
        }
    )


def watch_query(
    *,
    label_selector: str = "",
    field_selector: str = "",
    resource_version: str = "",
    bookmarks: bool = True,
    timeout_seconds: int = 0,
    send_initial_events: bool = False,
) -> Query:
    """What is watched, and from when on."""
    return _present(
        {
            "watch": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true" if bookmarks else "",
            "timeoutSeconds": str(timeout_seconds) if timeout_seconds else "",
            "sendInitialEvents": "true" if send_initial_events else "",
            "resourceVersionMatch": "NotOlderThan" if send_initial_events else "",
        }
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What may accompany any write."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""  # Ignore, Warn or Strict
    force: bool = False  # apply only: take fields over from other managers

    def query(self) -> Query:
        """As query parameters."""
        return _present(
            {
                "dryRun": "All" if self.dry_run else "",
                "fieldManager": self.field_manager,
                "fieldValidation": self.field_validation,
                "force": "true" if self.force else "",
            }
        )


def delete_body(
    *,
    grace_period_seconds: int | None = None,
    propagation_policy: str = "",
    orphan_dependents: bool | None = None,
    uid: str = "",
    resource_version: str = "",
    dry_run: bool = False,
    ignore_store_read_errors: bool = False,
) -> dict[str, Any]:
    """DeleteOptions with only what is set: an absent grace period and one of 0 mean different things."""
    body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if grace_period_seconds is not None:
        body["gracePeriodSeconds"] = grace_period_seconds
    if propagation_policy:
        body["propagationPolicy"] = propagation_policy
    if orphan_dependents is not None:
        body["orphanDependents"] = orphan_dependents
    preconditions = dict(_present({"uid": uid, "resourceVersion": resource_version}))
    if preconditions:
        body["preconditions"] = preconditions
    if dry_run:
        body["dryRun"] = ["All"]
    if ignore_store_read_errors:
        body["ignoreStoreReadErrorWithClusterBreakingPotential"] = True
    return body


def _present(values: Mapping[str, str]) -> Query:
    return tuple((key, value) for key, value in values.items() if value)


def _segment(text: str) -> str:
    # What Kubernetes forbids in a name would become another path here, and the wrong object would be written.
    if text in {".", ".."} or "/" in text or "%" in text:
        raise ValueError(f"{text!r} cannot be part of an API path: it may not be '.', '..' or contain '/' or '%'")
    return urllib.parse.quote(text, safe="")
