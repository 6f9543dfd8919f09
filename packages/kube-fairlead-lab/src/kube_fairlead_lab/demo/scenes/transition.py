"""KEP-5683 step by step: a small driver is claimed for, run and finished; then one that never finishes expires."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import tempfile
from collections.abc import AsyncIterator

from kube_fairlead.agent import launch
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleEventSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead.client.watch import Change, ChangeType
from kube_fairlead.drivers import sdk
from kube_fairlead.lifecycle.facts import Settings
from kube_fairlead_lab.demo.stage import Stage

__all__ = ["Firmware", "ask", "play", "state_of", "until"]

_NODE = "rack-7"


class Firmware(sdk.Driver):
    """A driver as its author writes it. This one updates nothing; it waits until it is told that it has."""

    name = "example.com/firmware"
    transitions = (
        sdk.Transition(name="firmware-update", start="UpdatingFirmware", end="FirmwareUpdated", sla="10m"),
        sdk.Transition(name="firmware-update-in-a-hurry", start="UpdatingFirmware", end="FirmwareUpdated", sla="1s"),
    )

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.may_finish = asyncio.Event()
        self.working = asyncio.Event()
        self.calls: list[str] = []
        self.uids: set[str] = set()

    async def start(self, work: sdk.Work) -> None:
        """Nothing to prepare."""
        self._note("start", work)

    async def end(self, work: sdk.Work, report: sdk.Report) -> None:
        """Wait until it is done."""
        self._note("end", work)
        report(sdk.Progress(done=1, total=2, unit="disks", message="second disk"))
        self.working.set()
        await self.may_finish.wait()

    def _note(self, step: str, work: sdk.Work) -> None:
        self.calls.append(step)
        self.uids.add(work.event_uid)
        self._stage.say(f"driver: {step.capitalize()}LifecycleTransition for event uid {work.event_uid[:8]}")


async def play(stage: Stage) -> None:
    """The scene."""
    await stage.client.of(Node).create(Node(metadata=ObjectMeta(name=_NODE)))
    driver = Firmware(stage)
    async with _agent_and(driver, stage):
        stage.say(f"kubectl create: LifecycleEvent update-{_NODE}")
        async with ask(stage, f"update-{_NODE}", "firmware-update", _NODE) as changes:
            claimed = await until(changes, "Claimed")
            stage.check(claimed.status.claimed_by == f"node/{_NODE}", "the node's agent claimed it, with a deadline")
            await driver.working.wait()
            stage.check(await state_of(stage, _NODE) == "UpdatingFirmware", "the Node says UpdatingFirmware")
            driver.may_finish.set()
            await until(changes, "Succeeded")
            stage.check(
                await state_of(stage, _NODE) == "FirmwareUpdated", "Succeeded, and the Node says FirmwareUpdated"
            )
            await until(changes, "gone")
            stage.check(driver.calls == ["start", "end"], "a watcher saw every state, then the event went")
        driver.may_finish.clear()
        stage.say("the same with an SLA of one second, and a disk that takes longer")
        async with ask(stage, f"hurry-{_NODE}", "firmware-update-in-a-hurry", _NODE) as changes:
            expired = await until(changes, "SlaExpired")
            stage.check("deadline" in expired.status.message, f"SlaExpired: {expired.status.message}")
            await until(changes, "gone")
        stage.check(await state_of(stage, _NODE) == "UpdatingFirmware", "the Node stays at the state it really reached")


@contextlib.asynccontextmanager
async def _agent_and(driver: sdk.Driver, stage: Stage) -> AsyncIterator[None]:
    """The agent of the node and a driver beside it, which find each other by a socket in a folder."""
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        registry = pathlib.Path(folder) / "registry"
        settings = launch.LaunchSettings(
            node_name=_NODE, registry=registry, state=pathlib.Path(folder), settings=Settings()
        )
        async with (
            TaskScope("demo agent", on_exit=OnExit.CANCEL) as scope,
            sdk.serving(driver, sdk.Options(registry=registry)) as serving,
        ):
            told = scope.start(serving.wait_told(), name="registration")
            scope.start(launch.serve(stage.client, settings, DiscardedMetrics()), name="agent")
            await told
            stage.check(serving.registered, "the driver registered, and its transitions are published: kubectl get lt")
            yield


@contextlib.asynccontextmanager
async def ask(stage: Stage, name: str, transition: str, node: str) -> AsyncIterator[AsyncIterator[object]]:
    """Create an event and follow what becomes of it."""
    events = stage.client.of(LifecycleEvent)
    spec = LifecycleEventSpec(transition_name=transition, binding_node=node)
    made = await events.create(LifecycleEvent(metadata=ObjectMeta(name=name), spec=spec))
    version = made.metadata.resource_version
    async with events.follow(field_selector=f"metadata.name={name}", resource_version=version) as changes:
        yield changes


async def until(changes: AsyncIterator[object], state: str) -> LifecycleEvent:
    """Read on until the event is in a state, or `gone`."""
    async for change in changes:
        if isinstance(change, Change) and isinstance(change.object, LifecycleEvent):
            now = "gone" if change.type is ChangeType.DELETED else change.object.claim_status
            if now == state:
                return change.object
    raise EOFError("the watch ended")


async def state_of(stage: Stage, node: str) -> str:
    """What the Node says of itself."""
    condition = (await stage.client.of(Node).get(node)).condition(CONDITION_LIFECYCLE_TRANSITION)
    return "" if condition is None else condition.reason
