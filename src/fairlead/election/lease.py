"""The election's rules, pure: what is known of the Lease, and what follows from it now.

A candidate tells what it sees (`seen`), what it did (`sent`, `stored`) and asks what to do (`next_step`). Time is
always the candidate's own monotonic clock: a moment in a Lease, written by another machine, decides nothing.

Invariants, and why never two lead at once (design, invariant 7):
1. A lease that another holds is not claimed before it has looked the same, here, for as long as it says it lasts. The
   exception is a holder that is known to have ended: a leader knows that of the leader before it (`succeeds`).
2. A claim carries the resource version whose expiry was watched: any renewal meanwhile, seen here or not, defeats it.
3. A leader counts from the moment at which its last successful renewal was *sent*. The server stored it later, others
   saw it later still, so others' count never ends before the leader's own.
4. A leader gives up at the renew deadline, before its lease ends for anybody.
5. A Lease that vanished while another held it is not created anew before it would have expired.
"""

from __future__ import annotations

import dataclasses
import datetime as dt

from fairlead.election.record import Record, Timing

__all__ = [
    "Candidacy",
    "Claim",
    "Lock",
    "Lost",
    "Read",
    "Renew",
    "Sighting",
    "Step",
    "WaitUntil",
    "YieldTo",
    "is_newer",
]

# A domain in front means somebody's own strategy; without one it is Kubernetes', whose API server picks the holder.
_DOMAIN_SEPARATOR = "/"


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

    record: Record | None
    resource_version: str
    since: float
    free_from: float  # when this candidate may claim it, if it goes on to look so


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

    record: Record
    resource_version: str
    contested: bool  # others may want it at this very moment


@dataclasses.dataclass(frozen=True, slots=True)
class Renew:
    """Write this record to stay the leader; without a resource version, create the Lease again."""

    record: Record
    resource_version: str


@dataclasses.dataclass(frozen=True, slots=True)
class YieldTo:
    """Somebody asked, in the Lease, that another should lead."""

    preferred_holder: str


@dataclasses.dataclass(frozen=True, slots=True)
class Lost:
    """Not the leader any more."""

    why: str


