"""Several nodes: never more at once than allowed, and a failure stops the rest only where asked to."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.cli.nodes.rolling import roll
from kube_fairlead.client import errors as client_errors
from kube_fairlead.lifecycle.drain.rollout import ZONE_LABEL, Limits

NODES = [
    Node(metadata=ObjectMeta(name=f"{zone}{number}", labels={ZONE_LABEL: zone})) for zone in "ab" for number in range(3)
]


def unexpected(name: str, error: Exception) -> None:
    raise AssertionError(f"{name}: {error}")


class Work:
    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.active: set[str] = set()
        self.peak = 0
        self.zone_peak = 0
        self.order: list[str] = []

    async def __call__(self, name: str) -> bool:
        self.active.add(name)
        self.order.append(name)
        self.peak = max(self.peak, len(self.active))
        self.zone_peak = max(self.zone_peak, *(sum(one[0] == zone for one in self.active) for zone in "ab"))
        for _ in range(3):
            await asyncio.sleep(0)
        self.active.remove(name)
        return name != self.failing


async def test_one_after_the_other_by_default() -> None:
    work = Work()
    assert await roll(NODES, Limits(), work, on_error=unexpected) == {node.name: True for node in NODES}
    assert work.peak == 1
    assert work.order == [node.name for node in NODES]


async def test_a_zone_has_a_limit_of_its_own() -> None:
    work = Work()
    await roll(NODES, Limits(max_unavailable=4, per_zone=1), work, on_error=unexpected)
    assert (work.peak, work.zone_peak) == (2, 1)


async def test_a_failure_does_not_stop_the_others() -> None:
    results = await roll(NODES, Limits(), Work("a1"), on_error=unexpected)
    assert [name for name, good in results.items() if not good] == ["a1"]
    assert len(results) == len(NODES)


async def test_unless_it_should() -> None:
    results = await roll(NODES, Limits(), Work("a1"), on_error=unexpected, stop_on_failure=True)
    assert results == {"a0": True, "a1": False}


@pytest.mark.parametrize("error", [api_errors.InternalError("timed out"), client_errors.ConnectionBroken("reset")])
async def test_an_error_is_the_failure_of_its_node_alone(error: Exception) -> None:
    others_done = asyncio.Event()
    told: list[tuple[str, Exception]] = []

    async def work(name: str) -> bool:
        if name == "a0":
            raise error
        await asyncio.wait_for(others_done.wait(), 30)
        return True

    def on_error(name: str, error: Exception) -> None:
        told.append((name, error))
        others_done.set()

    results = await roll(NODES[:3], Limits(max_unavailable=3), work, on_error=on_error)
    assert results == {"a0": False, "a1": True, "a2": True}
    assert told == [("a0", error)]


@pytest.mark.parametrize("error", [api_errors.InternalError("timed out"), client_errors.ConnectionBroken("reset")])
async def test_a_look_at_the_nodes_that_fails_breaks_nothing_off(error: Exception) -> None:
    """The second look fails while a node is worked on: that work is finished, and then the others are begun."""
    looks = 0
    finished: list[str] = []

    async def unavailable() -> list[str]:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise error
        return []

    async def work(name: str) -> bool:
        for _ in range(3 if name == "a0" else 30):
            await asyncio.sleep(0)
        finished.append(name)
        return True

    limits = Limits(max_unavailable=2, per_zone=2)
    results = await roll(NODES[:4], limits, work, on_error=unexpected, unavailable=unavailable)
    assert results == dict.fromkeys(("a0", "a1", "a2", "b0"), True)
    assert finished[:2] == ["a0", "a1"]
    assert looks >= 3


@pytest.mark.parametrize("stays_out", [False, True])
async def test_a_node_that_is_out_again_after_its_turn_counts_unless_the_work_leaves_it_so(stays_out: bool) -> None:
    """The first node is put back by the work, and drained by another user while the second one waits."""
    out: set[str] = set()
    held: list[list[str]] = []

    async def work(name: str) -> bool:
        if name == NODES[0].name:
            out.add(name)
        return True

    async def unavailable() -> list[str]:
        return sorted(out)

    async def held_up(names: Collection[str]) -> None:
        held.append(list(names))
        out.clear()

    results = await roll(
        NODES[:2],
        Limits(max_unavailable=1),
        work,
        on_error=unexpected,
        unavailable=unavailable,
        held_up=held_up,
        stays_out=stays_out,
    )
    assert results == {NODES[0].name: True, NODES[1].name: True}
    assert held == ([] if stays_out else [[NODES[0].name]])
