"""A drain on real kubelets: real containers end, a budget blocks and frees, the Node tells the whole story."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.e2e.cluster import Cluster

pytestmark = pytest.mark.timeout(600)

Json = dict[str, Any]

SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
SAYS_BYE = "trap 'echo got SIGTERM; sleep 1; echo bye; exit 0' TERM; echo up; while :; do sleep 0.2; done"


def deployment(name: str, replicas: int) -> Json:
    labels = {"app": name}
    container = {"name": "c", "image": "registry.local/busybox:1", "imagePullPolicy": "Never"}
    container["command"] = ["/bin/sh", "-c", SAYS_BYE]  # type: ignore[assignment]  # a list among strings
    spec = {"containers": [container], "automountServiceAccountToken": False, "topologySpreadConstraints": [SPREAD]}
    template = {"metadata": {"labels": labels}, "spec": {**spec, "terminationGracePeriodSeconds": 20}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def budget(name: str, available: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": available, "selector": {"matchLabels": {"app": name}}},
    }


def is_ready(pod: Json) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))


class Reasons:
    """What the Node's condition says, each state once."""

    def __init__(self, api: RawApi, node: str) -> None:
        self._api = api
        self._node = node
        self.seen: list[str] = []

    async def watch(self) -> None:
        """Look until cancelled."""
        async with self._api.watch("/api/v1/nodes", fieldSelector=f"metadata.name={self._node}") as watch:
            while True:
                node = (await watch.next())["object"]
                told = [one["reason"] for one in node["status"]["conditions"] if one["type"] == "LifecycleTransition"]
                if told and self.seen[-1:] != told:
                    self.seen += told


@contextlib.asynccontextmanager
async def watching(real: Cluster, node: str) -> AsyncIterator[Reasons]:
    async with RawApi(real.plane.access(), timeout_seconds=600) as api:
        reasons = Reasons(api, node)
        task = asyncio.create_task(reasons.watch())
        yield reasons
        task.cancel()
        await asyncio.wait([task])


async def test_a_node_is_drained_of_real_containers(real: Cluster) -> None:
    await real.apply(deployment("web", 4), budget("web", 4))

    async def all_ready(count: int = 4) -> bool:
        pods = await real.pods(app="web")
        return sum(map(is_ready, pods)) == count

    async def published() -> bool:
        return "node-uncordon" in await real.kubectl("get", "lifecycletransitions", "-o", "name")

    await real.until("all pods are ready", all_ready)
    await real.until("the drivers have registered", published)
    before = [pod["metadata"]["name"] for pod in await real.pods("na")]
    assert len(before) == 2
    assert real.containers("na") == sorted(before)

    async with watching(real, "na") as reasons:
        drain = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", "-m", "kube_fairlead.cli", "drain", "na", f"--kubeconfig={real.plane.kubeconfig}"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert drain.stdout is not None
        said = ""
        async with asyncio.timeout(120):
            while "blocked: " not in said:
                line = (await drain.stdout.readline()).decode()
                assert line, f"{said}\n{real.last_words()}"
                said += line
        assert "by budget default/web (The disruption budget web needs 4 healthy pods and has 4 currently)" in said
        assert real.containers("na") == sorted(before)

        await real.kubectl("scale", "deployment/web", "--replicas=5")
        async with asyncio.timeout(180):
            said += (await drain.stdout.read()).decode()
            assert await drain.wait() == 0, f"{said}\n{real.last_words()}"
        assert said.endswith("node/na drained\n")
        assert real.containers("na") == []
        assert await real.pods("na") == []
        assert (await real.kubectl("get", "node", "na")).count("SchedulingDisabled") == 1
        await real.until("all pods are ready elsewhere", lambda: all_ready(5))

        uncordon = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kube_fairlead.cli", "uncordon", "na", f"--kubeconfig={real.plane.kubeconfig}"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert await asyncio.wait_for(uncordon.wait(), 120) == 0

        async def told() -> bool:
            return reasons.seen[-1:] == ["MaintenanceComplete"]

        await real.until("the node says so", told)
        assert reasons.seen == ["DrainStarted", "DrainComplete", "Uncordoning", "MaintenanceComplete"]

    node = json.loads(await real.kubectl("get", "node", "na", "-o", "json"))
    assert "unschedulable" not in node["spec"]
