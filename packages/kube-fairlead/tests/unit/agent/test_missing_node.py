from __future__ import annotations

import dataclasses

import pytest

from kube_fairlead.agent import missing_node
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock


@dataclasses.dataclass
class Follower:
    node_is_missing: bool = False


async def test_a_missing_node_is_told_of_once_and_then_seldom(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="fairlead")
    clock, follower = VirtualClock(), Follower()

    def told() -> list[str]:
        said = [record.levelname for record in caplog.records]
        caplog.clear()
        return said

    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(missing_node.warn_while_missing(follower, "node-1", clock), name="presence")
        await clock.advance(60)
        assert told() == []
        follower.node_is_missing = True
        await clock.advance(60)
        assert "there is no such node" in caplog.text
        assert "--node-name" in caplog.text
        assert told() == ["WARNING"]
        await clock.advance(1200)
        assert told() == ["WARNING", "WARNING"]
        follower.node_is_missing = False
        await clock.advance(60)
        assert told() == ["INFO"]
