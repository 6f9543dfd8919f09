"""One Lease on an API server: reading, writing and watching it, each call once and within its time.

Upstream: k8s.io/client-go@v0.36.4/tools/leaderelection/resourcelock/leaselock.go
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.client import errors, retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.watch import Bookmark, Change, ChangeType
from kube_fairlead.election.election_record import LeaderElectionRecord
from kube_fairlead.election.lease import Lock

__all__ = ["FAILURES", "REFUTATIONS", "LeaseClient"]

REFUTATIONS = (api_errors.Conflict, api_errors.NotFound, api_errors.AlreadyExists)
"""Errors that mean: the Lease is not what the writer read."""

FAILURES = (api_errors.ApiError, errors.ClientError, TimeoutError)
"""Everything that a call can end with but success."""

_SHORTEST_WATCH_SECONDS = 300
_LONGEST_WATCH_SECONDS = 600


class LeaseClient:
    """Reads and writes one Lease. Nothing is repeated here: an attempt that is made twice has no known age."""

    def __init__(self, client: Client, lock: Lock) -> None:
        self._api = client.with_retry(retry.NEVER).of(Lease)
        self._clock = client.clock
        self._randomness = client.randomness
        self._lock = lock

    async def read(self, *, timeout_seconds: float) -> Lease | None:
        """The Lease as it is now; None when there is none."""
        try:
            async with self._clock.timeout(timeout_seconds):
                return await self._api.get(self._lock.name, namespace=self._lock.namespace)
        except api_errors.NotFound as error:
            # The server may also mean that it knows no such path; then there is nothing to be elected to.
            if (error.details or {}).get("name") != self._lock.name:
                raise
            return None

    async def write(self, base: Lease | None, record: LeaderElectionRecord, *, timeout_seconds: float) -> Lease:
        """Lay the record over this version of the Lease, or create it; everything else in it stays as it is."""
        async with self._clock.timeout(timeout_seconds):
            if base is None:
                meta = ObjectMeta(name=self._lock.name, namespace=self._lock.namespace)
                return await self._api.create(record.onto(Lease(metadata=meta)))
            return await self._api.update(record.onto(base))

    async def watch(
        self, *, timeout_seconds: float, silence_seconds: float
    ) -> AsyncGenerator[tuple[Lease | None, str], None]:
        """What the Lease is now and becomes, with the resource version that says so; None: there is none.

        Ends when the server ends the watch, and raises TimeoutError when it has been silent for so long that it may
        be gone: a held Lease is renewed all the time.
        """
        name_only = f"metadata.name={self._lock.name}"
        async with self._clock.timeout(timeout_seconds):
            page = await self._api.list(namespace=self._lock.namespace, field_selector=name_only)
        yield (page.items[0] if page.items else None), page.resource_version
        seconds = int(self._randomness.uniform(_SHORTEST_WATCH_SECONDS, _LONGEST_WATCH_SECONDS))
        connection = self._api.watch(
            namespace=self._lock.namespace,
            field_selector=name_only,
            resource_version=page.resource_version,
            timeout_seconds=seconds,
        )
        async with connection as events:
            while True:
                async with self._clock.timeout(silence_seconds):
                    event = await anext(events, None)
                match event:
                    case None:
                        return
                    case Change(ChangeType.DELETED):
                        yield None, event.resource_version
                    case Change(object=lease):
                        yield lease, event.resource_version
                    case Bookmark():
                        pass
