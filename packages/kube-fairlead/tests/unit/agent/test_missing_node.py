from __future__ import annotations

import dataclasses

import pytest

from kube_fairlead.agent import missing_node
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock


@dataclasses.dataclass
class Follower:
    node_is_missing: bool = False


async def test_a_missing_node_is_logged_once_and_then_rarely(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="fairlead")
    clock, follower = VirtualClock(), Follower()

    def logged() -> list[str]:
        levels = [record.levelname for record in caplog.records]
        caplog.clear()
        return levels

    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(missing_node.warn_while_missing(follower, "node-1", clock), name="presence")
        await clock.advance(60)
        assert logged() == []
        follower.node_is_missing = True
        await clock.advance(60)
        assert "node does not exist" in caplog.text
        assert "--node-name" in caplog.text
        assert logged() == ["WARNING"]
        await clock.advance(1200)
        assert logged() == ["WARNING", "WARNING"]
        follower.node_is_missing = False
        await clock.advance(60)
        assert logged() == ["INFO"]
