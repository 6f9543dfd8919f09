"""The next actions of a drain, from the present state of the node.

Guarantees, for any input:
1. Only pods that the filters allow are evicted, each in a request of its own, and never while a response is pending.
2. A terminating pod is deleted again only to shorten its grace period, and only once.
3. Of one budget, no more pods are evicted than it allows, except one that verifies its status at the API server.
4. With priority groups, no pod is evicted before all pods of lower groups have ended.
5. Unless the drain is over, a request is pending, or `recheck_at` is set, or only a change can help: a pod that ends, a
   budget that allows an eviction. `recheck_at` is never in the past, so that the driver does not loop.

Upstream: k8s.io/kubectl@v0.36.4/pkg/drain/drain.go
"""

from __future__ import annotations

import bisect
import dataclasses
import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.lifecycle.drain.attempts import Cause, EvictionAttempt
from kube_fairlead.lifecycle.drain.budgets import Budgets, Cover, is_exempt
from kube_fairlead.lifecycle.drain.filters import PodDelete, PodDeleteAction
from kube_fairlead.lifecycle.drain.options import DrainOptions

__all__ = ["OVERDUE", "DrainPlan", "HeldPod", "plan"]

# How long after its deadline a pod counts as overdue: the kubelet needs a moment to report that it has ended.
OVERDUE: Final = dt.timedelta(seconds=5)

_SPENDING: Final = frozenset({Cause.SENT, Cause.ACCEPTED})


