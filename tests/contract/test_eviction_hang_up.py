"""Evictions whose clients hang up at any moment: a pod is charged to its budget if and only if it goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.manifests import pod
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.rawline import Line

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
COUNT = 40


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedControlPlane]:
    yield from watch_over(request.config, EmbeddedControlPlane(tmp_path))


async def furnish(api: RawApi) -> None:
    await api.poll("/api/v1/namespaces/default/serviceaccounts/default", lambda answer: answer.code == 200)
    for number in range(COUNT):
        (await api.post(PODS, pod(f"p{number}", node_name="n", labels={"app": "x"}))).expect(201)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        (await api.patch(f"{PODS}/p{number}/status", {"status": status})).expect(200)
    spec = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 0}
    (await api.post(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})).expect(201)
    await api.poll(f"{BUDGETS}/b", lambda answer: answer.json.get("status", {}).get("disruptionsAllowed") == COUNT)


async def evict_and_hang_up(plane: EmbeddedControlPlane, number: int) -> None:
    """Ask, and break the connection after a time that is another for every pod: up to what an eviction takes."""
    line = await asyncio.to_thread(Line, plane.access(), f"{PODS}/p{number}/eviction")
    body = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"p{number}"}}).encode()
    line.send(line.head(f"Content-Length: {len(body)}") + body)
    await asyncio.sleep(number / COUNT * 0.02)
    line.close()


def charged_and_alive(pods: dict[str, Any], budget: dict[str, Any]) -> set[str]:
    alive = {item["metadata"]["name"] for item in pods["items"] if "deletionTimestamp" not in item["metadata"]}
    return alive & set(budget["status"].get("disruptedPods", {}))


async def test_no_pod_is_charged_and_left(plane: EmbeddedControlPlane) -> None:
    async with RawApi(plane.access()) as api:
        await furnish(api)
        for number in range(COUNT):
            await evict_and_hang_up(plane, number)
        # What has begun is finished as soon as the disk allows it; a charge that is left behind lasts two minutes.
        async with asyncio.timeout(30):
            while True:
                budget = (await api.get(f"{BUDGETS}/b")).expect(200)
                if not charged_and_alive((await api.get(PODS)).expect(200), budget):
                    break
