"""The transitions and states that have a meaning to everybody, in one place.

Every other state means what its driver says it means. Those here also set the conditions that Kubernetes 1.37 made
well-known, so that an autoscaler or a person need not know Fairlead to understand a node.

    transition      from                     to                        meaning
    node-shutdown   shutdown-drain-started   shutdown-drain-complete   the machine goes down; its pods end in order
    node-drain      DrainStarted             DrainComplete             pods leave the node, by eviction
    node-uncordon   Uncordoning              MaintenanceComplete       the node takes pods again

MaintenancePlanned, MaintenanceInProgress and MaintenanceComplete may be the start or the end of anybody's transition,
in any order. Admission refuses misuse: the states of a shutdown belong to node-shutdown alone; the names node-drain and
node-uncordon belong to these states; DrainStarted and Uncordoning are only started with, DrainComplete only ended with.

Upstream: k8s.io/api@v0.37.1/core/v1/types.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kube_fairlead.api import reserved
from kube_fairlead.api.reserved import NODE_DRAIN, NODE_SHUTDOWN, NODE_UNCORDON, Transition

__all__ = [
    "MAINTENANCE_COMPLETE",
    "MAINTENANCE_IN_PROGRESS",
    "MAINTENANCE_PLANNED",
    "RESERVED",
    "Effect",
    "effects_of_failure",
    "effects_of_state",
]

RESERVED: Final[tuple[Transition, ...]] = (NODE_SHUTDOWN, NODE_DRAIN, NODE_UNCORDON)

MAINTENANCE_PLANNED: Final = "MaintenancePlanned"
MAINTENANCE_IN_PROGRESS: Final = "MaintenanceInProgress"
MAINTENANCE_COMPLETE: Final = NODE_UNCORDON.end


@dataclasses.dataclass(frozen=True, slots=True)
class Effect:
    """What a state makes of one well-known condition. The reason is the cause, as Kubernetes words it."""

    condition: str
    status: bool
    reason: str


_DRAINING: Final = reserved.CONDITION_DRAIN_IN_PROGRESS
_DRAINED: Final = reserved.CONDITION_DRAINED
_PLANNED: Final = reserved.CONDITION_MAINTENANCE_PLANNED
_MAINTAINING: Final = reserved.CONDITION_MAINTENANCE_IN_PROGRESS
_GOING_DOWN: Final = reserved.CONDITION_GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS

_STATES: Final[Mapping[str, tuple[Effect, ...]]] = MappingProxyType(
    {
        NODE_DRAIN.start: (
            Effect(_DRAINING, True, "AdminRequested"),
            Effect(_DRAINED, False, "AdminRequested"),
        ),
        NODE_DRAIN.end: (
            Effect(_DRAINING, False, "DrainCompleted"),
            Effect(_DRAINED, True, "DrainCompleted"),
        ),
        NODE_UNCORDON.start: (Effect(_DRAINED, False, "Uncordoned"),),
        MAINTENANCE_PLANNED: (Effect(_PLANNED, True, "MaintenanceWindow"),),
        MAINTENANCE_IN_PROGRESS: (
            Effect(_PLANNED, False, "MaintenanceWindow"),
            Effect(_MAINTAINING, True, "MaintenanceWindow"),
        ),
        MAINTENANCE_COMPLETE: (
            Effect(_PLANNED, False, "MaintenanceCompleted"),
            Effect(_MAINTAINING, False, "MaintenanceCompleted"),
        ),
        # It stays in progress when the pods have ended: only the next boot ends it.
        NODE_SHUTDOWN.start: (Effect(_GOING_DOWN, True, "NodeShutdown"),),
        NODE_SHUTDOWN.end: (Effect(_GOING_DOWN, True, "NodeShutdown"),),
    }
)
# What is no longer under way when a transition that began with this state did not reach its end.
_FAILURES: Final[Mapping[str, tuple[Effect, ...]]] = MappingProxyType(
    {NODE_DRAIN.start: (Effect(_DRAINING, False, "DrainFailed"),)}
)


def effects_of_state(state: str) -> tuple[Effect, ...]:
    """What reaching a state means; nothing for a state of a driver's own."""
    return _STATES.get(state, ())


def effects_of_failure(start: str) -> tuple[Effect, ...]:
    """What it means that a transition from this state ended before its end."""
    return _FAILURES.get(start, ())
