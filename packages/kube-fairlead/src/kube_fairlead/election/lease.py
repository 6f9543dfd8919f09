"""The election's rules, pure: what is known of the Lease, and what follows from it now.

A candidate reports what it reads (`seen`), what it did (`sent`, `stored`), and calls `next_step`. Time is
always the candidate's own monotonic clock: a moment in a Lease, written by another machine, decides nothing.

Rules, and why never two lead at once (invariant 7):
1. A lease that another holds is not claimed before it has looked the same, here, for as long as it says it lasts. The
   exception is a holder that is known to have ended: a leader knows that of the leader before it (`succeeds`).
2. A claim carries the resource version whose expiry was watched: any renewal meanwhile, seen here or not, defeats it.
3. A leader counts from the moment at which its last successful renewal was *sent*. The server stored it later, others
   saw it later still, so others' count never ends before the leader's own.
4. A leader gives up at the renew deadline, before any candidate sees it expire.
5. A Lease that vanished while another held it is not created again before it would have expired.
6. A lease under our own name that this candidate did not write is another's: two processes were given one name. It is
   claimed as another's is, and a leader that finds one has lost. Only `succeeds` says that the writer has ended.
7. A leader yields to a preferred holder that has answered; one that does not answer costs no time without a leader.

Upstream: k8s.io/client-go@v0.36.4/tools/leaderelection/leaderelection.go
"""

from __future__ import annotations

import dataclasses
import datetime as dt

from kube_fairlead.election.election_record import LeaderElectionRecord, Timing

__all__ = [
    "Answer",
    "Candidacy",
    "Claim",
    "Lock",
    "Lost",
    "Read",
    "Renew",
    "Sighting",
    "Step",
    "WaitUntil",
    "Write",
    "YieldTo",
    "is_newer",
]

# A domain in front means a user's own strategy; without one it is Kubernetes', whose API server picks the holder.
_DOMAIN_SEPARATOR = "/"
# Between what the candidates of one kind have in common and what each has for itself.
_KIN_SEPARATOR = "_"


@dataclasses.dataclass(frozen=True, slots=True)
class Lock:
    """Which Lease."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class Sighting:
    """A Lease as it was last seen, and since when, on the local clock, it has looked so. No record: no Lease."""

    record: LeaderElectionRecord | None
    resource_version: str
    since: float
    free_from: float  # when this candidate may claim it, if it does not change


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """Nothing is known yet: look at the Lease."""


@dataclasses.dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing to do before this moment, unless the Lease changes."""

    moment: float


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """Write this record to become the leader; without a resource version, create the Lease."""

    record: LeaderElectionRecord
    resource_version: str
    contested: bool  # others may want it at this very moment


