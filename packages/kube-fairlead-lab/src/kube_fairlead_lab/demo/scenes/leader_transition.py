"""KEP-5366 end to end: three manager processes; the leader yields and keeps running, then the next leader is killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator

from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleEventSpec, LifecycleEventStatus
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.environment import Environment
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead.client.watch import Change, ChangeType
from kube_fairlead_lab.demo.context import SceneContext

__all__ = ["play"]

_NAMESPACE, _LEASE = "kube-system", "demo"
_LEASE_SECONDS = 4
_ELECTION = (
    f"--leader-elect-resource-name={_LEASE}",
    f"--leader-elect-lease-duration={_LEASE_SECONDS}s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
    "--secure-port=0",
)
_LIMIT_SECONDS = 30.0
_GRACE_SECONDS = 10.0


async def play(context: SceneContext) -> None:
    """Run the scene."""
    async with contextlib.AsyncExitStack() as stack:
        managers = {}
        for name in ("manager-1", "manager-2", "manager-3"):
            managers[name] = await stack.enter_async_context(_running(context, name))
        async with context.clock.timeout(_LIMIT_SECONDS):
            for manager in managers.values():
                await manager.knows_leader.wait()
        first, term = await _holder(context)
        await _collected(context, "first")
        context.check(first in managers, f"{first} leads in term {term}; the other two are standby")

        begun = context.clock.monotonic()
        managers[first].process.send_signal(signal.Signals["SIGUSR1"])
        second, term = await _next_leader(context, first)
        await _collected(context, "second")
        took = (context.clock.monotonic() - begun) * 1000
        context.check(second in managers, f"SIGUSR1 to {first}: it yields, and {second} leads in term {term}")
        context.narrate(
            f"{took:.0f} ms from the signal to the new leader's first write; the lease duration is {_LEASE_SECONDS} s"
        )
        context.check(
            managers[first].process.returncode is None, f"{first} still runs, in the same process, and is standby"
        )

        begun = context.clock.monotonic()
        managers[second].process.kill()
        third, term = await _next_leader(context, second)
        await _collected(context, "third")
        took = context.clock.monotonic() - begun
        context.check(third in managers, f"kill -9 of {second}: {third} leads in term {term}")
        context.narrate(f"after {took:.1f} s: a standby waits until the lease of {_LEASE_SECONDS} s has expired")
    # They stop one after another, and the last one may have led for a moment.
    holder, _ = await _holder(context)
    context.check(not holder, "SIGTERM to the others: they stopped and released the Lease")
    await context.client.of(Lease).delete(_LEASE, namespace=_NAMESPACE)


class _Manager:
    """One process, and whether it has seen a leader."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.knows_leader = asyncio.Event()

    async def listen(self) -> None:
        """Read its log, which shows when it has seen a leader."""
        if self.process.stderr is not None:
            async for line in self.process.stderr:
                if b"new leader" in line:
                    self.knows_leader.set()


@contextlib.asynccontextmanager
async def _running(context: SceneContext, name: str) -> AsyncIterator[_Manager]:
    command = [sys.executable, "-m", "kube_fairlead.cli", "controller-manager", f"--kubeconfig={context.kubeconfig}"]
    process = await asyncio.create_subprocess_exec(
        *command,
        *_ELECTION,
        env={**Environment.of_process().as_dict(), "POD_NAME": name},
        stderr=asyncio.subprocess.PIPE,
    )
    manager = _Manager(process)
    async with TaskScope(f"demo/{name}", on_exit=OnExit.CANCEL) as scope:
        scope.start(manager.listen(), name="log")
        try:
            yield manager
        finally:
            await _end(context, process)


async def _end(context: SceneContext, process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with context.clock.timeout(_GRACE_SECONDS):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()


async def _holder(context: SceneContext) -> tuple[str, int]:
    """Which manager holds the Lease, and in which term."""
    return _holder_and_term(await context.client.of(Lease).get(_LEASE, namespace=_NAMESPACE))


def _holder_and_term(lease: Lease) -> tuple[str, int]:
    return (lease.spec.holder_identity or "").partition("_")[0], lease.spec.lease_transitions or 0


async def _next_leader(context: SceneContext, after: str) -> tuple[str, int]:
    leases = context.client.of(Lease)
    async with (
        context.clock.timeout(_LIMIT_SECONDS),
        leases.follow(namespace=_NAMESPACE, field_selector=f"metadata.name={_LEASE}", resource_version="0") as events,
    ):
        async for event in events:
            if isinstance(event, Change):
                holder, term = _holder_and_term(event.object)
                if holder not in {after, ""}:
                    return holder, term
    raise TimeoutError("the watch of the Lease ended")


async def _collected(context: SceneContext, name: str) -> None:
    """Wait until the leader has deleted a finished event whose node does not exist."""
    events = context.client.of(LifecycleEvent)
    spec = LifecycleEventSpec(transition_name="none", binding_node="none")
    made = await events.create(LifecycleEvent(metadata=ObjectMeta(name=f"demo-{name}"), spec=spec))
    made = await events.update_status(wire.replace(made, status=LifecycleEventStatus(claim_status="Failed")))
    version = made.metadata.resource_version
    async with (
        context.clock.timeout(_LIMIT_SECONDS),
        events.follow(field_selector=f"metadata.name={made.name}", resource_version=version) as changes,
    ):
        async for change in changes:
            if isinstance(change, Change) and change.type is ChangeType.DELETED:
                return
