"""List and watch: a local copy of a resource that reports every change.

Upstream: k8s.io/client-go@v0.36.4/tools/cache/reflector.go,
    k8s.io/client-go@v0.36.4/tools/cache/shared_informer.go
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Generic, Self, TypeVar

from kube_fairlead.api import errors as api_errors
from kube_fairlead.base import logs, tasks
from kube_fairlead.client import errors, retry_watch
from kube_fairlead.client.mirror import Added, Deleted, Delta, Mirror, Updated
from kube_fairlead.client.store import Index, Store
from kube_fairlead.client.verbs import Api
from kube_fairlead.client.watch import Bookmark, Change

__all__ = ["Handler", "Informer"]

_T = TypeVar("_T")

# A server that streams the initial list does so at once; one that does not know how may stay silent.
_STREAMED_LIST_SECONDS = 60.0

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Handler(Generic[_T]):
    """Whom to call when an object comes, changes or goes. Calls are quick and never wait: they put keys in a queue."""

    on_add: Callable[[_T], None] | None = None
    on_update: Callable[[_T, _T], None] | None = None
    on_delete: Callable[[_T], None] | None = None

    def tell(self, delta: Delta[_T]) -> None:
        """Call the one it concerns."""
        match delta:
            case Added(item):
                if self.on_add is not None:
                    self.on_add(item)
            case Updated(old, new):
                if self.on_update is not None:
                    self.on_update(old, new)
            case Deleted(item):
                if self.on_delete is not None:
                    self.on_delete(item)


class Informer(Generic[_T]):
    """Keeps `store` like the server's resource and calls handlers for each change, in order.

    Guarantees:
    1. A change is reported once, whatever breaks on the way. While connections break but history is kept, every
       change is reported; after a compaction (410), the difference is reported as one change.
    2. When a handler is called, the store already shows the change.
    3. Errors of the server or the network never end it; an error of a handler does.

    `run` does the work and belongs in a task of its own; `running` owns that task for a block.
    """

    def __init__(
        self,
        api: Api[_T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        indexes: Mapping[str, Index[_T]] | None = None,
        transform: Callable[[_T], _T] | None = None,
        streaming_list: bool = False,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._transform = transform
        self._streaming_list = streaming_list
        self._mirror: Mirror[_T] = Mirror(indexes)
        self._handlers: list[Handler[_T]] = []
        self._synced = asyncio.Event()
        self.last_error: Exception | None = None

    @property
    def store(self) -> Store[_T]:
        """What is known now."""
        return self._mirror.store

    @property
    def has_synced(self) -> bool:
        """Whether the store was complete once."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the store is complete and handlers know all of it."""
        await self._synced.wait()

    def add_handler(self, handler: Handler[_T]) -> Callable[[], None]:
        """Call another handler from now on. It gets what is known already as added, at once.

        Returns: what ends that again.
        """
        for item in self.store:
            handler.tell(Added(item))
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run it as long as the block lasts."""
        async with tasks.TaskScope(f"informer/{self._api.resource}", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(self.run(), name="run")
            yield self

    async def run(self) -> None:
        """List and watch until cancelled."""
        clock = self._api.client.clock
        delays = retry_watch.RECONNECT.delays(self._api.client.randomness)
        while True:
            started = clock.monotonic()
            try:
                version = await self._list()
                self._synced.set()
                self.last_error = None
                await self._watch(version)
            except api_errors.Expired:
                _log.info("resource version expired, listing again", resource=str(self._api.resource))
            except (errors.ClientError, api_errors.ApiError) as error:
                self.last_error = error
                _log.warning("cannot list or watch", resource=str(self._api.resource), error=str(error))
            if clock.monotonic() - started >= retry_watch.RECONNECT.cap_seconds:
                delays.reset()
            await clock.sleep(next(delays))

    async def _list(self) -> str:
        """Make the store complete; the resource version from which to watch."""
        if self._streaming_list:
            try:
                return await self._list_as_stream()
            except (api_errors.BadRequest, api_errors.Invalid, TimeoutError) as error:
                self._streaming_list = False
                _log.info("streaming lists are not supported", resource=str(self._api.resource), error=str(error))
        page = await self._api.list_all(
            namespace=self._namespace, label_selector=self._label_selector, field_selector=self._field_selector
        )
        self._replace(page.items)
        return page.resource_version

    async def _list_as_stream(self) -> str:
        items: list[_T] = []
        connection = self._api.watch(
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            send_initial_events=True,
        )
        async with self._api.client.clock.timeout(_STREAMED_LIST_SECONDS), connection as events:
            async for event in events:
                match event:
                    case Change(object=item):
                        items.append(item)
                    case Bookmark(version, ends_initial_events=True):
                        self._replace(items)
                        return version
                    case Bookmark():
                        pass
        raise errors.WatchBroken(f"the streamed list of {self._api.resource} ended too early")

    async def _watch(self, version: str) -> None:
        following = self._api.follow(
            resource_version=version,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        async with following as events:
            async for event in events:
                if isinstance(event, Change):
                    change = Change(event.type, self._transformed(event.object))
                    for delta in self._mirror.apply(change):
                        self._tell(delta)

    def _replace(self, items: list[_T]) -> None:
        for delta in self._mirror.replace(self._transformed(item) for item in items):
            self._tell(delta)

    def _transformed(self, item: _T) -> _T:
        return self._transform(item) if self._transform is not None else item

    def _tell(self, delta: Delta[_T]) -> None:
        for handler in tuple(self._handlers):
            handler.tell(delta)