@dataclasses.dataclass(frozen=True, slots=True)
class Renew:
    """Write this record to stay the leader; without a resource version, create the Lease again."""

    record: LeaderElectionRecord
    resource_version: str


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Write this record to say that we are alive and would take over, as the Lease prefers."""

    record: LeaderElectionRecord


@dataclasses.dataclass(frozen=True, slots=True)
class YieldTo:
    """The Lease names another preferred holder."""

    preferred_holder: str


@dataclasses.dataclass(frozen=True, slots=True)
class Lost:
    """Not the leader any more."""

    why: str


Step = Read | WaitUntil | Claim | Renew | Answer | YieldTo | Lost

# So many of its last writes a candidate remembers, however long ago they were.
_WRITES_KEPT = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """What a candidate wrote, and when it sent that, by its own clock."""

    content: tuple[object, ...]
    sent: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """All that one candidate knows. A value: each change gives a new one.

    `renewed` is when the last successful renewal was sent; with none the candidate follows. `due` is when the next
    attempt is. `hold_off` is until when a lease that this candidate gave up is left to others. `doubtful`: the
    Lease is known to differ from the sighting, or may, and is read before anything is written. `news`: it changed
    since the last attempt, so a leader need not wait for its next one. `succeeds`: the holder of this name has ended,
    because this candidate has locked the file that keeps the name; or, where it ends with `_`, all holders whose names
    begin so have, because this candidate holds another Lease that they held when they took this one; empty for none.
    `written`: what this candidate wrote within the time of a lease, stored or not yet known to be. `has_rival`: another
    process was seen to write under the same identity. `preferred_since`: since when the Lease has preferred the holder
    that it prefers.
    """

    identity: str
    timing: Timing
    succeeds: str = ""
    sighting: Sighting | None = None
    renewed: float | None = None
    due: float = float("-inf")
    hold_off: float = float("-inf")
    stepping_down: bool = False
    doubtful: bool = False
    news: bool = False
    written: tuple[Write, ...] = ()
    has_rival: bool = False
    preferred_since: float = float("-inf")

    def __post_init__(self) -> None:
        if not self.identity:
            raise ValueError("a candidate needs an identity")

    @property
    def leads(self) -> bool:
        """Whether a term is under way. Whether it can still be relied on is `valid_until`'s to say."""
        return self.renewed is not None

    @property
    def valid_until(self) -> float:
        """Until when a leader may act on its lease; in the past for a follower."""
        return float("-inf") if self.renewed is None else self.renewed + self.timing.renew_deadline_seconds

    @property
    def exit_by(self) -> float:
        """When a process that still does leader's work without a renewal must be gone."""
        return float("-inf") if self.renewed is None else self.renewed + self.timing.exit_seconds

    @property
    def holder(self) -> str:
        """The holder of the lease, as far as known; empty for none."""
        return self.sighting.record.holder if self.sighting and self.sighting.record else ""

    @property
    def holds(self) -> bool:
        """Whether the lease is, as far as known, the one that this candidate wrote."""
        record = self.sighting.record if self.sighting else None
        return record is not None and record.holder == self.identity and not self._is_anothers(record)

    def seen(self, record: LeaderElectionRecord | None, resource_version: str, now: float) -> Candidacy:
        """The Lease was looked at. Only a record that differs restarts its time: a label is no renewal."""
        before = self.sighting
        if before is not None and before.record == record:
            sighting = dataclasses.replace(before, resource_version=resource_version)
            return dataclasses.replace(self, sighting=sighting, doubtful=False, news=self.news or self.doubtful)
        last = before.record if before is not None else None
        is_write = last is None or record is None or last.write != record.write
        since = now if before is None or is_write else before.since
        has_rival = self.has_rival or self._shows_rival(record)
        free_from = self._free_from(record, since, has_rival=has_rival)
        sighting = Sighting(record, resource_version, since, free_from)
        taken_over = record is not None and record.holder not in {"", self.identity}
        # Another candidate leads: what was left to others has been acquired.
        hold_off = float("-inf") if taken_over else self.hold_off
        preferred = record.preferred_holder if record is not None else ""
        is_known = last is not None and last.preferred_holder == preferred
        return dataclasses.replace(
            self,
            sighting=sighting,
            hold_off=hold_off,
            doubtful=False,
            news=True,
            has_rival=has_rival,
            preferred_since=self.preferred_since if is_known else now,
        )

    def _shows_rival(self, record: LeaderElectionRecord | None) -> bool:
        """Whether another process writes under our name. What one wrote before a restart of ours does not change."""
        if record is None or not self._is_anothers(record):
            return False
        last = self.sighting.record if self.sighting is not None else None
        return self.leads or (last is not None and self._is_anothers(last) and last.write != record.write)

    def refuted(self) -> Candidacy:
        """The server refused an attempt because the Lease is not what it was thought to be."""
        return dataclasses.replace(self, doubtful=True, news=True)

    def doubted(self) -> Candidacy:
        """An attempt to claim ended without an answer. If the Lease is unchanged, its time continues."""
        return dataclasses.replace(self, doubtful=True)

    def sent(self, now: float, *, jitter: float = 0.0, record: LeaderElectionRecord | None = None) -> Candidacy:
        """A claim, a renewal, or a leader's look at the Lease is being sent; the next comes a part `jitter` early."""
        due = now + self.timing.retry_period_seconds * (1 - jitter)
        written = self.written if record is None else self._with_write(record, now)
        return dataclasses.replace(self, due=due, news=False, written=written)

    def stored(self, record: LeaderElectionRecord, resource_version: str, sent: float) -> Candidacy:
        """The server stored a claim or renewal that was sent then."""
        known = self.sighting
        if known is not None and _is_later(known.resource_version, resource_version):
            # Its answer was overtaken by a later write to the Lease.
            return dataclasses.replace(self, renewed=sent)
        sighting = Sighting(record, resource_version, sent, sent)
        return dataclasses.replace(
            self,
            sighting=sighting,
            renewed=sent,
            doubtful=False,
            news=False,
            written=self._with_write(record, sent),
        )

    def _with_write(self, record: LeaderElectionRecord, sent: float) -> tuple[Write, ...]:
        """With one more write. However often a leader tries, one of its writes may be seen as long as a lease lasts."""
        others = [write for write in self.written if write.content != record.write]
        since = sent - self.timing.written_seconds
        kept = [write for write in others[:-_WRITES_KEPT] if write.sent >= since] + others[-_WRITES_KEPT:]
        return (*kept, Write(record.write, sent))

    def _has_written(self, record: LeaderElectionRecord) -> bool:
        return any(write.content == record.write for write in self.written)

    def asked_to_step_down(self) -> Candidacy:
        """The term will end when its work has; until then the lease is renewed, whatever holder is preferred."""
        return dataclasses.replace(self, stepping_down=True)

    def ended(self, now: float, *, hold_off: bool) -> Candidacy:
        """The term is over. With `hold_off` others get the first chance at the next one.

        A lease that was not released is theirs only when it has expired.
        """
        theirs_from = now
        if self.renewed is not None and self.holds:
            theirs_from = max(now, self.renewed + self.timing.written_seconds)
        until = theirs_from + self.timing.hold_off_seconds if hold_off else float("-inf")
        return dataclasses.replace(self, renewed=None, stepping_down=False, hold_off=until)

    def next_step(self, now: float, wall: dt.datetime) -> Step:
        """What to do now. `wall` is only written, for people to read."""
        if self.leads:
            return self._next_as_leader(now, wall)
        return self._next_as_follower(now, wall)

    def _next_as_follower(self, now: float, wall: dt.datetime) -> Step:
        if self.sighting is None or self.doubtful:
            return Read()
        free_from = max(self.sighting.free_from, self.hold_off)
        record, version = self.sighting.record, self.sighting.resource_version
        if now < free_from:
            if record is not None and record.preferred_holder == self.identity != record.ready:
                return Answer(dataclasses.replace(record, ready=self.identity))
            return WaitUntil(free_from)
        if record is None:
            return Claim(self._first_record(wall), "", contested=True)
        if record.holder == self.identity:
            # Our own claim was stored and only its answer lost, or it is ours from before a restart.
            return Claim(record.renewed(self.timing, wall), version, contested=False)
        contested = record.preferred_holder != self.identity
        return Claim(record.taken_by(self.identity, self.timing, wall), version, contested=contested)

    def _next_as_leader(self, now: float, wall: dt.datetime) -> Step:
        if now >= self.valid_until:
            return Lost(f"the lease was not renewed within {self.timing.renew_deadline_seconds:g} s")
        record = self.sighting.record if self.sighting else None
        if record is not None and record.holder != self.identity:
            return Lost(f"the lease is held by {record.holder}" if record.holder else "the lease was taken away")
        if record is not None and self._is_anothers(record):
            return Lost(f"another process uses the identity {self.identity}")
        if record is not None and not self.stepping_down and self._is_awaited(record):
            return YieldTo(record.preferred_holder)
        if now < self.due and not self.news:
            return WaitUntil(min(self.due, self.valid_until))
        if self.sighting is None or self.doubtful:
            return Read()
        if record is None:
            return Renew(self._first_record(wall), "")
        renewal = record.renewed(self.timing, wall)
        if self.unanswered(now):
            renewal = dataclasses.replace(renewal, preferred_holder="", ready="")
        return Renew(renewal, self.sighting.resource_version)

    def unanswered(self, now: float) -> str:
        """A preferred holder that has had the time to answer that it is alive, and has not; empty for none."""
        record = self.sighting.record if self.sighting else None
        if record is None or _is_kubernetes(record) or record.preferred_holder in {"", self.identity, record.ready}:
            return ""
        return record.preferred_holder if now >= self.preferred_since + self.timing.hold_off_seconds else ""

    def _is_awaited(self, record: LeaderElectionRecord) -> bool:
        """Whether another should lead and is there to do so: it has answered, or the API server has picked it."""
        if record.preferred_holder in {"", self.identity}:
            return False
        return _is_kubernetes(record) or record.ready == record.preferred_holder

    def _is_anothers(self, record: LeaderElectionRecord) -> bool:
        """Whether another process wrote this under our name."""
        return record.holder == self.identity and not self._has_written(record)

    def _has_ended(self, holder: str) -> bool:
        """Whether a holder is one that this candidate succeeds. A name that only begins like it is another process."""
        if self.succeeds.endswith(_KIN_SEPARATOR):
            return holder.startswith(self.succeeds)
        return bool(holder) and holder == self.succeeds

    def _first_record(self, wall: dt.datetime) -> LeaderElectionRecord:
        return dataclasses.replace(LeaderElectionRecord().taken_by(self.identity, self.timing, wall), transitions=0)

    def _free_from(self, record: LeaderElectionRecord | None, now: float, *, has_rival: bool) -> float:
        before = self.sighting
        if record is None:
            was_held = before is not None and before.record is not None and before.record.holder != self.identity
            return before.free_from if before is not None and was_held else now
        if record.holder == self.identity and self._has_written(record):
            return now
        if self._has_ended(record.holder) and not has_rival:
            return now
        free_from = now + record.lease_duration_seconds if record.holder else now
        return free_from + self._reserved_seconds(record)

    def _reserved_seconds(self, record: LeaderElectionRecord) -> float:
        """For how long another should have it first: the preferred holder, or the one that the API server picks."""
        if _is_kubernetes(record):
            return 0.0 if record.preferred_holder == self.identity else float(self.timing.written_seconds)
        return self.timing.hold_off_seconds if self._is_awaited(record) else 0.0


def _is_kubernetes(record: LeaderElectionRecord) -> bool:
    """Whether the API server picks the holder, of the candidates that it knows to be alive."""
    return bool(record.strategy) and _DOMAIN_SEPARATOR not in record.strategy


def is_newer(version: str, than: str) -> bool:
    """Whether a resource version is later than another. Kubernetes' are numbers; of others only equality is known."""
    return _is_later(version, than) if version.isdecimal() and than.isdecimal() else version != than


def _is_later(version: str, than: str) -> bool:
    return version.isdecimal() and than.isdecimal() and int(version) > int(than)
