"""Query and path parameters, each written once. The descriptions are ours; the names are Kubernetes'.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/types.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/installer.go
"""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.api.json_object import Json

__all__ = ["CREATE", "DELETE", "DELETE_COLLECTION", "LIST", "NAME", "NAMESPACE", "PATCH", "UPDATE"]


def _query(name: str, description: str, **schema: Any) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": {"type": "string", **schema}}


def _path(name: str, description: str) -> Json:
    return {"name": name, "in": "path", "description": description, "required": True, "schema": {"type": "string"}}


_CONTINUE = _query("continue", "Where the previous page of this list ended, as the server said.")
_FIELD_SELECTOR = _query("fieldSelector", "Only objects whose fields match, such as spec.nodeName=n1.")
_LABEL_SELECTOR = _query("labelSelector", "Only objects whose labels match, such as app=web,tier!=test.")
_LIMIT = _query("limit", "At most this many objects; the answer says where to go on.", type="integer")
_RESOURCE_VERSION = _query("resourceVersion", "The version to read at, or to watch from.")
_VERSION_MATCH = _query(
    "resourceVersionMatch", "How resourceVersion is meant for a list.", enum=["Exact", "NotOlderThan"]
)
_SEND_INITIAL = _query("sendInitialEvents", "Begin a watch with every object there is.", type="boolean")
_TIMEOUT = _query("timeoutSeconds", "End a list or watch after this time.", type="integer")
_DRY_RUN = _query("dryRun", "All: do everything but store the result.", enum=["All"])
_FIELD_MANAGER = _query("fieldManager", "Who makes this change, for the record of who set which field.")
_FIELD_VALIDATION = _query(
    "fieldValidation", "What to do about unknown and duplicate fields.", enum=["Ignore", "Warn", "Strict"]
)
_FORCE = _query("force", "Take fields over from other managers; for server-side apply.", type="boolean")
_GRACE = _query("gracePeriodSeconds", "How long the object may take to end.", type="integer")
_ORPHAN = _query("orphanDependents", "Superseded by propagationPolicy.", type="boolean")
_PROPAGATION = _query("propagationPolicy", "What happens to dependents.", enum=["Background", "Foreground", "Orphan"])

NAME: Final = _path("name", "The object's name.")
NAMESPACE: Final = _path("namespace", "The object's namespace.")

CREATE: Final = (_DRY_RUN, _FIELD_MANAGER, _FIELD_VALIDATION)
UPDATE: Final = CREATE
PATCH: Final = (*UPDATE, _FORCE)
DELETE: Final = (_DRY_RUN, _GRACE, _ORPHAN, _PROPAGATION)
LIST: Final = (
    _query("allowWatchBookmarks", "Let a watch say from time to time how far it has come.", type="boolean"),
    _CONTINUE,
    _FIELD_SELECTOR,
    _LABEL_SELECTOR,
    _LIMIT,
    _RESOURCE_VERSION,
    _VERSION_MATCH,
    _SEND_INITIAL,
    _TIMEOUT,
    _query("watch", "Stream changes instead of answering once.", type="boolean"),
)
DELETE_COLLECTION: Final = (
    _CONTINUE,
    _DRY_RUN,
    _FIELD_SELECTOR,
    _GRACE,
    _LABEL_SELECTOR,
    _LIMIT,
    _ORPHAN,
    _PROPAGATION,
    _RESOURCE_VERSION,
    _VERSION_MATCH,
    _TIMEOUT,
)
