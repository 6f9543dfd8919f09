"""Discovery: the groups, versions and resources of this server.

Two forms of the same data. The legacy one is a document per group and version; the aggregated one has everything in one
response (apidiscovery.k8s.io), selected by the Accept header and cached by clients under its ETag.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/discovery/group.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/discovery/legacy.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/discovery/root.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/discovery/version.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/discovery/aggregated/handler.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/discovery/aggregated/etag.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/discovery/aggregated/negotiation.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/customresource_discovery_controller.go
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.crd.definition import version_order
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.resource import Resource, Subresource
from kube_fairlead_apiserver.types.resources import storage_version_hash

__all__ = ["Discovery"]

Handler = Callable[[Request, UserInfo], Awaitable[Response]]

_JSON: Final = "application/json"
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_AGGREGATED_VERSIONS: Final = ("v2", "v2beta1")
# Objects of these are stored in another group or version.
_STORED_AS: Final = {
    GroupVersionKind("events.k8s.io", "v1", "Event"): GroupVersionKind("", "v1", "Event"),
    GroupVersionKind("autoscaling", "v1", "HorizontalPodAutoscaler"): GroupVersionKind(
        "autoscaling", "v2", "HorizontalPodAutoscaler"
    ),
}


class Discovery:
    """Serves /api, /apis and the paths below, from the current catalog."""

    def __init__(self, catalog: Catalog, server_address: str) -> None:
        self._catalog = catalog
        self._server_address = server_address
        self._generation = -1
        self._documents: dict[tuple[str, str], tuple[bytes, str]] = {}  # by path and media type: body and ETag

    def paths(self) -> dict[str, Handler]:
        """Return the exact paths that this serves."""
        return {"/api": self._answer, "/apis": self._answer}

    def prefixes(self) -> dict[str, Handler]:
        """Return the prefixes of documents of single groups and versions."""
        return {"/api/": self._answer, "/apis/": self._answer}

    async def _answer(self, request: Request, _user: UserInfo) -> Response:
        if request.method not in {"GET", "HEAD"}:
            raise errors.MethodNotSupported("the server does not allow this method on the requested resource")
        path = request.path.rstrip("/")
        media = _negotiate(request.header("accept"), aggregated=path in {"/api", "/apis"})
        body, etag = self._document(path, media)
        response = Response(200, body, media)
        if path in {"/api", "/apis"}:
            response.headers.append(("vary", "Accept"))
        if media != _JSON:
            response.headers += [("etag", etag), ("cache-control", "public")]
            if etag in request.header("if-none-match"):
                return Response(304, b"", media, response.headers)
        return response

    def _document(self, path: str, media: str) -> tuple[bytes, str]:
        if self._generation != self._catalog.generation:
            self._generation = self._catalog.generation
            self._documents.clear()
        found = self._documents.get((path, media))
        if found is None:
            value = self.document(path) if media == _JSON else self.aggregated(path, _version_of(media))
            body = msgspec.json.encode(value)
            digest = hashlib.sha512(body).hexdigest().upper()
            found = self._documents[path, media] = body, f'"{digest}"'
        return found

    def document(self, path: str) -> Json:
        """Return the legacy document under a path; NotFound when there is none."""
        root, *rest = path.strip("/").split("/")
        if root == "api" and not rest:
            address = {"clientCIDR": "0.0.0.0/0", "serverAddress": self._server_address}
            return {"kind": "APIVersions", "versions": self._versions(""), "serverAddressByClientCIDRs": [address]}
        if root == "api" and len(rest) == 1:
            return self._resource_list("", rest[0])
        if root == "apis" and not rest:
            groups = [self._group(name) for name in self._groups()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if root == "apis" and len(rest) == 1 and rest[0] in self._groups():
            return {"kind": "APIGroup", "apiVersion": "v1", **self._group(rest[0])}
        if root == "apis" and len(rest) == 2 and rest[0]:
            return self._resource_list(rest[0], rest[1])
        raise errors.NotFound("the server could not find the requested resource", details={})

    def aggregated(self, path: str, version: str = "v2") -> Json:
        """Return every group below /api or /apis in one document."""
        groups = [""] if path == "/api" else self._groups()
        items = [self._aggregated_group(group) for group in groups if self._versions(group)]
        api_version = f"apidiscovery.k8s.io/{version}"
        return {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items}

    def _groups(self) -> list[str]:
        """Built-in groups in Kubernetes' order, then those of custom resources by name."""
        builtin = {resource.group: None for resource in self._catalog if not resource.is_custom}
        custom = {resource.group for resource in self._catalog if resource.is_custom} - builtin.keys()
        return [group for group in builtin if group] + sorted(custom)

    def _versions(self, group: str) -> list[str]:
        versions = {resource.version for resource in self._catalog if resource.group == group}
        return sorted(versions, key=version_order, reverse=True)

    def _resources(self, group: str, version: str) -> list[Resource]:
        found = [resource for resource in self._catalog if (resource.group, resource.version) == (group, version)]
        return sorted(found, key=lambda resource: resource.plural)

    def _group(self, group: str) -> Json:
        versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in self._versions(group)]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resource_list(self, group: str, version: str) -> Json:
        resources = self._resources(group, version)
        if not resources:
            raise errors.NotFound("the server could not find the requested resource", details={})
        entries = [entry for resource in resources for entry in self._legacy_entries(resource)]
        group_version = resources[0].api_version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}

    def _legacy_entries(self, resource: Resource) -> list[Json]:
        own: Json = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        own |= _names(resource)
        if "list" in resource.verbs:
            own["storageVersionHash"] = self._storage_version_hash(resource)
        entries = [own]
        for name, sub in sorted(resource.subresources.items()):
            entry: Json = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
            if _is_foreign(resource, sub):
                entry |= {"group": sub.group, "version": sub.version}
            entries.append({**entry, "kind": sub.kind, "verbs": list(sub.verbs)})
        return entries

    def _storage_version_hash(self, resource: Resource) -> str:
        gvk = GroupVersionKind(resource.group, resource.version, resource.kind)
        for found in self._catalog.versions(resource.group, resource.plural):
            if found.custom is not None and found.custom.storage:
                gvk = GroupVersionKind(found.group, found.version, found.kind)
        return storage_version_hash(_STORED_AS.get(gvk, gvk))

    def _aggregated_group(self, group: str) -> Json:
        versions = [
            {
                "version": version,
                "resources": [_aggregated_resource(resource) for resource in self._resources(group, version)],
                "freshness": "Current",
            }
            for version in self._versions(group)
        ]
        return {"metadata": {"name": group} if group else {}, "versions": versions}


