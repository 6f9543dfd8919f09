"""One pass of the node lifecycle controller over 5,000 nodes that are not Ready, when the cloud takes a second."""

from __future__ import annotations

import asyncio
import pathlib
import tempfile
import time
from collections.abc import Coroutine, Iterator

from bench.harness import Measurement, at_most, benchmark
from kube_fairlead import client
from kube_fairlead.api.core_v1 import Node, NodeSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.base.randomness import SystemRandomness
from kube_fairlead.client.informer import Informer
from kube_fairlead.cloud.calls import CloudCalls
from kube_fairlead.cloud.context import CloudContext
from kube_fairlead.cloud.controllers.node import NodeController
from kube_fairlead.cloud.controllers.nodelifecycle import NodeLifecycleController
from kube_fairlead.cloud.parallel import for_each
from kube_fairlead.cloud.providers.fake import FakeCloud
from kube_fairlead.cloud.unannounced_deletions import UnannouncedDeletions
from kube_fairlead_lab.testing.embedded import EmbeddedControlPlane

NODES = 5000
PAGE = 1000  # of EC2; the pages of one describe take a second together
DESCRIBE_SECONDS = 1.0
MONITOR_PERIOD_SECONDS = 5.0


@benchmark("cloud")
def measure() -> Iterator[Measurement]:
    yield from asyncio.run(_measure())


async def _measure() -> list[Measurement]:
    with tempfile.TemporaryDirectory() as folder:
        plane = EmbeddedControlPlane(pathlib.Path(folder))
        await plane.start()
        try:
            async with client.connect(kubeconfig_path=plane.kubeconfig) as api_server:
                return await _passes(api_server)
        finally:
            await plane.stop()


async def _passes(api_server: client.Client) -> list[Measurement]:
    pages = -(-NODES // PAGE)
    cloud = FakeCloud(
        "aws", name="aws", clock=api_server.clock, latency_seconds=DESCRIBE_SECONDS / pages, page_size=PAGE
    )
    nodes = api_server.of(Node)

    async def create(name: str) -> None:
        instance = cloud.add(name)
        await nodes.create(Node(metadata=ObjectMeta(name=name), spec=NodeSpec(provider_id=instance.provider_id)))

    await for_each([f"n{number:04}" for number in range(NODES)], create, workers=32, owner="bench")
    context = CloudContext(
        client=api_server,
        nodes=Informer(api_server.of(Node, keep=False)),
        provider=cloud,
        platforms=frozenset({"aws"}),
        calls=CloudCalls("aws", clock=api_server.clock, randomness=SystemRandomness(), metrics=DiscardedMetrics()),
        metrics=DiscardedMetrics(),
        unannounced_deletions=UnannouncedDeletions(api_server, namespace="kube-system", name="bench-vanished"),
    )
    async with context.nodes.running():
        await context.nodes.wait_synced()
        lifecycle = NodeLifecycleController(context)
        quiet, calls = await _timed(lifecycle.monitor(), cloud)
        statuses, status_calls = await _timed(NodeController(context).update_statuses(), cloud)
    return [
        Measurement(
            "lifecycle pass, 5,000 nodes NotReady", quiet, "s", at_most(MONITOR_PERIOD_SECONDS), "describe 1 s"
        ),
        Measurement("cloud calls in that pass", calls, "calls", at_most(pages), f"{pages} pages"),
        Measurement("status loop, 5,000 nodes", statuses, "s", note="every 5 minutes"),
        Measurement("cloud calls in that loop", status_calls, "calls", at_most(pages), f"{pages} pages"),
    ]


async def _timed(work: Coroutine[None, None, None], cloud: FakeCloud) -> tuple[float, int]:
    before = len(cloud.calls)
    started = time.monotonic()
    await work
    return time.monotonic() - started, len(cloud.calls) - before
