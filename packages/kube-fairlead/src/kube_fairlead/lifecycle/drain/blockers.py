"""What blocks a drain, as messages and as numbers: which pod, why, and since when.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/core/pod/storage/eviction.go
"""

from __future__ import annotations

import collections
import datetime as dt
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kube_fairlead.api import time as api_time
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.lifecycle.drain.attempts import Cause, EvictionAttempt
from kube_fairlead.lifecycle.drain.budgets import Budgets, Cover
from kube_fairlead.lifecycle.drain.filters import PodDelete
from kube_fairlead.lifecycle.drain.planner import OVERDUE, DrainPlan

__all__ = ["Blocker", "blocker", "blockers", "blocking", "budget_message", "describe", "failure", "timed_out"]

# A message with more names is hard to read; the rest is counted.
_NAMED: Final = 10


class Blocker(enum.Enum):
    """What blocks the eviction of a pod, as metrics count it."""

    BUDGET = "budget"  # its disruption budget does not allow it now
    SEVERAL_BUDGETS = "several_budgets"  # more than one covers it, which the server rejects
    NAMESPACE = "namespace"  # its namespace is being deleted
    TROUBLE = "trouble"  # a webhook denied it for now, or the server could not answer
    DENIED = "denied"  # the server rejected the eviction for good
    FILTER = "filter"  # it was bound during the drain, and a filter rejects it
    OVERDUE = "overdue"  # its grace period is over


_BLOCKERS: Final = {
    Cause.BUDGET: Blocker.BUDGET,
    Cause.NAMESPACE: Blocker.NAMESPACE,
    Cause.TROUBLE: Blocker.TROUBLE,
    Cause.DENIED: Blocker.DENIED,
}


def describe(
    plan: DrainPlan, attempts: Mapping[str, EvictionAttempt], budgets: Budgets, node: Node | None, now: dt.datetime
) -> str:
    """Describe the state of the drain. It contains times, not durations, so that it changes only with the state."""
    blocked: dict[str, list[str]] = {}  # pods by reason
    requested: dict[str, list[str]] = {}
    ending: list[str] = []
    for pod in plan.remaining:
        attempt = attempts.get(pod.uid)
        if why := blocking(pod, attempt, budgets, node, now):
            blocked.setdefault(why, []).append(pod.key)
        elif pod.deleting:
            ending.append(pod.key)
        elif attempt is not None and attempt.cause is Cause.REQUESTED:
            requested.setdefault(f"since {_clock(attempt.since)}", []).append(pod.key)
    parts = []
    if blocked:
        parts.append("blocked: " + _some([f"{_some(keys, ', ')} {why}" for why, keys in blocked.items()], "; "))
    if requested:
        pods = [f"{_some(keys, ', ')} {since}" for since, keys in requested.items()]
        parts.append("waiting for the responder to an EvictionRequest: " + _some(pods, "; "))
    if ending:
        parts.append(f"ending: {_some(ending, ', ')}")
    if plan.stranded:
        parts.append(f"cannot be evicted: {_some(_strandings(plan.stranded, attempts), '; ')}")
    return ". ".join(parts)


def blocking(pod: Pod, attempt: EvictionAttempt | None, budgets: Budgets, node: Node | None, now: dt.datetime) -> str:
    """Describe what blocks one pod, and since when; empty when nothing does."""
    if pod.deleting:
        return _overdue(pod, node, now)
    if attempt is None or attempt.cause in {Cause.SENT, Cause.ACCEPTED, Cause.REQUESTED}:
        return ""
    return f"{_why(attempt, budgets.covering(pod))} since {_clock(attempt.since)}"


