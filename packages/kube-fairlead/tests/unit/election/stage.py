"""Leaderships in tasks, whose work writes down what happens to it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

from kube_fairlead.base import tasks
from kube_fairlead.election import Candidate, Leadership, Rules, Term, TermOverrun
from tests.unit.election.world import LOCK, Network, World


@dataclasses.dataclass
class Running:
    """A leadership in a task, and what became of its work."""

    world: World
    network: Network
    leadership: Leadership
    task: asyncio.Task[None]
    log: list[str]

    async def until_leading(self) -> Term:
        await self.world.until(lambda: self.leadership.term is not None)
        await self.world.clock.settle()
        assert self.leadership.term is not None
        return self.leadership.term

    async def until_done(self) -> None:
        await self.world.until(self.task.done)


class Stage:
    """Starts leaderships whose work writes down what happens to it, and ends them all."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.log: list[str] = []
        self._tasks = tasks.TaskSet("stage", on_failure=lambda _: None)

    def start(
        self,
        name: str,
        work: Callable[[Term], Awaitable[None]] | None = None,
        *,
        rules: Rules | None = None,
        overruns: list[TermOverrun] | None = None,
    ) -> Running:
        client = self.world.client(name)
        candidate = Candidate(client, LOCK, identity=name)

        async def logged(term: Term) -> None:
            self.log.append(f"{name} begins {term.number}")
            try:
                await (work or self.obedient)(term)
            finally:
                self.log.append(f"{name} ends {term.stop_reason}")

        on_overrun = (overruns if overruns is not None else []).append
        leadership = Leadership(candidate, logged, rules=rules, on_overrun=on_overrun)
        task = self._tasks.start(leadership.run(), name=name)
        return Running(self.world, self.world.network_of(client), leadership, task, self.log)

    @staticmethod
    async def obedient(term: Term) -> None:
        await term.stopping.wait()

    async def close(self) -> None:
        async with tasks.TaskScope("stage") as scope:
            await self.world.until(scope.start(self._tasks.close(), name="close").done)
