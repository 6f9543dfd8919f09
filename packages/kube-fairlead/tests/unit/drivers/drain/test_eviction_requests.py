"""EvictionRequests where the server has them: asked for, waited for, and passed over when nobody answers them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import msgspec

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.time import format_time
from kube_fairlead.client.transport import Request, Response
from tests.unit.drivers.drain.world import SHOP, World

Json = dict[str, Any]
ROOT = "/apis/lifecycle.k8s.io/v1alpha1"


class Requests:
    """The kind as Kubernetes 1.37 serves it, without anybody who acts on it unless `status` says so."""

    def __init__(self, here: World, status: Json | None = None, *, forbidden: bool = False) -> None:
        self.here = here
        self.broken = False
        self.failures = 0
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
        if self.broken:
            self.failures += 1
            return refused(api_errors.InternalError("not now"))
        name = body["metadata"]["name"]
        if name in self.stored:
            return refused(api_errors.AlreadyExists("there is one"))
        body["metadata"]["creationTimestamp"] = format_time(self.here.clock.now())
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
    requests = Requests(here, OBSERVED)
    life = here.begin(await here.work(), played=requests)
    await here.clock.advance(120)
    assert not life.task.done()
    assert life.message == "waiting for the responder to an EvictionRequest: shop/vm since 2026-03-01T12:00:02Z"
    assert len(life.progress) == 2  # what does not change is not told again
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
    life = here.begin(await here.work(), played=Requests(here))
    await here.clock.advance(9)
    assert life.front.asked == []
    await here.clock.advance(30)
    assert life.outcome == "done"
    assert sorted(life.front.asked) == ["a 201", "b 201"]


async def test_when_responders_fail_the_pod_is_evicted(here: World) -> None:
    await here.pod("a")
    life = here.begin(await here.work(), played=Requests(here, FAILED))
    await here.clock.advance(60)
    assert life.outcome == "done"
    assert life.front.asked == ["a 201"]


async def test_without_the_right_to_ask_pods_are_evicted_at_once(here: World) -> None:
    await here.pod("a")
    life = here.begin(await here.work(), played=Requests(here, forbidden=True))
    await here.clock.advance(1)
    assert life.front.asked == ["a 201"]
    await here.clock.advance(20)
    assert life.outcome == "done"


async def test_a_grace_period_cannot_be_asked_for_so_it_is_an_eviction(here: World) -> None:
    await here.pod("a")
    requests = Requests(here, OBSERVED)
    life = here.begin(await here.work(grace_period="1"), played=requests)
    await here.clock.advance(20)
    assert life.outcome == "done"
    assert requests.stored == {}


async def test_a_drain_that_is_called_off_takes_its_requests_back(here: World) -> None:
    await here.pod("a")
    requests = Requests(here, OBSERVED)
    life = here.begin(await here.work(), played=requests)
    await here.clock.advance(2)
    await here.cordon(unschedulable=False)
    await here.clock.advance(2)
    assert "uncordoned" in life.outcome
    assert requests.withdrawn == ["a"]


async def test_a_driver_that_is_killed_leaves_them_for_its_next_life(here: World) -> None:
    await here.pod("a")
    requests = Requests(here, OBSERVED)
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


async def test_a_driver_that_is_restarted_gives_responders_no_less_time(here: World) -> None:
    await here.pod("vm")
    requests = Requests(here)
    work = await here.work()
    first = here.begin(work, played=requests)
    await here.clock.advance(4)
    await first.kill()
    second = here.begin(work, played=requests)
    await here.clock.advance(4)
    assert second.front.asked == []
    await here.clock.advance(10)
    assert second.front.asked == ["vm 201"]
    assert second.outcome == "done"


async def test_requests_that_nobody_answered_are_taken_back_by_a_drain_that_fails(here: World) -> None:
    await here.pod("web", labels={"app": "web"})
    await here.budget("web", {"app": "web"}, minAvailable=1)
    requests = Requests(here)
    life = here.begin(await here.work(timeout="60s"), played=requests)
    await here.clock.advance(90)
    assert life.outcome.startswith("timed out after 1m0s with 1 pods left: shop/web; blocked: shop/web by budget")
    assert requests.withdrawn == ["web"]


async def test_requests_of_an_earlier_life_are_taken_back_too(here: World) -> None:
    await here.pod("vm")
    requests = Requests(here, OBSERVED)
    work = await here.work(timeout="60s")
    first = here.begin(work, played=requests)
    await here.clock.advance(2)
    await first.kill()
    await here.clock.advance(120)
    second = here.begin(work, played=requests)
    await here.clock.advance(70)
    assert "timed out" in second.outcome
    assert requests.withdrawn == ["vm"]


async def test_requests_are_taken_back_at_the_deadline_though_cancelled_twice(here: World) -> None:
    for name in ("vm-1", "vm-2"):
        await here.pod(name)
    requests = Requests(here, OBSERVED)
    work = dataclasses.replace(await here.work(), deadline=here.clock.now() + dt.timedelta(seconds=30))

    def played(request: Request) -> Response | None:
        if request.method == "DELETE":
            life.task.cancel()  # the agent, which follows the same deadline
        return requests(request)

    life = here.begin(work, played=played)
    await here.clock.advance(60)
    assert life.task.cancelled()
    assert requests.withdrawn == ["vm-1", "vm-2"]


async def test_where_nobody_answers_budgets_hold_pods_back_as_ever(here: World) -> None:
    for number in range(5):
        await here.pod(f"web-{number}", labels={"app": "web"}, grace=0)
    await here.budget("web", {"app": "web"}, minAvailable=5)
    life = here.begin(await here.work(), played=Requests(here))
    await here.clock.advance(12)
    assert life.front.asked == []
    assert "by budget shop/web (The disruption budget web needs 5 healthy pods and has 5 currently)" in life.message
    await here.clock.advance(300)
    assert 5 < len(life.front.asked) < 20  # one of them finds out now and then


async def test_after_failed_responders_a_budget_is_not_asked_in_a_hot_loop(here: World) -> None:
    await here.pod("vm", labels={"app": "vm"})
    await here.budget("vm", {"app": "vm"}, minAvailable=1)
    life = here.begin(await here.work(), played=Requests(here, FAILED))
    await here.clock.advance(300)
    assert 5 < len(life.front.asked) < 20
    assert "by budget shop/vm" in life.message


async def test_trouble_with_a_request_is_not_asked_for_in_a_hot_loop(here: World) -> None:
    await here.pod("vm", labels={"app": "vm"})
    await here.budget("vm", {"app": "vm"}, minAvailable=1)
    requests = Requests(here, OBSERVED)
    requests.broken = True
    life = here.begin(await here.work(), played=requests)
    await here.clock.advance(60)
    assert 3 < requests.failures < 40
    assert "by an error that is retried (not now)" in life.message
