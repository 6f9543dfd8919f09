"""The node lifecycle controller: nodes follow their machines. Shut down: tainted. Gone, for certain: deleted."""

from __future__ import annotations

import collections
from collections.abc import Awaitable, Callable, Iterable

from fairlead.api import errors as api_errors
from fairlead.api.core_v1 import Node
from fairlead.base import logs
from fairlead.cloud import wellknown
from fairlead.cloud.context import CloudContext
from fairlead.cloud.decisions.lifecycle import Limits, Stop, first_look, judge
from fairlead.cloud.errors import CloudError
from fairlead.cloud.parallel import for_each
from fairlead.cloud.stopping import pause, synced
from fairlead.cloud.writing import NOT_WRITTEN

__all__ = ["NodeLifecycleController"]

# What vanishes within so long of each other vanishes at once.
_AT_ONCE_SECONDS = 300.0
# An Event on each of thousands of nodes says no more than on some of them.
_EVENTS_PER_STOP = 20

_log = logs.get_logger(__name__)


class NodeLifecycleController:
    """Looks at all nodes every few seconds; asks the cloud once for all that are not Ready."""

    name = "cloud-node-lifecycle-controller"

    def __init__(
        self,
        context: CloudContext,
        *,
        monitor_period_seconds: float = 5.0,
        concurrent_syncs: int = 1,
        limits: Limits | None = None,
    ) -> None:
        self._context = context
        self._period_seconds = monitor_period_seconds
        self._workers = concurrent_syncs
        self._limits = limits or Limits()
        self._clock = context.client.clock
        self._recorder = context.recorder(self.name)
        self._vanished: collections.deque[float] = collections.deque()
        self._stopped = False
        self._stopped_gauge = context.metrics.gauge(
            "fairlead_cloud_vanished_nodes",
            "Nodes that are not deleted because too many vanished at once; an operator must confirm.",
            ("provider",),
        )

    async def run(self) -> None:
        """Look, act, wait, until asked to stop."""
        if not await synced(self._context.stopping, self._context.nodes):
            return
        async with self._recorder.running():
            while not self._context.stopping.is_set():
                await self.monitor()
                await pause(self._clock, self._period_seconds, self._context.stopping)

    async def monitor(self) -> None:
        """One pass over all nodes."""
        look = first_look(
            self._context.nodes.store,
            self._context.platforms,
            self._clock.now(),
            self._limits,
            recognises=self._context.instances.recognises,
        )
        await self._each(look.untaint, self._untaint)
        try:
            answers = await self._context.describe(look.ask)
        except CloudError as error:
            _log.warning("cloud does not answer about nodes that are not ready", nodes=len(look.ask), error=str(error))
            return
        judgement = judge(look, answers, self._limits, recently_vanished=self._recently_vanished())
        self._report(judgement.stop)
        await self._each(judgement.taint, self._taint)
        for node in judgement.confirm:
            if self._context.stopping.is_set():
                return
            if await self._is_gone(node) and await self._delete(node) and node.name in judgement.surprises:
                self._vanished.append(self._clock.monotonic())

    async def _each(self, nodes: Iterable[Node], work: Callable[[Node], Awaitable[None]]) -> None:
        await for_each(nodes, work, workers=self._workers, owner=self.name, stopping=self._context.stopping)

    def _recently_vanished(self) -> int:
        horizon = self._clock.monotonic() - _AT_ONCE_SECONDS
        while self._vanished and self._vanished[0] < horizon:
            self._vanished.popleft()
        return len(self._vanished)

    def _report(self, stop: Stop | None) -> None:
        missing = len(stop.missing) if stop is not None else 0
        self._stopped_gauge.labels(provider=self._context.provider.name).set(missing)
        if stop is not None:
            if not self._stopped:
                _log.error("too many nodes vanished at once", missing=missing, of=stop.of)
            for node in stop.missing[:_EVENTS_PER_STOP]:
                self._recorder.event(node, type="Warning", reason="NodeDeletionStopped", note=str(stop))
        self._stopped = stop is not None

    async def _untaint(self, node: Node) -> None:
        await self._write_taints(node, present=False)

    async def _taint(self, node: Node) -> None:
        await self._write_taints(node, present=True)

    async def _write_taints(self, node: Node, *, present: bool) -> None:
        taints = wellknown.without_taint(node, wellknown.SHUTDOWN_TAINT.key)
        try:
            await self._context.writer.set_taints(node, (*taints, wellknown.SHUTDOWN_TAINT) if present else taints)
        except NOT_WRITTEN as error:
            # The next pass sees the node as it is then.
            _log.info("node taints cannot be written", node=node.name, error=str(error))

    async def _is_gone(self, node: Node) -> bool:
        try:
            return not await self._context.exists(node.spec.provider_id)
        except CloudError as error:
            _log.warning("cloud does not say whether the machine is gone", node=node.name, error=str(error))
            return False

    async def _delete(self, node: Node) -> bool:
        _log.info("deleting node, its machine is gone", node=node.name, provider_id=node.spec.provider_id)
        try:
            await self._context.writer.delete(node)
        except (api_errors.NotFound, api_errors.Conflict) as error:
            # Somebody else was quicker, or the node has changed and is judged anew.
            _log.info("node has changed meanwhile", node=node.name, error=str(error))
            return False
        except NOT_WRITTEN as error:
            self._recorder.event(
                node,
                type="Warning",
                reason="DeletingNodeFailed",
                note=f"Failed deleting node {node.name}: {error}",
            )
            return False
        self._recorder.event(
            node,
            reason="DeletingNode",
            note=f"Deleting node {node.name} because it does not exist in the cloud provider",
        )
        return True
