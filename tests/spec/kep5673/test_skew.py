"""Version skew: a newer and an older server answer in turn, in front of one store, on virtual time."""

from __future__ import annotations

from typing import Any

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.client.patches import MergePatch
from tests.spec.kep5673.inprocess import GROUP, Cluster, running

Json = dict[str, Any]


async def create(cluster: Cluster, name: str) -> None:
    metadata = {"name": name, "finalizers": ["example.com/x"]}
    await cluster.machines.create(
        {"apiVersion": f"{GROUP}/v1", "kind": "Machine", "metadata": metadata}, namespace="default"
    )


async def deadline(cluster: Cluster, name: str) -> tuple[str, int | None]:
    metadata = (await cluster.machines.get(name, namespace="default"))["metadata"]
    return metadata["deletionTimestamp"], metadata.get("deletionGracePeriodSeconds")


async def test_either_server_may_be_asked() -> None:
    clock = VirtualClock()
    async with running(clock) as cluster:
        for name in ("new", "old", "both"):
            await create(cluster, name)
        # Requests to servers with the feature set the field, those to servers without do not.
        await cluster.machines.delete("new", namespace="default", grace_period_seconds=300)
        await cluster.machines.delete("both", namespace="default", grace_period_seconds=300)
        with cluster.older():
            await cluster.machines.delete("old", namespace="default", grace_period_seconds=300)
            assert await deadline(cluster, "new") == ("2026-01-01T00:05:01Z", 300)
        assert await deadline(cluster, "old") == ("2026-01-01T00:00:01Z", 0)

        # A later delete may reach the other one: it hastens, and nobody can take that back.
        await clock.advance(60)
        with cluster.older():
            await cluster.machines.delete("both", namespace="default", grace_period_seconds=900)
        assert await deadline(cluster, "both") == ("2026-01-01T00:01:01Z", 0)
        await cluster.machines.delete("both", namespace="default", grace_period_seconds=900)
        assert await deadline(cluster, "both") == ("2026-01-01T00:01:01Z", 0)
        await cluster.machines.delete("old", namespace="default", grace_period_seconds=10)
        assert await deadline(cluster, "old") == ("2026-01-01T00:00:01Z", 0)

        # Whichever server hears of the last finalizer, the object is gone.
        free: Json = {"metadata": {"finalizers": []}}
        await _patch(cluster, "new", free)
        with cluster.older():
            await _patch(cluster, "both", free)
            await _patch(cluster, "old", free)
        assert (await cluster.machines.list(namespace="default")).items == []


async def _patch(cluster: Cluster, name: str, document: Json) -> None:
    await cluster.machines.patch(name, MergePatch(document), namespace="default")