def blocker(pod: Pod, attempt: EvictionAttempt | None, budgets: Budgets, now: dt.datetime) -> Blocker | None:
    """Return the kind of blocker of one pod; None when nothing blocks it."""
    if pod.deleting:
        return Blocker.OVERDUE if _is_overdue(pod, now) else None
    if attempt is None:
        return None
    # A pod whose eviction is retried stays blocked until the response.
    cause = attempt.before if attempt.cause is Cause.SENT else attempt.cause
    found = _BLOCKERS.get(cause) if cause is not None else None
    if found is Blocker.TROUBLE and len(budgets.covering(pod).budgets) > 1:
        return Blocker.SEVERAL_BUDGETS
    return found


def blockers(
    plan: DrainPlan, attempts: Mapping[str, EvictionAttempt], budgets: Budgets, now: dt.datetime
) -> dict[Blocker, int]:
    """Count the blocked pods of a drain by blocker."""
    found = [blocker(pod, attempts.get(pod.uid), budgets, now) for pod in plan.remaining]
    found += [blocker(one.pod, attempts.get(one.pod.uid), budgets, now) or Blocker.FILTER for one in plan.stranded]
    return dict(collections.Counter(one for one in found if one is not None))


def failure(stranded: Sequence[PodDelete], attempts: Mapping[str, EvictionAttempt]) -> str:
    """Describe why a drain failed that evicted all the pods it could."""
    return f"pods are left on the node: {_some(_strandings(stranded, attempts), '; ')}"


def timed_out(timeout: dt.timedelta, description: str, remaining: Sequence[Pod]) -> str:
    """Describe a drain that timed out."""
    left = _some([pod.key for pod in remaining], ", ")
    why = f"; {description}" if description else ""
    return f"timed out after {api_time.format_duration(timeout)} with {len(remaining)} pods left: {left}{why}"


def budget_message(cover: Cover) -> str:
    """Describe a budget's status, in the words of the API server."""
    budget = cover.single
    if budget is None:
        return f"disruption budget {cover.names} has not been counted yet"
    status = budget.status
    return (
        f"The disruption budget {budget.name} needs {status.desired_healthy} healthy pods"
        f" and has {status.current_healthy} currently"
    )


def _why(attempt: EvictionAttempt, cover: Cover) -> str:
    message = attempt.message.rstrip(".")
    if attempt.cause is Cause.BUDGET:
        return f"by budget {cover.names or '(gone)'} ({message})"
    if len(cover.budgets) > 1:
        return f"by {len(cover.budgets)} budgets at once, {cover.names} ({message})"
    if attempt.cause is Cause.NAMESPACE:
        return f"because its namespace is being deleted ({message})"
    return f"by an error that is retried ({message})"


def _is_overdue(pod: Pod, now: dt.datetime) -> bool:
    deadline = pod.metadata.deletion_timestamp
    return deadline is not None and now >= deadline + OVERDUE


def _overdue(pod: Pod, node: Node | None, now: dt.datetime) -> str:
    deadline = pod.metadata.deletion_timestamp
    if deadline is None or not _is_overdue(pod, now):
        return ""
    why = f"should have ended by {_clock(deadline)}"
    if pod.metadata.finalizers:
        why += f"; finalizers {', '.join(pod.metadata.finalizers)}"
    ready = node.condition("Ready") if node is not None else None
    if ready is not None and ready.status == "Unknown":
        since = f" since {_clock(ready.last_transition_time)}" if ready.last_transition_time else ""
        why += f"; its kubelet has not reported{since}"
    return why


def _strandings(stranded: Iterable[PodDelete], attempts: Mapping[str, EvictionAttempt]) -> list[str]:
    described = []
    for one in stranded:
        attempt = attempts.get(one.pod.uid)
        why = one.status.error or (attempt.message if attempt is not None else "")
        described.append(f"{one.pod.key} ({why.rstrip('.')})")
    return described


def _some(texts: Sequence[str], separator: str) -> str:
    shown = separator.join(texts[:_NAMED])
    more = len(texts) - _NAMED
    return f"{shown}{separator}and {more} more" if more > 0 else shown


def _clock(moment: dt.datetime) -> str:
    return api_time.format_time(moment)
