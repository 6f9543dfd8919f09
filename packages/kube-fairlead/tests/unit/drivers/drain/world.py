"""An API server, a node with pods, a kubelet, and a drain driver that can be killed at any request: one process, no
real time.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import pathlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleEventSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.policy_v1 import PodDisruptionBudget
from kube_fairlead.api.reserved import NODE_DRAIN, NODE_UNCORDON, Transition
from kube_fairlead.api.scheme import Scheme
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client.client import Client
from kube_fairlead.client.inprocess import InProcessTransport
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.client.transport import Request, Response, Transport
from kube_fairlead.client.watch import Change, ChangeType
from kube_fairlead.drivers import sdk
from kube_fairlead.drivers.drain.driver import DrainDriver
from kube_fairlead.drivers.sdk.service import Service
from kube_fairlead.lifecycle.drain.options import PROFILE, DrainOptions
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.server import ApiServer
from kube_fairlead_lab.testing import manifests
from tests.inprocess import serving
from tests.unit.claimant.world import Mortal, When

NODE = "node-1"
SHOP = "shop"


class Answering:
    """A transport on which a webhook, or anything else before the server, may answer first."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.asked: list[str] = []  # the pods whose eviction or deletion was asked for, with the answer
        self.answer: Callable[[Request], api_errors.ApiError | None] = lambda _request: None
        self.played: Callable[[Request], Response | None] = lambda _request: None

    async def send(self, request: Request) -> Response:
        if (played := self.played(request)) is not None:
            return played
        subject = _subject(request)
        early = self.answer(request)
        if early is not None:
            body = _json(early.to_status())
            response = Response(status=early.code, headers={"content-type": "application/json"}, body=body)
        else:
            response = await self.inner.send(request)
        if subject:
            self.asked.append(f"{subject} {response.status}")
        return response

    def stream(self, request: Request) -> Any:
        return self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


def _subject(request: Request) -> str:
    parts = request.path.strip("/").split("/")
    if request.method == "POST" and parts[-1] == "eviction":
        return parts[-2]
    return parts[-1] if request.method == "DELETE" and "pods" in parts else ""