def _aggregated_resource(resource: Resource) -> Json:
    # Kubernetes repeats the group of a custom resource, and leaves that of a built-in one empty.
    own = {"group": resource.group, "version": resource.version} if resource.is_custom else {"group": "", "version": ""}
    entry: Json = {
        "resource": resource.plural,
        "responseKind": {**own, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    entry |= _names(resource)
    subresources = []
    for name, sub in sorted(resource.subresources.items()):
        kind = {"group": sub.group, "version": sub.version} if _is_foreign(resource, sub) else own
        subresources.append(
            {
                "subresource": name,
                "responseKind": {**kind, "kind": sub.kind},
                "verbs": list(sub.verbs),
            }
        )
    if subresources:
        entry["subresources"] = subresources
    return entry


def _names(resource: Resource) -> Json:
    names = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {key: value for key, value in names.items() if value}


def _is_foreign(resource: Resource, sub: Subresource) -> bool:
    """Return whether a subresource has a kind of another group or version."""
    return bool(sub.version) and (sub.group, sub.version) != (resource.group, resource.version)


def _negotiate(accept: str, *, aggregated: bool) -> str:
    """Return the media type of the response: the first one of the header that the path supports."""
    clauses = [_clause(text) for text in accept.split(",")] if accept else []
    for _, media, parameters in sorted(clauses, key=lambda clause: -clause[0]):
        if media not in {"*/*", "application/*", _JSON}:
            continue
        if "as" not in parameters:
            return _JSON
        asked = (parameters.get("g"), parameters.get("as"))
        known = parameters.get("v") in _AGGREGATED_VERSIONS
        if aggregated and known and asked == ("apidiscovery.k8s.io", "APIGroupDiscoveryList"):
            return _AGGREGATED.format(parameters["v"])
    if clauses:
        raise errors.not_acceptable((_JSON, *(_AGGREGATED.format(version) for version in _AGGREGATED_VERSIONS)))
    return _JSON


def _clause(text: str) -> tuple[float, str, dict[str, str]]:
    media, *rest = (part.strip() for part in text.split(";"))
    parameters = dict(part.split("=", 1) for part in rest if "=" in part)
    try:
        quality = float(parameters.get("q", "1"))
    except ValueError:
        quality = 1.0
    return quality, media, parameters


def _version_of(media: str) -> str:
    return next(version for version in _AGGREGATED_VERSIONS if f"v={version};" in media)
