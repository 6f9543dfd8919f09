"""The verbs of one resource.

Upstream: k8s.io/client-go@v0.36.4/tools/pager/pager.go
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.client import errors, objects, patches, requests, retry_watch
from kube_fairlead.client.codecs import Page
from kube_fairlead.client.requests import WriteOptions
from kube_fairlead.client.resources import Resource
from kube_fairlead.client.watch import WatchEvent, events_of

if TYPE_CHECKING:
    from kube_fairlead.client.client import Client

__all__ = ["Api"]

_T = TypeVar("_T")

# As client-go's pager: big enough to be quick, small enough for a server to answer from memory.
_PAGE_SIZE = 500


class Api(Generic[_T]):
    """Get, list, watch, create, update, patch and delete objects of one resource.

    The namespace of a namespaced kind is given by `namespace`, else by the object itself, else it is the client's;
    for `list`, `watch` and their relatives no namespace means all of them.
    """

    def __init__(self, client: Client, find: Callable[[], Resource[_T]]) -> None:
        self.client = client
        self._find = find
        self._found: Resource[_T] | None = None
        # A group that is still to be discovered is looked for at the first request.
        with contextlib.suppress(errors.NotDiscovered):
            self._found = find()

    @property
    def resource(self) -> Resource[_T]:
        """Where it is served, and how its objects are read and written.

        Raises:
            NotDiscovered: its group is not known yet.
        """
        if self._found is None:
            self._found = self._find()
        return self._found

    async def get(
        self, name: str, *, namespace: str | None = None, resource_version: str = "", subresource: str = ""
    ) -> _T:
        """Read one object."""
        response = await self.client.request(
            "GET",
            self._path(name, self._namespace(namespace), subresource),
            query=requests.list_query(resource_version=resource_version),
            **self._about(name),
        )
        return self.resource.codec.decode(response.body)

    async def list(
        self,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> Page[_T]:
        """One page, or everything when no limit is given."""
        query = requests.list_query(
            label_selector=label_selector,
            field_selector=field_selector,
            resource_version=resource_version,
            resource_version_match=resource_version_match,
            limit=limit,
            continue_token=continue_token,
        )
        response = await self.client.request("GET", self._path("", namespace), query=query, **self._about())
        return self.resource.codec.decode_list(response.body)

    async def pages(
        self,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = _PAGE_SIZE,
    ) -> AsyncIterator[Page[_T]]:
        """All pages of one moment, one after the other.

        Raises:
            Expired: the pages took so long that the server has forgotten that moment. `list_all` starts over.
        """
        token = ""
        while True:
            page = await self.list(
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=token,
            )
            yield page
            token = page.continue_token
            if not token:
                return

    async def list_all(
        self,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = _PAGE_SIZE,
    ) -> Page[_T]:
        """Everything, read in pages. When they expire on the way, everything is read again in one piece."""
        items: list[_T] = []
        version = ""
        try:
            async for page in self.pages(
                namespace=namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
            ):
                items += page.items
                version = page.resource_version
        except api_errors.Expired:
            return await self.list(namespace=namespace, label_selector=label_selector, field_selector=field_selector)
        return Page(items, version)

    @contextlib.asynccontextmanager
    async def watch(
        self,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        bookmarks: bool = True,
        timeout_seconds: int = 0,
        send_initial_events: bool = False,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[_T]]]:
        """One connection's worth of events. It ends when the server ends it; `retry_watch` continues.

        Raises:
            Expired: the resource version is too old: list again.
            WatchBroken: the stream was cut off.
        """
        query = requests.watch_query(
            label_selector=label_selector,
            field_selector=field_selector,
            resource_version=resource_version,
            bookmarks=bookmarks,
            timeout_seconds=timeout_seconds,
            send_initial_events=send_initial_events,
        )
        path = self._path("", namespace)
        async with (
            self.client.stream(path, query=query, **self._about()) as response,
            contextlib.aclosing(events_of(response, self.resource.codec.decode_event, str(self.resource))) as events,
        ):
            yield events

    def follow(
        self,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> contextlib.AbstractAsyncContextManager[AsyncIterator[WatchEvent[_T]]]:
        """All events from here on, over as many connections as it takes; none lost, none twice.

        Raises:
            Expired: the resource version is too old: list again.
        """
        return retry_watch.follow(
            self,
            resource_version=resource_version,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    async def create(self, item: _T, *, namespace: str | None = None, options: WriteOptions | None = None) -> _T:
        """Create an object."""
        response = await self.client.request(
            "POST",
            self._path("", self._namespace(namespace, item)),
            query=(options or WriteOptions()).query(),
            body=self.resource.codec.encode(item),
            **self._about(objects.name_of(item)),
        )
        return self.resource.codec.decode(response.body)

    async def update(
        self,
        item: _T,
        *,
        namespace: str | None = None,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> _T:
        """Replace an object. Its resourceVersion, if given, must still be the current one."""
        name = objects.name_of(item)
        response = await self.client.request(
            "PUT",
            self._path(name, self._namespace(namespace, item), subresource),
            query=(options or WriteOptions()).query(),
            body=self.resource.codec.encode(item),
            **self._about(name),
        )
        return self.resource.codec.decode(response.body)

    async def update_status(self, item: _T, *, namespace: str | None = None) -> _T:
        """Replace an object's status; everything else in it is ignored."""
        return await self.update(item, namespace=namespace, subresource="status")

    async def patch(
        self,
        name: str,
        patch: patches.Patch,
        *,
        namespace: str | None = None,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> _T:
        """Change parts of an object."""
        response = await self.client.request(
            "PATCH",
            self._path(name, self._namespace(namespace), subresource),
            query=(options or WriteOptions()).query(),
            body=patch.encode(),
            content_type=patch.content_type,
            **self._about(name),
        )
        return self.resource.codec.decode(response.body)

    async def apply(
        self,
        item: KubeObject | Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = False,
        namespace: str | None = None,
        subresource: str = "",
        dry_run: bool = False,
    ) -> _T:
        """Server-side apply: say what this manager wants of an object, and create it if it is not there."""
        return await self.patch(
            objects.name_of(item),
            patches.Apply(item),
            namespace=self._namespace(namespace, item),
            subresource=subresource,
            options=WriteOptions(field_manager=field_manager, force=force, dry_run=dry_run),
        )

    async def modify(
        self,
        name: str,
        mutate: Callable[[_T], _T | None],
        *,
        namespace: str | None = None,
        subresource: str = "",
        attempts: int = 10,
    ) -> _T:
        """Read, change and write, and retry after conflicts. See `concurrency`."""
        from kube_fairlead.client import concurrency

        return await concurrency.update_with_retry(
            self, name, mutate, namespace=namespace, subresource=subresource, attempts=attempts
        )

    async def delete(
        self,
        name: str,
        *,
        namespace: str | None = None,
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
        orphan_dependents: bool | None = None,
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
        ignore_store_read_errors: bool = False,
    ) -> _T | None:
        """Delete an object, or request its deletion.

        Returns:
            The object as it is now, or was at the end; None when the server only says that it is gone.
        """
        body = requests.delete_body(
            grace_period_seconds=grace_period_seconds,
            propagation_policy=propagation_policy,
            orphan_dependents=orphan_dependents,
            uid=uid,
            resource_version=resource_version,
            dry_run=dry_run,
            ignore_store_read_errors=ignore_store_read_errors,
        )
        path = self._path(name, self._namespace(namespace))
        response = await self.client.request("DELETE", path, body=body, **self._about(name))
        return None if _is_status(response.body) else self.resource.codec.decode(response.body)

    async def delete_collection(
        self,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
        dry_run: bool = False,
    ) -> Page[_T]:
        """Delete everything that matches; the objects as they were before."""
        response = await self.client.request(
            "DELETE",
            self._path("", namespace),
            query=requests.list_query(label_selector=label_selector, field_selector=field_selector),
            body=requests.delete_body(
                grace_period_seconds=grace_period_seconds,
                propagation_policy=propagation_policy,
                dry_run=dry_run,
            ),
            **self._about(),
        )
        if _is_status(response.body):
            return Page([], "")
        return self.resource.codec.decode_list(response.body)

    def _path(self, name: str, namespace: str | None, subresource: str = "") -> str:
        return requests.resource_path(self.resource.gvr, namespace=namespace, name=name, subresource=subresource)

    def _namespace(self, given: str | None, item: object = None) -> str | None:
        if self.resource.namespaced is False:
            return None
        own = objects.namespace_of(item) if item is not None else ""
        default = self.client.namespace if self.resource.namespaced else None
        return given or own or default

    def _about(self, name: str = "") -> dict[str, Any]:
        return {"resource": self.resource.gvr.group_resource, "name": name}


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


_kinds = msgspec.json.Decoder(_Kind)


def _is_status(body: bytes) -> bool:
    try:
        return _kinds.decode(body).kind == "Status"
    except msgspec.DecodeError as error:
        raise errors.AnswerInvalid(f"the server's answer is not a Kubernetes object: {error}") from error
