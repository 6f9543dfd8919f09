"""The embedded API server, a cloud in memory and a manager's controllers, in one process and on one virtual clock."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import Any

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, Service, Taint
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import ANNOTATION_PLATFORM
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.metrics import DiscardedMetrics, Metrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import patches
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Informer
from kube_fairlead.client.inprocess import InProcessTransport
from kube_fairlead.client.transport import Request, Response, StreamedResponse
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.calls import CloudCalls
from kube_fairlead.cloud.cluster import Cluster
from kube_fairlead.cloud.context import CloudContext, Controller
from kube_fairlead.cloud.provider import Provider
from kube_fairlead.cloud.unannounced_deletions import UnannouncedDeletions
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.server import ApiServer
from tests.inprocess import serving

UNINITIALIZED = Taint(key=wellknown.TAINT_UNINITIALIZED, value="true", effect="NoSchedule")
# For providers that look at neither.
NODE = Node()
NO_CLUSTER: Cluster = None  # type: ignore[assignment]  # nothing reads it
EVENTS = GroupVersionResource("events.k8s.io", "v1", "events")


def node(
    name: str = "n1",
    provider_id: str = "",
    *,
    platform: str | None = None,
    ready: str | None = "True",
    taints: Iterable[Taint] = (),
    addresses: Mapping[str, str] | None = None,
    pod_cidrs: Iterable[str] = (),
    **metadata: Any,
) -> Node:
    annotations = dict(metadata.pop("annotations", {}))
    if platform is not None:
        annotations[ANNOTATION_PLATFORM] = platform
    cidrs = tuple(pod_cidrs)
    return Node(
        metadata=ObjectMeta(name=name, annotations=annotations, **metadata),
        spec=NodeSpec(
            provider_id=provider_id, taints=tuple(taints), pod_cidrs=cidrs, pod_cidr=cidrs[0] if cidrs else ""
        ),
        status=NodeStatus(
            conditions=() if ready is None else (NodeCondition(type="Ready", status=ready),),
            addresses=tuple(NodeAddress(type=key, address=value) for key, value in (addresses or {}).items()),
        ),
    )


class Recording:
    """A transport that remembers the writes that went through it."""

    def __init__(self, inner: InProcessTransport) -> None:
        self._inner = inner
        self.writes: list[Request] = []

    async def send(self, request: Request) -> Response:
        if request.method != "GET" and "/events" not in request.path:
            self.writes.append(request)
        return await self._inner.send(request)

    def stream(self, request: Request) -> contextlib.AbstractAsyncContextManager[StreamedResponse]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@dataclasses.dataclass(eq=False)
class World:
    """One cluster. `manager` is the client of the manager under test; its writes are recorded."""

    clock: VirtualClock
    server: ApiServer
    admin: Client
    manager: Client
    recording: Recording

    async def create(self, made: Node) -> Node:
        """A node with its status, as a kubelet would make it."""
        created = await self.admin.of(Node).create(wire.replace(made, status=NodeStatus()))
        # Admission tainted it as not ready, and nothing here would take that off again.
        await self.patch(created.name, {"spec": {"taints": [wire.to_dict(taint) for taint in made.spec.taints]}})
        status = {"status": wire.to_dict(made.status)}
        return await self.admin.of(Node).patch(created.name, patches.MergePatch(status), subresource="status")

    async def get(self, name: str = "n1") -> Node:
        return await self.admin.of(Node).get(name)

    async def set_ready(self, name: str, status: str) -> None:
        condition = {"type": "Ready", "status": status}
        patch = patches.StrategicMergePatch({"status": {"conditions": [condition]}})
        await self.admin.of(Node).patch(name, patch, subresource="status")

    async def patch(self, name: str, document: dict[str, Any]) -> None:
        await self.admin.of(Node).patch(name, patches.MergePatch(document))

    async def names(self) -> set[str]:
        return {one.name for one in (await self.admin.of(Node).list_all()).items}

    async def events(self, reason: str = "") -> list[dict[str, Any]]:
        page = await self.admin.of(EVENTS).list_all()
        return [event for event in page.items if not reason or event["reason"] == reason]

    @property
    def written(self) -> list[str]:
        """The paths that the manager wrote to."""
        return [f"{request.method} {request.path}" for request in self.recording.writes]

    def context(self, provider: Provider, *platforms: str, metrics: Metrics | None = None) -> CloudContext:
        metrics = metrics or DiscardedMetrics()
        return CloudContext(
            client=self.manager,
            nodes=Informer(self.manager.of(Node, keep=False)),
            provider=provider,
            platforms=frozenset(platforms),
            calls=CloudCalls(provider.name, clock=self.clock, randomness=SeededRandomness(3), metrics=metrics),
            metrics=metrics,
            unannounced_deletions=UnannouncedDeletions(self.manager, namespace="kube-system", name="ccm-vanished"),
        )

    def services(self) -> Informer[Service]:
        return Informer(self.manager.of(Service))

    @contextlib.asynccontextmanager
    async def running(
        self, *controllers: Controller, informers: Iterable[Informer[Any]] = ()
    ) -> AsyncIterator[Callable[[float], Coroutine[Any, Any, None]]]:
        """Run controllers; what is given out moves the clock."""
        async with tasks.TaskScope("manager", on_exit=tasks.OnExit.CANCEL) as scope:
            for number, informer in enumerate(informers):
                scope.start(informer.run(), name=f"informer-{number}")
            for controller in controllers:
                scope.start(controller.run(), name=controller.name)
            await self.clock.settle()
            yield self.clock.advance


def client_of(server: ApiServer, clock: VirtualClock, user: str) -> tuple[Client, Recording]:
    who = UserInfo(name=user, groups=("system:masters", "system:authenticated"))
    recording = Recording(InProcessTransport(server.app, clock=clock, extensions={"fairlead": {"user": who}}))
    return Client(recording, clock=clock, randomness=SeededRandomness(1)), recording


@contextlib.asynccontextmanager
async def make_world(folder: pathlib.Path) -> AsyncIterator[World]:
    clock = VirtualClock()
    async with serving(folder, clock) as server:
        admin, _ = client_of(server, clock, "admin")
        manager, recording = client_of(server, clock, "cloud-controller-manager")
        async with admin, manager:
            yield World(clock, server, admin, manager, recording)
