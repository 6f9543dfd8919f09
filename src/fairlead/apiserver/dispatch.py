"""From a request for a resource to the verb that answers it."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping

from fairlead.api import errors
from fairlead.apiserver.attributes import UserInfo
from fairlead.apiserver.http.messages import Request, Response, status_response
from fairlead.apiserver.operations.core import Core
from fairlead.apiserver.registry.resource import Resource
from fairlead.apiserver.routing import RequestInfo
from fairlead.apiserver.verbs import create, delete, get, patch, update, watch
from fairlead.apiserver.verbs.call import Call
from fairlead.apiserver.verbs.list import list_objects

__all__ = ["Dispatcher", "SubresourceHandler"]

Verb = Callable[[Call], Awaitable[Response]]
SubresourceHandler = Callable[[Call], Awaitable[Response]]

_VERBS: Mapping[str, Verb] = {
    "get": get.get,
    "list": list_objects,
    "create": create.create,
    "update": update.update,
    "patch": patch.patch,
    "delete": delete.delete,
    "deletecollection": delete.delete_collection,
}
_SERVED_AS_OBJECT: Mapping[str, Verb] = {"get": get.get, "update": update.update, "patch": patch.patch}

# As kube-apiserver. The number is ours: Python's http.client gives up at a hundred headers.
_MAX_WARNINGS_CHARACTERS = 4096
_MAX_WARNING_CHARACTERS = 256
_MAX_WARNINGS = 64


class Dispatcher:
    """Answers requests for resources. ``subresources`` are those with a behaviour of their own, by (resource, name)."""

    def __init__(
        self,
        core: Core,
        keeper: watch.WatchKeeper,
        subresources: Mapping[tuple[str, str], SubresourceHandler],
        creates: Mapping[str, Verb],
    ) -> None:
        self._core = core
        self._keeper = keeper
        self._subresources = subresources
        self._creates = creates  # kinds that are asked and answered, never stored (reviews)

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
        call = Call(self._core, request, info, resource, user)
        if resource.custom is not None and resource.custom.warning:
            call.warnings.append(resource.custom.warning)
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
        if info.verb == "create" and resource.table in self._creates:
            return await self._creates[resource.table](call)
        if info.verb not in resource.verbs:
            raise errors.method_not_supported(resource.group_resource, info.verb)
        if info.verb == "watch":
            return await watch.watch(call, self._keeper)
        verb = _VERBS.get(info.verb)
        if verb is None or bool(info.name) == (info.verb in {"create", "list", "deletecollection"}):
            raise _not_allowed()  # what is done to a collection is not done to an object, nor the other way round
        return await verb(call)

    async def _run_subresource(self, call: Call) -> Response:
        info, resource = call.info, call.resource
        if info.subresource not in resource.subresources:
            raise errors.NotFound("the server could not find the requested resource", details={})
        handler = self._subresources.get((resource.plural, info.subresource)) or self._subresources.get(
            ("*", info.subresource)
        )
        if handler is not None:
            return await handler(call)
        verb = _SERVED_AS_OBJECT.get(info.verb)
        if verb is None or info.verb not in resource.subresources[info.subresource].verbs:
            raise errors.method_not_supported(resource.group_resource, info.verb)
        return await verb(call)


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
