"""The embedded server in this process, on virtual time, with an older server beside it in front of the same store."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client.client import Client
from kube_fairlead.client.inprocess import InProcessTransport
from kube_fairlead.client.verbs import Api
from kube_fairlead.lifecycle import deletion
from kube_fairlead_apiserver.access_control import AccessControl
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.http.messages import Request
from kube_fairlead_apiserver.server import ApiServer, Dependencies
from kube_fairlead_apiserver.storage.memory_log import MemoryLog
from kube_fairlead_lab.testing.manifests import custom_resource_definition
from tests.spec.kep5673.older_server import as_before

__all__ = ["GROUP", "MACHINES", "Cluster", "running"]

GROUP = "virtual.example.com"
MACHINES = GroupVersionResource(GROUP, "v1", "machines")
DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
ADMIN = UserInfo(name="admin", groups=("system:masters",))


class _Trusting:
    """Everybody is who they say, and may do everything."""

    def authenticate(self, request: Request) -> UserInfo:
        return request.trusted_user or ADMIN

    def require(self, attributes: Attributes) -> None:
        """Yes."""


class Cluster:
    """Two servers in front of one store: the newer one, and one from before KEP-5673."""

    def __init__(self, server: ApiServer, clock: VirtualClock) -> None:
        self.clock = clock
        self.client = Client(
            InProcessTransport(server.app, clock=clock, extensions={"fairlead": {"user": ADMIN}}),
            clock=clock,
            randomness=SeededRandomness(1),
        )
        self.machines: Api[dict[str, Any]] = self.client.of(MACHINES)

    @staticmethod
    @contextlib.contextmanager
    def older() -> Iterator[None]:
        """Requests in this block go to the older server. Requests at the same time would, too: make them in turn."""
        newer = deletion.decide_custom
        deletion.decide_custom = as_before
        try:
            yield
        finally:
            deletion.decide_custom = newer


@contextlib.asynccontextmanager
async def running(clock: VirtualClock) -> AsyncIterator[Cluster]:
    """Serve custom resources of one kind for as long as the block lasts."""
    randomness = SeededRandomness(7)
    trusting = _Trusting()
    server = ApiServer(
        MemoryLog(),
        Dependencies(clock, randomness, RandomIds(randomness), DiscardedMetrics()),
        lambda _core: AccessControl(authenticator=trusting, authorizer=trusting),
    )
    server.open()
    cluster = Cluster(server, clock)
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope, cluster.client:
        scope.start(server.run(), name="server")
        await server.wait_ready()
        manifest = custom_resource_definition("machines", GROUP, kind="Machine")
        await cluster.client.of(DEFINITIONS).create(manifest)
        await clock.advance(1)
        yield cluster
        server.end_watches()
