"""Observes the end of shutdowns from outside the node: whether it went down, and which pods were left."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import Final, Literal

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.base import logs
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.lifecycle import shutdown_observation
from kube_fairlead.lifecycle.shutdown_observation import ObservedNode
from kube_fairlead.lifecycle.steps import Finish
from kube_fairlead.manager import Context, Controller

__all__ = ["SHUTDOWN_OBSERVER", "shutdown_observer"]

SHUTDOWN_OBSERVER = "shutdown-observer"

_KUBELET_LEASES: Final = "kube-node-lease"
# Shutdowns are few and take minutes; a look every few seconds is all it takes to see their end.
_LOOK_SECONDS: Final = 5.0

_Key = tuple[Literal["event", "node"], str]

_log = logs.get_logger(__name__)


def shutdown_observer(*, silence: dt.timedelta, out_of_service: bool = False, workers: int = 1) -> Controller:
    """The controller, for a manager to run."""

    async def run(context: Context) -> None:
        await _Observer(context, silence, out_of_service=out_of_service).run()

    return Controller(name=SHUTDOWN_OBSERVER, run=run, workers=workers)


class _Observer:
    """One run of it."""

    def __init__(self, context: Context, silence: dt.timedelta, *, out_of_service: bool) -> None:
        self._context = context
        self._clock = context.client.clock
        self._silence = silence
        self._out_of_service = out_of_service
        self._queue: WorkQueue[_Key] = context.queue()
        self._events = Informer(context.client.of(LifecycleEvent, keep=False))
        self._nodes = Informer(context.client.of(Node, keep=False))
        # The last sign of life of a node, and when it was first seen here: clocks elsewhere may be wrong.
        self._signs: dict[str, tuple[tuple[object, ...], dt.datetime]] = {}
        self._seen = context.metrics.counter(
            "fairlead_shutdowns_observed_total", "Shutdowns whose end was observed from outside the node.", ["status"]
        )

    async def run(self) -> None:
        self._events.add_handler(
            Handler(on_add=self._changed, on_update=lambda _old, new: self._changed(new), on_delete=self._forget)
        )
        self._nodes.add_handler(Handler(on_add=self._node_changed, on_update=lambda _old, new: self._node_changed(new)))
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._events.running())
            if self._out_of_service:
                await stack.enter_async_context(self._nodes.running())
            await self._context.reconcile(self._queue, self._handle)

    def _changed(self, event: LifecycleEvent) -> None:
        if shutdown_observation.is_shutdown(event):
            self._queue.add(("event", event.name))

    def _node_changed(self, node: Node) -> None:
        if shutdown_observation.out_of_service(node) is not None:
            self._queue.add(("node", node.name))

    def _forget(self, event: LifecycleEvent) -> None:
        self._signs.pop(event.uid, None)

    async def _handle(self, key: _Key) -> float | None:
        about, name = key
        return await self._see(name) if about == "event" else await self._attend(name)

    async def _see(self, name: str) -> float | None:
        """The event of a shutdown: has it come to its end?"""
        if self._events.store.get(name) is None:
            return None
        try:
            event = await self._context.client.of(LifecycleEvent).get(name)
        except api_errors.NotFound:
            return None
        if event.claim_status is not ClaimStatus.CLAIMED:
            return None
        node = await self._node(event.spec.binding_node)
        last_report = await self._silent_since(event, node)
        sight = ObservedNode(node=node, last_report=last_report)
        decision = shutdown_observation.observe(event, sight, self._silence, self._clock.now())
        if isinstance(decision, Finish):
            # Only now the remaining pods are listed; their names are part of the message.
            sight = ObservedNode(node=node, last_report=last_report, pods=await self._pods(event.spec.binding_node))
            decision = shutdown_observation.observe(event, sight, self._silence, self._clock.now())
        if isinstance(decision, Finish):
            await self._finish(event, decision)
        return _LOOK_SECONDS

    async def _finish(self, event: LifecycleEvent, decision: Finish) -> None:
        try:
            await self._context.client.of(LifecycleEvent).update_status(wire.replace(event, status=decision.status))
        except (api_errors.NotFound, api_errors.Conflict):
            return  # another client wrote first; the next pass decides
        status = decision.status
        self._seen.labels(status=status.claim_status).inc()
        _log.info("shutdown ended", node=event.spec.binding_node, status=status.claim_status)
        good = status.claim_status == ClaimStatus.SUCCEEDED
        self._context.recorder.event(
            event, reason=f"Shutdown{status.claim_status}", note=status.message, type="Normal" if good else "Warning"
        )

    async def _attend(self, name: str) -> float | None:
        """Taint a node that is shut down, so that its volumes are detached. Remove the taint when it is back.

        The Node itself shows both. The event of the shutdown may be deleted long since.
        """
        node = await self._node(name)
        wanted = None if node is None else shutdown_observation.out_of_service(node)
        if node is None or wanted is None:
            return None
        taint = shutdown_observation.TAINT_OUT_OF_SERVICE
        kept = [wire.to_dict(one) for one in node.spec.taints if one.key != taint.key]
        taints = [*kept, wire.to_dict(taint)] if wanted else kept
        guard = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
        patch = MergePatch({"metadata": guard, "spec": {"taints": taints or None}})
        try:
            await self._context.client.of(Node).patch(node.name, patch)
        except (api_errors.NotFound, api_errors.Conflict):
            return _LOOK_SECONDS
        _log.warning("out-of-service taint", node=node.name, is_there=wanted)
        return None

    async def _silent_since(self, event: LifecycleEvent, node: Node | None) -> dt.datetime:
        """When a sign of life was last seen to be new, by our own clock."""
        signs: list[object] = []
        for namespace in (_KUBELET_LEASES, NAMESPACE_NODE_LEASE):
            try:
                lease = await self._context.client.of(Lease).get(event.spec.binding_node, namespace=namespace)
                signs.append(lease.spec.renew_time)
            except api_errors.NotFound:
                signs.append(None)
        ready = None if node is None else node.condition("Ready")
        # A condition of Unknown is the cluster's own word about the node, and no sign of its life.
        signs.append(ready.last_heartbeat_time if ready is not None and ready.status != "Unknown" else None)
        known = self._signs.get(event.uid)
        if known is None or known[0] != tuple(signs):
            known = (tuple(signs), self._clock.now())
            self._signs[event.uid] = known
        return known[1]

    async def _pods(self, node_name: str) -> tuple[Pod, ...]:
        page = await self._context.client.of(Pod, keep=False).list_all(field_selector=f"spec.nodeName={node_name}")
        return tuple(page.items)

    async def _node(self, name: str) -> Node | None:
        try:
            return await self._context.client.of(Node).get(name)
        except api_errors.NotFound:
            return None
