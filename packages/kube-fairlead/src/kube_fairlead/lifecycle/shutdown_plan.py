"""In which order pods are terminated in a node shutdown, and how long each may take.

Pods are terminated in groups of rising priority, the pods of a group together. Times are seconds since the shutdown
began, so that a restarted agent continues with the same schedule.

Guarantees, whatever happens in between (invariant 10):
1. A pod is in the group with the highest priority that is not above its own; below all groups it is in the lowest.
2. No pod gets more than its own grace period, nor more than the period of its group.
3. Group i ends by the sum of the periods up to i, however late it began; so the sum of all is never exceeded.
4. Time that one group does not use is not added to the next, as in the kubelet.
5. Waiting for traffic to leave a pod never shortens its grace: a pod that needs all the time that is left is
   terminated at once, while the agent updates the API server.
6. A pod whose termination an earlier agent did not begin gets its full grace from when it begins, within guarantee 3:
   the time without an agent does not count.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager.go
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from kube_fairlead.lifecycle.shutdown_config import Period

__all__ = ["LEAD_SECONDS", "ActiveGroup", "EndingPod", "PodGroup", "group_of", "group_pods", "latest_end", "next_group"]

_SHORTEST_SECONDS: Final = 0.001

LEAD_SECONDS: Final = 2.0
"""How long the agent waits for traffic to leave a pod before it terminates a pod that has time to spare."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EndingPod:
    """The facts about a pod that the plan needs."""

    uid: str
    namespace: str
    name: str
    priority: int | None = None
    grace_seconds: int | None = None  # its terminationGracePeriodSeconds


@dataclasses.dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods that are terminated together."""

    index: int
    period: Period
    pods: tuple[EndingPod, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ActiveGroup:
    """The group that is being terminated: when it began and by when it ends, in seconds since the shutdown began."""

    index: int
    seconds: int  # the period of the group
    began: float
    ends: float

    def allowed(self, pod: EndingPod, group_seconds: int | None = None) -> float:
        """Return the seconds a pod may take. A late pod of an earlier group gets no more than that group's period."""
        most = self.seconds if group_seconds is None else min(self.seconds, group_seconds)
        return most if pod.grace_seconds is None else min(most, max(0, pod.grace_seconds))

    def grace_left(self, pod: EndingPod, elapsed: float, asked: float, group_seconds: int | None = None) -> float:
        """Return the grace that is left for a pod whose termination began at `asked`; never negative."""
        return max(0.0, min(asked + self.allowed(pod, group_seconds), self.ends) - elapsed)

    def lead_left(self, pod: EndingPod, elapsed: float, group_seconds: int | None = None) -> float:
        """Return how long the termination of a pod can be delayed without shortening its grace (guarantee 5)."""
        latest = min(self.began + LEAD_SECONDS, self.ends - self.allowed(pod, group_seconds))
        left = latest - elapsed
        # A shorter wait than the resolution of the clock would be repeated in a loop.
        return left if left >= _SHORTEST_SECONDS else 0.0


def group_of(periods: Sequence[Period], priority: int | None) -> int:
    """Return the index of a priority's group. A pod without a priority counts as 0, as in Kubernetes."""
    if not periods:
        raise ValueError("there are no groups")
    return max(0, bisect.bisect_right([period.priority for period in periods], priority or 0) - 1)


def group_pods(periods: Sequence[Period], pods: Iterable[EndingPod]) -> tuple[PodGroup, ...]:
    """Return all groups in their order, also empty ones; the pods of each are sorted by name."""
    members: list[list[EndingPod]] = [[] for _ in periods]
    for pod in pods:
        members[group_of(periods, pod.priority)].append(pod)
    return tuple(
        PodGroup(index, period, tuple(sorted(found, key=lambda pod: (pod.namespace, pod.name, pod.uid))))
        for index, (period, found) in enumerate(zip(periods, members, strict=True))
    )


def latest_end(periods: Sequence[Period], index: int) -> int:
    """Return the latest end of a group, in seconds since the shutdown began."""
    return sum(period.seconds for period in periods[: index + 1])


def next_group(
    periods: Sequence[Period],
    groups: Sequence[PodGroup],
    elapsed: float,
    under_way: ActiveGroup | None = None,
    unasked: Collection[str] = (),
) -> ActiveGroup | None:
    """Return the group to terminate now: the lowest that still has pods; None when none has.

    `under_way` is the group that this agent or an earlier one began. While it has pods it continues with the time it
    has left, and it is never begun again. `unasked` are the uids of pods whose termination an earlier agent did not
    begin (guarantee 6).
    """
    first = next((group for group in groups if group.pods), None)
    if first is None:
        return None
    if under_way is not None and first.index <= under_way.index:
        # Late pods of lower priority join the active group, because the order of groups never goes back.
        return _prolonged(periods, groups, elapsed, under_way, unasked)
    began = max(0.0, elapsed)
    seconds = periods[first.index].seconds
    ends = min(began + LEAD_SECONDS + seconds, float(latest_end(periods, first.index)))
    return ActiveGroup(first.index, seconds, began, ends)


def _prolonged(
    periods: Sequence[Period],
    groups: Sequence[PodGroup],
    elapsed: float,
    under_way: ActiveGroup,
    unasked: Collection[str],
) -> ActiveGroup:
    """Extend the active group for pods whose termination did not begin yet."""
    members = ((pod, group.period.seconds) for group in groups[: under_way.index + 1] for pod in group.pods)
    needed = [under_way.allowed(pod, seconds) for pod, seconds in members if pod.uid in unasked]
    if not needed:
        return under_way
    ends = min(elapsed + max(needed), float(latest_end(periods, under_way.index)))
    return dataclasses.replace(under_way, ends=max(under_way.ends, ends))
