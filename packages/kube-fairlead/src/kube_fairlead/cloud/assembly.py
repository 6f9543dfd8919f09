"""Putting a cloud controller manager together: which controllers run, with what, sharing which watches.

Upstream: k8s.io/cloud-provider@v0.36.4/app/controllermanager.go,
    k8s.io/cloud-provider@v0.36.4/names/controller_names.go
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Sequence

from kube_fairlead import manager
from kube_fairlead.api.core_v1 import Node, Service
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Informer
from kube_fairlead.cloud.calls import CloudCalls
from kube_fairlead.cloud.cluster import ReadOnlyCluster
from kube_fairlead.cloud.context import CloudContext, Controller
from kube_fairlead.cloud.controllers.node import NodeController
from kube_fairlead.cloud.controllers.nodelifecycle import NodeLifecycleController
from kube_fairlead.cloud.controllers.route import RouteController
from kube_fairlead.cloud.controllers.service import ServiceController
from kube_fairlead.cloud.decisions.lifecycle import Limits
from kube_fairlead.cloud.decisions.routes import Network, parse_networks
from kube_fairlead.cloud.errors import ProviderError
from kube_fairlead.cloud.manager_names import identity_of, lease_name
from kube_fairlead.cloud.node_counts import NodeCounts
from kube_fairlead.cloud.platform_claims import PlatformClaim
from kube_fairlead.cloud.provider import Provider
from kube_fairlead.cloud.registry import require_part
from kube_fairlead.cloud.session import run_within
from kube_fairlead.cloud.unannounced_deletions import UnannouncedDeletions, record_name

__all__ = ["CONTROLLERS", "CloudManager", "CloudSettings", "KnownController", "enabled_controllers"]

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class KnownController:
    """A controller that there is: its name and its older one, what it needs of a provider, and when it runs."""

    name: str
    alias: str
    needs: str
    in_hybrid_by_default: bool


# In the order in which they start.
CONTROLLERS: tuple[KnownController, ...] = (
    KnownController(NodeController.name, "cloud-node", "instances", in_hybrid_by_default=True),
    KnownController(NodeLifecycleController.name, "cloud-node-lifecycle", "instances", in_hybrid_by_default=True),
    # Routes and load balancers of several clouds are for the administrator to think about first.
    KnownController(RouteController.name, "route", "routes", in_hybrid_by_default=False),
    KnownController(ServiceController.name, "service", "load_balancers", in_hybrid_by_default=False),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CloudSettings:
    """What the flags of the same names say."""

    controllers: Sequence[str] = ("*",)
    namespace: str = "kube-system"  # of the Lease
    lease: str = ""  # its name, unless it is the usual one
    cluster_name: str = "kubernetes"
    cluster_cidr: str = ""
    configure_cloud_routes: bool = True
    node_monitor_period_seconds: float = 5.0
    node_status_update_frequency_seconds: float = 300.0
    route_reconciliation_period_seconds: float = 10.0
    concurrent_node_syncs: int = 1
    concurrent_node_status_updates: int = 0
    concurrent_node_lifecycle_syncs: int = 1
    concurrent_service_syncs: int = 1
    limits: Limits = dataclasses.field(default_factory=Limits)


def enabled_controllers(asked: Sequence[str], *, hybrid: bool) -> list[str]:
    """Which controllers run, by upstream's rules: named ones do, `-name` does not, `*` is all that run by default.

    Raises:
        ProviderError: a name is not that of a controller.
    """
    names = {name for known in CONTROLLERS for name in (known.name, known.alias)}
    if unknown := sorted({entry for entry in asked if entry != "*" and entry.removeprefix("-") not in names}):
        known_names = ", ".join(known.name for known in CONTROLLERS)
        raise ProviderError(f"--controllers: {', '.join(unknown)} is not known; known are {known_names}")
    return [known.name for known in CONTROLLERS if _is_enabled(known, asked, hybrid=hybrid)]


def _is_enabled(known: KnownController, asked: Sequence[str], *, hybrid: bool) -> bool:
    for entry in asked:
        # Of two entries about the same controller the first counts.
        if entry.removeprefix("-") in {known.name, known.alias}:
            return not entry.startswith("-")
    return "*" in asked and (known.in_hybrid_by_default or not hybrid)


class CloudManager:
    """The controllers of one cloud. Made at the start, when what cannot work is refused; run once per term."""

    def __init__(self, provider: Provider, platforms: frozenset[str], settings: CloudSettings) -> None:
        self.provider = provider
        self.platforms = platforms
        self._settings = settings
        self.lease = settings.lease or lease_name(identity_of(provider, platforms), platforms)
        self.controllers = enabled_controllers(settings.controllers, hybrid=bool(platforms))
        if RouteController.name in self.controllers and not settings.configure_cloud_routes:
            self.controllers.remove(RouteController.name)
        for known in CONTROLLERS:
            if known.name in self.controllers:
                require_part(provider, known.needs, known.name)
        self._cluster_cidrs = self._parse_cluster_cidrs()

    def as_controller(self, *, instance: str) -> manager.Controller:
        """All of them, as one controller of a manager: they share what they watch, and begin and end together.

        Under an election they run only while no other manager claims one of their platforms.
        """

        async def run(context: manager.Context) -> None:
            async def work(stopping: asyncio.Event) -> None:
                await self.run(context.client, context.metrics, stopping, instance=instance, check=context.check)

            if not context.lock or not self.platforms:
                await work(context.stopping)
                return
            claim = PlatformClaim(
                context, namespace=self._settings.namespace, lease=self.lease, platforms=self.platforms
            )
            await claim.run(work)

        return manager.Controller(name="cloud-controllers", run=run)

    async def run(
        self,
        client: Client,
        metrics: Metrics,
        stopping: asyncio.Event,
        *,
        instance: str = "fairlead",
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Run them until the request to stop. What they share ends with them: a follower watches nothing.

        Args:
            client: to the API server.
            metrics: where they count.
            stopping: set when they are to end.
            instance: who reports Events.
            check: raises when the lease cannot be relied on; called before every change in the cloud.
        """

        async def work() -> None:
            await self._run(client, metrics, stopping, instance, check)

        await run_within(
            self.provider,
            work,
            cluster=ReadOnlyCluster(client),
            clock=client.clock,
            randomness=client.randomness,
            stopping=stopping,
        )

    async def _run(
        self, client: Client, metrics: Metrics, stopping: asyncio.Event, instance: str, check: Callable[[], None]
    ) -> None:
        context = CloudContext(
            client=client,
            nodes=Informer(client.of(Node, keep=False)),
            provider=self.provider,
            platforms=self.platforms,
            calls=CloudCalls(
                self.provider.name,
                clock=client.clock,
                randomness=client.randomness,
                metrics=metrics,
                stopping=stopping,
                check=check,
            ),
            stopping=stopping,
            metrics=metrics,
            cluster_name=self._settings.cluster_name,
            instance=instance,
            unannounced_deletions=UnannouncedDeletions(
                client, namespace=self._settings.namespace, name=record_name(self.lease)
            ),
        )
        services = Informer(client.of(Service)) if ServiceController.name in self.controllers else None
        _log.info(
            "cloud controllers start",
            provider=self.provider.name,
            platforms=sorted(self.platforms),
            controllers=self.controllers,
        )
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(NodeCounts(metrics, self.platforms).of(context.nodes))
            await stack.enter_async_context(context.nodes.running())
            if services is not None:
                await stack.enter_async_context(services.running())
            scope = await stack.enter_async_context(tasks.TaskScope("cloud-controller-manager"))
            for controller in self._make(context, services):
                scope.start(controller.run(), name=controller.name)

    def _make(self, context: CloudContext, services: Informer[Service] | None) -> list[Controller]:
        settings = self._settings
        made: list[Controller] = []
        if NodeController.name in self.controllers:
            made.append(
                NodeController(
                    context,
                    status_update_seconds=settings.node_status_update_frequency_seconds,
                    concurrent_syncs=settings.concurrent_node_syncs,
                    concurrent_status_updates=settings.concurrent_node_status_updates,
                )
            )
        if NodeLifecycleController.name in self.controllers:
            made.append(
                NodeLifecycleController(
                    context,
                    monitor_period_seconds=settings.node_monitor_period_seconds,
                    concurrent_syncs=settings.concurrent_node_lifecycle_syncs,
                    limits=settings.limits,
                )
            )
        if RouteController.name in self.controllers:
            made.append(
                RouteController(
                    context,
                    cluster_cidrs=self._cluster_cidrs,
                    period_seconds=settings.route_reconciliation_period_seconds,
                )
            )
        if services is not None:
            made.append(ServiceController(context, services, concurrent_syncs=settings.concurrent_service_syncs))
        return made

    def _parse_cluster_cidrs(self) -> tuple[Network, ...]:
        if RouteController.name not in self.controllers:
            return ()
        if not self._settings.cluster_cidr:
            raise ProviderError(f"controller {RouteController.name} needs --cluster-cidr, such as 10.244.0.0/16")
        try:
            return parse_networks(self._settings.cluster_cidr)
        except ValueError as error:
            raise ProviderError(f"controller {RouteController.name} needs --cluster-cidr: {error}") from error
