"""The agent as a process: its identity on this machine, the sockets of its drivers, its health endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path

from kube_fairlead.agent import missing_node, platform
from kube_fairlead.agent.agent import Agent, AgentOptions
from kube_fairlead.agent.shutdown.assembly import ShutdownService, ShutdownSettings
from kube_fairlead.base import gates, logs, tasks
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.claimant.channels import GrpcChannels
from kube_fairlead.claimant.identity import held_identity
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle.facts import Settings
from kube_fairlead.manager import GroupDiscovery, HealthChecks, HealthServer, ServingOptions, Verdict

__all__ = ["LaunchSettings", "serve"]

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """The settings of the command line."""

    node_name: str
    registry: Path | None  # None: drivers cannot register by sockets on this system
    state: Path  # the folder of the agent's identity and lock
    settings: Settings
    platform: str = ""
    shutdown: ShutdownSettings | None = None  # None: the agent does not handle shutdowns
    serving: ServingOptions = dataclasses.field(default_factory=ServingOptions)
    gates: gates.FeatureGates = dataclasses.field(default_factory=gates.FeatureGates)
    discovery: GroupDiscovery | None = None  # None: the client has the API group of the lifecycle kinds


async def serve(
    client: Client, settings: LaunchSettings, metrics: Metrics, announce: Callable[[], None] = lambda: None
) -> None:
    """Run the agent of one node until cancelled.

    The agent handles shutdowns of the machine at once, and events as soon as the API group of their kind is known.
    With the feature gate off it claims no event and registers no driver; published transitions stay.
    """
    live, ready = HealthChecks(), HealthChecks()
    health = HealthServer(settings.serving, live=live, ready=ready, metrics=metrics, clock=client.clock)
    async with health.running(), tasks.TaskScope("agent", on_exit=tasks.OnExit.CANCEL) as scope:
        if settings.platform:
            scope.start(platform.annotate_platform(client, settings.node_name, settings.platform), name="platform")
        announce()
        if not settings.gates.enabled(gates.SPECIALIZED_LIFECYCLE_MANAGEMENT):
            _log.info("SpecializedLifecycleManagement is off: no events are claimed", node=settings.node_name)
        await _run_agent(client, settings, metrics, ready)


async def _run_agent(client: Client, settings: LaunchSettings, metrics: Metrics, ready: HealthChecks) -> None:
    ids = RandomIds(client.randomness)
    stem, name = f"agent-{settings.node_name}", settings.node_name
    identity = held_identity(settings.state, stem, name, ids=ids, clock=client.clock)
    async with identity as held, tasks.TaskScope("node", on_exit=tasks.OnExit.CANCEL) as scope:
        options = AgentOptions(
            node_name=settings.node_name, identity=held, registry=settings.registry, settings=settings.settings
        )
        agent = Agent(client, options, GrpcChannels(), metrics)
        claims = settings.gates.enabled(gates.SPECIALIZED_LIFECYCLE_MANAGEMENT)
        with contextlib.ExitStack() as checks:
            if settings.shutdown is not None:
                service = _shutdown_service(client, settings, settings.shutdown, metrics, agent if claims else None)
                checks.enter_context(ready.during("shutdown", lambda: _shutdown_verdict(service)))
                scope.start(service.run(), name="shutdown")
            if not claims:
                await asyncio.Event().wait()
            if settings.discovery is not None:
                checks.enter_context(ready.during(settings.discovery.check_name, settings.discovery.verdict))
                await settings.discovery.settle(client)
            checks.enter_context(ready.during("lifecycle", lambda: _verdict(agent)))
            checks.enter_context(ready.during("lease-namespace", agent.lease_namespace.verdict))
            scope.start(missing_node.warn_while_missing(agent, settings.node_name, client.clock), name="presence")
            await agent.run()


def _shutdown_service(
    client: Client, settings: LaunchSettings, shutdown: ShutdownSettings, metrics: Metrics, agent: Agent | None
) -> ShutdownService:
    return ShutdownService(
        client,
        shutdown,
        metrics,
        node_name=settings.node_name,
        folder=settings.state / "shutdown",
        agent=agent,
        well_known_conditions=settings.settings.well_known_conditions,
    )


def _shutdown_verdict(service: ShutdownService) -> Verdict:
    return Verdict(is_ok=not service.problem, note=service.problem or "the machine waits for its pods")


def _verdict(agent: Agent) -> Verdict:
    if agent.last_error is not None:
        return Verdict(is_ok=False, note=str(agent.last_error))
    if agent.node_is_missing:
        return Verdict(is_ok=False, note=f"there is no node {agent.options.node_name}")
    return Verdict(is_ok=True, note="holds the node's lease" if agent.holds_lease else "stands by")
