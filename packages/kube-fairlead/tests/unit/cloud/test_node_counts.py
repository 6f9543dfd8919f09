from __future__ import annotations

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.cloud.node_counts import NodeCounts
from kube_fairlead.cloud.providers.fake import FakeCloud
from tests.unit.cloud.world import World, node


async def test_the_metric_follows_the_nodes(world: World) -> None:
    metrics = PrometheusMetrics()
    context = world.context(FakeCloud("aws"), "aws", metrics=metrics)
    with NodeCounts(metrics, context.platforms).of(context.nodes):
        async with world.running(informers=[context.nodes]):
            await world.create(node("n1"))
            await world.create(node("n2", "gce://2"))
            await world.create(node("n3", "aws://3"))
            await world.create(node("n4", "nonsense"))
            await world.clock.settle()
            one_each = {("Unknown", ""): 1, ("Foreign", "gce"): 1, ("Owned", "aws"): 1, ("Foreign", ""): 1}
            assert shown(metrics) == one_each
            await world.patch("n1", {"spec": {"providerID": "aws://1"}})
            await world.admin.of(Node).delete("n2")
            await world.clock.settle()
            assert shown(metrics) == one_each | {("Unknown", ""): 0, ("Foreign", "gce"): 0, ("Owned", "aws"): 2}
    assert shown(metrics) == {}  # a follower knows nothing of it


async def test_a_new_term_counts_anew(world: World) -> None:
    metrics = PrometheusMetrics()
    await world.create(node("n1", "gce://1"))
    for expected in ({("Foreign", "gce"): 1.0}, {}):
        context = world.context(FakeCloud("aws"), "aws", metrics=metrics)
        with NodeCounts(metrics, context.platforms).of(context.nodes):
            async with world.running(informers=[context.nodes]):
                await world.clock.settle()
                assert shown(metrics) == expected
        if expected:
            await world.admin.of(Node).delete("n1")


def shown(metrics: PrometheusMetrics) -> dict[tuple[str, str], float]:
    lines = [line for line in metrics.exposition().decode().splitlines() if line.startswith("fairlead_cloud_nodes{")]
    return {(line.split('"')[1], line.split('"')[3]): float(line.rpartition(" ")[2]) for line in lines}
