"""The node lifecycle controller: nodes follow their machines. Shut down: tainted. Gone, for certain: deleted.

Upstream: k8s.io/cloud-provider@v0.36.4/controllers/nodelifecycle/node_lifecycle_controller.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.base import logs
from kube_fairlead.client import errors as client_errors
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.context import CloudContext
from kube_fairlead.cloud.decisions.lifecycle import Limits, Stop, first_look, judge, missing_nodes
from kube_fairlead.cloud.errors import CloudError
from kube_fairlead.cloud.graceful_stop import pause, synced
from kube_fairlead.cloud.node_writer import NOT_WRITTEN
from kube_fairlead.cloud.parallel import for_each

__all__ = ["NodeLifecycleController"]

# An Event on each of thousands of nodes says no more than on some of them.
_EVENTS_PER_STOP = 20

_log = logs.get_logger(__name__)


class NodeLifecycleController:
    """Checks all nodes every few seconds; one query to the cloud for all that are not Ready."""

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
        self._stopped = False
        self._stopped_gauge = context.metrics.gauge(
            "fairlead_cloud_vanished_nodes",
            "Nodes that are not deleted because too many vanished at once; an operator must confirm.",
            ("provider",),
        )

    async def run(self) -> None:
        """Check, act, wait, until the request to stop."""
        if not await synced(self._context.stopping, self._context.nodes):
            return
        async with self._recorder.running():
            try:
                while not self._context.stopping.is_set():
                    await self.monitor()
                    await pause(self._clock, self._period_seconds, self._context.stopping)
            finally:
                self._stopped_gauge.clear()  # a leader's to say

    async def monitor(self) -> None:
        """One pass over all nodes."""
        look = first_look(
            self._context.nodes.store,
            self._context.platforms,
            self._clock.now(),
            self._limits,
            recognises=self._context.recognises,
        )
        await self._each(look.untaint, self._untaint)
        try:
            answers = await self._context.describe(look.ask)
        except CloudError as error:
            _log.warning("no answer of the cloud about nodes that are not ready", nodes=len(look.ask), error=str(error))
            return
        missing = missing_nodes(look, answers)
        recently = await self._recently_vanished(missing)
        judgement = judge(look, answers, self._limits, recently_vanished=recently or 0)
        self._report(judgement.stops)
        await self._each(judgement.taint, self._taint)
        unsaid = judgement.surprises if recently is None else frozenset[str]()
        await self._delete_gone([node for node in judgement.confirm if node.name not in unsaid], judgement.surprises)

    async def _each(self, nodes: Iterable[Node], work: Callable[[Node], Awaitable[None]]) -> None:
        await for_each(nodes, work, workers=self._workers, owner=self.name, stopping=self._context.stopping)

    async def _recently_vanished(self, missing: Sequence[Node]) -> int | None:
        """How many went a short while ago that do not count now; None if that cannot be known."""
        if not missing:
            return 0
        try:
            recent = await self._context.unannounced_deletions.recent(self._clock.now())
        except (api_errors.ApiError, client_errors.ClientError) as error:
            _log.warning("cannot read recent deletions, deleting no node", error=str(error))
            return None
        # A node that is still there, or there again, has not vanished, though it was written down.
        return len(recent - {node.uid for node in self._context.nodes.store})

    async def _delete_gone(self, nodes: Sequence[Node], surprises: Collection[str]) -> None:
        gone = await self._context.which_are_gone(nodes)
        leaving = [node for node in nodes if node.spec.provider_id in gone]
        surprising = [node for node in leaving if node.name in surprises]
        if surprising:
            try:
                await self._context.unannounced_deletions.add(surprising, self._clock.now())
            except (api_errors.ApiError, client_errors.ClientError) as error:
                _log.warning("cannot record deletions, deleting no node", error=str(error))
                leaving = [node for node in leaving if node.name not in surprises]
        for node in leaving:
            if self._context.stopping.is_set():
                return
            await self._delete(node)

    def _report(self, stops: Sequence[Stop]) -> None:
        missing = sum(len(stop.missing) for stop in stops)
        self._stopped_gauge.labels(provider=self._context.provider.name).set(missing)
        for stop in stops:
            if not self._stopped:
                _log.error(
                    "too many nodes vanished at once",
                    missing=len(stop.missing),
                    recently=stop.recently,
                    of=stop.of,
                    platform=stop.platform,
                )
            for node in stop.missing[:_EVENTS_PER_STOP]:
                self._recorder.event(node, type="Warning", reason="NodeDeletionStopped", note=str(stop))
        self._stopped = bool(stops)

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
            _log.info("cannot write node taints", node=node.name, error=str(error))

    async def _delete(self, node: Node) -> None:
        _log.info("deleting node, its machine is gone", node=node.name, provider_id=node.spec.provider_id)
        try:
            await self._context.writer.delete(node)
        except (api_errors.NotFound, api_errors.Conflict) as error:
            # Another client deleted it, or the node has changed and is judged again.
            _log.info("node changed meanwhile", node=node.name, error=str(error))
            return
        except NOT_WRITTEN as error:
            self._recorder.event(
                node,
                type="Warning",
                reason="DeletingNodeFailed",
                note=f"Failed deleting node {node.name}: {error}",
            )
            return
        self._recorder.event(
            node,
            reason="DeletingNode",
            note=f"Deleting node {node.name} because it does not exist in the cloud provider",
        )
