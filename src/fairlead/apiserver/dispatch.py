"""From a request for a resource to the verb that answers it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from fairlead.api import errors
from fairlead.apiserver.attributes import Attributes, UserInfo
from fairlead.apiserver.http.messages import Request, Response, status_response
from fairlead.apiserver.operations.core import Core
from fairlead.apiserver.registry.resource import Resource
from fairlead.apiserver.routing import RequestInfo
from fairlead.apiserver.verbs.call import Call

__all__ = ["Dispatcher", "Handler", "Handlers"]

Handler = Callable[[Call], Awaitable[Response]]


class Handlers(msgspec.Struct, frozen=True):
    """What answers requests for resources."""

    verbs: Mapping[str, Handler] = {}
    subresources: Mapping[tuple[str, str], Handler] = {}  # with a behaviour of their own, by (resource, name)
    asked: Mapping[str, Handler] = {}  # kinds that are asked and answered, never stored (reviews), by table


_SERVED_AS_OBJECT = frozenset({"get", "update", "patch"})
_OF_COLLECTIONS = frozenset({"create", "list", "deletecollection"})

# As kube-apiserver. The number is ours: Python's http.client gives up at a hundred headers.
_MAX_WARNINGS_CHARACTERS = 4096
_MAX_WARNING_CHARACTERS = 256
_MAX_WARNINGS = 64


class Dispatcher:
    """Answers requests for resources. `load` brings in what answers them, when the first request is there."""

    def __init__(self, core: Core, load: Callable[[], Handlers], require: Callable[[Attributes], None]) -> None:
        self._core = core
        self._require = require  # Forbidden unless it is allowed
        self._load = load

    @functools.cached_property
    def _handlers(self) -> Handlers:
        return self._load()

    def roots(self) -> set[str]:
        """The paths below which resources are served, for whoever looks around."""
        found: set[str] = set()
        for resource in self._core.catalog:
            if resource.group:
                found |= {f"/apis/{resource.group}", f"/apis/{resource.group}/{resource.version}"}
            else:
                found.add(f"/api/{resource.version}")
        return found

    def find(self, info: RequestInfo) -> Resource:
        """The resource a request names, or the error that says it is not served."""
        resource = self._core.catalog.get(info.group, info.version, info.resource)
        if resource is None:
            raise errors.NotFound("the server could not find the requested resource", details={})
        if info.namespace and not resource.namespaced and info.resource != "namespaces":
            raise errors.NotFound("the server could not find the requested resource", details={})
        return resource

    async def answer(self, request: Request, info: RequestInfo, user: UserInfo) -> Response:
        """Run the verb."""
        resource = self.find(info)
        call = Call(self._core, request, info, resource, user, self._require)
        deprecation = resource.strategy.deprecation if resource.custom is None else resource.custom.warning
        if deprecation:
            call.warnings.append(deprecation)
        try:
            response = await self._run(call)
        except errors.ApiError as error:
            # A client is warned also when it is refused.
            response = status_response(error)
        response.headers += [("warning", f'299 - "{_header_text(text)}"') for text in _worth_saying(call.warnings)]
        return response

    async def _run(self, call: Call) -> Response:
        info, resource = call.info, call.resource
        if info.subresource:
            return await self._run_subresource(call)
        if resource.namespaced and not info.namespace and info.verb not in {"list", "watch"}:
            raise _not_allowed()
        if info.verb == "create" and resource.table in self._handlers.asked:
            return await self._handlers.asked[resource.table](call)
        if info.verb not in resource.verbs:
            raise errors.method_not_supported(resource.group_resource, info.verb)
        verb = self._handlers.verbs.get(info.verb)
        if verb is None or (info.verb != "watch" and bool(info.name) == (info.verb in _OF_COLLECTIONS)):
            raise _not_allowed()  # what is done to a collection is not done to an object, nor the other way round
        return await verb(call)

    async def _run_subresource(self, call: Call) -> Response:
        info, resource = call.info, call.resource
        if info.subresource not in resource.subresources:
            raise errors.NotFound("the server could not find the requested resource", details={})
        own = self._handlers.subresources
        handler = own.get((resource.plural, info.subresource)) or own.get(("*", info.subresource))
        if handler is not None:
            return await handler(call)
        if info.verb not in _SERVED_AS_OBJECT or info.verb not in resource.subresources[info.subresource].verbs:
            raise errors.method_not_supported(resource.group_resource, info.verb)
        return await self._handlers.verbs[info.verb](call)


def _not_allowed() -> errors.MethodNotSupported:
    return errors.MethodNotSupported("the server does not allow this method on the requested resource", details={})


def _worth_saying(warnings: list[str]) -> list[str]:
    """Each warning once, and no more than a client can take in: too many are shortened, and the last ones dropped."""
    said = [text for text in dict.fromkeys(warnings) if text][:_MAX_WARNINGS]
    if sum(map(len, said)) <= _MAX_WARNINGS_CHARACTERS:
        return said
    shortened = [text[:_MAX_WARNING_CHARACTERS] for text in said]
    length = list(itertools.accumulate(map(len, shortened), initial=0))
    return [text for text, before in zip(shortened, length, strict=False) if before < _MAX_WARNINGS_CHARACTERS]


def _header_text(text: str) -> str:
    """A warning as it may stand inside a quoted header value."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')
