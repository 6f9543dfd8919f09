"""From a method and a path to what is asked for: the request's verb and resource, as Kubernetes reads them."""

from __future__ import annotations

import msgspec

from fairlead.apiserver.http.messages import Request

__all__ = ["RequestInfo", "read_request"]

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Subresources of a namespace itself; any other word behind a namespace's name is a resource inside it.
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestInfo(msgspec.Struct, frozen=True):
    """What one request is about. For a bare path (health, discovery) only ``verb`` and ``path`` mean anything."""

    path: str
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    rest: tuple[str, ...] = ()  # what follows the subresource (a proxy's path)


def read_request(request: Request) -> RequestInfo:
    """Read the path as the Kubernetes API lays it out."""
    path = request.path
    parts = [part for part in path.split("/") if part]
    bare = RequestInfo(path, request.method.lower())
    if not parts or parts[0] not in {"api", "apis"}:
        return bare
    if parts[0] == "api":
        if len(parts) < 3:
            return bare
        group, version, parts = "", parts[1], parts[2:]
    else:
        if len(parts) < 4:
            return bare
        group, version, parts = parts[1], parts[2], parts[3:]
    watching = parts[0] == "watch" and len(parts) > 1
    if watching:
        parts = parts[1:]  # the old way to ask for a watch, which some clients still use
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and (parts[2] not in _NAMESPACE_SUBRESOURCES or len(parts) > 3):
            parts = parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    return RequestInfo(
        path=path,
        verb="watch" if watching else _verb(request, name),
        is_resource=True,
        group=group,
        version=version,
        resource=parts[0],
        subresource=subresource,
        namespace=namespace,
        name=name,
        rest=tuple(parts[3:]),
    )


def _verb(request: Request, name: str) -> str:
    verb = _VERBS.get(request.method, request.method.lower())
    if name:
        return verb
    if verb == "get":
        return "watch" if request.query.flag("watch") else "list"
    if verb == "delete":
        return "deletecollection"
    return verb
