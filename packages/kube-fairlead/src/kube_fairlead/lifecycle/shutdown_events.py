"""The LifecycleEvent of a shutdown: its name, its options, and what an agent reads from it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import Final

from kube_fairlead.api import time as api_time
from kube_fairlead.api.lifecycle_v1alpha1 import (
    ClaimStatus,
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleTransition,
    LifecycleTransitionSpec,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import DRIVER_SHUTDOWN, NODE_SHUTDOWN
from kube_fairlead.lifecycle import claims, deadlines, driver_options
from kube_fairlead.lifecycle.facts import Precedence
from kube_fairlead.lifecycle.shutdown_config import Period
from kube_fairlead.lifecycle.shutdown_observation import OPTION_NODE_BOOT_ID
from kube_fairlead.lifecycle.shutdown_recovery import ShutdownEvidence

__all__ = ["event_name", "evidence", "is_event_name", "is_unsettled", "new_event", "new_transition", "precedence"]

_BOOT_ID: Final = "boot-id"
_STARTED_AT: Final = "started-at"
_INTERRUPTION: Final = "node is shutting down"
# How long a machine may take to be down after its pods' time; longer is a failure.
_DOWN_WITHIN: Final = dt.timedelta(minutes=5)
_NAME_MAX: Final = 253


def event_name(node_name: str, started_at: dt.datetime) -> str:
    """The same in every process for the same shutdown."""
    return _named(f"{started_at:%Y%m%d-%H%M%S}", node_name)


def is_event_name(name: str, node_name: str) -> bool:
    """Whether an event, or the cordon made for it, belongs to any shutdown of the node."""
    found = re.match(r"shutdown-(\d{8}-\d{6})-", name)
    return found is not None and name == _named(found[1], node_name)


def is_unsettled(event: LifecycleEvent) -> bool:
    """Whether the claimant of its node still has to finish the event of a shutdown."""
    node_name = event.spec.binding_node
    if event.claim_status is ClaimStatus.PENDING:
        return not event.deleting and is_event_name(event.name, node_name)
    return not event.finished and event.status.claimed_by == claims.node_claimant(node_name)


def new_transition() -> LifecycleTransition:
    """The reserved transition. It has no sla: every node has its own configuration."""
    spec = LifecycleTransitionSpec(
        start=NODE_SHUTDOWN.start, end=NODE_SHUTDOWN.end, driver=DRIVER_SHUTDOWN, all_nodes=True
    )
    return LifecycleTransition(metadata=ObjectMeta(name=NODE_SHUTDOWN.name), spec=spec)


def new_event(node_name: str, started_at: dt.datetime, *, boot_id: str, node_boot_id: str) -> LifecycleEvent:
    """The event that an agent creates, with the boot id that the machine reports and the one that the Node shows."""
    prefix = driver_options.annotation_prefix(DRIVER_SHUTDOWN)
    given = {
        _BOOT_ID: boot_id,
        _STARTED_AT: api_time.format_micro_time(started_at),
        OPTION_NODE_BOOT_ID: node_boot_id,
    }
    return LifecycleEvent(
        metadata=ObjectMeta(
            name=event_name(node_name, started_at),
            annotations={f"{prefix}{key}": value for key, value in given.items()},
        ),
        spec=LifecycleEventSpec(transition_name=NODE_SHUTDOWN.name, binding_node=node_name),
    )


def precedence(node_name: str, started_at: dt.datetime, periods: Iterable[Period]) -> Precedence:
    """The claimant carries out the shutdown only. Its deadline is its pods' time and a margin."""
    budget = dt.timedelta(seconds=sum(period.seconds for period in periods))
    deadline = deadlines.deadline_after(started_at, budget + _DOWN_WITHIN)
    name = event_name(node_name, started_at)
    return Precedence(driver=DRIVER_SHUTDOWN, why=_INTERRUPTION, event_name=name, deadline=deadline)


def evidence(given: Mapping[str, str], otherwise: dt.datetime | None = None) -> ShutdownEvidence | None:
    """The shutdown in the options of an event; None if neither they nor `otherwise` contain its start."""
    try:
        started: dt.datetime | None = api_time.parse_micro_time(given.get(_STARTED_AT, ""))
    except ValueError:
        started = otherwise
    return None if started is None else ShutdownEvidence(started, given.get(_BOOT_ID, ""))


def _named(moment: str, node_name: str) -> str:
    return f"shutdown-{moment}-{node_name}"[:_NAME_MAX].rstrip(".-")
