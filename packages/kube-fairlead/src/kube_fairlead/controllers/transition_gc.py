"""Removes LifecycleTransitions that agents published and that no driver has offered for a while."""

from __future__ import annotations

import datetime as dt

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition
from kube_fairlead.base import gates, logs
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.lifecycle import offers
from kube_fairlead.manager import Context, Controller

__all__ = ["TRANSITION_GC", "transition_gc"]

TRANSITION_GC = "transition-gc"

_BY_TRANSITION = "transition"

_log = logs.get_logger(__name__)


def transition_gc(ttl: dt.timedelta) -> Controller:
    """The controller, for a manager to run. `ttl` is how long a transition stays that no driver offers."""

    async def run(context: Context) -> None:
        await _TransitionCollector(context, ttl).run()

    return Controller(name=TRANSITION_GC, run=run, gate=gates.SPECIALIZED_LIFECYCLE_MANAGEMENT)


class _TransitionCollector:
    """One run of it."""

    def __init__(self, context: Context, ttl: dt.timedelta) -> None:
        self._context = context
        self._ttl = ttl
        self._queue: WorkQueue[str] = context.queue()
        self._transitions = Informer(context.client.of(LifecycleTransition, keep=False))
        self._events = Informer(
            context.client.of(LifecycleEvent, keep=False),
            indexes={_BY_TRANSITION: lambda event: (event.spec.transition_name,)},
        )

    async def run(self) -> None:
        self._transitions.add_handler(
            Handler(on_add=lambda one: self._queue.add(one.name), on_update=lambda _old, new: self._queue.add(new.name))
        )
        # A transition that an event used may be removed when that event has ended.
        self._events.add_handler(
            Handler(
                on_update=lambda _old, new: self._queue.add(new.spec.transition_name),
                on_delete=lambda event: self._queue.add(event.spec.transition_name),
            )
        )
        async with self._events.running(), self._transitions.running():
            # Without all events, every transition would look like one that no event uses.
            if await self._context.wait_synced(self._events):
                await self._context.reconcile(self._queue, self._handle)

    async def _handle(self, name: str) -> float | None:
        transition = self._transitions.store.get(name)
        moment = None if transition is None else offers.collectable_at(transition, self._ttl)
        if transition is None or moment is None:
            return None
        now = self._context.client.clock.now()
        if now < moment:
            return (moment - now).total_seconds()
        if any(not event.finished for event in self._events.store.by_index(_BY_TRANSITION, name)):
            return None
        try:
            # The version: an agent may have said at this moment that a driver offers it.
            await self._context.client.of(LifecycleTransition).delete(
                name, uid=transition.uid, resource_version=transition.metadata.resource_version
            )
        except (api_errors.NotFound, api_errors.Conflict):
            return None  # the watch shows what became of it
        _log.info("transition without a driver removed", transition=name, driver=transition.spec.driver)
        return None
