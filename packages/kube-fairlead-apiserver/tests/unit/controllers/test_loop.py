"""The controllers of the server: keys from changes, failures that are expected and failures that are bugs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kube_fairlead.api import errors
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_apiserver.controllers.loop import ControllerLoop
from kube_fairlead_apiserver.storage.entries import Change, Entry
from kube_fairlead_apiserver.storage.interface import DiskFull
from kube_fairlead_apiserver.storage.store import StoreStopped


class Recorder:
    """A controller of every key that changes."""

    name = "test-controller"

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.reconciled: list[str] = []

    def initial(self) -> Iterable[str]:
        return ("first",)

    def affected(self, table: str, change: Change) -> Iterable[str]:
        return (f"{table}/{change.last.key}",)

    async def reconcile(self, key: str) -> float | None:
        if self.failures:
            raise self.failures.pop()
        self.reconciled.append(key)
        return 60 if key == "first" else None


def change(key: str) -> Change:
    made = Entry(key, 1, b"{}", {}, {})
    return Change(1, None, made, made)


async def run(controller: Recorder, seconds: float) -> None:
    clock = VirtualClock()
    loop = ControllerLoop(controller, clock, SeededRandomness(1))
    async with tasks.TaskScope("test") as scope:
        running = scope.start(loop.run(), name="run")
        await clock.settle()
        loop.observe("pods", change("a"))
        await clock.advance(seconds)
        await tasks.cancel_and_wait(running)
    assert tasks.live_tasks() == ()


async def test_initial_keys_and_keys_of_changes_are_reconciled() -> None:
    controller = Recorder()
    await run(controller, 1)
    assert controller.reconciled == ["first", "pods/a"]


async def test_a_key_is_reconciled_again_when_it_says_so() -> None:
    controller = Recorder()
    await run(controller, 130)
    assert controller.reconciled == ["first", "pods/a", "first", "first"]


@pytest.mark.parametrize(
    ("failure", "level"),
    [
        (errors.Conflict("changed meanwhile"), "DEBUG"),
        (StoreStopped("closing"), "DEBUG"),
        (DiskFull("no room"), "DEBUG"),
        (ZeroDivisionError("a bug"), "ERROR"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
async def test_a_failed_key_is_retried(failure: Exception, level: str, caplog: pytest.LogCaptureFixture) -> None:
    controller = Recorder(failure)
    with caplog.at_level("DEBUG", logger="fairlead"):
        await run(controller, 1)
    assert sorted(controller.reconciled) == ["first", "pods/a"]
    logged = [record for record in caplog.records if record.getMessage().startswith("reconcile failed")]
    assert [record.levelname for record in logged] == [level]
