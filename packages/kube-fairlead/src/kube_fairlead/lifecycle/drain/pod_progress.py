"""The state of each pod of a drain: its progress, its eviction requests, and what blocked it. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Final

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import PodOutcome
from kube_fairlead.api.validation.lifecycle import BLOCKED_BY_MAX_LENGTH, PODS_MAX
from kube_fairlead.api.wire import replace
from kube_fairlead.lifecycle.drain import blockers
from kube_fairlead.lifecycle.drain.attempts import Cause, EvictionAttempt
from kube_fairlead.lifecycle.drain.budgets import Budgets
from kube_fairlead.lifecycle.drain.planner import DrainPlan

__all__ = ["BLOCKED", "GONE", "LEAVING", "WAITING", "pod_outcomes", "shown"]

GONE: Final = "Gone"
LEAVING: Final = "Leaving"
BLOCKED: Final = "Blocked"
WAITING: Final = "Waiting"


def pod_outcomes(
    known: Mapping[str, PodOutcome],
    plan: DrainPlan,
    attempts: Mapping[str, EvictionAttempt],
    asked: Mapping[str, int],
    budgets: Budgets,
    node: Node | None,
    now: dt.datetime,
) -> dict[str, PodOutcome]:
    """Return all pods of the drain by uid: those of the last report, and those on the node now.

    Args:
        known: the last report.
        plan: the present plan of the drain.
        attempts: the state of the evictions, by pod uid.
        asked: the number of eviction requests, by pod uid.
        budgets: the disruption budgets.
        node: the node.
        now: the time.
    """
    present: dict[str, PodOutcome] = {}
    left = [(pod, "") for pod in plan.remaining]
    left += [(one.pod, one.status.error or "it cannot be evicted") for one in plan.stranded]
    for pod, refusal in left:
        attempt, before = attempts.get(pod.uid), known.get(pod.uid)
        why = blockers.blocking(pod, attempt, budgets, node, now) or refusal
        is_leaving = pod.deleting or (attempt is not None and attempt.cause is Cause.ACCEPTED)
        present[pod.uid] = PodOutcome(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            state=BLOCKED if why else LEAVING if is_leaving else WAITING,
            attempts=asked.get(pod.uid, 0),
            blocked_by=(why or (before.blocked_by if before is not None else ""))[:BLOCKED_BY_MAX_LENGTH],
        )
    gone = {
        uid: replace(one, state=GONE, attempts=asked.get(uid, one.attempts))
        for uid, one in known.items()
        if uid not in present
    }
    return {uid: present.get(uid) or gone[uid] for uid in (*known, *(uid for uid in present if uid not in known))}


def shown(pods: Iterable[PodOutcome]) -> tuple[PodOutcome, ...]:
    """Cut the list to what the API accepts; blocked pods come first."""
    return tuple(sorted(pods, key=lambda pod: not pod.blocked_by)[:PODS_MAX])
