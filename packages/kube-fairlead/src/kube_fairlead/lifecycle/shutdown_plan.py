"""Which pods end when, and how long each may take, when a machine goes down.

Pods end in groups of rising priority, the pods of a group together. Time is counted in seconds since the shutdown
began, so that a process which takes over in the middle counts on from where the last one was.

Guarantees, whatever happens in between (invariant 10):
1. A pod is in the group with the highest priority that is not above its own; below all groups it is in the lowest.
2. No pod gets more than its own grace period, nor more than its group has.
3. Group i is over by the sum of the periods up to i, however late it began; so the sum of all is never exceeded.
4. Time that one group did not need is not given to the next, as in the kubelet.
5. Waiting for traffic to leave a pod never shortens its time: a pod that needs all the time that is left is asked at
   once, while the API is being updated.
6. A pod that no process lived to ask has all its time from when it is asked, within guarantee 3: the time without an
   agent is not taken from it.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager.go
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from kube_fairlead.lifecycle.shutdown_config import Period

__all__ = ["LEAD_SECONDS", "EndingPod", "Group", "Stage", "group_of", "group_pods", "latest_end", "next_stage"]

_SHORTEST_SECONDS: Final = 0.001

LEAD_SECONDS: Final = 2.0
"""How long a pod that has time to spare waits for traffic to leave it before it is asked to end."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EndingPod:
    """What the plan must know of a pod."""

    uid: str
    namespace: str
    name: str
    priority: int | None = None
    grace_seconds: int | None = None  # its terminationGracePeriodSeconds


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Pods that end together."""

    index: int
    period: Period
    pods: tuple[EndingPod, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """One group while it ends: when it began and by when it is over, in seconds since the shutdown began."""

    index: int
    seconds: int  # what its pods get at most
    began: float
    ends: float

    def allowed(self, pod: EndingPod, group_seconds: int | None = None) -> float:
        """The seconds a pod may take. One of an earlier group that came late gets no more than that group had."""
        most = self.seconds if group_seconds is None else min(self.seconds, group_seconds)
        return most if pod.grace_seconds is None else min(most, max(0, pod.grace_seconds))

    def grace_left(self, pod: EndingPod, elapsed: float, asked: float, group_seconds: int | None = None) -> float:
        """How long a pod that was asked to end at `asked` still has; never less than nothing."""
        return max(0.0, min(asked + self.allowed(pod, group_seconds), self.ends) - elapsed)

    def lead_left(self, pod: EndingPod, elapsed: float, group_seconds: int | None = None) -> float:
        """How long a pod can still wait to be asked and have all its time afterwards (guarantee 5)."""
        latest = min(self.began + LEAD_SECONDS, self.ends - self.allowed(pod, group_seconds))
        left = latest - elapsed
        # A wait that is shorter than a clock can tell would be asked for again and again.
        return left if left >= _SHORTEST_SECONDS else 0.0


def group_of(periods: Sequence[Period], priority: int | None) -> int:
    """The index of the group that a priority belongs to. A pod without one counts as 0, as in Kubernetes."""
    if not periods:
        raise ValueError("there are no groups")
    return max(0, bisect.bisect_right([period.priority for period in periods], priority or 0) - 1)


def group_pods(periods: Sequence[Period], pods: Iterable[EndingPod]) -> tuple[Group, ...]:
    """All groups in the order in which they end, empty ones too; the pods of each in the order of their names."""
    members: list[list[EndingPod]] = [[] for _ in periods]
    for pod in pods:
        members[group_of(periods, pod.priority)].append(pod)
    return tuple(
        Group(index, period, tuple(sorted(found, key=lambda pod: (pod.namespace, pod.name, pod.uid))))
        for index, (period, found) in enumerate(zip(periods, members, strict=True))
    )


def latest_end(periods: Sequence[Period], index: int) -> int:
    """By when a group is over at the latest, in seconds since the shutdown began."""
    return sum(period.seconds for period in periods[: index + 1])


def next_stage(
    periods: Sequence[Period],
    groups: Sequence[Group],
    elapsed: float,
    under_way: Stage | None = None,
    unasked: Collection[str] = (),
) -> Stage | None:
    """The group that ends now: the lowest that still has pods; None when none has.

    `under_way` is the group that a process (this one, or one before it) had begun with. As long as it has pods it goes
    on with the time it has left, and it is never begun a second time. `unasked` are the pods, by uid, that a process
    before this one left unasked (guarantee 6).
    """
    first = next((group for group in groups if group.pods), None)
    if first is None:
        return None
    if under_way is not None and first.index <= under_way.index:
        # Pods of lower priority that came late end with the group under way: order never goes back.
        return _prolonged(periods, groups, elapsed, under_way, unasked)
    began = max(0.0, elapsed)
    seconds = periods[first.index].seconds
    ends = min(began + LEAD_SECONDS + seconds, float(latest_end(periods, first.index)))
    return Stage(first.index, seconds, began, ends)


def _prolonged(
    periods: Sequence[Period], groups: Sequence[Group], elapsed: float, under_way: Stage, unasked: Collection[str]
) -> Stage:
    """The group under way, for as long as those that were left unasked need."""
    members = ((pod, group.period.seconds) for group in groups[: under_way.index + 1] for pod in group.pods)
    needed = [under_way.allowed(pod, seconds) for pod, seconds in members if pod.uid in unasked]
    if not needed:
        return under_way
    ends = min(elapsed + max(needed), float(latest_end(periods, under_way.index)))
    return dataclasses.replace(under_way, ends=max(under_way.ends, ends))
