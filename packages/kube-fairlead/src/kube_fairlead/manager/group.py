"""One lock and its controllers in this process: elects, leads, and reports it.

Upstream: k8s.io/client-go@v0.36.4/tools/leaderelection/healthzadaptor.go,
    k8s.io/client-go@v0.36.4/tools/leaderelection/leaderelection.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.base import logs
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.election import Candidate, LeaderElectionRecord, Leadership, Lock, Rules, Term, TermOverrun, Timing
from kube_fairlead.manager.controller import Controller
from kube_fairlead.manager.controller_runner import Runner, RunSettings
from kube_fairlead.manager.health import Verdict

__all__ = ["Group", "GroupPlan"]

# As upstream's check: a leader that has not renewed for this long after its lease ended is unhealthy.
_UNHEALTHY_SECONDS = 20.0

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """Which controllers run under which lock. `connect` makes a client with this group's own credentials."""

    lock: Lock
    controllers: tuple[Controller, ...]
    connect: Callable[[], Client]


class Group:
    """A Leadership, and around it what outlives its terms: metrics, health, Events about its Lease."""

    def __init__(
        self,
        plan: GroupPlan,
        settings: RunSettings,
        *,
        identity: str,
        timing: Timing,
        rules: Rules,
        on_overrun: Callable[[TermOverrun], None],
    ) -> None:
        self.lock = plan.lock
        self._client = plan.connect()
        self._clock = self._client.clock
        candidate = Candidate(
            self._client,
            plan.lock,
            identity=identity,
            timing=timing,
            on_rival=self._report_rival,
            on_renewed=self._count,
        )
        self.runner = Runner(plan.controllers, plan.connect, settings, clock=self._clock)
        self.leadership = Leadership(candidate, self.runner.work, rules=rules, observer=self, on_overrun=on_overrun)
        self._recorder = EventRecorder(self._client, controller=settings.component, instance=identity)
        self._metrics = _GroupMetrics(settings.metrics, str(plan.lock))
        self._counted: float | None = None  # until when this term's seconds are counted; None while there is none

    @property
    def candidate(self) -> Candidate:
        """Its part in the election."""
        return self.leadership.candidate

    @property
    def record(self) -> LeaderElectionRecord | None:
        """What the Lease says, as far as known."""
        sighting = self.candidate.candidacy.sighting
        return None if sighting is None else sighting.record

    async def run(self) -> None:
        """Take part in the election until cancelled."""
        self.runner.prepare()
        try:
            async with self._client, self._recorder.running():
                await self.leadership.run()
        finally:
            await self.runner.close()

    def health(self) -> Verdict:
        """A follower is healthy, and names the leader."""
        candidacy, term = self.candidate.candidacy, self.leadership.term
        if term is None and candidacy.has_rival:
            return Verdict(is_ok=True, note=f"another process uses the identity {candidacy.identity}")
        outage = self.candidate.outage
        if term is None:
            known = f"follows {candidacy.holder}" if candidacy.holder else "no leader"
            return Verdict(is_ok=True, note=f"{outage}; last known: {known}" if outage else known)
        limit = (candidacy.renewed or 0.0) + candidacy.timing.written_seconds + _UNHEALTHY_SECONDS
        if self._clock.monotonic() > limit:
            return Verdict(is_ok=False, note=f"failed election to renew leadership on lease {self.lock.name}")
        state = "steps down" if term.stopping.is_set() else "leads" if term.is_valid else "cannot rely on its lease"
        return Verdict(is_ok=True, note=f"{state}, term {term.number}{f'; {outage}' if outage else ''}")

    def readiness(self) -> Verdict:
        """Ready as soon as the Lease, or that there is none, was seen once."""
        known = self.candidate.candidacy.sighting is not None
        return Verdict(is_ok=known, note="" if known else "the lease has not been read")

    async def request_lease(self) -> None:
        """Request the Lease from the leader, as its preferred holder."""
        lease = self.candidate.lease
        if lease is None:
            return
        record = dataclasses.replace(
            LeaderElectionRecord.of(lease), preferred_holder=self.candidate.identity, ready=self.candidate.identity
        )
        try:
            await self._client.of(Lease).update(record.onto(lease))
        except (api_errors.ApiError, errors.ClientError) as error:
            _log.debug("cannot request the lease", lock=str(self.lock), error=str(error))
        else:
            _log.info("requested the lease for balance", lock=str(self.lock), holder=record.holder)

    def term_started(self, term: Term) -> None:
        """Called by the leadership."""
        self._counted = self._clock.monotonic()
        self._metrics.started()
        self._record_event(f"{term.identity} became leader")

    def term_ended(self, term: Term) -> None:
        """Called by the leadership."""
        self.runner.prepare()
        self._count()
        self._counted = None
        self._metrics.ended(str(term.stop_reason))
        self._record_event(f"{term.identity} stopped leading")

    def _count(self) -> None:
        """Called with every renewal, so that the seconds grow while the term lasts."""
        now = self._clock.monotonic()
        if self._counted is not None:
            self._metrics.led(now - self._counted)
            self._counted = now

    def _report_rival(self) -> None:
        identity = self.candidate.identity
        self._record_event(f"another process uses the identity {identity}: give each candidate one of its own")

    def _record_event(self, note: str) -> None:
        if self.candidate.lease is not None:
            self._recorder.event(self.candidate.lease, reason="LeaderElection", note=note)


class _GroupMetrics:
    """What is counted over all terms of a process. Asking for a metric again gives the same one."""

    def __init__(self, metrics: Metrics, lock: str) -> None:
        self._leads = metrics.gauge(
            "fairlead_leader_election_master_status", "1 while this process leads.", ["name"]
        ).labels(name=lock)
        self._terms = metrics.counter("fairlead_leader_terms_total", "Terms begun.", ["name"]).labels(name=lock)
        self._ends = metrics.counter("fairlead_leader_term_ends_total", "Terms ended, by reason.", ["name", "reason"])
        self._seconds = metrics.counter("fairlead_leader_seconds_total", "Seconds spent leading.", ["name"]).labels(
            name=lock
        )
        self._lock = lock
        self._leads.set(0)

    def started(self) -> None:
        self._terms.inc()
        self._leads.set(1)

    def led(self, seconds: float) -> None:
        self._seconds.inc(seconds)

    def ended(self, reason: str) -> None:
        self._leads.set(0)
        self._ends.labels(name=self._lock, reason=reason).inc()
