"""The node controller: initialises new nodes with what their cloud knows, and keeps addresses and labels right.

Upstream: k8s.io/cloud-provider@v0.36.4/controllers/node/node_controller.go,
    k8s.io/cloud-provider@v0.36.4/controllers/node/metrics.go
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.reserved import ANNOTATION_PLATFORM
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.workqueue import QueueShutDown, WorkQueue
from kube_fairlead.client.informer import Handler
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.addresses import AddressMismatch, changed_addresses
from kube_fairlead.cloud.context import CloudContext
from kube_fairlead.cloud.decisions.initialisation import AskCloud, CannotInitialise, Relabel, first_step, initialise
from kube_fairlead.cloud.errors import CloudError
from kube_fairlead.cloud.graceful_stop import pause, shut_down_on, synced
from kube_fairlead.cloud.node_writer import NOT_WRITTEN
from kube_fairlead.cloud.ownership import owned_by_id
from kube_fairlead.cloud.parallel import for_each
from kube_fairlead.cloud.provider import Instance, Zones

__all__ = ["NodeController"]

# A node that the cloud does not know yet is queried again soon: many nodes are one query.
_RETRY = Backoff(initial_seconds=0.5, factor=2.0, cap_seconds=60.0, jitter=0.2)
_BATCH = 5000
_ATTEMPTS = 5
# A new machine may be registered as a node before its cloud lists it, and a node that names nothing is looked up in
# every cloud: so long nothing is wrong.
_UNKNOWN_AFTER_SECONDS = 120.0
_T = TypeVar("_T")

_log = logs.get_logger(__name__)


class NodeController:
    """Works through nodes as they come and change, in batches, and looks at all addresses now and then."""

    name = "cloud-node-controller"

    def __init__(
        self,
        context: CloudContext,
        *,
        status_update_seconds: float = 300.0,
        concurrent_syncs: int = 1,
        concurrent_status_updates: int = 0,
    ) -> None:
        self._context = context
        self._status_update_seconds = status_update_seconds
        self._syncs = concurrent_syncs
        self._status_updates = concurrent_status_updates or concurrent_syncs
        self._clock = context.client.clock
        self._queue: WorkQueue[str] = WorkQueue(self._clock, context.client.randomness, backoff=_RETRY)
        self._recorder = context.recorder(self.name)
        buckets = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
        self._taint_removal = context.metrics.histogram(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "Number of seconds after node creation when NodeController removed the cloud-provider taint of a single "
            "node.",
            buckets=buckets,
        )
        self._initial_sync = context.metrics.histogram(
            "node_controller_initial_node_sync_delay_seconds",
            "Number of seconds after node creation when NodeController finished the initial synchronization of a "
            "single node.",
            buckets=buckets,
        )

    async def run(self) -> None:
        """Initialise and update until the request to stop."""
        self._context.nodes.add_handler(
            Handler(on_add=self._enqueue, on_update=lambda _, node: self._enqueue(node), on_delete=self._forget)
        )
        if not await synced(self._context.stopping, self._context.nodes):
            return
        async with (
            self._recorder.running(),
            shut_down_on(self._context.stopping, self._queue),
            tasks.TaskScope(self.name) as scope,
        ):
            scope.start(self._work(), name="initialise")
            scope.start(self._update_statuses(), name="statuses")

    def _enqueue(self, node: Node) -> None:
        self._queue.add(node.name)

    def _forget(self, node: Node) -> None:
        self._queue.forget(node.name)

    async def _work(self) -> None:
        with contextlib.suppress(QueueShutDown):
            while not self._context.stopping.is_set():
                names = [await self._queue.get()]
                while len(self._queue) and len(names) < _BATCH:
                    names.append(await self._queue.get())
                try:
                    await self.sync(names)
                finally:
                    for name in names:
                        self._queue.done(name)

    async def sync(self, names: Sequence[str]) -> None:
        """Bring these nodes in line: one question to the cloud for all of them."""
        waiting: list[Node] = []
        relabel: list[tuple[Node, Relabel]] = []
        for name in names:
            node = self._context.nodes.store.get(name)
            step = first_step(node, self._context.platforms) if node is not None else None
            if node is not None and isinstance(step, AskCloud):
                waiting.append(node)
            elif node is not None and isinstance(step, Relabel):
                relabel.append((node, step))
            else:
                self._queue.forget(name)
        await self._each(relabel, lambda one: self._relabel(*one), self._syncs)
        try:
            found = await self._context.describe(waiting)
        except CloudError as error:
            _log.warning("no answer of the cloud about new nodes", nodes=len(waiting), error=str(error))
            for node in waiting:
                self._queue.add_rate_limited(node.name)
            return
        for node in waiting:
            if node.name not in found:
                # It may come yet, or be another cloud's that does not say so.
                _log.debug("no answer of the cloud about the node", node=node.name)
                self._queue.add_rate_limited(node.name)
                if self._age_seconds(node) >= _UNKNOWN_AFTER_SECONDS:
                    self._report_unknown(node, "It waits to be initialised.")
        answered = [(node, found[node.name]) for node in waiting if node.name in found]
        await self._each(answered, lambda one: self._initialise(*one), self._syncs)

    async def _each(self, items: list[_T], work: Callable[[_T], Awaitable[None]], workers: int) -> None:
        await for_each(items, work, workers=workers, owner=self.name, stopping=self._context.stopping)

    async def _relabel(self, node: Node, step: Relabel) -> None:
        try:
            await self._context.writer.set_labels(node, step.labels)
        except NOT_WRITTEN as error:
            self._try_again(node, error)
        else:
            self._queue.forget(node.name)

    async def _initialise(self, node: Node, instance: Instance) -> None:
        try:
            change = initialise(node, await self._located(node, instance), self._context.platforms)
            node = await self._context.writer.initialise(node, change)
            # Its id is the cloud's own word now.
            self._context.confirmations.confirm(node)
            age = self._age_seconds(node)
            self._taint_removal.observe(age)
            # At once, so that addresses do not wait for the next round.
            await self._write_addresses(node, instance)
        except (CannotInitialise, AddressMismatch, CloudError) as error:
            _log.warning("cannot initialise node", node=node.name, error=str(error))
            self._queue.add_rate_limited(node.name)
        except NOT_WRITTEN as error:
            self._try_again(node, error)
        else:
            self._queue.forget(node.name)
            self._recorder.event(node, reason="Synced", note="Node synced successfully")
            self._initial_sync.observe(age)
            _log.info("node initialised", node=node.name, provider_id=instance.provider_id)

    async def _located(self, node: Node, instance: Instance) -> Instance:
        zones = self._context.provider.zones
        if zones is None or instance.zone:
            return instance
        where = await self._context.calls.call(Zones.zone_of, lambda: zones.zone_of(instance.provider_id, node))
        return dataclasses.replace(instance, zone=where.zone, region=instance.region or where.region)

    def _try_again(self, node: Node, error: Exception) -> None:
        if isinstance(error, api_errors.NotFound):
            self._queue.forget(node.name)
            return
        # A conflict is the guard at work: the node has changed, and is judged again.
        if not isinstance(error, api_errors.Conflict):
            _log.warning("cannot write node", node=node.name, error=str(error))
        self._queue.add_rate_limited(node.name)

    async def _update_statuses(self) -> None:
        while not self._context.stopping.is_set():
            await self.update_statuses()
            await pause(self._clock, self._status_update_seconds, self._context.stopping)

    async def update_statuses(self) -> None:
        """Bring the addresses of all initialised nodes in line: one question for all of them."""
        platforms = self._context.platforms
        nodes = [
            node
            for node in self._context.nodes.store
            if owned_by_id(node, platforms) and not wellknown.has_taint(node, wellknown.TAINT_UNINITIALIZED)
        ]
        try:
            found = await self._context.describe(nodes)
        except CloudError as error:
            _log.warning("no answer of the cloud about addresses", nodes=len(nodes), error=str(error))
            return
        for node in nodes:
            if node.name not in found:
                self._report_unknown(node, "Its addresses are not updated.")
        known = [(node, found[node.name]) for node in nodes if node.name in found]
        await self._each(known, lambda one: self._update_status(*one), self._status_updates)

    def _report_unknown(self, node: Node, consequence: str) -> None:
        # The same words every time, so that they are one Event with a count.
        how = f"id {node.spec.provider_id[:200]}" if node.spec.provider_id else "its name"
        asked = f"Cloud provider {self._context.provider.name} was queried by {how} and knows no machine of this node."
        self._recorder.event(
            node,
            type="Warning",
            reason="NodeNotInCloud",
            note=f"{asked} {consequence} A node of another cloud should say so by its providerID or the annotation "
            f"{ANNOTATION_PLATFORM}; one of no cloud should not bear the taint {wellknown.TAINT_UNINITIALIZED}.",
        )

    async def _update_status(self, node: Node, instance: Instance) -> None:
        try:
            await self._write_addresses(node, instance)
        except AddressMismatch as error:
            _log.warning("cannot update node addresses", node=node.name, error=str(error))
        except NOT_WRITTEN as error:
            # The next round looks again.
            _log.info("cannot write node addresses", node=node.name, error=str(error))

    async def _write_addresses(self, node: Node, instance: Instance) -> None:
        writer = self._context.writer
        for _ in range(_ATTEMPTS):
            addresses = changed_addresses(node, instance.addresses)
            if addresses is None:
                return
            try:
                await writer.set_addresses(node, addresses)
            except api_errors.Conflict:
                # The kubelet writes the status too. But it may also be another node by now, of the same name.
                judged, node = node, await writer.read(node.name)
                if node.uid != judged.uid or not owned_by_id(node, self._context.platforms):
                    _log.info("node was replaced", node=node.name)
                    return
            else:
                return

    def _age_seconds(self, node: Node) -> float:
        created = node.metadata.creation_timestamp
        return (self._clock.now() - created).total_seconds() if created is not None else 0.0