def _json(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


@dataclasses.dataclass(eq=False)
class Life:
    """One life of the driver, and what came of its call."""

    transport: Mortal
    front: Answering
    task: asyncio.Task[str]
    progress: list[sdk.Progress]

    async def kill(self) -> None:
        """As kill -9: no request under way is answered, none follows."""
        self.transport.died.set()
        await tasks.cancel_and_wait(self.task)

    @property
    def outcome(self) -> str:
        """`done`, or why not."""
        return self.task.result()

    @property
    def message(self) -> str:
        return self.progress[-1].message

    @property
    def counts(self) -> tuple[int, int]:
        return self.progress[-1].done, self.progress[-1].total


class World:
    def __init__(self, server: ApiServer, clock: VirtualClock, scope: tasks.TaskScope) -> None:
        self.server = server
        self.clock = clock
        self.scope = scope
        self.admin = Client(self._in_process("admin"), clock=clock, randomness=SeededRandomness(1))
        self.pods = self.admin.of(Pod)
        self.nodes = self.admin.of(Node)
        self.lives: list[Life] = []
        self.owners: dict[str, dict[str, Any]] = {}
        self.kubelet_works = True
        self.gone: list[str] = []

    def _in_process(self, user: str) -> InProcessTransport:
        who = UserInfo(name=user, groups=("system:masters", "system:authenticated"))
        return InProcessTransport(self.server.app, clock=self.clock, extensions={"fairlead": {"user": who}})

    async def set_up(self) -> None:
        for name in (NODE, "node-2"):
            # Labelled, as a kubelet does: the server keeps books only of objects that began with something to own.
            labels = {"kubernetes.io/hostname": name}
            await self.nodes.create(Node(metadata=ObjectMeta(name=name, labels=labels)))
        await self.admin.of(GroupVersionResource("", "v1", "namespaces")).create({"metadata": {"name": SHOP}})
        await self.clock.advance(1)
        for kind, name in (("ReplicaSet", "rs"), ("DaemonSet", "ds"), ("StatefulSet", "sts")):
            self.owners[kind.lower()] = await self._owner(kind, name)
        self.scope.start(self._kubelet(), name="kubelet")
        await self.clock.settle()

    async def _owner(self, kind: str, name: str) -> dict[str, Any]:
        template = {"metadata": {"labels": {"o": name}}, "spec": manifests.pod("x")["spec"]}
        body: dict[str, Any] = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": SHOP},
            "spec": {"selector": {"matchLabels": {"o": name}}, "template": template},
        }
        if kind == "StatefulSet":
            body["spec"]["serviceName"] = "s"
        made = await self.admin.of(GroupVersionResource("apps", "v1", f"{kind.lower()}s")).create(body)
        uid = made["metadata"]["uid"]
        return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}

    async def pod(
        self,
        name: str,
        *,
        owner: str = "replicaset",
        node: str = NODE,
        ready: bool = True,
        phase: str = "Running",
        grace: int = 5,
        labels: dict[str, str] | None = None,
        spec: dict[str, Any] | None = None,
        **metadata: Any,
    ) -> Pod:
        if owner:
            metadata["ownerReferences"] = [self.owners[owner]]
        body = manifests.pod(
            name,
            node,
            {"terminationGracePeriodSeconds": grace, **(spec or {})},
            namespace=SHOP,
            labels=labels or {},
            **metadata,
        )
        await self.admin.of(GroupVersionResource("", "v1", "pods")).create(body, namespace=SHOP)
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
        return await self.pods.patch(name, MergePatch({"status": status}), namespace=SHOP, subresource="status")

    async def budget(self, name: str, labels: dict[str, str], **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, **spec}}
        await self.admin.of(GroupVersionResource("policy", "v1", "poddisruptionbudgets")).create(body, namespace=SHOP)
        await self.clock.advance(1)
        assert (await self.admin.of(PodDisruptionBudget).get(name, namespace=SHOP)).status.observed_generation

    async def left(self, node: str = NODE) -> list[str]:
        page = await self.pods.list(field_selector=f"spec.nodeName={node}")
        return sorted(item.name for item in page.items)

    async def event(self, name: str = "drain-1", transition: Transition = NODE_DRAIN) -> LifecycleEvent:
        spec = LifecycleEventSpec(transition_name=transition.name, binding_node=NODE)
        return await self.admin.of(LifecycleEvent).create(LifecycleEvent(metadata=ObjectMeta(name=name), spec=spec))

    async def work(self, transition: Transition = NODE_DRAIN, *, event: str = "drain-1", **options: str) -> sdk.Work:
        try:
            made = await self.admin.of(LifecycleEvent).get(event)
        except api_errors.NotFound:
            made = await self.event(event, transition)
        return sdk.Work(
            event_uid=made.uid,
            event_name=event,
            node_name=NODE,
            node_uid=(await self.nodes.get(NODE)).uid,
            transition_name=transition.name,
            start=transition.start,
            end=transition.end,
            options={name.replace("_", "-"): value for name, value in options.items()},
        )

    def begin(
        self,
        work: sdk.Work,
        *,
        profile: DrainOptions = PROFILE,
        fate: Callable[[Request, When], bool] | None = None,
        answer: Callable[[Request], api_errors.ApiError | None] | None = None,
        played: Callable[[Request], Response | None] | None = None,
        recorder: EventRecorder | None = None,
        metrics: Metrics | None = None,
        scheme: Scheme | None = None,
    ) -> Life:
        """A new life of the driver, called for this work: start, then end."""
        transport = Mortal(self._in_process("driver"), self.clock)
        if fate is not None:
            transport.fate = fate
        front = Answering(transport)
        if answer is not None:
            front.answer = answer
        if played is not None:
            front.played = played
        client = Client(front, clock=self.clock, randomness=SeededRandomness(len(self.lives)))
        if scheme is not None:
            client = client.with_scheme(scheme)
        progress: list[sdk.Progress] = []
        driver = DrainDriver(client, profile=profile, recorder=recorder, metrics=metrics)
        service = Service(driver, self.clock, metrics)
        task = self.scope.start(_outcome(service, work, progress), name=f"driver-{len(self.lives)}")
        self.lives.append(Life(transport, front, task, progress))
        return self.lives[-1]

    async def drain(self, *, seconds: float = 60, **options: str) -> Life:
        life = self.begin(await self.work(NODE_DRAIN, **options))
        await self.clock.advance(seconds)
        return life

    async def uncordon(self, **options: str) -> str:
        life = self.begin(await self.work(NODE_UNCORDON, event="uncordon-1", **options))
        await self.clock.advance(1)
        return life.outcome

    async def cordon(self, *, unschedulable: bool = True) -> None:
        await self.nodes.patch(NODE, MergePatch({"spec": {"unschedulable": unschedulable}}))

    async def _kubelet(self) -> None:
        """Pods that are deleted end after their grace, on every node."""
        page = await self.pods.list()
        async with (
            tasks.TaskScope("kubelet", on_exit=tasks.OnExit.CANCEL) as scope,
            self.pods.follow(resource_version=page.resource_version) as changes,
        ):
            ending: set[str] = set()
            async for change in changes:
                if not isinstance(change, Change):
                    continue
                pod = change.object
                if change.type is ChangeType.DELETED:
                    self.gone.append(pod.name)
                elif pod.deleting and pod.uid not in ending and self.kubelet_works:
                    ending.add(pod.uid)
                    scope.start(self._end(pod), name=f"end/{pod.key}")

    async def _end(self, pod: Pod) -> None:
        assert pod.metadata.deletion_timestamp is not None
        await self.clock.sleep((pod.metadata.deletion_timestamp - self.clock.now()).total_seconds())
        with contextlib.suppress(api_errors.NotFound, api_errors.Conflict):
            await self.pods.delete(pod.name, namespace=pod.namespace, grace_period_seconds=0, uid=pod.uid)


async def _outcome(service: Service, work: sdk.Work, progress: list[sdk.Progress]) -> str:
    try:
        await service.start(work)
        await service.end(work, progress.append)
    except Exception as error:  # noqa: BLE001 - whatever comes out is the outcome
        return str(error)
    return "done"


@contextlib.asynccontextmanager
async def a_world(folder: pathlib.Path) -> AsyncIterator[World]:
    clock = VirtualClock(dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC))
    async with serving(folder, clock) as server, tasks.TaskScope("world", on_exit=tasks.OnExit.CANCEL) as inner:
        made = World(server, clock, inner)
        await made.set_up()
        yield made
