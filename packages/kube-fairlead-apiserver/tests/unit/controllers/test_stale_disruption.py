"""The mark of a pod that was to be disrupted and was not: taken back after two minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_lab.testing.manifests import pod
from tests.inprocess import serving


def condition_of(client: InternalClient, name: str) -> dict[str, Any]:
    found = client.get(client.resource("", "v1", "pods"), "default", name)
    assert found is not None
    (condition,) = found["status"]["conditions"]
    return dict(condition)


async def marked(client: InternalClient, clock: VirtualClock, name: str, reason: str, phase: str = "Running") -> None:
    pods = client.resource("", "v1", "pods")
    made = pod(name, node_name="n")
    made["metadata"]["namespace"] = "default"
    await client.create_own(pods, made)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": "why",
        "lastTransitionTime": clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }

    def mark(obj: dict[str, Any]) -> None:
        obj["status"] = {"phase": phase, "conditions": [condition]}

    await client.change(pods, "default", name, mark, subresource="status")


@pytest.mark.parametrize(
    ("reason", "phase", "stays"),
    [
        ("EvictionByEvictionAPI", "Running", False),
        ("PreemptionByScheduler", "Running", False),
        ("TerminationByKubelet", "Running", True),
        ("EvictionByEvictionAPI", "Failed", True),
    ],
)
async def test_it_is_taken_back(tmp_path: Path, reason: str, phase: str, *, stays: bool) -> None:
    clock = VirtualClock()
    async with serving(tmp_path, clock) as server:
        client = InternalClient(server.core, "test")
        await marked(client, clock, "p", reason, phase)
        await clock.advance(110)
        assert condition_of(client, "p")["status"] == "True"
        await clock.advance(15)
        found = condition_of(client, "p")
        assert found["status"] == ("True" if stays else "False")
        assert ("reason" in found, "message" in found) == (stays, stays)
