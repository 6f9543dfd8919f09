"""From a method and a path to the request's verb and resource, as in Kubernetes.

The path is parsed once, here. Authorization, the dispatcher, the audit log and metrics use the same `RequestInfo`, so
that they cannot disagree about a request.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/request/requestinfo.go
"""

from __future__ import annotations

import msgspec

from kube_fairlead.api import selectors
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.http.messages import Request

__all__ = ["RequestInfo", "read_request"]

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Path elements before a resource that name the verb. Nothing is served under `proxy` any more.
_VERBS_IN_PATHS = frozenset({"proxy", "watch"})
# Subresources of a namespace itself; any other element after a namespace's name is a resource in it.
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_OF_COLLECTIONS = frozenset({"list", "watch", "deletecollection"})


class RequestInfo(msgspec.Struct, frozen=True):
    """The verb and resource of one request. For a non-resource path only ``verb`` and ``path`` are set.

    1. ``namespace`` is the namespace of the authorization. That of a Namespace itself is its own name.
    2. ``in_namespace`` is true only if a namespace precedes the resource: a cluster-scoped kind is not served there.
    3. ``name`` may come from a field selector; ``parts`` is the path itself.
    """

    path: str
    verb: str  # empty for a method without a verb
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
    verb_in_path: bool = False  # /api/v1/watch/..., the deprecated path of a watch
    parts: tuple[str, ...] = ()  # the path from the resource on: resource, name, subresource, a proxy's path
    fields: selectors.FieldMatcher | None = None  # the selectors of a list, watch or deletecollection

    def attributes(self, user: UserInfo) -> Attributes:
        """Return the attributes for authorization."""
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
    """Parse the path of the Kubernetes API. Slashes at both ends are ignored, empty elements inside are not."""
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
        # A request for a collection that selects one name counts as a request for that object.
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
        # The deprecated paths of watches do not support selectors everywhere, so a selector allows nothing.
        fields=selected if verb in _OF_COLLECTIONS and not verb_in_path else None,
    )


def _field_selector(request: Request) -> selectors.FieldMatcher | None:
    text = request.query.get("fieldSelector")
    if not text:
        return None
    try:
        return selectors.parse_field_selector(text)
    except selectors.SelectorError:
        return None  # the verb rejects it; until then it selects nothing


def _selected_name(fields: selectors.FieldMatcher | None) -> str:
    name = (fields.exact("metadata.name") if fields is not None else None) or ""
    return "" if name in {".", ".."} or "/" in name or "%" in name else name
