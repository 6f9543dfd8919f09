from __future__ import annotations

import pathlib

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.randomness import SystemRandomness
from kube_fairlead.claimant.identity import held_identity

IDS = RandomIds(SystemRandomness())


async def test_a_restarted_agent_has_its_name_again(tmp_path: pathlib.Path) -> None:
    clock = VirtualClock()
    seen = []
    for _ in range(2):
        async with held_identity(tmp_path, "agent-node-1", "node-1", ids=IDS, clock=clock) as name:
            seen.append(name)
    assert seen[0] == seen[1]
    assert seen[0].startswith("node-1_")
    async with held_identity(tmp_path, "agent-node-2", "node-2", ids=IDS, clock=clock) as other:
        assert other != seen[0]


async def test_a_second_agent_waits(tmp_path: pathlib.Path) -> None:
    clock = VirtualClock()
    entered: list[str] = []

    async def second() -> None:
        async with held_identity(tmp_path, "agent-node-1", "node-1", ids=IDS, clock=clock) as name:
            entered.append(name)

    async with tasks.TaskScope("test") as scope:
        async with held_identity(tmp_path, "agent-node-1", "node-1", ids=IDS, clock=clock) as first:
            scope.start(second(), name="second")
            await clock.advance(10)
            assert entered == []
        await clock.advance(2)
        assert entered == [first]


async def test_a_broken_file_is_replaced(tmp_path: pathlib.Path) -> None:
    (tmp_path / "agent-node-1.id").write_bytes(b"\xff\xff")
    async with held_identity(tmp_path, "agent-node-1", "node-1", ids=IDS, clock=VirtualClock()) as name:
        assert len(name) == len("node-1_") + 36
