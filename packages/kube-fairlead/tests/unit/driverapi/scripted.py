"""A driver that does as it is told, for every test of the protocol."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Callable, Sequence

from kube_fairlead.driverapi.messages import OfferedTransition, Progress, Reached, Work

OFFERED = OfferedTransition(name="reboot", start="Rebooting", end="Rebooted", sla="10m")
WORK = Work(
    event_uid="uid-1",
    event_name="reboot-node-1",
    node_name="node-1",
    node_uid="node-uid",
    transition_name="reboot",
    start="Rebooting",
    end="Rebooted",
    options={"delay": "5s"},
    deadline=dt.datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=dt.UTC),
)


@dataclasses.dataclass
class ScriptedDriver:
    """Answers as its fields say, and remembers what it heard."""

    offered: Sequence[OfferedTransition] = (OFFERED,)
    progress: Sequence[Progress] = ()
    error: Exception | None = None
    hang: bool = False
    heard: list[tuple[str, Work]] = dataclasses.field(default_factory=list)
    entered: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        await self._act()
        return [dataclasses.replace(one, node_name=node_name) for one in self.offered]

    async def start(self, work: Work) -> Reached:
        self.heard.append(("start", work))
        await self._act()
        return Reached(state=work.start, node_name=work.node_name)

    async def end(self, work: Work, on_progress: Callable[[Progress], None]) -> Reached:
        self.heard.append(("end", work))
        for progress in self.progress:
            on_progress(progress)
        await self._act()
        return Reached(state=work.end, node_name=work.node_name)

    async def _act(self) -> None:
        self.entered.set()
        if self.error is not None:
            raise self.error
        if self.hang:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
