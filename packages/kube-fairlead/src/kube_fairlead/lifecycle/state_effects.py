"""The reserved transitions and states, and the well-known Node conditions that they set.

The driver defines the meaning of every other state. The states here also set conditions that Kubernetes 1.37 made
well-known, so that an autoscaler or a user can read a node without knowledge of Fairlead.

    transition      from                     to                        meaning
    node-shutdown   shutdown-drain-started   shutdown-drain-complete   the node shuts down; its pods end in order
    node-drain      DrainStarted             DrainComplete             pods are evicted from the node
    node-uncordon   Uncordoning              MaintenanceComplete       the node accepts pods again

MaintenancePlanned, MaintenanceInProgress and MaintenanceComplete may be the start or the end of any transition, in any
order. Admission rejects misuse: only node-shutdown may use the states of a shutdown; node-drain and node-uncordon must
use the states above; DrainStarted and Uncordoning are only start states, DrainComplete is only an end state.

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
    """The value that a state gives one well-known condition. The reason is the cause, as in Kubernetes."""

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
        # It stays True after the pods have ended: only the next boot clears it.
        NODE_SHUTDOWN.start: (Effect(_GOING_DOWN, True, "NodeShutdown"),),
        NODE_SHUTDOWN.end: (Effect(_GOING_DOWN, True, "NodeShutdown"),),
    }
)
# The conditions of a transition from this start state that did not reach its end state.
_FAILURES: Final[Mapping[str, tuple[Effect, ...]]] = MappingProxyType(
    {NODE_DRAIN.start: (Effect(_DRAINING, False, "DrainFailed"),)}
)


def effects_of_state(state: str) -> tuple[Effect, ...]:
    """Return the conditions that a reached state sets; none for a driver's own state."""
    return _STATES.get(state, ())


def effects_of_failure(start: str) -> tuple[Effect, ...]:
    """Return the conditions that a failed transition from this start state sets."""
    return _FAILURES.get(start, ())
