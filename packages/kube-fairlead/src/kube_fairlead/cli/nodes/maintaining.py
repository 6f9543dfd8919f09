"""Maintenance of nodes: drained, worked on, Ready again, back in service; so many at once."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import enum
import sys
from collections.abc import Iterator

from kube_fairlead.api import time as api_time
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleTransition
from kube_fairlead.api.reserved import NODE_UNCORDON
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.nodes import asking, carrying, processes, rolling, showing
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.lifecycle.drain import rollout
from kube_fairlead.lifecycle.drain.options import DrainOptions, spell

__all__ = ["MaintenancePlan", "Progress", "maintain"]

_LATE_SECONDS = 0.005


class _Stage(enum.Enum):
    """How far the maintenance of one node is."""

    NOT_BEGUN = "not begun"
    DRAINING = "being drained"
    DRAINED = "drained"
    RETURNING = "being put back into service"
    ENDED = "ended"


class Progress:
    """How far each node is, for who interrupts the maintenance."""

    def __init__(self) -> None:
        self._stages: dict[str, _Stage] = {}
        self._commands: dict[str, str] = {}  # how the command of a node was ended

    def enter(self, node: str, stage: _Stage) -> None:
        """A node has come to a stage."""
        self._stages[node] = stage

    def command_ended(self, node: str, how: str) -> None:
        """An interruption has ended the command of a node."""
        self._commands[node] = how

    def left(self) -> Iterator[str]:
        """What an interruption leaves behind, a line each."""
        for node, how in self._commands.items():
            yield f"node/{node}: {how}; what it began on other machines may go on"
        for node in self._at(_Stage.DRAINED):
            yield f"node/{node} is drained and stays so; when it is fit again: fairlead uncordon {node}"
        for node in self._at(_Stage.DRAINING):
            yield f"node/{node} is being drained, which goes on; to put it back: fairlead uncordon {node}"
        for node in self._at(_Stage.RETURNING):
            yield f"node/{node} is being put back into service, which goes on"
        if not_begun := self._at(_Stage.NOT_BEGUN):
            yield f"not begun: {', '.join(not_begun)}"

    def _at(self, stage: _Stage) -> list[str]:
        return [node for node, at in self._stages.items() if at is stage]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """What to do to each node."""

    words: tuple[str, ...]  # the command; without one, a human is waited for
    options: DrainOptions
    drain: str  # the transition
    max_unavailable: int
    per_zone: int
    environment: Environment
    command_timeout: dt.timedelta = dt.timedelta(0)  # zero: none
    min_ready: dt.timedelta = dt.timedelta(0)  # how long a node must be Ready after the command
    ready_timeout: dt.timedelta = dt.timedelta(0)  # how long it may take to become so; zero: for ever


async def maintain(
    client: Client, plan: MaintenancePlan, names: tuple[str, ...], selector: str, progress: Progress | None = None
) -> dict[str, bool]:
    """Maintain the nodes that are meant; whether it went well, by name. After a failure no further node is begun."""
    progress = progress or Progress()
    nodes = await asking.chosen_nodes(client, names, selector)
    if not nodes:
        return {}
    for node in nodes:
        progress.enter(node.name, _Stage.NOT_BEGUN)
    drain = await asking.check_transition(client, plan.drain)
    uncordon = await asking.check_transition(client, NODE_UNCORDON.name)
    limits = rollout.Limits(max_unavailable=plan.max_unavailable, per_zone=plan.per_zone)
    screen = showing.PlainScreen()  # the command's own output comes in between
    work = _Maintenance(client, screen, plan, drain, uncordon, progress)
    results = await rolling.roll(
        nodes,
        limits,
        work.of,
        on_error=carrying.complainer(screen, "maintain"),
        stop_on_failure=True,
        unavailable=rolling.looker(client, nodes),
        held_up=rolling.waiter(client, screen),
    )
    for node in nodes:
        if node.name not in results:
            screen.warn(f"node/{node.name} was not begun")
            results[node.name] = False
    return results


class _Maintenance:
    """The maintenance of one node after the other."""

    def __init__(
        self,
        client: Client,
        screen: showing.Screen,
        plan: MaintenancePlan,
        drain: LifecycleTransition,
        uncordon: LifecycleTransition,
        progress: Progress,
    ) -> None:
        self._progress = progress
        self._client = client
        self._screen = screen
        self._plan = plan
        self._drain = carrying.Request(
            transition=drain,
            verb="drain",
            done="drained",
            options=spell(plan.options),
            timeout=plan.options.timeout,
        )
        self._uncordon = carrying.Request(transition=uncordon, verb="uncordon", done="maintenance complete")
        self._terminal = asyncio.Lock()  # one human answers one question at a time

    async def of(self, node: str) -> bool:
        """Maintain one node."""
        self._progress.enter(node, _Stage.DRAINING)
        if not await carrying.carry(self._client, self._screen, self._drain, node):
            return False
        # Somebody may have put it back meanwhile: nothing is done to a node that takes pods.
        if not (await self._client.of(Node).get(node)).spec.unschedulable:
            self._screen.warn(f"error: node {node!r} was uncordoned after its drain, so nothing was done to it")
            return False
        self._progress.enter(node, _Stage.DRAINED)
        if not await self._work(node) or not await self._becomes_ready(node):
            return False
        self._progress.enter(node, _Stage.RETURNING)
        succeeded = await carrying.carry(self._client, self._screen, self._uncordon, node)
        self._progress.enter(node, _Stage.ENDED)
        return succeeded

    async def _becomes_ready(self, node: str) -> bool:
        """Wait until the node has been Ready for long enough: what the command did to it may have ended it for now."""
        limit = self._plan.ready_timeout
        try:
            async with self._client.clock.timeout(limit.total_seconds() or None):
                await self._ready(node)
        except TimeoutError:
            wanted = api_time.format_duration(self._plan.min_ready)
            waited = api_time.format_duration(limit)
            self._leave_drained(node, f"it was not Ready for {wanted} at a time within {waited} after the command")
            return False
        return True

    async def _ready(self, node: str) -> None:
        clock, changed, said = self._client.clock, asyncio.Event(), False
        nodes = Informer(self._client.of(Node, keep=False), field_selector=f"metadata.name={node}")
        nodes.add_handler(
            Handler(
                on_add=lambda _node: changed.set(),
                on_update=lambda _old, _new: changed.set(),
                on_delete=lambda _node: changed.set(),
            )
        )
        readiness = rollout.Readiness()
        async with nodes.running():
            await nodes.wait_synced()
            while True:
                changed.clear()
                readiness = readiness.seen(nodes.store.get(node), clock.now())
                moment = readiness.fit_at(self._plan.min_ready)
                if moment is not None and clock.now() >= moment:
                    return
                if moment is None and not said:
                    said = True
                    self._screen.say(f"node/{node}: waiting for it to be Ready")
                left = None if moment is None else (moment - clock.now()).total_seconds() + _LATE_SECONDS
                with contextlib.suppress(TimeoutError):
                    async with clock.timeout(left):
                        await changed.wait()

    async def _work(self, node: str) -> bool:
        if not self._plan.words:
            async with self._terminal:
                return await self._human(node)
        words = [word.replace("{}", node) for word in self._plan.words]
        self._screen.say(f"node/{node}: {' '.join(words)}")
        environment = {**self._plan.environment.as_dict(), "FAIRLEAD_NODE": node}
        try:
            process = await asyncio.create_subprocess_exec(*words, env=environment)
        except OSError as error:
            self._leave_drained(node, f"the command cannot be run: {error}")
            return False
        limit = self._plan.command_timeout
        try:
            async with self._client.clock.timeout(limit.total_seconds() or None):
                code = await process.wait()
        except asyncio.CancelledError:
            self._progress.command_ended(node, await processes.end(process, self._client.clock))
            raise
        except TimeoutError:
            await processes.end(process, self._client.clock)
            self._leave_drained(node, f"the command did not end within {api_time.format_duration(limit)}")
            return False
        if code:
            self._leave_drained(node, f"the command ended with {code}")
        return not code

    def _leave_drained(self, node: str, why: str) -> None:
        self._screen.warn(f"error: {why}; node {node!r} stays drained. When it is fit again: fairlead uncordon {node}")

    async def _human(self, node: str) -> bool:
        self._screen.say(f"node/{node} is yours. Press Enter when the maintenance is done; Ctrl-C leaves it drained.")
        loop = asyncio.get_running_loop()
        entered = asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), entered.set)
        try:
            await entered.wait()
        finally:
            loop.remove_reader(sys.stdin.fileno())
        return bool(sys.stdin.readline())
