"""What to do next in a drain, from what is seen of the node now.

Guarantees, whatever it is given:
1. Only pods that the filters let go are asked to, each by itself, and never while an answer is still to come.
2. A pod that is on its way out is asked again only to shorten its grace, and then only once.
3. Of one budget, no more pods are asked to go than it allows, but for one that finds out whether it is really so.
4. With priority groups, no pod is asked before all pods of lower groups are gone.
5. Unless the drain is over, something is under way, or there is a moment to look again, or only a change can help:
   a pod that ends, a budget that allows. That moment is never in the past: nobody looks in a hot loop.

Upstream: k8s.io/kubectl@v0.36.4/pkg/drain/drain.go
"""

from __future__ import annotations

import bisect
import dataclasses
import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.lifecycle.drain.attempts import Attempt, Cause
from kube_fairlead.lifecycle.drain.budgets import Budgets, Cover, is_exempt
from kube_fairlead.lifecycle.drain.filters import Fate, Judged
from kube_fairlead.lifecycle.drain.options import DrainOptions

__all__ = ["OVERDUE", "Held", "Plan", "plan"]

# How long after its deadline a pod is called stuck: a kubelet needs a moment to tell that it is gone.
OVERDUE: Final = dt.timedelta(seconds=5)

_SPENDING: Final = frozenset({Cause.SENT, Cause.ACCEPTED})


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """A pod that is not asked to go because its budget would not allow it."""

    pod: Pod
    cover: Cover


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do now. It is over when nothing is left: either way, `remaining` and `stranded` say which."""

    ask: tuple[Pod, ...] = ()  # to go, now
    hold: tuple[Held, ...] = ()  # newly held back
    look_again: dt.datetime | None = None
    remaining: tuple[Pod, ...] = ()  # that will go or have to
    stranded: tuple[Judged, ...] = ()  # that this drain may not or cannot move

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to do or to wait for."""
        return not self.remaining


def plan(
    judged: Iterable[Judged],
    attempts: Mapping[str, Attempt],
    budgets: Budgets,
    options: DrainOptions,
    now: dt.datetime,
    *,
    requested: Collection[str] = (),
) -> Plan:
    """What to do next.

    Args:
        judged: the pods on the node.
        attempts: what came of asking them, by pod uid.
        budgets: the disruption budgets.
        options: what the user wants.
        now: the time.
        requested: the uids of those that are asked to go by request. Budgets do not hold these back: whoever answers a
            request minds them itself, or need not, because a pod that is moved alive is not disrupted.
    """
    pods = [one for one in sorted(judged, key=lambda one: one.pod.key) if one.verdict.fate is not Fate.STAYS]
    movable = {one.pod.uid for one in pods if one.verdict.fate is Fate.GOES and not _is_denied(one.pod, attempts)}
    # A pod that we may not or cannot move but that somebody else deletes is no problem: it goes, and is waited for.
    going = [one.pod for one in pods if one.pod.uid in movable or one.pod.deleting]
    stranded = tuple(one for one in pods if one.pod.uid not in movable and not one.pod.deleting)
    exempt = going if options.disable_eviction else [pod for pod in going if pod.uid in requested]
    covers = {pod.uid: budgets.covering(pod) for pod in going} | {pod.uid: Cover(()) for pod in exempt}
    asking = _Asking(going, attempts, covers, options, now)
    for pod in _current_group(going, options):
        if pod.uid in movable:
            asking.consider(pod)
        else:
            asking.expect_end(pod)
    return Plan(
        ask=tuple(asking.ask),
        hold=tuple(asking.hold),
        look_again=min(asking.moments, default=None),
        remaining=tuple(going),
        stranded=stranded,
    )


