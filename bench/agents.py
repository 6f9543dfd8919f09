"""From a LifecycleEvent's creation to its claim, with a thousand nodes and a thousand agents on one machine.

The embedded server is one process, all hollow nodes with their agents another, the client that creates and watches
events a third. Each agent has its own watches and shares no informer; nodes and agents renew their Leases as often as
real ones. Events are created at an even pace, each for another node, and are carried out.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator

from bench.agents_fleet import DRIVER, TRANSITION
from bench.apiserver_plane import cpu_seconds
from bench.harness import Measurement, at_most, benchmark
from kube_fairlead.api.lifecycle_v1alpha1 import (
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleTransition,
    LifecycleTransitionSpec,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead_lab.testing import EmbeddedControlPlane

__all__ = ["measure"]

NODES = 1000
EVENTS = 600
WARM_UP = 50
PER_SECOND = 10
BAR_P99_MS = 50.0
_START_SECONDS = 600.0


@benchmark("agents")
def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        plane = EmbeddedControlPlane(pathlib.Path(folder))
        try:
            yield from asyncio.run(_measure(plane))
        finally:
            asyncio.run(plane.stop())


async def _measure(plane: EmbeddedControlPlane) -> list[Measurement]:
    await plane.start()
    began = time.perf_counter()
    async with plane.client() as client, _fleet(plane.kubeconfig) as fleet:
        started = time.perf_counter() - began
        spec = LifecycleTransitionSpec(start=TRANSITION.start, end=TRANSITION.end, driver=DRIVER, all_nodes=True)
        await client.of(LifecycleTransition).create(
            LifecycleTransition(metadata=ObjectMeta(name=TRANSITION.name), spec=spec)
        )
        await _ask(client, "warm-up", WARM_UP)
        processes = {"server": plane.apiserver.pid, "agents": fleet.pid}
        busy_before, wall_before = {name: cpu_seconds(pid) for name, pid in processes.items()}, time.perf_counter()
        claims, ends = await _ask(client, "event", EVENTS)
        wall = time.perf_counter() - wall_before
        busy = {name: (cpu_seconds(pid) - busy_before[name]) / wall for name, pid in processes.items()}
    note = f"{EVENTS} events, {PER_SECOND} per second; median {_share(claims, 0.5):.1f} ms, worst {claims[-1]:.0f} ms"
    load = f"server {busy['server']:.0%} of a core, all agents and nodes {busy['agents']:.0%}"
    return [
        Measurement(f"{NODES} nodes and agents are up", started, "s", None, "each with its own watches"),
        Measurement("created to claimed, p99", _share(claims, 0.99), "ms", at_most(BAR_P99_MS), note),
        Measurement("created to finished and deleted, p99", _share(ends, 0.99), "ms", None, load),
    ]


@contextlib.asynccontextmanager
async def _fleet(kubeconfig: pathlib.Path) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [sys.executable, "-m", "bench.agents_fleet", str(kubeconfig), str(NODES)]
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_SECONDS):
            if await process.stdout.readline() != b"ready\n":
                raise RuntimeError("the agents did not start")
        yield process
    finally:
        process.kill()
        await process.wait()


async def _ask(client: Client, prefix: str, count: int) -> tuple[list[float], list[float]]:
    """Create events at an even pace; returns the delays until they are claimed and until they are deleted, in ms.

    Counted from before the request is sent until a watcher sees the claim: the acknowledgement may reach a busy client
    after the claim does, so counting from there would be too optimistic.
    """
    asked: dict[str, float] = {}
    claims: dict[str, float] = {}
    ends: dict[str, float] = {}
    done = asyncio.Event()

    def changed(event: LifecycleEvent) -> None:
        if event.status.claim_status and event.name.startswith(f"{prefix}-"):
            claims.setdefault(event.name, time.perf_counter())

    def gone(event: LifecycleEvent) -> None:
        ends[event.name] = time.perf_counter()
        if len(ends) == count:
            done.set()

    informer = Informer(client.of(LifecycleEvent, keep=False))
    informer.add_handler(Handler(on_add=changed, on_update=lambda _old, new: changed(new), on_delete=gone))
    async with informer.running():
        await informer.wait_synced()
        due = time.perf_counter()
        for number in range(count):
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            due += 1 / PER_SECOND
            name = f"{prefix}-{number}"
            # Spread over the nodes, so that no event waits for another.
            spec = LifecycleEventSpec(transition_name=TRANSITION.name, binding_node=f"hollow-{number * 7 % NODES}")
            asked[name] = time.perf_counter()
            await client.of(LifecycleEvent).create(LifecycleEvent(metadata=ObjectMeta(name=name), spec=spec))
        async with asyncio.timeout(60):
            await done.wait()
    return (
        sorted((claims[name] - moment) * 1000 for name, moment in asked.items()),
        sorted((ends[name] - moment) * 1000 for name, moment in asked.items()),
    )


def _share(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