@dataclasses.dataclass(frozen=True, slots=True)
class HeldPod:
    """A pod that is not evicted because its budget does not allow it."""

    pod: Pod
    cover: Cover


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    """The next actions. The drain is over when no pod remains; it failed if pods are stranded."""

    evict: tuple[Pod, ...] = ()  # now
    hold: tuple[HeldPod, ...] = ()  # held back by a budget since now
    recheck_at: dt.datetime | None = None
    remaining: tuple[Pod, ...] = ()  # still to be evicted, or terminating
    stranded: tuple[PodDelete, ...] = ()  # refused by a filter or by the API server

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to evict or to wait for."""
        return not self.remaining


def plan(
    pod_deletes: Iterable[PodDelete],
    attempts: Mapping[str, EvictionAttempt],
    budgets: Budgets,
    options: DrainOptions,
    now: dt.datetime,
    *,
    requested: Collection[str] = (),
) -> DrainPlan:
    """Decide what to do next.

    Args:
        pod_deletes: the pods on the node, with the results of the filters.
        attempts: the state of their evictions, by pod uid.
        budgets: the disruption budgets.
        options: the options of the drain.
        now: the time.
        requested: the uids of pods that are evicted by an EvictionRequest. Budgets do not hold these back: the
            responder observes the budgets itself, and a live migration disrupts no pod.
    """
    pods = [
        one for one in sorted(pod_deletes, key=lambda one: one.pod.key) if one.status.action is not PodDeleteAction.SKIP
    ]
    movable = {
        one.pod.uid for one in pods if one.status.action is PodDeleteAction.DELETE and not _is_denied(one.pod, attempts)
    }
    # A refused pod that another client deletes is terminating: the drain waits for it.
    leaving = [one.pod for one in pods if one.pod.uid in movable or one.pod.deleting]
    stranded = tuple(one for one in pods if one.pod.uid not in movable and not one.pod.deleting)
    exempt = leaving if options.disable_eviction else [pod for pod in leaving if pod.uid in requested]
    covers = {pod.uid: budgets.covering(pod) for pod in leaving} | {pod.uid: Cover(()) for pod in exempt}
    selection = _Selection(leaving, attempts, covers, options, now)
    for pod in _current_group(leaving, options):
        if pod.uid in movable:
            selection.consider(pod)
        else:
            selection.expect_end(pod)
    return DrainPlan(
        evict=tuple(selection.evict),
        hold=tuple(selection.hold),
        recheck_at=min(selection.moments, default=None),
        remaining=tuple(leaving),
        stranded=stranded,
    )


class _Selection:
    """Selects the pods of the current group to evict, and counts the disruptions that each budget has left."""

    def __init__(
        self,
        leaving: Sequence[Pod],
        attempts: Mapping[str, EvictionAttempt],
        covers: Mapping[str, Cover],
        options: DrainOptions,
        now: dt.datetime,
    ) -> None:
        self.evict: list[Pod] = []
        self.hold: list[HeldPod] = []
        self.moments: list[dt.datetime] = []
        self._attempts = attempts
        self._options = options
        self._now = now
        self._covers = covers
        # Disruptions used since the last change of a budget's status, by the budget's token.
        self._spent: dict[frozenset[tuple[str, str]], int] = {}
        # How long the server's last response about a budget is valid, and which budgets are verified now.
        self._known_until: dict[frozenset[tuple[str, str]], dt.datetime] = {}
        self._verified: set[frozenset[tuple[str, str]]] = set()
        for pod in leaving:
            attempt = attempts.get(pod.uid)
            if attempt is None:
                continue
            if attempt.cause in _SPENDING:
                self._spend(attempt.token)
            elif attempt.cause is Cause.BUDGET and attempt.number and attempt.retry_at is not None:
                known = self._known_until.get(attempt.token)
                self._known_until[attempt.token] = max(known or attempt.retry_at, attempt.retry_at)

    def consider(self, pod: Pod) -> None:
        """Decide about one pod."""
        attempt = self._attempts.get(pod.uid)
        if attempt is not None and attempt.cause is Cause.SENT:
            return
        if pod.deleting and not self._would_shorten(pod):
            self.expect_end(pod)
        elif attempt is None or self._is_request_expired(attempt):
            self._first(pod)
        elif self._may_retry(pod, attempt):
            self._evict(pod)
        elif attempt.retry_at is not None and attempt.retry_at > self._now:
            self.moments.append(attempt.retry_at)

    def _first(self, pod: Pod) -> None:
        if self._allows(pod):
            self._evict(pod)
        else:
            self.hold.append(HeldPod(pod, self._covers[pod.uid]))

    def _is_request_expired(self, attempt: EvictionAttempt) -> bool:
        """Whether an EvictionRequest timed out. The pod is then handled as if it had no request."""
        return attempt.cause is Cause.REQUESTED and attempt.retry_at is not None and self._now >= attempt.retry_at

    def _may_retry(self, pod: Pod, attempt: EvictionAttempt) -> bool:
        cover = self._covers[pod.uid]
        changed = cover.token != attempt.token
        if attempt.cause in {Cause.BUDGET, Cause.TROUBLE} and changed and self._allows(pod):
            return True
        if attempt.retry_at is None or self._now < attempt.retry_at:
            return False
        return attempt.cause is not Cause.BUDGET or is_exempt(pod) or self._verifies_budget(cover.token)

    def _verifies_budget(self, token: frozenset[tuple[str, str]]) -> bool:
        """Whether to verify the status of a budget by one eviction request.

        The API server may have a newer status than the watch. One pod verifies it for all pods of the budget.
        """
        known_until = self._known_until.get(token)
        if known_until is not None and self._now < known_until:
            self.moments.append(known_until)
            return False
        if token in self._verified:
            return False
        self._verified.add(token)
        return True

    def _allows(self, pod: Pod) -> bool:
        cover = self._covers[pod.uid]
        if not cover.budgets or is_exempt(pod):
            return True
        budget = cover.single
        # Two budgets, or one with an old status: only the API server can decide.
        return budget is None or budget.status.disruptions_allowed > self._spent.get(cover.token, 0)

    def _evict(self, pod: Pod) -> None:
        self.evict.append(pod)
        self._spend(self._covers[pod.uid].token)

    def _spend(self, token: frozenset[tuple[str, str]]) -> None:
        if token:
            self._spent[token] = self._spent.get(token, 0) + 1

    def _would_shorten(self, pod: Pod) -> bool:
        wanted, granted = self._options.grace_seconds, pod.metadata.deletion_grace_period_seconds
        return wanted is not None and granted is not None and wanted < granted

    def expect_end(self, pod: Pod) -> None:
        """Check again when a terminating pod should have ended."""
        if pod.metadata.deletion_timestamp is None:
            return
        deadline = pod.metadata.deletion_timestamp
        moments = [deadline + OVERDUE]
        if limit := self._options.skip_wait_for_delete_timeout:
            # "Older than N seconds", counted in whole seconds.
            moments.append(deadline + dt.timedelta(seconds=max(limit, 0) + 1))
        self.moments.extend(moment for moment in moments if moment > self._now)


def _current_group(leaving: Sequence[Pod], options: DrainOptions) -> list[Pod]:
    """Return the pods to evict now: all, or those of the lowest priority group that has pods."""
    if not options.priority_groups:
        return list(leaving)
    groups = [bisect.bisect_right(options.priority_groups, pod.spec.priority or 0) for pod in leaving]
    lowest = min(groups, default=0)
    return [pod for pod, group in zip(leaving, groups, strict=True) if group == lowest]


def _is_denied(pod: Pod, attempts: Mapping[str, EvictionAttempt]) -> bool:
    attempt = attempts.get(pod.uid)
    return attempt is not None and attempt.cause is Cause.DENIED