Step = Read | WaitUntil | Claim | Renew | YieldTo | Lost


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """All that one candidate knows. A value: each change gives a new one.

    `renewed` is when the last successful renewal was sent; with none the candidate follows. `due` is when the next
    attempt is. `hold_off` is until when a lease that this candidate gave up is left to others. `doubtful`: the
    Lease is known to differ from the sighting, or may, and is read before anything is written. `news`: it changed
    since the last attempt, so a leader need not wait for its next one. `succeeds`: holders whose names begin so have
    ended, because this candidate holds another Lease that they held when they took this one; empty for none.
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
        """Who holds the lease, as far as known; empty for nobody."""
        return self.sighting.record.holder if self.sighting and self.sighting.record else ""

    def seen(self, record: Record | None, resource_version: str, now: float) -> Candidacy:
        """The Lease was looked at. Only a record that differs starts its time anew: a label is no renewal."""
        before = self.sighting
        if before is not None and before.record == record:
            sighting = dataclasses.replace(before, resource_version=resource_version)
            return dataclasses.replace(self, sighting=sighting, doubtful=False, news=self.news or self.doubtful)
        sighting = Sighting(record, resource_version, now, self._free_from(record, now))
        taken_over = record is not None and record.holder not in {"", self.identity}
        # Somebody else leads: what was left to others has been taken.
        hold_off = float("-inf") if taken_over else self.hold_off
        return dataclasses.replace(self, sighting=sighting, hold_off=hold_off, doubtful=False, news=True)

    def refuted(self) -> Candidacy:
        """The server refused an attempt because the Lease is not what it was thought to be."""
        return dataclasses.replace(self, doubtful=True, news=True)

    def doubted(self) -> Candidacy:
        """An attempt to claim ended without an answer. If the Lease still looks the same, its time goes on."""
        return dataclasses.replace(self, doubtful=True)

    def sent(self, now: float, *, jitter: float = 0.0) -> Candidacy:
        """A claim, a renewal, or a leader's look at the Lease is being sent; the next comes a part `jitter` early."""
        return dataclasses.replace(self, due=now + self.timing.retry_period_seconds * (1 - jitter), news=False)

    def stored(self, record: Record, resource_version: str, sent: float) -> Candidacy:
        """The server stored a claim or renewal that was sent then."""
        known = self.sighting
        if known is not None and _is_later(known.resource_version, resource_version):
            # Its answer was overtaken by what somebody did to the Lease afterwards.
            return dataclasses.replace(self, renewed=sent)
        sighting = Sighting(record, resource_version, sent, sent)
        return dataclasses.replace(self, sighting=sighting, renewed=sent, doubtful=False, news=False)

    def asked_to_step_down(self) -> Candidacy:
        """The term will end when its work has; until then the lease is renewed, whoever is preferred."""
        return dataclasses.replace(self, stepping_down=True)

    def ended(self, now: float, *, hold_off: bool) -> Candidacy:
        """The term is over. With `hold_off` others get the first chance at the next one.

        A lease that was not given back is theirs only when it has run out.
        """
        theirs_from = now
        if self.renewed is not None and self.holder == self.identity:
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
        if now < free_from:
            return WaitUntil(free_from)
        record, version = self.sighting.record, self.sighting.resource_version
        if record is None:
            return Claim(self._first_record(wall), "", contested=True)
        if record.holder == self.identity:
            # Our own claim was stored and only its answer lost.
            return Claim(record.renewed(self.timing, wall), version, contested=False)
        contested = record.preferred_holder != self.identity
        return Claim(record.taken_by(self.identity, self.timing, wall), version, contested=contested)

    def _next_as_leader(self, now: float, wall: dt.datetime) -> Step:
        if now >= self.valid_until:
            return Lost(f"the lease was not renewed within {self.timing.renew_deadline_seconds:g} s")
        record = self.sighting.record if self.sighting else None
        if record is not None and record.holder != self.identity:
            return Lost(f"the lease is held by {record.holder}" if record.holder else "the lease was taken away")
        if record is not None and not self.stepping_down and record.preferred_holder not in {"", self.identity}:
            return YieldTo(record.preferred_holder)
        if now < self.due and not self.news:
            return WaitUntil(min(self.due, self.valid_until))
        if self.sighting is None or self.doubtful:
            return Read()
        if record is None:
            return Renew(self._first_record(wall), "")
        return Renew(record.renewed(self.timing, wall), self.sighting.resource_version)

    def _first_record(self, wall: dt.datetime) -> Record:
        return dataclasses.replace(Record().taken_by(self.identity, self.timing, wall), transitions=0)

    def _free_from(self, record: Record | None, now: float) -> float:
        before = self.sighting
        if record is None:
            was_held = before is not None and before.record is not None and before.record.holder != self.identity
            return before.free_from if before is not None and was_held else now
        if record.holder == self.identity or (self.succeeds and record.holder.startswith(self.succeeds)):
            return now
        free_from = now + record.lease_duration_seconds if record.holder else now
        return free_from + self.timing.written_seconds if self._is_reserved(record) else free_from

    def _is_reserved(self, record: Record) -> bool:
        """Whether somebody else should have it first: the preferred holder, or whom the API server picks."""
        if record.preferred_holder:
            return record.preferred_holder != self.identity
        return bool(record.strategy) and _DOMAIN_SEPARATOR not in record.strategy


def is_newer(version: str, than: str) -> bool:
    """Whether a resource version is later than another. Kubernetes' are numbers; of others only equality is known."""
    return _is_later(version, than) if version.isdecimal() and than.isdecimal() else version != than


def _is_later(version: str, than: str) -> bool:
    return version.isdecimal() and than.isdecimal() and int(version) > int(than)
