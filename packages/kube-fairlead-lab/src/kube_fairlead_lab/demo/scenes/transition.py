"""KEP-5683 step by step: an event is claimed, carried out and finished; a second one expires."""

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
from kube_fairlead_lab.demo.context import SceneContext

__all__ = ["Firmware", "ask", "play", "state_of", "until"]

_NODE = "rack-7"


class Firmware(sdk.Driver):
    """A driver as its author writes it. This one updates nothing; it waits for `may_finish`."""

    name = "example.com/firmware"
    transitions = (
        sdk.Transition(name="firmware-update", start="UpdatingFirmware", end="FirmwareUpdated", sla="10m"),
        sdk.Transition(name="firmware-update-in-a-hurry", start="UpdatingFirmware", end="FirmwareUpdated", sla="1s"),
    )

    def __init__(self, context: SceneContext) -> None:
        self._context = context
        self.may_finish = asyncio.Event()
        self.working = asyncio.Event()
        self.calls: list[str] = []
        self.uids: set[str] = set()

    async def start(self, work: sdk.Work) -> None:
        """Prepare nothing."""
        self._note("start", work)

    async def end(self, work: sdk.Work, report: sdk.Report) -> None:
        """Wait for `may_finish`."""
        self._note("end", work)
        report(sdk.Progress(done=1, total=2, unit="disks", message="second disk"))
        self.working.set()
        await self.may_finish.wait()

    def _note(self, step: str, work: sdk.Work) -> None:
        self.calls.append(step)
        self.uids.add(work.event_uid)
        self._context.narrate(f"driver: {step.capitalize()}LifecycleTransition for event uid {work.event_uid[:8]}")


async def play(context: SceneContext) -> None:
    """Run the scene."""
    await context.client.of(Node).create(Node(metadata=ObjectMeta(name=_NODE)))
    driver = Firmware(context)
    async with _agent_and(driver, context):
        context.narrate(f"kubectl create: LifecycleEvent update-{_NODE}")
        async with ask(context, f"update-{_NODE}", "firmware-update", _NODE) as changes:
            claimed = await until(changes, "Claimed")
            context.check(
                claimed.status.claimed_by == f"node/{_NODE}", "the node's agent claimed it and set a deadline"
            )
            await driver.working.wait()
            context.check(
                await state_of(context, _NODE) == "UpdatingFirmware", "the Node condition shows UpdatingFirmware"
            )
            driver.may_finish.set()
            await until(changes, "Succeeded")
            context.check(
                await state_of(context, _NODE) == "FirmwareUpdated",
                "Succeeded; the Node condition shows FirmwareUpdated",
            )
            await until(changes, "gone")
            context.check(driver.calls == ["start", "end"], "the watch showed every state, then the event was deleted")
        driver.may_finish.clear()
        context.narrate("the same with an SLA of one second, and a driver that takes longer")
        async with ask(context, f"hurry-{_NODE}", "firmware-update-in-a-hurry", _NODE) as changes:
            expired = await until(changes, "SlaExpired")
            context.check("deadline" in expired.status.message, f"SlaExpired: {expired.status.message}")
            await until(changes, "gone")
        context.check(
            await state_of(context, _NODE) == "UpdatingFirmware",
            "the Node condition still shows the state that was reached",
        )


@contextlib.asynccontextmanager
async def _agent_and(driver: sdk.Driver, context: SceneContext) -> AsyncIterator[None]:
    """Run the node's agent and a driver that registers through a socket in the registry folder."""
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        registry = pathlib.Path(folder) / "registry"
        settings = launch.LaunchSettings(
            node_name=_NODE, registry=registry, state=pathlib.Path(folder), settings=Settings()
        )
        async with (
            TaskScope("demo agent", on_exit=OnExit.CANCEL) as scope,
            sdk.serving(driver, sdk.Options(registry=registry)) as serving,
        ):
            registration = scope.start(serving.wait_told(), name="registration")
            scope.start(launch.serve(context.client, settings, DiscardedMetrics()), name="agent")
            await registration
            context.check(
                serving.registered, "the driver has registered, and its transitions are published: kubectl get lt"
            )
            yield


@contextlib.asynccontextmanager
async def ask(context: SceneContext, name: str, transition: str, node: str) -> AsyncIterator[AsyncIterator[object]]:
    """Create an event and watch it."""
    events = context.client.of(LifecycleEvent)
    spec = LifecycleEventSpec(transition_name=transition, binding_node=node)
    made = await events.create(LifecycleEvent(metadata=ObjectMeta(name=name), spec=spec))
    version = made.metadata.resource_version
    async with events.follow(field_selector=f"metadata.name={name}", resource_version=version) as changes:
        yield changes


async def until(changes: AsyncIterator[object], state: str) -> LifecycleEvent:
    """Read changes until the event has this state, or is `gone`."""
    async for change in changes:
        if isinstance(change, Change) and isinstance(change.object, LifecycleEvent):
            now = "gone" if change.type is ChangeType.DELETED else change.object.claim_status
            if now == state:
                return change.object
    raise EOFError("the watch ended")


async def state_of(context: SceneContext, node: str) -> str:
    """Return the reason of the Node's lifecycle condition."""
    condition = (await context.client.of(Node).get(node)).condition(CONDITION_LIFECYCLE_TRANSITION)
    return "" if condition is None else condition.reason