class _Asking:
    """Goes through the pods of the current group, keeping count of what each budget has left."""

    def __init__(
        self,
        going: Sequence[Pod],
        attempts: Mapping[str, Attempt],
        covers: Mapping[str, Cover],
        options: DrainOptions,
        now: dt.datetime,
    ) -> None:
        self.ask: list[Pod] = []
        self.hold: list[Held] = []
        self.moments: list[dt.datetime] = []
        self._attempts = attempts
        self._options = options
        self._now = now
        self._covers = covers
        # What was spent of a budget since its status was last seen to change, by the budget's token.
        self._spent: dict[frozenset[tuple[str, str]], int] = {}
        # Until when what the server said about a budget counts, and which budgets are asked about now.
        self._known_until: dict[frozenset[tuple[str, str]], dt.datetime] = {}
        self._probed: set[frozenset[tuple[str, str]]] = set()
        for pod in going:
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
        elif attempt is None or self._is_due_request(attempt):
            self._first(pod)
        elif self._is_worth_it(pod, attempt):
            self._go(pod)
        elif attempt.retry_at is not None and attempt.retry_at > self._now:
            self.moments.append(attempt.retry_at)

    def _first(self, pod: Pod) -> None:
        if self._allows(pod):
            self._go(pod)
        else:
            self.hold.append(Held(pod, self._covers[pod.uid]))

    def _is_due_request(self, attempt: Attempt) -> bool:
        """Whether it is time to see what became of a request. If nothing, it is as if the pod was never asked."""
        return attempt.cause is Cause.REQUESTED and attempt.retry_at is not None and self._now >= attempt.retry_at

    def _is_worth_it(self, pod: Pod, attempt: Attempt) -> bool:
        cover = self._covers[pod.uid]
        changed = cover.token != attempt.token
        if attempt.cause in {Cause.BUDGET, Cause.TROUBLE} and changed and self._allows(pod):
            return True
        if attempt.retry_at is None or self._now < attempt.retry_at:
            return False
        return attempt.cause is not Cause.BUDGET or is_exempt(pod) or self._finds_out(cover.token)

    def _finds_out(self, token: frozenset[tuple[str, str]]) -> bool:
        """Whether it is time to ask the server whether it really is as the budget's status says.

        The server knows better than what is seen here, but one pod of a budget finds out for all of them.
        """
        known_until = self._known_until.get(token)
        if known_until is not None and self._now < known_until:
            self.moments.append(known_until)
            return False
        if token in self._probed:
            return False
        self._probed.add(token)
        return True

    def _allows(self, pod: Pod) -> bool:
        cover = self._covers[pod.uid]
        if not cover.budgets or is_exempt(pod):
            return True
        budget = cover.single
        # Two budgets, or one whose status is old: only the server can answer.
        return budget is None or budget.status.disruptions_allowed > self._spent.get(cover.token, 0)

    def _go(self, pod: Pod) -> None:
        self.ask.append(pod)
        self._spend(self._covers[pod.uid].token)

    def _spend(self, token: frozenset[tuple[str, str]]) -> None:
        if token:
            self._spent[token] = self._spent.get(token, 0) + 1

    def _would_shorten(self, pod: Pod) -> bool:
        wanted, granted = self._options.grace_seconds, pod.metadata.deletion_grace_period_seconds
        return wanted is not None and granted is not None and wanted < granted

    def expect_end(self, pod: Pod) -> None:
        """A pod is on its way out: look again when it should be gone."""
        if pod.metadata.deletion_timestamp is None:
            return
        deadline = pod.metadata.deletion_timestamp
        moments = [deadline + OVERDUE]
        if limit := self._options.skip_wait_for_delete_timeout:
            # "Older than N seconds", counted in whole seconds.
            moments.append(deadline + dt.timedelta(seconds=max(limit, 0) + 1))
        self.moments.extend(moment for moment in moments if moment > self._now)


def _current_group(going: Sequence[Pod], options: DrainOptions) -> list[Pod]:
    """The pods whose turn it is: all of them, or those of the lowest priority group that is still there."""
    if not options.priority_groups:
        return list(going)
    groups = [bisect.bisect_right(options.priority_groups, pod.spec.priority or 0) for pod in going]
    lowest = min(groups, default=0)
    return [pod for pod, group in zip(going, groups, strict=True) if group == lowest]


def _is_denied(pod: Pod, attempts: Mapping[str, Attempt]) -> bool:
    attempt = attempts.get(pod.uid)
    return attempt is not None and attempt.cause is Cause.DENIED
