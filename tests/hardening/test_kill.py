"""`kill -9` under load: nothing that was acknowledged is lost, nothing is invented, and every watch tells the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_lab.testing import EmbeddedControlPlane, EmbeddedOptions
from kube_fairlead_lab.testing.history import Event, HistoryImpossible, check, check_watch
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.hardening.load import PATH, Load, revision_of, watch_from


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedControlPlane]:
    yield from watch_over(request.config, EmbeddedControlPlane(tmp_path))


async def kill_again_and_again(plane: EmbeddedControlPlane, *, seed: int, rounds: int) -> None:
    load = Load(plane, seed=seed)
    randomness = SeededRandomness(seed)
    for number in range(rounds):
        since, live = await round_of_load(plane, load, acknowledged=int(randomness.uniform(1, 150)))
        await plane.start_server()
        await load.read_everything()
        operations = load.history.operations
        told_until = live[-1].revision if live else since
        check_watch(live, operations, since=since, until=told_until, keys=load.keys)
        # The same stretch once more, as the restarted server remembers it.
        again: list[Event] = []
        async with RawApi(plane.access()) as api:
            end = f"end-of-round-{number}"
            until = revision_of((await api.post(PATH, config_map(end))).expect(201))
            await watch_from(api, since, again, load.keys, end=end)
        check_watch(again, operations, since=since, until=until, keys=load.keys)
        assert again[: len(live)] == live
    check(load.history.operations)


async def round_of_load(plane: EmbeddedControlPlane, load: Load, *, acknowledged: int) -> tuple[int, list[Event]]:
    """Load until so many writes are acknowledged, then the end. Returns from where a watch saw it, and what it saw."""
    events: list[Event] = []
    async with RawApi(plane.access()) as api, asyncio.TaskGroup() as watchers:
        since = revision_of((await api.get(PATH)).expect(200))
        watchers.create_task(watch_from(api, since, events, load.keys), name="watcher")
        async with load.running():
            await load.run_until(acknowledged)
            await plane.stop_server(hard=True)
    return since, events


async def test_nothing_is_lost_or_invented(plane: EmbeddedControlPlane) -> None:
    await kill_again_and_again(plane, seed=1, rounds=3)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2, 3, 4])
async def test_nothing_is_lost_or_invented_in_many_rounds(plane: EmbeddedControlPlane, seed: int) -> None:
    await kill_again_and_again(plane, seed=seed, rounds=25)


async def test_a_server_that_forgets_is_found_out(tmp_path: Path) -> None:
    """The test of the test: the same load on a server that keeps nothing on disk."""
    plane = EmbeddedControlPlane(tmp_path, EmbeddedOptions(flags=["--in-memory"]))
    await plane.start()
    try:
        load = Load(plane, seed=1)
        await round_of_load(plane, load, acknowledged=50)
        await plane.start_server()
        await load.read_everything()
        with pytest.raises(HistoryImpossible):
            check(load.history.operations)
    finally:
        await plane.stop()
