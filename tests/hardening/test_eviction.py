"""An eviction that something happens to between its writes: its budget is charged if and only if the pod goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.manifests import pod
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.test_webhooks import REGISTRATION, Hook, hook
from tests.smalldisk import fill, small_disk

__all__ = ["hook"]

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
# What admission is asked between the charge and the mark, and between the mark and the deletion.
MARKED = {"operations": ["UPDATE"], "resources": ["pods/status"]}
DELETED = {"operations": ["DELETE"], "resources": ["pods"]}


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedControlPlane]:
    with small_disk(tmp_path / "disk", megabytes=24) as folder:
        yield from watch_over(request.config, EmbeddedControlPlane(folder))


async def furnish(api: RawApi, hook: Hook, rule: dict[str, Any]) -> None:
    """Two pods that run, a budget that allows one disruption, and a webhook that is asked in the middle of it."""
    await api.poll("/api/v1/namespaces/default/serviceaccounts/default", lambda answer: answer.code == 200)
    for name in ("p", "q"):
        (await api.post(PODS, pod(name, node_name="n", labels={"app": "x"}))).expect(201)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        (await api.patch(f"{PODS}/{name}/status", {"status": status})).expect(200)
    spec = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}
    (await api.post(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})).expect(201)
    await api.poll(f"{BUDGETS}/b", lambda answer: answer.json.get("status", {}).get("disruptionsAllowed") == 1)
    entry = {
        "name": "test.example.com",
        "clientConfig": {"url": hook.url, "caBundle": hook.bundle},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], **rule}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    configuration = {"metadata": {"name": "hook"}, "webhooks": [entry]}
    (await api.post(f"{REGISTRATION}/validatingwebhookconfigurations", configuration)).expect(201)


async def budget_of(api: RawApi) -> dict[str, Any]:
    status: dict[str, Any] = (await api.get(f"{BUDGETS}/b")).expect(200)["status"]
    return status


def doing(deed: Callable[[], object], *, allowed: bool = True) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def answer(_review: dict[str, Any]) -> dict[str, Any]:
        deed()
        return {"allowed": allowed}

    return answer


@pytest.mark.parametrize("rule", [MARKED, DELETED])
async def test_the_process_is_killed(plane: EmbeddedControlPlane, hook: Hook, rule: dict[str, Any]) -> None:
    async with RawApi(plane.access()) as api:
        await furnish(api, hook, rule)
        hook.answer = doing(plane.apiserver.kill)
        with pytest.raises(aiohttp.ClientError):
            await api.post(f"{PODS}/p/eviction", EVICTION)
    hook.answer = doing(lambda: None)
    await plane.start_server()
    async with RawApi(plane.access()) as api:
        (await api.get(f"{PODS}/p")).expect(200)
        # Far less than the two minutes after which a charge is dropped that no process is known to stand for.
        async with asyncio.timeout(60):
            await api.poll(f"{BUDGETS}/b", lambda answer: answer.json["status"]["disruptionsAllowed"] == 1)
        assert "disruptedPods" not in await budget_of(api)
        (await api.post(f"{PODS}/p/eviction", EVICTION)).expect(201)


@pytest.mark.parametrize("rule", [MARKED, DELETED])
async def test_the_disk_is_full(plane: EmbeddedControlPlane, hook: Hook, rule: dict[str, Any]) -> None:
    """An eviction is a deletion: it takes the reserve."""
    async with RawApi(plane.access()) as api:
        await furnish(api, hook, rule)
        hook.answer = doing(lambda: fill(plane.folder))
        (await api.post(f"{PODS}/p/eviction", EVICTION)).expect(201)
        assert "deletionTimestamp" in (await api.get(f"{PODS}/p")).expect(200)["metadata"]
        hook.answer = doing(lambda: None)
        (await api.delete(f"{PODS}/p", gracePeriodSeconds=0)).expect(200)
        (plane.folder / "ballast").unlink()
        await api.poll(f"{BUDGETS}/b", lambda answer: "disruptedPods" not in answer.json["status"])


@pytest.mark.parametrize("rule", [MARKED, DELETED])
async def test_a_webhook_refuses(plane: EmbeddedControlPlane, hook: Hook, rule: dict[str, Any]) -> None:
    async with RawApi(plane.access()) as api:
        await furnish(api, hook, rule)
        hook.answer = doing(lambda: None, allowed=False)
        (await api.post(f"{PODS}/p/eviction", EVICTION)).expect(400)
        status = await budget_of(api)
        assert (status["disruptionsAllowed"], "disruptedPods" in status) == (1, False)
        (condition,) = status["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "DisruptionAllowed",
            "True",
            "SufficientPods",
        )
