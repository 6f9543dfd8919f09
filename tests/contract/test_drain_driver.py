"""The drain driver as installed, while a budget holds a pod: its Event, its metrics over TLS, within its rights."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.api.reserved import NODE_DRAIN
from kube_fairlead.base import tasks
from kube_fairlead.driverapi.grpc_channel import GrpcDriverChannel
from kube_fairlead.driverapi.messages import Work
from kube_fairlead.install.installation import DRAIN, NAMESPACE, Installation
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import pod as pod_manifest
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.installed import CLOCK, HERE, PODS, access_of, until_policed
from tests.contract.test_delegated_access import INSTANCE, SCRAPER, ask, prepare, running, token_of
from tests.planes import BOTH, make_plane
from tests.spec.kep5683.site import NODES

BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
# No pod of the webhook runs here that evictions would have to wait for.
PLAN = Installation(eviction_webhook=False)


@pytest.fixture(scope="module", params=BOTH)
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    for made in watch_over(request.config, make_plane(request.param, tmp_path_factory.mktemp(request.param))):
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(prepare(made, PLAN))
        yield made


@pytest.fixture
async def admin(plane: ControlPlane) -> AsyncIterator[RawApi]:
    async with RawApi(plane.access(), timeout_seconds=120) as session:
        yield session


async def held_pod(admin: RawApi) -> dict[str, Any]:
    """A pod that its budget does not let go."""
    labels = {"app": "web"}
    (await admin.post(PODS, pod_manifest("web", HERE, labels=labels))).expect(201)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    made: dict[str, Any] = (await admin.patch(f"{PODS}/web/status", {"status": status})).expect(200)
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    (await admin.post(BUDGETS, {"metadata": {"name": "web"}, "spec": spec})).expect(201)
    await admin.poll(f"{BUDGETS}/web", lambda answer: answer.json["status"].get("currentHealthy") == 1)
    return made


async def metric(port: int, token: str, series: str) -> float:
    code, text = await ask(port, "/metrics", token)
    found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
    assert (code, bool(found)) == (200, True), text
    return float(found[1]) if found else 0.0


async def grown(port: int, token: str, series: str, above: float) -> float:
    async with CLOCK.timeout(60):
        while (value := await metric(port, token, series)) <= above:
            await CLOCK.sleep(0.1)  # nothing announces that a metric has grown
    return value


async def blocked_events(admin: RawApi) -> list[dict[str, Any]]:
    listed = (await admin.get(EVENTS)).expect(200)["items"]
    return [one for one in listed if one["reason"] == "DrainBlocked"]


async def test_a_pod_that_its_budget_holds_has_one_event_and_is_counted(admin: RawApi, short_path: Path) -> None:
    pod = await held_pod(admin)
    node = (await admin.get(f"{NODES}/{HERE}")).expect(200)
    work = Work(
        event_uid="uid-of-drain",
        event_name="drain-here",
        node_name=HERE,
        node_uid=node["metadata"]["uid"],
        transition_name=NODE_DRAIN.name,
        start=NODE_DRAIN.start,
        end=NODE_DRAIN.end,
        options={"pod-selector": "app=web"},
    )
    access = await access_of(admin, DRAIN)
    async with RawApi(access) as account:
        await until_policed(account)
    token = await token_of(admin, SCRAPER)
    channel = GrpcDriverChannel(str(short_path / "registry-plugins" / f"drain.fairlead.dev-{INSTANCE}.sock"))
    async with running(admin, DRAIN, short_path, access) as port:
        await channel.start(work)
        async with CLOCK.timeout(60), tasks.TaskScope("drain", on_exit=tasks.OnExit.CANCEL) as scope:
            ended = scope.start(channel.end(work, lambda _: None), name="end")
            await grown(port, token, 'fairlead_drain_blocked_pods{cause="budget"}', 0)
            seconds = 'fairlead_drain_blocked_seconds_total{cause="budget"}'
            await grown(port, token, seconds, await metric(port, token, seconds))
            # What the server says is what the budget's status said before: the same Event.
            await grown(port, token, 'fairlead_drain_evictions_total{result="budget"}', 0)
            await admin.poll(
                EVENTS, lambda answer: any(one["reason"] == "DrainBlocked" for one in answer.json["items"])
            )
            assert (await ask(port, "/readyz"))[0] == 200
            assert (
                await metric(port, token, 'fairlead_driver_calls_running{driver="fairlead.dev/drain",step="end"}') == 1
            )
            (await admin.delete(f"{BUDGETS}/web")).expect(200)
            await admin.poll(f"{PODS}/web", lambda answer: "deletionTimestamp" in answer.json["metadata"])
            (await admin.delete(f"{PODS}/web", gracePeriodSeconds=0)).expect(200)
            await ended
        assert await metric(port, token, 'fairlead_drain_blocked_pods{cause="budget"}') == 0
        assert await metric(port, token, 'fairlead_drain_evictions_total{result="accepted"}') == 1
    [event] = await blocked_events(admin)
    assert event["regarding"]["uid"] == pod["metadata"]["uid"]
    assert (event["reportingController"], event["reportingInstance"]) == ("fairlead.dev/drain", HERE)
    assert event["note"].endswith("The disruption budget web needs 1 healthy pods and has 1 currently")
