"""Records Kubernetes Events, written in the background.

Upstream: k8s.io/client-go@v0.36.4/tools/events/event_broadcaster.go,
    k8s.io/client-go@v0.36.4/tools/events/event_recorder.go,
    k8s.io/client-go@v0.36.4/tools/reference/ref.go
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, Self

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import names
from kube_fairlead.api.core_v1 import ObjectReference
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.base import identity, logs, tasks
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.workqueue import QueueShutDown, WorkQueue
from kube_fairlead.client import errors, eventbodies, patches, retry_watch
from kube_fairlead.client.client import Client
from kube_fairlead.client.eventseries import Correlator, Occurrence, Series

__all__ = ["EventRecorder"]

_EVENTS_V1 = GroupVersionResource("events.k8s.io", "v1", "events")
_CORE_V1 = GroupVersionResource("", "v1", "events")
# Where Events about cluster-scoped objects live.
_CLUSTER_NAMESPACE = "default"
# A series is written at most this often; what happens meanwhile is counted.
_SERIES_INTERVAL_SECONDS = 10.0
_ATTEMPTS = 12
_BACKOFF = Backoff(initial_seconds=1.0, factor=2.0, cap_seconds=60.0, jitter=0.5)
_FLUSH_SECONDS = 2.0

_log = logs.get_logger(__name__)


class EventRecorder:
    """Records Events about objects.

    Guarantees:
    1. `event` never waits and never fails: what cannot be written is counted in `dropped` and logged.
    2. The same occurrence within six minutes is one Event with a count; what floods is combined, then dropped.
    3. Leaving `running` writes what is left, for two seconds at most.
    """

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        instance: str,
        capacity: int = 1000,
        api: Literal["events.k8s.io/v1", "v1"] = "events.k8s.io/v1",
    ) -> None:
        self._client = client
        self._source = eventbodies.Source(controller=controller, instance=instance)
        self._capacity = capacity
        self._body = eventbodies.core_v1 if api == "v1" else eventbodies.events_v1
        self._api = client.of(_CORE_V1 if api == "v1" else _EVENTS_V1)
        self._ids = identity.RandomIds(client.randomness)
        self._correlator = Correlator()
        self._unwritten: dict[int, Series] = {}
        self._queue: WorkQueue[int] = WorkQueue(client.clock, client.randomness, backoff=_BACKOFF)
        self.dropped = 0

    def event(
        self,
        regarding: KubeObject | ObjectReference | Mapping[str, Any],
        *,
        reason: str,
        note: str,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the API's own name
        action: str = "",
        related: KubeObject | ObjectReference | Mapping[str, Any] | None = None,
    ) -> None:
        """Record that something happened to an object. Returns at once."""
        try:
            occurrence = Occurrence(
                regarding=_reference_to(regarding),
                related=None if related is None else _reference_to(related),
                type=type,
                reason=reason,
                action=action or reason,
                note=note,
            )
            self._observe(occurrence)
        except Exception:  # noqa: BLE001 - an Event is never worth the failure of its subject
            self.dropped += 1
            _log.exception("event cannot be recorded", reason=reason)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Write Events as long as the block lasts, and what is left at its end."""
        owner = f"recorder/{self._source.controller}"
        async with tasks.TaskScope(owner, on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(self._run(), name="write")
            try:
                yield self
            finally:
                await self._flush()

    def _observe(self, occurrence: Occurrence) -> None:
        series = self._correlator.observe(occurrence, self._client.clock.now())
        if series is None:
            self.dropped += 1
        elif series.number in self._unwritten:
            pass  # its turn will come, and then the new count is written
        elif len(self._unwritten) >= self._capacity:
            self.dropped += 1
            self._correlator.forget(series)
        else:
            self._unwritten[series.number] = series
            self._queue.add_after(series.number, _SERIES_INTERVAL_SECONDS if series.written else 0)

    async def _run(self) -> None:
        while True:
            try:
                async with self._queue.take() as number:
                    if number in self._unwritten:
                        await self._handle(self._unwritten[number])
            except QueueShutDown:
                return

    async def _handle(self, series: Series) -> None:
        number = series.number
        try:
            await self._write(series)
        except (errors.ClientError, api_errors.ApiError) as error:
            if retry_watch.is_transient(error) and self._queue.failures(number) < _ATTEMPTS:
                self._queue.add_rate_limited(number)
                return
            self.dropped += 1
            self._correlator.forget(series)
            _log.warning("event dropped", reason=series.occurrence.reason, error=str(error))
            series.written = series.count
        self._queue.forget(number)
        if series.is_unwritten:
            self._queue.add_after(number, _SERIES_INTERVAL_SECONDS)
        else:
            del self._unwritten[number]

    async def _write(self, series: Series) -> None:
        count = series.count
        namespace = series.occurrence.regarding.namespace or _CLUSTER_NAMESPACE
        if series.written:
            patch = patches.MergePatch(eventbodies.repetition(series, legacy=self._is_legacy))
            # Servers expire Events after an hour; a series that continues gets a new one.
            with contextlib.suppress(api_errors.NotFound):
                await self._api.patch(series.name, patch, namespace=namespace)
                series.written = count
                return
            series.name = ""
        series.name = series.name or self._new_name(series)
        # A name is used once, so if it exists already, an earlier attempt got through and only its answer was lost.
        with contextlib.suppress(api_errors.AlreadyExists):
            await self._api.create(self._body(series, self._source, namespace), namespace=namespace)
        series.written = count

    @property
    def _is_legacy(self) -> bool:
        return self._api.resource.gvr == _CORE_V1

    def _new_name(self, series: Series) -> str:
        about = series.occurrence.regarding.name
        suffix = f"{int(series.first.timestamp() * 1_000_000):x}{self._ids.name_suffix()}"
        stem = about[: 252 - len(suffix)].rstrip(".-")
        return f"{stem}.{suffix}" if not names.dns1123_subdomain(stem) else suffix

    async def _flush(self) -> None:
        for number in self._unwritten:
            self._queue.add(number)
        with contextlib.suppress(TimeoutError):
            async with self._client.clock.timeout(_FLUSH_SECONDS):
                await self._queue.drain()
        if self._unwritten:
            self.dropped += len(self._unwritten)
            _log.warning("events left unwritten at the end", count=len(self._unwritten))


def _reference_to(item: KubeObject | ObjectReference | Mapping[str, Any]) -> ObjectReference:
    """A reference to an object, typed or not, by its uid; its resource version is left out, for it changes."""
    if isinstance(item, ObjectReference):
        return item
    if isinstance(item, KubeObject):
        return ObjectReference(
            api_version=item.api_version,
            kind=item.kind,
            namespace=item.metadata.namespace,
            name=item.metadata.name,
            uid=item.metadata.uid,
        )
    metadata = item.get("metadata") or {}
    return ObjectReference(
        api_version=item.get("apiVersion", ""),
        kind=item.get("kind", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
    )
