"""From a method and a path to what is asked for: the request's verb and resource, as Kubernetes reads them.

The path is read once, here. Authorization, the dispatcher, the audit log and metrics all take the same `RequestInfo`,
so that none of them can hold a request to be about something else than the others do.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/request/requestinfo.go
"""

from __future__ import annotations

import msgspec

from kube_fairlead.api import selectors
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.http.messages import Request

__all__ = ["RequestInfo", "read_request"]

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Words before a resource that name the verb. Nothing is served under `proxy` any more.
_VERBS_IN_PATHS = frozenset({"proxy", "watch"})
# Subresources of a namespace itself; any other word behind a namespace's name is a resource inside it.
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_OF_COLLECTIONS = frozenset({"list", "watch", "deletecollection"})


class RequestInfo(msgspec.Struct, frozen=True):
    """What one request is about. For a bare path (health, discovery) only ``verb`` and ``path`` mean anything.

    1. ``namespace`` is what the request is authorised in. That of a Namespace itself is its own name.
    2. ``in_namespace`` is true only if a namespace precedes the resource: a cluster-scoped kind is not served there.
    3. ``name`` may come from a field selector; ``parts`` says what the path itself names.
    """

    path: str
    verb: str  # empty for a method that means nothing to resources
    is_resource: bool = False
    root: str = ""  # api or apis; only the group without a name is under the first
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    method: str = ""
    in_namespace: bool = False
    verb_in_path: bool = False  # /api/v1/watch/..., the old way to ask for a watch
    parts: tuple[str, ...] = ()  # the path from the resource on: resource, name, subresource, a proxy's path
    fields: selectors.FieldMatcher | None = None  # what a list, watch or deletecollection selects by

    def attributes(self, user: UserInfo) -> Attributes:
        """What authorization looks at."""
        return Attributes(
            user=user,
            verb=self.verb,
            path=self.path,
            resource=self.resource,
            group=self.group,
            version=self.version,
            subresource=self.subresource,
            namespace=self.namespace,
            name=self.name,
            fields=self.fields,
            is_resource=self.is_resource,
        )


def read_request(request: Request) -> RequestInfo:
    """Read the path as the Kubernetes API lays it out. Slashes at both ends mean nothing, empty parts inside do."""
    path = request.path
    parts = path.strip("/").split("/")
    bare = RequestInfo(path, request.method.lower(), method=request.method)
    root = parts[0]
    if root not in {"api", "apis"}:
        return bare
    if root == "api":
        if len(parts) < 3:
            return bare
        group, version, parts = "", parts[1], parts[2:]
    else:
        if len(parts) < 4:
            return bare
        group, version, parts = parts[1], parts[2], parts[3:]
    verb = _VERBS.get(request.method, "")
    verb_in_path = parts[0] in _VERBS_IN_PATHS and len(parts) > 1
    if verb_in_path:
        verb, *parts = parts
    namespace, in_namespace = "", False
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            in_namespace, parts = True, parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    selected = _field_selector(request)
    if not name and verb == "get":
        verb = "watch" if request.query.flag("watch") else "list"
        # Who asks for a collection but selects one name asks for that object.
        name = _selected_name(selected)
    elif not name and verb == "delete":
        verb = "deletecollection"
    return RequestInfo(
        path=path,
        verb=verb,
        is_resource=True,
        root=root,
        group=group,
        version=version,
        resource=parts[0],
        subresource=parts[2] if len(parts) > 2 and verb != "proxy" else "",
        namespace=namespace,
        name=name,
        method=request.method,
        in_namespace=in_namespace,
        verb_in_path=verb_in_path,
        parts=tuple(parts),
        # The old paths of watches do not take selectors everywhere, so nothing is allowed because of one.
        fields=selected if verb in _OF_COLLECTIONS and not verb_in_path else None,
    )


def _field_selector(request: Request) -> selectors.FieldMatcher | None:
    text = request.query.get("fieldSelector")
    if not text:
        return None
    try:
        return selectors.parse_field_selector(text)
    except selectors.SelectorError:
        return None  # the verb refuses it; until then it selects nothing in particular


def _selected_name(fields: selectors.FieldMatcher | None) -> str:
    name = (fields.exact("metadata.name") if fields is not None else None) or ""
    return "" if name in {".", ".."} or "/" in name or "%" in name else name
