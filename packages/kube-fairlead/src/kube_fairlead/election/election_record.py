"""The election's fields of a Lease as plain data, and the durations. Fields and defaults are client-go's.

Upstream: k8s.io/client-go@v0.36.4/tools/leaderelection/resourcelock/interface.go,
    k8s.io/client-go@v0.36.4/tools/leaderelection/resourcelock/leaselock.go,
    k8s.io/component-base@v0.36.4/config/v1alpha1/defaults.go
"""

from __future__ import annotations

import dataclasses
import datetime as dt

from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease, LeaseSpec
from kube_fairlead.api.reserved import ANNOTATION_PREFERRED_HOLDER, ANNOTATION_PREFERRED_HOLDER_READY

__all__ = ["LeaderElectionRecord", "Timing"]

# Of a released lease, so that a candidate that knows no empty holder does not wait long either.
_RELEASED_SECONDS = 1
# A follower of client-go's tries again after up to 2.2 retry periods.
_JITTER_FACTOR = 1.2
# How much of the time between the renew deadline and the end of the lease is kept free for an exit.
_MARGIN = 0.2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long a lease lasts, how long a leader may fail to renew it, and how often it tries. Defaults as upstream.

    Raises:
        ValueError: the three do not fit together.
    """

    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0

    def __post_init__(self) -> None:
        if self.retry_period_seconds <= 0:
            raise ValueError("retry_period_seconds must be greater than zero")
        if self.renew_deadline_seconds <= self.retry_period_seconds * _JITTER_FACTOR:
            raise ValueError(
                f"renew_deadline_seconds must be greater than retry_period_seconds * {_JITTER_FACTOR:g}, "
                f"but {self.renew_deadline_seconds:g} is not"
            )
        # The Lease counts whole seconds, and others go by what it says.
        if self.written_seconds <= self.renew_deadline_seconds:
            raise ValueError(
                "lease_duration_seconds, in whole seconds, must be greater than renew_deadline_seconds, "
                f"but {self.written_seconds} is not greater than {self.renew_deadline_seconds:g}"
            )

    @property
    def written_seconds(self) -> int:
        """The duration that is written into the Lease."""
        return int(self.lease_duration_seconds)

    @property
    def attempt_seconds(self) -> float:
        """How long one call to the API server may take, as upstream's clients."""
        return max(1.0, self.renew_deadline_seconds / 2)

    @property
    def exit_seconds(self) -> float:
        """How long after its last renewal a process must be rid of all leader's work, or be gone itself."""
        return self.written_seconds - (self.written_seconds - self.renew_deadline_seconds) * _MARGIN

    @property
    def hold_off_seconds(self) -> float:
        """How long a leader that stepped down leaves the lease to others: long enough for client-go's slowest poll.

        As long, a leader waits for a preferred holder's answer, and others leave a free lease to one that answered.
        """
        return self.retry_period_seconds * 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionRecord:
    """The election's part of a Lease. Times are informational: no candidate decides by another machine's clock.

    A preferred holder is written into the field of that name where the Lease has a strategy, without which servers
    refuse it, and else into an annotation: a server without CoordinatedLeaderElection drops both fields. `ready` is who
    has answered that it is alive and would take over.
    """

    holder: str = ""
    lease_duration_seconds: int = 0
    acquire_time: dt.datetime | None = None
    renew_time: dt.datetime | None = None
    transitions: int = 0
    preferred_holder: str = ""
    strategy: str = ""
    ready: str = ""

    @classmethod
    def of(cls, lease: Lease) -> LeaderElectionRecord:
        """What a Lease says; a missing field is an empty one."""
        spec = lease.spec
        return cls(
            holder=spec.holder_identity or "",
            lease_duration_seconds=spec.lease_duration_seconds or 0,
            acquire_time=spec.acquire_time,
            renew_time=spec.renew_time,
            transitions=spec.lease_transitions or 0,
            preferred_holder=spec.preferred_holder or lease.metadata.annotations.get(ANNOTATION_PREFERRED_HOLDER, ""),
            strategy=spec.strategy or "",
            ready=lease.metadata.annotations.get(ANNOTATION_PREFERRED_HOLDER_READY, ""),
        )

    @property
    def write(self) -> tuple[object, ...]:
        """What distinguishes the writes of candidates; other clients may write preferences."""
        return self.holder, self.acquire_time, self.renew_time, self.transitions, self.lease_duration_seconds

    def onto(self, lease: Lease) -> Lease:
        """A Lease that says this. An empty holder is written, an empty preference or strategy is not."""
        annotations = dict(lease.metadata.annotations)
        annotations.pop(ANNOTATION_PREFERRED_HOLDER, None)
        annotations.pop(ANNOTATION_PREFERRED_HOLDER_READY, None)
        if self.preferred_holder and not self.strategy:
            annotations[ANNOTATION_PREFERRED_HOLDER] = self.preferred_holder
        if self.preferred_holder and self.ready:
            annotations[ANNOTATION_PREFERRED_HOLDER_READY] = self.ready
        spec = LeaseSpec(
            holder_identity=self.holder,
            lease_duration_seconds=self.lease_duration_seconds,
            acquire_time=self.acquire_time,
            renew_time=self.renew_time,
            lease_transitions=self.transitions,
            strategy=self.strategy or None,
            preferred_holder=self.preferred_holder if self.preferred_holder and self.strategy else None,
        )
        return wire.replace_metadata(wire.replace(lease, spec=spec), annotations=annotations)

    def taken_by(self, identity: str, timing: Timing, now: dt.datetime) -> LeaderElectionRecord:
        """The record of a new term. A preference has served its purpose then; the strategy is not ours to change."""
        return LeaderElectionRecord(
            holder=identity,
            lease_duration_seconds=timing.written_seconds,
            acquire_time=now,
            renew_time=now,
            transitions=self.transitions + 1,
            strategy=self.strategy,
        )

    def renewed(self, timing: Timing, now: dt.datetime) -> LeaderElectionRecord:
        """The same term, later. A preferred holder stays named: it must see its turn come."""
        return dataclasses.replace(self, lease_duration_seconds=timing.written_seconds, renew_time=now)

    def released(self, now: dt.datetime) -> LeaderElectionRecord:
        """The record without a holder."""
        return dataclasses.replace(
            self, holder="", lease_duration_seconds=_RELEASED_SECONDS, acquire_time=now, renew_time=now
        )
