"""Maintenance of nodes: drained, worked on, back in service; so many at once."""

from __future__ import annotations

import asyncio
import dataclasses
import sys

from fairlead.api.core_v1 import Node
from fairlead.api.lifecycle_v1alpha1 import LifecycleTransition
from fairlead.api.reserved import NODE_UNCORDON
from fairlead.base.environment import Environment
from fairlead.cli.nodes import asking, carrying, rolling, showing
from fairlead.client.client import Client
from fairlead.lifecycle.drain import rollout
from fairlead.lifecycle.drain.options import DrainOptions, spell

__all__ = ["MaintenancePlan", "maintain"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """What to do to each node."""

    words: tuple[str, ...]  # the command; without one, a human is waited for
    options: DrainOptions
    drain: str  # the transition
    max_unavailable: int
    per_zone: int
    environment: Environment


async def maintain(client: Client, plan: MaintenancePlan, names: tuple[str, ...], selector: str) -> dict[str, bool]:
    """Maintain the nodes that are meant; whether it went well, by name. After a failure no further node is begun."""
    nodes = await asking.chosen_nodes(client, names, selector)
    drain = await asking.check_transition(client, plan.drain)
    uncordon = await asking.check_transition(client, NODE_UNCORDON.name)
    limits = rollout.Limits(max_unavailable=plan.max_unavailable, per_zone=plan.per_zone)
    screen = showing.PlainScreen()  # the command's own output comes in between
    work = _Maintenance(client, screen, plan, drain, uncordon)
    results = await rolling.roll(
        nodes, limits, work.of, on_error=carrying.complainer(screen, "maintain"), stop_on_failure=True
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
    ) -> None:
        self._client = client
        self._screen = screen
        self._plan = plan
        self._drain = carrying.Request(
            transition=drain,
            verb="drain",
            done="drained",
            options=spell(plan.options),
            pending_timeout=plan.options.timeout,
        )
        self._uncordon = carrying.Request(transition=uncordon, verb="uncordon", done="maintenance complete")
        self._terminal = asyncio.Lock()  # one human answers one question at a time

    async def of(self, node: str) -> bool:
        """Maintain one node."""
        if not await carrying.carry(self._client, self._screen, self._drain, node):
            return False
        # Somebody may have put it back meanwhile: nothing is done to a node that takes pods.
        if not (await self._client.of(Node).get(node)).spec.unschedulable:
            self._screen.warn(f"error: node {node!r} was uncordoned after its drain, so nothing was done to it")
            return False
        if not await self._work(node):
            return False
        return await carrying.carry(self._client, self._screen, self._uncordon, node)

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
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            if process.returncode is None:
                process.terminate()
                await process.wait()
            raise
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
