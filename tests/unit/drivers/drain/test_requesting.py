"""EvictionRequests where the server has them: asked for, waited for, and passed over when nobody answers them."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api import errors as api_errors
from fairlead.client.transport import Request, Response
from tests.unit.drivers.drain.world import SHOP, World

Json = dict[str, Any]
ROOT = "/apis/lifecycle.k8s.io/v1alpha1"


class Requests:
    """The kind as Kubernetes 1.37 serves it, without anybody who acts on it unless `status` says so."""

    def __init__(self, status: Json | None = None, *, forbidden: bool = False) -> None:
        self.stored: dict[str, Json] = {}
        self.withdrawn: list[str] = []
        self.status = status or {}
        self.forbidden = forbidden

    def __call__(self, request: Request) -> Response | None:
        if request.path == ROOT:
            return answer(200, {"resources": [{"name": "evictionrequests", "namespaced": True}]})
        if "/evictionrequests" not in request.path:
            return None
        name = request.path.rpartition("/")[2]
        if request.method == "POST":
            return self._create(msgspec.json.decode(request.body or b""))
        if name not in self.stored:
            return refused(api_errors.NotFound("not found"))
        if request.method == "DELETE":
            self.withdrawn.append(self.stored.pop(name)["spec"]["target"]["pod"]["name"])
            return answer(200, {"kind": "Status", "status": "Success"})
        return answer(200, {**self.stored[name], "status": self.status})

    def _create(self, body: Json) -> Response:
        if self.forbidden:
            return refused(api_errors.Forbidden("no right to"))
        name = body["metadata"]["name"]
        if name in self.stored:
            return refused(api_errors.AlreadyExists("there is one"))
        self.stored[name] = body
        return answer(201, body)


def answer(status: int, body: Json) -> Response:
    return Response(status=status, headers={"content-type": "application/json"}, body=msgspec.json.encode(body))


def refused(error: api_errors.ApiError) -> Response:
    return answer(error.code, error.to_status())


OBSERVED: Json = {"observedGeneration": 1}
FAILED: Json = {"observedGeneration": 1, "conditions": [{"type": "Failed", "status": "True"}]}


async def test_a_responder_has_the_time_it_needs(here: World) -> None:
    pod = await here.pod("vm", labels={"app": "vm"})
    # A budget does not hold the request back: moving the pod alive disrupts nothing.
    await here.budget("vm", {"app": "vm"}, minAvailable=1)
    requests = Requests(OBSERVED)
    life = here.begin(await here.work(), played=requests)
    await here.clock.advance(120)
    assert not life.task.done()
    assert life.front.asked == []
    (made,) = requests.stored.values()
    assert made["spec"] == {
        "target": {"pod": {"name": "vm", "uid": pod.uid}},
        "requester": "fairlead.dev/drain",
        "intent": "Eviction",
    }
    assert made["metadata"]["ownerReferences"][0]["uid"] == pod.uid
    await here.pods.delete("vm", namespace=SHOP, grace_period_seconds=0)
    await here.clock.advance(5)
    assert life.outcome == "done"
    assert requests.withdrawn == []


async def test_when_nobody_answers_pods_are_evicted_as_ever(here: World) -> None:
    for name in ("a", "b"):
        await here.pod(name)
    life = here.begin(await here.work(), played=Requests())
    await here.clock.advance(9)
    assert life.front.asked == []
    await here.clock.advance(30)
    assert life.outcome == "done"
    assert sorted(life.front.asked) == ["a 201", "b 201"]


async def test_when_responders_fail_the_pod_is_evicted(here: World) -> None:
    await here.pod("a")
    life = here.begin(await here.work(), played=Requests(FAILED))
    await here.clock.advance(60)
    assert life.outcome == "done"
    assert life.front.asked == ["a 201"]


async def test_without_the_right_to_ask_pods_are_evicted_at_once(here: World) -> None:
    await here.pod("a")
    life = here.begin(await here.work(), played=Requests(forbidden=True))
    await here.clock.advance(1)
    assert life.front.asked == ["a 201"]
    await here.clock.advance(20)
    assert life.outcome == "done"


async def test_a_grace_period_cannot_be_asked_for_so_it_is_an_eviction(here: World) -> None:
    await here.pod("a")
    requests = Requests(OBSERVED)
    life = here.begin(await here.work(grace_period="1"), played=requests)
    await here.clock.advance(20)
    assert life.outcome == "done"
    assert requests.stored == {}


async def test_a_drain_that_is_called_off_takes_its_requests_back(here: World) -> None:
    await here.pod("a")
    requests = Requests(OBSERVED)
    life = here.begin(await here.work(), played=requests)
    await here.clock.advance(2)
    await here.cordon(unschedulable=False)
    await here.clock.advance(2)
    assert "uncordoned" in life.outcome
    assert requests.withdrawn == ["a"]


async def test_a_driver_that_is_killed_leaves_them_for_its_next_life(here: World) -> None:
    await here.pod("a")
    requests = Requests(OBSERVED)
    first = here.begin(await here.work(), played=requests)
    await here.clock.advance(2)
    await first.kill()
    assert requests.withdrawn == []
    second = here.begin(await here.work(), played=requests)
    await here.clock.advance(60)
    assert len(requests.stored) == 1
    await here.pods.delete("a", namespace=SHOP, grace_period_seconds=0)
    await here.clock.advance(5)
    assert second.outcome == "done"
