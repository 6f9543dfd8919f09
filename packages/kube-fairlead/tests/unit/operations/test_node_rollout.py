"""Several nodes: never more at once than allowed, and a failure stops the rest only where asked to."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Collection

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.client import errors as client_errors
from kube_fairlead.lifecycle.drain.rollout import ZONE_LABEL, Limits
from kube_fairlead.operations.node_rollout import roll_out
from kube_fairlead.operations.progress import Ended, HeldBack, OperationProgress, Outcome, Result, Started, ignore

NODES = [
    Node(metadata=ObjectMeta(name=f"{zone}{number}", labels={ZONE_LABEL: zone})) for zone in "ab" for number in range(3)
]


GOOD, BAD = Outcome(Result.SUCCEEDED), Outcome(Result.FAILED, "no")
NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


class Service:
    """Which nodes are out of service, as the test says."""

    def __init__(self, out: Collection[str] = ()) -> None:
        self.out = set(out)
        self.observed_at: dt.datetime | None = NOW

    async def unavailable(self) -> Collection[str]:
        return sorted(self.out)

    async def wait(self) -> None:
        self.out.clear()


class Work:
    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.active: set[str] = set()
        self.peak = 0
        self.zone_peak = 0
        self.order: list[str] = []

    async def __call__(self, name: str) -> Outcome:
        self.active.add(name)
        self.order.append(name)
        self.peak = max(self.peak, len(self.active))
        self.zone_peak = max(self.zone_peak, *(sum(one[0] == zone for one in self.active) for zone in "ab"))
        for _ in range(3):
            await asyncio.sleep(0)
        self.active.remove(name)
        return BAD if name == self.failing else GOOD


async def test_one_after_the_other_by_default() -> None:
    work = Work()
    assert await roll_out(NODES, Limits(), work, report=ignore) == {node.name: GOOD for node in NODES}
    assert work.peak == 1
    assert work.order == [node.name for node in NODES]


async def test_a_zone_has_a_limit_of_its_own() -> None:
    work = Work()
    await roll_out(NODES, Limits(max_unavailable=4, per_zone=1), work, report=ignore)
    assert (work.peak, work.zone_peak) == (2, 1)


async def test_a_failure_does_not_stop_the_others() -> None:
    results = await roll_out(NODES, Limits(), Work("a1"), report=ignore)
    assert [name for name, outcome in results.items() if outcome.failed] == ["a1"]
    assert len(results) == len(NODES)


async def test_unless_it_should() -> None:
    results = await roll_out(NODES, Limits(), Work("a1"), report=ignore, stop_on_failure=True)
    assert results == {"a0": GOOD, "a1": BAD}


@pytest.mark.parametrize("error", [api_errors.InternalError("timed out"), client_errors.ConnectionBroken("reset")])
async def test_an_error_is_the_failure_of_its_node_alone(error: Exception) -> None:
    others_done = asyncio.Event()
    ended: list[Ended] = []

    async def work(name: str) -> Outcome:
        if name == "a0":
            raise error
        await asyncio.wait_for(others_done.wait(), 30)
        return GOOD

    def report(progress: OperationProgress) -> None:
        if isinstance(progress, Ended):
            ended.append(progress)
            others_done.set()

    results = await roll_out(NODES[:3], Limits(max_unavailable=3), work, report=report)
    failed = Outcome(Result.FAILED, str(error))
    assert results == {"a0": failed, "a1": GOOD, "a2": GOOD}
    assert ended[0] == Ended("a0", failed)


async def test_the_start_and_the_end_of_each_node_are_reported() -> None:
    reported: list[OperationProgress] = []
    await roll_out(NODES[:2], Limits(), Work("a1"), report=reported.append, availability=Service())
    assert reported == [Started("a0", NOW), Ended("a0", GOOD), Started("a1", NOW), Ended("a1", BAD)]


@pytest.mark.parametrize("error", [api_errors.InternalError("timed out"), client_errors.ConnectionBroken("reset")])
async def test_a_failed_read_of_the_nodes_interrupts_no_work(error: Exception) -> None:
    """The second read fails while a node is worked on: that work is finished, and then the others are started."""
    finished: list[str] = []

    class Failing(Service):
        reads = 0

        async def unavailable(self) -> list[str]:
            self.reads += 1
            if self.reads == 2:
                raise error
            return []

    async def work(name: str) -> Outcome:
        for _ in range(3 if name == "a0" else 30):
            await asyncio.sleep(0)
        finished.append(name)
        return GOOD

    service = Failing()
    limits = Limits(max_unavailable=2, per_zone=2)
    results = await roll_out(NODES[:4], limits, work, report=ignore, availability=service)
    assert results == dict.fromkeys(("a0", "a1", "a2", "b0"), GOOD)
    assert finished[:2] == ["a0", "a1"]
    assert service.reads >= 3


@pytest.mark.parametrize("stays_out", [False, True])
async def test_a_node_that_is_out_again_after_its_turn_counts_unless_the_work_leaves_it_so(stays_out: bool) -> None:
    """The first node is put back by the work, and drained by another user while the second one waits."""
    service = Service()
    held_back: list[HeldBack] = []

    async def work(name: str) -> Outcome:
        if name == NODES[0].name:
            service.out.add(name)
        return GOOD

    def report(progress: OperationProgress) -> None:
        if isinstance(progress, HeldBack):
            held_back.append(progress)

    results = await roll_out(
        NODES[:2], Limits(max_unavailable=1), work, report=report, availability=service, stays_out=stays_out
    )
    assert results == {NODES[0].name: GOOD, NODES[1].name: GOOD}
    assert held_back == ([] if stays_out else [HeldBack((NODES[0].name,))])
