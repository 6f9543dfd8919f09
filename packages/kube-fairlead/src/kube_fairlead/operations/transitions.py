"""Drain and uncordon: one transition of several nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.reserved import NODE_DRAIN, NODE_UNCORDON
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle.drain.options import KUBECTL, DrainOptions, spell
from kube_fairlead.lifecycle.drain.rollout import Limits
from kube_fairlead.operations.event_requests import find_transition
from kube_fairlead.operations.node_rollout import NodeAvailability, roll_out
from kube_fairlead.operations.node_transition import TransitionRequest, run_transition
from kube_fairlead.operations.progress import Operation, Outcome, ProgressReport, ignore

__all__ = ["DrainRequest", "UncordonRequest", "drain", "uncordon"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequest:
    """How nodes are drained. The defaults are those of `kubectl drain`."""

    options: DrainOptions = KUBECTL
    transition: str = NODE_DRAIN.name
    limits: Limits = dataclasses.field(default_factory=Limits)
    count_unavailable: bool = False  # nodes that are cordoned or not Ready count against the limits
    wait: bool = True  # until each node's event has ended; else until it exists


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UncordonRequest:
    """How nodes are uncordoned, all at once."""

    force: bool = False  # also removes a cordon that Fairlead did not set
    wait: bool = True  # until each node's event has ended; else until it exists


async def drain(
    client: Client, nodes: Sequence[Node], request: DrainRequest | None = None, *, report: ProgressReport = ignore
) -> dict[str, Outcome]:
    """Have nodes drained by their own drivers; the outcome of each, by name.

    Cancelling it stops following, not the drains. The same call again follows them.

    Raises:
        RequestFailed: the transition does not exist.
        ApiError, ClientError: the API server rejects what is needed to start, or does not answer.
    """
    request = request or DrainRequest()
    transition = TransitionRequest(
        operation=Operation.DRAIN,
        transition=await find_transition(client, request.transition),
        options=spell(request.options),
        wait=request.wait,
        timeout=request.options.timeout,
    )
    return await roll_out(
        nodes,
        request.limits,
        lambda name: run_transition(client, transition, name, report),
        report=report,
        stays_out=True,
        availability=NodeAvailability(client, nodes) if request.count_unavailable else None,
    )


async def uncordon(
    client: Client, nodes: Sequence[Node], request: UncordonRequest | None = None, *, report: ProgressReport = ignore
) -> dict[str, Outcome]:
    """Have nodes uncordoned by their own drivers; the outcome of each, by name.

    Cancelling it stops following, not the requests.

    Raises:
        RequestFailed: the transition does not exist.
    """
    request = request or UncordonRequest()
    transition = TransitionRequest(
        operation=Operation.UNCORDON,
        transition=await find_transition(client, NODE_UNCORDON.name),
        options={"force": "true"} if request.force else {},
        wait=request.wait,
    )
    return await roll_out(
        nodes,
        Limits(max_unavailable=len(nodes)),
        lambda name: run_transition(client, transition, name, report),
        report=report,
    )
