"""The OpenAPI endpoints: an index of hashed addresses, a v3 document per group and version, one v2 document.

The hash covers everything its document is made of, so a client that knows the hash never requests it again.

Upstream: k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/handler3/handler.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/handler/handler.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/openapi/builder/merge.go
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec

import kube_fairlead_apiserver
from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.openapi import gnostic
from kube_fairlead_apiserver.openapi.components import collect_schemas
from kube_fairlead_apiserver.openapi.models import is_builtin
from kube_fairlead_apiserver.openapi.paths import resource_paths, root
from kube_fairlead_apiserver.openapi.swagger import to_swagger
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.types.resources import source_version

__all__ = ["OpenApi"]

_JSON: Final = "application/json"
_FOREVER: Final = ("cache-control", "public, immutable, max-age=31536000")
_SECURITY: Final = {
    "BearerToken": {"type": "apiKey", "in": "header", "name": "authorization", "description": "A bearer token."}
}


class OpenApi:
    """Serves /openapi/v2 and /openapi/v3 from the current catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._generation = -1
        self._bodies: dict[str, bytes] = {}
        self._hashes: dict[str, str] = {}

    def answer(self, request: Request) -> Response:
        """Answer a request for a document, or for the index of them."""
        match request.path:
            case "/openapi/v2":
                return self._answer_v2(request)
            case "/openapi/v3":
                return self._answer_index(request)
        return self._answer_v3(request)

    def document(self, group: str, version: str) -> Json:
        """Return the v3 document of a group and version."""
        resources = self._resources(group, version)
        paths: Json = {}
        for resource in resources:
            paths |= resource_paths(resource)
        paths = dict(sorted(paths.items()))
        return {
            "openapi": "3.0.0",
            "info": {"title": "Fairlead, Kubernetes-compatible", "version": source_version()},
            "paths": paths,
            "components": {"schemas": collect_schemas(paths, resources), "securitySchemes": _SECURITY},
        }

    def swagger(self) -> Json:
        """Return the v2 document of everything."""
        return to_swagger([self.document(group, version) for group, version in self._group_versions()])

    def _answer_index(self, request: Request) -> Response:
        _accepts(request, (_JSON,))
        self._refresh()
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hash(group, version)}"}
            for group, version in self._group_versions()
            for path in [root(group, version).removeprefix("/")]
        }
        return Response(200, msgspec.json.encode({"paths": dict(sorted(paths.items()))}))

    def _answer_v3(self, request: Request) -> Response:
        _accepts(request, (_JSON,))
        self._refresh()
        path = request.path.removeprefix("/openapi/v3/")
        names = {root(group, version).removeprefix("/"): (group, version) for group, version in self._group_versions()}
        if path not in names:
            raise errors.NotFound("the server could not find the requested resource", details={})
        group, version = names[path]
        digest = self._hash(group, version)
        asked = request.query.get("hash")
        if asked and asked != digest:
            # A hash of an older index redirects to the new address, which is cached as well.
            return Response(301, b"", _JSON, [("location", f"/openapi/v3/{path}?hash={digest}")])
        headers = [("etag", f'"{digest}"'), ("vary", "Accept")]
        if asked:
            headers.append(_FOREVER)
        if digest in request.header("if-none-match"):
            return Response(304, b"", _JSON, headers)
        body = self._body(digest, lambda: msgspec.json.encode(self.document(group, version)))
        return Response(200, body, _JSON, headers)

    def _answer_v2(self, request: Request) -> Response:
        media = _accepts(request, (_JSON, gnostic.CONTENT_TYPE, gnostic.ASKED_AS))
        if media == gnostic.ASKED_AS:
            media = gnostic.CONTENT_TYPE
        self._refresh()
        parts = "".join(self._hash(group, version) for group, version in self._group_versions())
        digest = hashlib.sha512(f"{media} {parts}".encode()).hexdigest().upper()
        headers = [("etag", f'"{digest}"'), ("vary", "Accept")]
        if digest in request.header("if-none-match"):
            return Response(304, b"", media, headers)
        encode = msgspec.json.encode if media == _JSON else gnostic.encode_document
        return Response(200, self._body(digest, lambda: encode(self.swagger())), media, headers)

    def _body(self, digest: str, build: Callable[[], bytes]) -> bytes:
        if digest not in self._bodies:
            self._bodies[digest] = build()
        return self._bodies[digest]

    def _refresh(self) -> None:
        """After a change of the catalog, keep the documents whose hash is unchanged."""
        if self._generation == self._catalog.generation:
            return
        self._generation, self._hashes = self._catalog.generation, {}
        current = {self._hash(group, version) for group, version in self._group_versions()}
        self._bodies = {digest: body for digest, body in self._bodies.items() if digest in current}

    def _hash(self, group: str, version: str) -> str:
        """Return a hash of the input of a document, which costs less than hashing the document."""
        key = f"{group}/{version}"
        if key not in self._hashes:
            facts = [kube_fairlead_apiserver.__version__, source_version()]
            for resource in self._resources(group, version):
                facts.append(f"{resource.plural} {resource.kind} {resource.namespaced} {resource.verbs}")
                facts += [f"{sub.name} {sub.kind} {sub.verbs}" for sub in resource.subresources.values()]
                if not is_builtin(resource):
                    facts.append(msgspec.json.encode(resource.schema().source, order="deterministic").decode())
            self._hashes[key] = hashlib.sha512("\n".join(facts).encode()).hexdigest().upper()
        return self._hashes[key]

    def _group_versions(self) -> list[tuple[str, str]]:
        return sorted({(resource.group, resource.version) for resource in self._catalog})

    def _resources(self, group: str, version: str) -> list[Resource]:
        found = [resource for resource in self._catalog if (resource.group, resource.version) == (group, version)]
        return sorted(found, key=lambda resource: resource.plural)


def _accepts(request: Request, offered: tuple[str, ...]) -> str:
    """Return the first media type of the Accept header that is offered."""
    if request.method not in {"GET", "HEAD"}:
        raise errors.MethodNotSupported("the server does not allow this method on the requested resource")
    accept = request.header("accept")
    for clause in accept.split(","):
        media = clause.partition(";")[0].strip()
        if media in {"", "*/*", "application/*"}:
            return offered[0]
        if media in offered:
            return media
    raise errors.not_acceptable(offered)
