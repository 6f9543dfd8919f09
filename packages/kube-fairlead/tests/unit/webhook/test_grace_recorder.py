"""What the webhook writes, against the embedded server in one process. It answers yes, whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from kube_fairlead.api.admission_v1 import AdmissionRequest, RequestResource
from kube_fairlead.api.reserved import (
    ANNOTATION_GRACE_DEADLINE,
    ANNOTATION_GRACE_REQUEST_TIME,
    ANNOTATION_GRACE_REQUEST_UID,
    ANNOTATION_GRACE_REQUESTED,
)
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.inprocess import InProcessTransport
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.transport import Request, Response, StreamedResponse, Transport
from kube_fairlead.webhook.grace_recorder import PATIENCE_SECONDS, GraceRecorder
from tests.spec.kep5673.inprocess import GROUP, MACHINES, Cluster, running

Json = dict[str, Any]
NOTED = {
    ANNOTATION_GRACE_DEADLINE: "2026-01-01T00:00:31Z",
    ANNOTATION_GRACE_REQUESTED: "30",
    ANNOTATION_GRACE_REQUEST_TIME: "2026-01-01T00:00:01.000000Z",
    ANNOTATION_GRACE_REQUEST_UID: "review-1",
}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running(VirtualClock()) as cluster:
        yield cluster


async def create(cluster: Cluster, **metadata: Any) -> Json:
    whole = {"name": "a", "finalizers": ["example.com/x"], **metadata}
    made = {"apiVersion": f"{GROUP}/v1", "kind": "Machine", "metadata": whole}
    return await cluster.machines.create(made, namespace="default")


def asked(obj: Json | None, grace: int | None = 30, **more: Any) -> AdmissionRequest:
    fields: Json = {
        "uid": "review-1",
        "operation": "DELETE",
        "resource": RequestResource(group=MACHINES.group, version=MACHINES.version, resource=MACHINES.resource),
        "old_object": obj,
        "options": {} if grace is None else {"gracePeriodSeconds": grace},
        **more,
    }
    return AdmissionRequest(**fields)


class Desk:
    """A recorder, and how often it came to which result."""

    def __init__(self, client: Client) -> None:
        self.metrics = PrometheusMetrics()
        self.recorder = GraceRecorder(client, self.metrics)

    async def answer(self, request: AdmissionRequest) -> tuple[str, str]:
        """What was counted for it, and the warning; the delete is always allowed."""
        before = self._counted()
        response = await self.recorder.answer(request)
        assert (response.allowed, response.uid) == (True, "review-1")
        (result,) = {line for line in self._counted() if line not in before}
        return result.split('"')[1], " ".join(response.warnings)

    def _counted(self) -> list[str]:
        lines = self.metrics.exposition().decode().splitlines()
        return [line for line in lines if line.startswith("fairlead_webhook_deletes_total{")]


async def notes(cluster: Cluster) -> Json:
    obj = await cluster.machines.get("a", namespace="default")
    found: Json = obj["metadata"].get("annotations", {})
    return found


async def test_it_writes_the_whole_note(cluster: Cluster) -> None:
    obj = await create(cluster, annotations={"example.com/mine": "kept"})
    desk = Desk(cluster.client)
    assert await desk.answer(asked(obj)) == ("recorded", "")
    assert await notes(cluster) == {"example.com/mine": "kept", **NOTED}


async def test_again_it_writes_nothing(cluster: Cluster) -> None:
    obj = await create(cluster)
    desk = Desk(cluster.client)
    await desk.answer(asked(obj))
    seen = await cluster.machines.get("a", namespace="default")
    assert await desk.answer(asked(seen)) == ("unneeded", "")
    assert await cluster.machines.get("a", namespace="default") == seen


async def test_the_name_is_the_objects_own(cluster: Cluster) -> None:
    """A deletecollection names none."""
    obj = await create(cluster)
    assert await Desk(cluster.client).answer(asked(obj, name="")) == ("recorded", "")


async def test_dry_run(cluster: Cluster) -> None:
    obj = await create(cluster)
    assert await Desk(cluster.client).answer(asked(obj, dry_run=True)) == ("dry_run", "")
    assert await notes(cluster) == {}


async def test_a_stale_note_is_erased(cluster: Cluster) -> None:
    obj = await create(cluster, annotations={ANNOTATION_GRACE_DEADLINE: "2025-01-01T00:00:00Z"})
    assert await Desk(cluster.client).answer(asked(obj, None)) == ("erased", "")
    assert await notes(cluster) == {}


@pytest.mark.parametrize(
    "change",
    [{"operation": "CREATE"}, {"operation": "UPDATE"}, {"sub_resource": "status"}, {"old_object": None}],
)
async def test_what_does_not_concern_it(cluster: Cluster, change: Json) -> None:
    obj = await create(cluster)
    request = asked(**{"obj": obj, **{key: value for key, value in change.items() if key != "old_object"}})
    if "old_object" in change:
        request = asked(None)
    assert await Desk(cluster.client).answer(request) == ("unneeded", "")
    assert await notes(cluster) == {}


async def test_an_object_that_changed_meanwhile_is_looked_at_again(cluster: Cluster) -> None:
    obj = await create(cluster)
    await cluster.machines.patch("a", MergePatch({"spec": {"size": 2}}), namespace="default")
    assert await Desk(cluster.client).answer(asked(obj)) == ("recorded", "")
    assert await notes(cluster) == NOTED


class Raced:
    """A way to the server on which somebody else writes the object before each of our first writes to it."""

    def __init__(self, cluster: Cluster, inner: Transport, writes: int) -> None:
        self._cluster = cluster
        self._inner = inner
        self._left = writes

    async def send(self, request: Request) -> Response:
        if request.method == "PATCH" and self._left:
            self._left -= 1
            await self._cluster.machines.patch("a", MergePatch({"spec": {"size": self._left}}), namespace="default")
            await self._cluster.clock.sleep(0.01)
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedResponse]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize(("writes", "result"), [(100, "recorded"), (10_000, "failed")])
async def test_an_object_that_changes_all_the_time(cluster: Cluster, writes: int, result: str) -> None:
    """How often others are faster does not matter while there is time; then the delete goes on without a note."""
    obj = await create(cluster)
    desk = Desk(cluster.client.with_transport(lambda inner: Raced(cluster, inner, writes)))
    async with TaskScope("test") as scope:
        answer = scope.start(desk.answer(asked(obj)), name="answer")
        await cluster.clock.advance(PATIENCE_SECONDS)
    assert answer.result()[0] == result
    assert (await notes(cluster) != {}) == (result == "recorded")


async def test_a_shorter_note_that_came_meanwhile_stays(cluster: Cluster) -> None:
    obj = await create(cluster)
    desk = Desk(cluster.client)
    await desk.answer(asked(obj, 30))
    assert await desk.answer(asked(obj, 300)) == ("unneeded", "")
    assert await notes(cluster) == NOTED


async def test_an_object_that_has_gone(cluster: Cluster) -> None:
    obj = await create(cluster)
    await cluster.machines.patch("a", MergePatch({"metadata": {"finalizers": []}}), namespace="default")
    await cluster.machines.delete("a", namespace="default")
    assert await Desk(cluster.client).answer(asked(obj)) == ("unneeded", "")


async def test_another_object_of_the_same_name_is_left_alone(cluster: Cluster) -> None:
    obj = await create(cluster)
    await cluster.machines.patch("a", MergePatch({"metadata": {"finalizers": []}}), namespace="default")
    await cluster.machines.delete("a", namespace="default")
    await create(cluster)
    assert await Desk(cluster.client).answer(asked(obj)) == ("unneeded", "")
    assert await notes(cluster) == {}


async def test_a_version_that_must_not_change(cluster: Cluster) -> None:
    obj = await create(cluster)
    options = {"gracePeriodSeconds": 30, "preconditions": {"resourceVersion": obj["metadata"]["resourceVersion"]}}
    result, warning = await Desk(cluster.client).answer(asked(obj, options=options))
    assert result == "impossible"
    assert warning == "the grace period is not recorded: the delete has a resourceVersion precondition"
    assert await notes(cluster) == {}


async def test_a_server_that_cannot_be_reached(cluster: Cluster) -> None:
    obj = await create(cluster)
    unreachable = InProcessTransport(_nobody, clock=cluster.clock)
    client = Client(unreachable, clock=cluster.clock, randomness=SeededRandomness(1), retry_policy=retry.NEVER)
    result, warning = await Desk(client).answer(asked(obj))
    assert result == "failed"
    assert warning.startswith("the grace period is not recorded: ")


async def _nobody(*_: object) -> None:
    raise ConnectionError("nobody is there")
