"""What is said and counted while pods cannot go."""

from __future__ import annotations

import re
from typing import Any

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.client.transport import Request, Response, Transport
from tests.unit.drivers.drain.world import NODE, SHOP, World

EVENTS = GroupVersionResource("events.k8s.io", "v1", "events")


def sample(metrics: PrometheusMetrics, series: str) -> float:
    found = re.search(rf"^{re.escape(series)} (\S+)$", metrics.exposition().decode(), re.MULTILINE)
    assert found, series
    return float(found[1])


def blocked(metrics: PrometheusMetrics, cause: str) -> tuple[float, float]:
    """How many pods now, and for how many seconds in all."""
    labels = f'{{cause="{cause}"}}'
    pods = sample(metrics, f"fairlead_drain_blocked_pods{labels}")
    return pods, sample(metrics, f"fairlead_drain_blocked_seconds_total{labels}")


def evictions(metrics: PrometheusMetrics, result: str) -> float:
    return sample(metrics, f'fairlead_drain_evictions_total{{result="{result}"}}')


async def told(here: World, pod: str) -> list[Any]:
    listed = (await here.admin.of(EVENTS).list(namespace=SHOP)).items
    return [one for one in listed if one["reason"] == "DrainBlocked" and one["regarding"]["name"] == pod]


async def test_a_pod_that_its_budget_holds_gets_one_event_with_a_series(here: World) -> None:
    pods = [await here.pod(f"web-{number}", labels={"app": "web"}) for number in (1, 2)]
    await here.budget("web", {"app": "web"}, minAvailable=2)
    recorder = EventRecorder(here.admin, controller="fairlead.dev/drain", instance=NODE)
    async with recorder.running():
        life = here.begin(await here.work(), recorder=recorder)
        await here.clock.advance(3)
        assert life.front.asked == []  # the budget's own status said that asking was pointless
        for pod in pods:
            [event] = await told(here, pod.name)
            assert (event["regarding"]["kind"], event["regarding"]["uid"]) == ("Pod", pod.uid)
            assert (event["type"], event["action"], event.get("series")) == ("Warning", "Evicting", None)
            assert event["note"] == (
                "Cannot leave node node-1, which is drained (drain-1): "
                "The disruption budget web needs 2 healthy pods and has 2 currently"
            )
        await here.clock.advance(1200)
        assert life.front.asked  # and the server said no in its own words
        for pod in pods:
            [event] = await told(here, pod.name)  # still one
            assert event["series"]["count"] >= 10
        assert not life.task.done()
        await life.kill()


async def test_what_blocks_is_counted_while_it_does(here: World) -> None:
    for name in ("web-1", "web-2"):
        await here.pod(name, labels={"app": "web"})
    await here.pod("db")
    await here.budget("web", {"app": "web"}, minAvailable=2)
    metrics = PrometheusMetrics()
    life = here.begin(await here.work(), metrics=metrics)
    assert (evictions(metrics, "accepted"), evictions(metrics, "budget")) == (0, 0)
    await here.clock.advance(4)
    pods, seconds = blocked(metrics, "budget")
    assert (pods, evictions(metrics, "accepted")) == (2, 1)
    assert 7 < seconds <= 8
    await here.clock.advance(100)
    assert blocked(metrics, "budget") == (2, seconds + 200)  # also while the server is asked again
    assert evictions(metrics, "budget") == len([one for one in life.front.asked if one.endswith("429")]) > 0
    await here.admin.of(GroupVersionResource("policy", "v1", "poddisruptionbudgets")).delete("web", namespace=SHOP)
    await here.clock.advance(20)
    assert life.outcome == "done"
    assert (evictions(metrics, "accepted"), blocked(metrics, "budget")[0]) == (3, 0)
    ended = blocked(metrics, "budget")
    await here.clock.advance(100)
    assert blocked(metrics, "budget") == ended
    calls = 'fairlead_driver_calls_total{driver="fairlead.dev/drain",result="done",step="end"}'
    assert sample(metrics, calls) == 1


class Slow:
    """A transport whose server takes its time over evictions."""

    def __init__(self, inner: Transport, clock: VirtualClock) -> None:
        self._inner = inner
        self._clock = clock
        self.under_way = 0

    async def send(self, request: Request) -> Response:
        if not request.path.endswith("/eviction"):
            return await self._inner.send(request)
        self.under_way += 1
        await self._clock.sleep(5)
        self.under_way -= 1
        return await self._inner.send(request)

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


async def test_a_pod_that_is_asked_again_is_blocked_until_the_answer(here: World) -> None:
    await here.pod("web", labels={"app": "web"})
    await here.budget("web", {"app": "web"}, minAvailable=1)
    metrics = PrometheusMetrics()
    life = here.begin(await here.work(), metrics=metrics)
    life.front.inner = slow = Slow(life.front.inner, here.clock)
    await here.clock.advance(1)
    seen = 0
    for step in range(30):
        # A change, so that the driver looks at the node while the answer is still to come.
        await here.pods.patch("web", MergePatch({"metadata": {"annotations": {"step": str(step)}}}), namespace=SHOP)
        await here.clock.advance(1)
        assert blocked(metrics, "budget")[0] == 1
        seen += slow.under_way
    assert seen
    await life.kill()


async def test_each_cause_is_counted_as_itself(here: World) -> None:
    await here.pod("twice", labels={"app": "web", "tier": "front"})
    await here.budget("app", {"app": "web"}, minAvailable=0)
    await here.budget("tier", {"tier": "front"}, minAvailable=0)
    await here.pod("slow")
    await here.pod("never")
    await here.pod("stuck", grace=1)
    here.kubelet_works = False
    metrics = PrometheusMetrics()

    def answer(request: Request) -> api_errors.ApiError | None:
        if request.path.endswith("/slow/eviction"):
            return api_errors.InternalError("the webhook is away")
        return api_errors.Forbidden("never") if request.path.endswith("/never/eviction") else None

    life = here.begin(await here.work(), answer=answer, metrics=metrics)
    await here.clock.advance(30)
    for cause in ("several_budgets", "trouble", "denied", "overdue"):
        assert blocked(metrics, cause)[0] == 1, cause
    assert blocked(metrics, "budget") == (0, 0)
    assert evictions(metrics, "denied") == 1
    assert evictions(metrics, "trouble") > 1
    await life.kill()
    assert [blocked(metrics, cause)[0] for cause in ("several_budgets", "trouble", "denied", "overdue")] == [0] * 4
