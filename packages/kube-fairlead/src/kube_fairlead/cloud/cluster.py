"""What a provider may read of the cluster: Nodes, Services and Secrets. Nothing here writes.

The reads are made with the manager's own account, so RBAC decides: Nodes always may be read, Services where the service
controller runs, Secrets only if an administrator grants it. What goes wrong is a CloudError, which a provider may pass
on as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node, Secret, Service
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.verbs import Api
from kube_fairlead.client.watch import Change, ChangeType
from kube_fairlead.cloud.errors import CloudRefused, CloudUnavailable

__all__ = ["Cluster", "ReadOnlyCluster", "Reads"]

_T = TypeVar("_T", bound=KubeObject)


class Reads(Protocol[_T]):
    """Reads of one kind. The namespace is needed to get an object of a namespaced kind; else None is all of them.

    All raise `CloudRefused` where the account has not the right or the selector is none, and `CloudUnavailable` where
    the API server gave no answer.
    """

    async def get(self, name: str, *, namespace: str | None = None) -> _T | None:
        """One object; None if there is none of this name."""
        ...

    async def list(self, *, namespace: str | None = None, label_selector: str = "") -> Sequence[_T]:
        """All objects."""
        ...

    def watch(
        self, *, namespace: str | None = None, label_selector: str = ""
    ) -> AbstractAsyncContextManager[AsyncIterator[Change[_T]]]:
        """Everything that there is as ADDED, then every change, over as many connections as it takes.

        It ends only by an error: watch again, and read everything once more.
        """
        ...


class Cluster(Protocol):
    """The cluster, to read."""

    @property
    def nodes(self) -> Reads[Node]:
        """The Nodes, whosever they are."""
        ...

    @property
    def services(self) -> Reads[Service]:
        """The Services."""
        ...

    @property
    def secrets(self) -> Reads[Secret]:
        """The Secrets, as far as RBAC grants."""
        ...


class _Reads(Generic[_T]):
    def __init__(self, api: Api[_T]) -> None:
        self._api = api

    async def get(self, name: str, *, namespace: str | None = None) -> _T | None:
        with _translated(f"get {self._api.resource} {name}"):
            try:
                return await self._api.get(name, namespace=namespace)
            except api_errors.NotFound:
                return None

    async def list(self, *, namespace: str | None = None, label_selector: str = "") -> Sequence[_T]:
        with _translated(f"list {self._api.resource}"):
            return (await self._api.list_all(namespace=namespace, label_selector=label_selector)).items

    def watch(
        self, *, namespace: str | None = None, label_selector: str = ""
    ) -> AbstractAsyncContextManager[AsyncIterator[Change[_T]]]:
        return contextlib.aclosing(self._watch(namespace, label_selector))

    async def _watch(self, namespace: str | None, label_selector: str) -> AsyncGenerator[Change[_T], None]:
        with _translated(f"watch {self._api.resource}"):
            page = await self._api.list_all(namespace=namespace, label_selector=label_selector)
            for item in page.items:
                yield Change(ChangeType.ADDED, item)
            following = self._api.follow(
                resource_version=page.resource_version, namespace=namespace, label_selector=label_selector
            )
            async with following as events:
                async for event in events:
                    if isinstance(event, Change):
                        yield event


class ReadOnlyCluster:
    """A `Cluster` of a client that could do more."""

    def __init__(self, client: Client) -> None:
        self.nodes: Reads[Node] = _Reads(client.of(Node))
        self.services: Reads[Service] = _Reads(client.of(Service))
        self.secrets: Reads[Secret] = _Reads(client.of(Secret))


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except (api_errors.BadRequest, api_errors.Forbidden, api_errors.Unauthorized) as error:
        raise CloudRefused(f"cannot {what}: {error}") from error
    except (api_errors.ApiError, client_errors.ClientError) as error:
        raise CloudUnavailable(f"cannot {what}: {error}") from error
