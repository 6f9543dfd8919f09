"""The route controller: the cloud's network leads to the pods of this cloud's nodes.

Upstream: k8s.io/cloud-provider@v0.36.4/controllers/route/route_controller.go,
    k8s.io/cloud-provider@v0.36.4/controllers/route/metrics.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

from kube_fairlead.api.core_v1 import Node, NodeCondition
from kube_fairlead.base import logs
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.cloud.context import CloudContext
from kube_fairlead.cloud.decisions.routes import Network, NewRoute, RoutePlan, forget, plan_routes, remember
from kube_fairlead.cloud.errors import CloudError, ProviderError
from kube_fairlead.cloud.graceful_stop import pause, synced
from kube_fairlead.cloud.node_writer import NOT_WRITTEN
from kube_fairlead.cloud.parallel import for_each
from kube_fairlead.cloud.provider import Route, Routes

__all__ = ["RouteController"]

# Upstream allows 200; what really goes out at once is up to the rate limit of all calls.
_CONCURRENT_OPERATIONS = 20
_T = TypeVar("_T")
_CONDITION = "NetworkUnavailable"

_log = logs.get_logger(__name__)


# Of a change that the cloud refuses; the table itself is looked at in every pass.
_RETRY = Backoff(initial_seconds=10.0, factor=2.0, cap_seconds=300.0, jitter=0.1)


def _key_of(route: Route) -> tuple[str, str]:
    return route.target_node, route.destination_cidr


class _Retries:
    """When routes that could not be made or removed are tried again: each time later."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}  # how often it failed, and when it is due

    def is_due(self, key: tuple[str, str]) -> bool:
        _, at = self._failures.get(key, (0, self._clock.monotonic()))
        return at <= self._clock.monotonic()

    def failed(self, key: tuple[str, str]) -> None:
        attempts, _ = self._failures.get(key, (0, 0.0))
        self._failures[key] = (attempts + 1, self._clock.monotonic() + _RETRY.delay(attempts, self._randomness))

    def succeeded(self, key: tuple[str, str]) -> None:
        self._failures.pop(key, None)

    def keep(self, keys: Collection[tuple[str, str]]) -> None:
        """Forget what is not to be done any more."""
        self._failures = {key: one for key, one in self._failures.items() if key in keys}


class RouteController:
    """Compares the route table with the nodes every few seconds."""

    name = "node-route-controller"

    def __init__(
        self, context: CloudContext, *, cluster_cidrs: Sequence[Network], period_seconds: float = 10.0
    ) -> None:
        if context.provider.routes is None:
            raise ProviderError(f"cloud provider {context.provider.name} does not support routes")
        self._routes: Routes = context.provider.routes
        self._context = context
        self._cluster_cidrs = tuple(cluster_cidrs)
        self._period_seconds = period_seconds
        self._clock = context.client.clock
        self._recorder = context.recorder("route_controller")
        self._ours: set[str] = set()
        self._retries = _Retries(self._clock, context.client.randomness)
        self._syncs = context.metrics.counter(
            "route_controller_route_sync_total",
            "A metric counting the amount of times routes have been synced with the cloud provider.",
        )

    async def run(self) -> None:
        """Reconcile, wait, until the request to stop."""
        if not await synced(self._context.stopping, self._context.nodes):
            return
        async with self._recorder.running():
            while not self._context.stopping.is_set():
                started = self._clock.monotonic()
                await self.reconcile()
                # As upstream: the period counts from start to start.
                left = self._period_seconds - (self._clock.monotonic() - started)
                await pause(self._clock, max(0.0, left), self._context.stopping)

    async def reconcile(self) -> None:
        """One pass."""
        self._syncs.inc()
        context = self._context
        nodes = list(context.nodes.store)
        is_confirmed = context.confirmations.has
        try:
            await context.confirm(nodes)
            self._ours = remember(self._ours, nodes, context.platforms, is_confirmed)
            routes = await context.calls.call(
                Routes.list_routes, lambda: self._routes.list_routes(context.cluster_name, nodes)
            )
        except CloudError as error:
            _log.warning("cannot list routes", error=str(error))
            return
        plan = plan_routes(
            nodes,
            routes,
            platforms=context.platforms,
            is_confirmed=is_confirmed,
            cluster_cidrs=self._cluster_cidrs,
            ours=self._ours,
        )
        await self._carry_out(plan)
        self._ours = forget(self._ours, nodes, routes, context.platforms, is_confirmed)

    async def _carry_out(self, plan: RoutePlan) -> None:
        failed: set[tuple[str, str]] = set()
        self._retries.keep({*map(_key_of, plan.remove), *(_key_of(new.route) for new in plan.make)})

        async def make(new: NewRoute) -> None:
            if not await self._tried(new.route, lambda: self._make(new)):
                failed.add((new.node.name, new.route.destination_cidr))

        async def remove(route: Route) -> None:
            await self._tried(route, lambda: self._remove(route))

        # Removing comes first: a route that is replaced has the range of the removed one.
        await self._each(plan.remove, remove)
        await self._each(plan.make, make)
        for node in plan.report:
            if self._context.stopping.is_set():
                return
            await self._report(node, reached=plan.reached(node, failed))

    async def _tried(self, route: Route, work: Callable[[], Awaitable[bool]]) -> bool:
        """Do it, unless the same has failed a short while ago; whether it is done."""
        key = _key_of(route)
        if not self._retries.is_due(key):
            return False
        if await work():
            self._retries.succeeded(key)
            return True
        self._retries.failed(key)
        return False

    async def _each(self, items: Iterable[_T], work: Callable[[_T], Awaitable[None]]) -> None:
        stopping = self._context.stopping
        await for_each(items, work, workers=_CONCURRENT_OPERATIONS, owner=self.name, stopping=stopping)

    async def _remove(self, route: Route) -> bool:
        context = self._context
        _log.info("removing route", destination=route.destination_cidr, target=route.target_node)
        try:
            await context.calls.call(
                Routes.delete_route, lambda: self._routes.delete_route(context.cluster_name, route), changes=True
            )
        except CloudError as error:
            _log.warning("cannot remove route", destination=route.destination_cidr, error=str(error))
            return False
        return True

    async def _make(self, new: NewRoute) -> bool:
        context, node, route = self._context, new.node, new.route
        try:
            await context.calls.call(
                Routes.create_route,
                lambda: self._routes.create_route(context.cluster_name, node.uid, route, node),
                changes=True,
            )
        except CloudError as error:
            self._recorder.event(
                node,
                type="Warning",
                reason="FailedToCreateRoute",
                note=f"Could not create route {node.uid} {route.destination_cidr} for node {node.name}: {error}",
            )
            return False
        _log.info("route created", destination=route.destination_cidr, target=node.name)
        return True

    async def _report(self, node: Node, *, reached: bool) -> None:
        status, reason = ("False", "RouteCreated") if reached else ("True", "NoRouteCreated")
        message = "RouteController created a route" if reached else "RouteController failed to create a route"
        known = node.condition(_CONDITION)
        if known is not None and known.status == status and known.reason == reason:
            return
        condition = NodeCondition(
            type=_CONDITION,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=self._clock.now(),
            last_heartbeat_time=self._clock.now(),
        )
        try:
            await self._context.writer.set_condition(node, condition)
        except NOT_WRITTEN as error:
            # The next pass looks again.
            _log.info("cannot write node condition", node=node.name, error=str(error))
