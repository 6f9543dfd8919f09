"""Dispatches a request for a resource to the handler of its verb.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/installer.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/customresource_handler.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/generic/registry/store.go
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from kube_fairlead.api import errors, golang
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.http.messages import Request, Response, status_response
from kube_fairlead_apiserver.offload import begin_request
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["Dispatcher", "Handler", "Handlers"]

Handler = Callable[[Call], Awaitable[Response]]


class Handlers(msgspec.Struct, frozen=True):
    """The handlers of requests for resources."""

    verbs: Mapping[str, Handler] = {}
    subresources: Mapping[tuple[str, str], Handler] = {}  # with their own behaviour, by (resource, name)
    not_stored: Mapping[str, Handler] = {}  # create for kinds that are never stored (reviews), by table


# By method. A subresource may be posted to; objects themselves may not.
_VERBS_OF_COLLECTIONS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_VERBS_OF_OBJECTS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_COLLECTIONS = frozenset({"list", "create", "deletecollection"})
_OF_OBJECTS = frozenset({"get", "update", "patch", "delete"})
_ACROSS_NAMESPACES = frozenset({"list", "watch"})

# As kube-apiserver. The limit is an addition: Python's http.client fails at a hundred headers.
_MAX_WARNINGS_CHARACTERS = 4096
_MAX_WARNING_CHARACTERS = 256
_MAX_WARNINGS = 64


class Dispatcher:
    """Dispatches requests for resources. The first request calls `load` for the handlers."""

    def __init__(self, core: Core, load: Callable[[], Handlers], require: Callable[[Attributes], None]) -> None:
        self._core = core
        self._require = require  # Forbidden unless it is allowed
        self._load = load

    @functools.cached_property
    def _handlers(self) -> Handlers:
        return self._load()

    def roots(self) -> set[str]:
        """Return the paths below which resources are served, for the index of paths."""
        found: set[str] = set()
        for resource in self._core.catalog:
            if resource.group:
                found |= {f"/apis/{resource.group}", f"/apis/{resource.group}/{resource.version}"}
            else:
                found.add(f"/api/{resource.version}")
        return found

    def find(self, info: RequestInfo) -> Resource:
        """Return the resource that a request names, or raise the error that it is not served."""
        resource = self._core.catalog.get(info.group, info.version, info.resource)
        # Reading the path trims slashes; those that are served begin with one only.
        if resource is None or info.path.startswith("//") or info.root != ("apis" if info.group else "api"):
            raise _not_served()
        (_check_custom if resource.is_custom else _check_builtin)(info, resource)
        return resource

    async def answer(self, request: Request, info: RequestInfo, user: UserInfo) -> Response:
        """Run the handler of the verb."""
        begin_request(user.name)
        resource = self.find(info)
        call = Call(self._core, request, info, resource, user, self._require)
        deprecation = resource.strategy.deprecation if resource.custom is None else resource.custom.warning
        if deprecation:
            call.warnings.append(deprecation)
        try:
            response = await self._run(call)
        except errors.ApiError as error:
            # A rejected request gets its warnings, too.
            response = status_response(error)
        response.headers += [("warning", f'299 - "{_header_text(text)}"') for text in _worth_saying(call.warnings)]
        return response

    async def _run(self, call: Call) -> Response:
        info, resource, handlers = call.info, call.resource, self._handlers
        if info.subresource:
            own = handlers.subresources
            handler = own.get((resource.plural, info.subresource)) or own.get(("*", info.subresource))
            return await (handler or handlers.verbs[info.verb])(call)
        if info.verb == "create" and resource.table in handlers.not_stored:
            return await handlers.not_stored[resource.table](call)
        return await handlers.verbs[info.verb](call)


def _check_builtin(info: RequestInfo, resource: Resource) -> None:
    """Raise NotFound for a path without a route in kube-apiserver, MethodNotSupported for a method without one."""
    served = _served_verbs(info, resource)
    if not served:
        raise _not_served()
    verbs = _VERBS_OF_COLLECTIONS if len(info.parts) == 1 else _VERBS_OF_OBJECTS
    if ("watch" if info.verb_in_path and info.method == "GET" else verbs.get(info.method)) not in served:
        raise _not_allowed()
    if len(info.parts) > 1:
        _check_name(info.parts[1])
    if info.in_namespace and not info.namespace and info.verb not in _ACROSS_NAMESPACES:
        raise errors.BadRequest("Namespace parameter required.")


def _served_verbs(info: RequestInfo, resource: Resource) -> frozenset[str]:
    """Return the verbs of the path of a request for a built-in kind."""
    depth = len(info.parts)
    across = resource.namespaced and not info.in_namespace  # the objects of all namespaces
    if (info.in_namespace and not resource.namespaced) or (across and depth > 1):
        return frozenset()
    if depth > 2:
        found = resource.subresources.get(info.subresource)
        if found is None or info.verb_in_path or (depth > 3 and info.subresource != "proxy"):
            return frozenset()
        return frozenset(found.verbs)
    if info.verb_in_path:
        return frozenset({"watch"} & set(resource.verbs)) if info.verb == "watch" else frozenset()
    possible = _OF_OBJECTS if depth == 2 else _ACROSS_NAMESPACES if across else _OF_COLLECTIONS
    return possible & set(resource.verbs)


def _check_name(name: str) -> None:
    """Raise BadRequest for a name that no object can have."""
    if not name:
        raise errors.BadRequest("name must be provided")
    if name in {".", ".."}:
        raise errors.BadRequest(f"Name parameter invalid: {golang.quote(name)}: may not be '{name}'")
    if "%" in name:
        raise errors.BadRequest(f"Name parameter invalid: {golang.quote(name)}: may not contain '%'")


def _check_custom(info: RequestInfo, resource: Resource) -> None:
    """Answer as kube-apiserver does for custom resources, which have no routes.

    Only the parsed part of the path counts.
    """
    if bool(info.namespace) != resource.namespaced and not (resource.namespaced and info.verb in _ACROSS_NAMESPACES):
        raise _not_served()
    if info.subresource and info.subresource not in resource.subresources:
        raise errors.not_found(resource.group_resource, info.name)
    served = resource.subresources[info.subresource].verbs if info.subresource else resource.verbs
    if info.verb not in served:
        raise errors.method_not_supported(resource.group_resource, info.verb)
    if info.verb_in_path and info.method != "GET":
        raise _not_allowed()
    if info.verb in {"get", "update", "patch", "delete"}:
        _check_name(info.name)
    if len(info.parts) > 1 and info.verb == "create":
        raise _not_allowed()  # kube-apiserver creates what the body names, whatever name was authorised


def _not_served() -> errors.NotFound:
    return errors.NotFound("the server could not find the requested resource", details={})


def _not_allowed() -> errors.MethodNotSupported:
    return errors.MethodNotSupported("the server does not allow this method on the requested resource", details={})


def _worth_saying(warnings: list[str]) -> list[str]:
    """Return each warning once, up to a limit: long lists are shortened, and the last ones dropped."""
    said = [text for text in dict.fromkeys(warnings) if text][:_MAX_WARNINGS]
    if sum(map(len, said)) <= _MAX_WARNINGS_CHARACTERS:
        return said
    shortened = [text[:_MAX_WARNING_CHARACTERS] for text in said]
    length = list(itertools.accumulate(map(len, shortened), initial=0))
    return [text for text, before in zip(shortened, length, strict=False) if before < _MAX_WARNINGS_CHARACTERS]


def _header_text(text: str) -> str:
    """Return a warning in the form of a quoted header value."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')
