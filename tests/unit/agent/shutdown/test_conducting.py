from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.agent.shutdown.ending import RunningPod
from tests.unit.agent.shutdown.world import NodeWorld


async def test_a_runtime_that_hangs_does_not_hold_the_machine_up(
    here: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_pod: RunningPod) -> Any:
        await asyncio.Event().wait()

    await here.pod("low")
    monkeypatch.setattr(here.machine, "running", hang)
    monkeypatch.setattr(here.machine, "ended", hang)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert here.clock.monotonic() - here.machine.began <= 45
