"""The server without its HTTP face, in memory, with the whole admission chain: what these tests write to."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kube_fairlead.base.clock import Clock, RealClock
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead_apiserver.admission.chain import Chain
from kube_fairlead_apiserver.admission.plugins import default_chain
from kube_fairlead_apiserver.admission.webhooks.http_sender import HttpSender
from kube_fairlead_apiserver.admission.webhooks.sender import Sender
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.operations.core import Core, WriteOptions, WriteResult
from kube_fairlead_apiserver.operations.create import create
from kube_fairlead_apiserver.operations.delete import delete
from kube_fairlead_apiserver.operations.propagation import DeleteRequest
from kube_fairlead_apiserver.operations.update import update
from kube_fairlead_apiserver.registry.builtin import builtin_resources
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.storage.memory_log import MemoryLog
from kube_fairlead_apiserver.storage.store import Store

Json = dict[str, Any]

ADMIN = UserInfo("admin", groups=("system:masters", "system:authenticated"))


class Plane:
    """Writes as a client would make them, without HTTP."""

    def __init__(self, sender: Sender, *, clock: Clock | None = None) -> None:
        self.clock = clock or RealClock()
        self.store = Store(MemoryLog())
        self.catalog = Catalog(builtin_resources())
        self.ids = RandomIds(SeededRandomness(1))
        self.asked: list[Attributes] = []
        self.refused: set[str] = set()  # verbs that the authorizer does not allow
        self.chain: Chain = default_chain(
            self.store, self.catalog, clock=self.clock, ids=self.ids, authorize=self._authorize, sender=sender
        )
        self.core = Core(self.store, self.catalog, self.clock, self.ids, self.chain)
        self.store.open(lambda _table, _obj: ({}, {}))

    def _authorize(self, attributes: Attributes) -> str | None:
        self.asked.append(attributes)
        return "no" if attributes.verb in self.refused else None

    def options(self, user: UserInfo = ADMIN, *, dry_run: bool = False) -> WriteOptions:
        wire = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
        return WriteOptions(user=user, field_manager="test", dry_run=dry_run, wire=wire)

    def resource(self, kind: str) -> Resource:
        return next(one for one in self.catalog if one.kind == kind and one.version == "v1")

    def take_anything(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Accept objects of a kind that its rules refuse today."""
        monkeypatch.setattr(type(self.resource(kind).strategy), "validate", lambda *_: [])

    async def create(self, obj: Json, *, user: UserInfo = ADMIN, options: WriteOptions | None = None) -> Json:
        resource = self.catalog.of_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        namespace = obj["metadata"].get("namespace", "")
        outcome = await create(self.core, resource, obj, namespace=namespace, options=options or self.options(user))
        return outcome.obj

    async def change(
        self,
        kind: str,
        name: str,
        mutate: Callable[[Json], None],
        *,
        namespace: str = "",
        subresource: str = "",
        user: UserInfo = ADMIN,
        options: WriteOptions | None = None,
    ) -> Json:
        async def mutation(current: Json) -> Json:
            mutate(current)
            return current

        outcome = await update(
            self.core,
            self.resource(kind),
            namespace=namespace,
            name=name,
            mutation=mutation,
            options=options or self.options(user),
            subresource=subresource,
        )
        return outcome.obj

    async def delete(
        self, kind: str, name: str, *, namespace: str = "", user: UserInfo = ADMIN, options: WriteOptions | None = None
    ) -> WriteResult:
        return await delete(
            self.core,
            self.resource(kind),
            namespace=namespace,
            name=name,
            request=DeleteRequest(),
            options=options or self.options(user),
        )

    async def namespace(self, name: str, **labels: str) -> Json:
        """A namespace with its default account, as the controllers would create it."""
        made = await self.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}
        )
        await self.create(service_account("default", name))
        return made


@contextlib.asynccontextmanager
async def running(*, sender: Sender | None = None, clock: Clock | None = None) -> AsyncIterator[Plane]:
    """A plane whose store takes writes."""
    own = HttpSender()
    plane = Plane(sender or own, clock=clock)
    try:
        async with TaskScope("plane", on_exit=OnExit.CANCEL) as scope:
            scope.start(plane.store.run(), name="store")
            yield plane
    finally:
        await own.close()


def service_account(name: str, namespace: str, **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}, **fields}


def pod(name: str, namespace: str = "work", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "example.com/main"}], **spec},
    }


def config_map(name: str, namespace: str = "work", **data: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": dict(data),
    }


def node(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": dict(labels)}, "spec": {}}
