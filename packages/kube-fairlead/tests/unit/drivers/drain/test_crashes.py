"""A driver killed at any of its requests, and started again: no pod is evicted twice, none is forgotten."""

from __future__ import annotations

import pathlib

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, Progress
from kube_fairlead.api.reserved import ANNOTATION_CORDONED_BY, LIFECYCLE_GROUP, LIFECYCLE_GROUP_ALTERNATIVE
from kube_fairlead.client import lifecyclegroup
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.transport import Request, Response
from tests.unit.claimant.world import When
from tests.unit.drivers.drain.world import NODE, SHOP, World, a_world

PODS = ("a", "b", "c", "d")


class Fate:
    """Dies at the given write: before the server hears of it, or after, before the answer is read."""

    def __init__(self, at: int, when: When) -> None:
        self.at = at
        self.when = when
        self.count = 0

    def __call__(self, request: Request, when: When) -> bool:
        if request.method == "GET" or when != self.when:
            return False
        self.count += 1
        return self.count == self.at


async def furnished(here: World) -> None:
    for name in PODS:
        await here.pod(name, labels={"app": "web"})
    await here.pod("other", node="node-2", labels={"app": "web"})
    await here.budget("web", {"app": "web"}, maxUnavailable=2)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 7))
async def test_killed_at_any_write(server_folder: pathlib.Path, at: int, when: When) -> None:
    async with a_world(server_folder) as here:
        await furnished(here)
        work = await here.work()
        fate = Fate(at, when)
        first = here.begin(work, fate=fate)
        for _ in range(40):
            await here.clock.advance(0.5)
            if first.transport.died.is_set() or first.task.done():
                break
        await first.kill()
        second = here.begin(work)
        await here.clock.advance(300)
        assert second.outcome == "done"
        assert sorted(here.gone) == sorted(PODS)
        assert await here.left("node-2") == ["other"]
        accepted = [asked.split()[0] for life in (first, second) for asked in life.front.asked if asked.endswith("201")]
        # The killed life may have had one accepted whose answer it never read: that one is not asked again either.
        assert len(accepted) == len(set(accepted))
        heard = [line.split("/")[-2] for line in first.transport.writes if line.endswith(" 201")]
        again = {asked.split()[0] for asked in second.front.asked}
        assert not set(heard) & again
        node = await here.nodes.get(NODE)
        assert node.metadata.annotations[ANNOTATION_CORDONED_BY] == "drain-1"


async def test_progress_goes_on_where_it_was(here: World) -> None:
    for name in PODS:
        await here.pod(name, grace=600 if name == "d" else 2)
    work = await here.work()
    first = here.begin(work)
    await here.clock.advance(10)
    assert first.counts == (3, 4)
    await first.kill()
    # What the agent wrote of it is what the next life knows.
    last = {pod.name: pod for pod in first.progress[-1].pods}
    assert {name: (pod.state, pod.attempts) for name, pod in last.items()} == {
        **dict.fromkeys("abc", ("Gone", 1)),
        "d": ("Leaving", 1),
    }
    pods = [
        {"namespace": pod.namespace, "name": name, "uid": pod.uid, "state": pod.state, "attempts": pod.attempts + 6}
        for name, pod in last.items()
    ]
    status = {"claimStatus": "Claimed", "progress": {"done": 3, "total": 4, "unit": "pods"}, "pods": pods}
    events = here.admin.of(LifecycleEvent)
    told = await events.patch("drain-1", MergePatch({"status": status}), subresource="status")
    assert told.status.progress == Progress(done=3, total=4, unit="pods")
    second = here.begin(work)
    await here.clock.advance(5)
    assert second.counts == (3, 4)
    await here.pods.delete("d", namespace=SHOP, grace_period_seconds=0)
    await here.clock.advance(5)
    assert second.outcome == "done"
    assert second.counts == (4, 4)
    # Those that the first life saw out are not forgotten, and attempts are counted across lives.
    assert {pod.name: (pod.state, pod.attempts) for pod in second.progress[-1].pods} == dict.fromkeys(
        "abcd", ("Gone", 7)
    )


async def test_progress_is_found_in_the_group_that_the_driver_may_read(here: World) -> None:
    """Both groups are served, and the rights are for the second."""
    await here.pod("d", grace=2)
    work = await here.work()
    status = {"claimStatus": "Claimed", "progress": {"done": 3, "total": 4, "unit": "pods"}}
    await here.admin.of(LifecycleEvent).patch("drain-1", MergePatch({"status": status}), subresource="status")
    event = await here.admin.request("GET", f"/apis/{LIFECYCLE_GROUP}/v1alpha1/lifecycleevents/drain-1")
    kinds = await here.admin.request("GET", f"/apis/{LIFECYCLE_GROUP}/v1alpha1")
    second = f"/apis/{LIFECYCLE_GROUP_ALTERNATIVE}/v1alpha1"

    def played(request: Request) -> Response | None:
        return {second: kinds, f"{second}/lifecycleevents/drain-1": event}.get(request.path)

    def answer(request: Request) -> api_errors.ApiError | None:
        is_event = request.path == f"/apis/{LIFECYCLE_GROUP}/v1alpha1/lifecycleevents/drain-1"
        return api_errors.Forbidden("not this group") if is_event else None

    life = here.begin(work, played=played, answer=answer, scheme=lifecyclegroup.LateScheme())
    await here.clock.advance(10)
    assert (life.outcome, life.counts) == ("done", (4, 4))


async def test_a_page_of_a_proxy_does_not_fail_a_drain(here: World) -> None:
    await here.pod("d", grace=2)

    def played(request: Request) -> Response | None:
        if request.path != f"/apis/{LIFECYCLE_GROUP}/v1alpha1":
            return None
        return Response(status=200, headers={"content-type": "text/html"}, body=b"<html>\xff</html>")

    life = here.begin(await here.work(), played=played, scheme=lifecyclegroup.LateScheme())
    await here.clock.advance(10)
    assert life.outcome == "done"
    assert life.counts == (1, 1)


async def test_a_server_that_goes_away_for_a_while(here: World) -> None:
    for name in PODS:
        await here.pod(name, grace=20)
    life = here.begin(await here.work())
    await here.clock.advance(5)
    life.transport.go_down()
    await here.clock.advance(30)
    life.transport.is_down = False
    await here.clock.advance(60)
    assert life.outcome == "done"
    assert sorted(asked.split()[0] for asked in life.front.asked) == sorted(PODS)
