"""One candidate for one Lease: watches, acquires, renews and releases it. Decides nothing: `lease` does.

Followers watch the Lease instead of asking every few seconds, so a release or an expiry is acted on at once; a little
chance keeps many followers apart. Where watching is not possible, the candidate polls as client-go does.

Upstream: k8s.io/client-go@v0.36.4/tools/leaderelection/leaderelection.go
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Self

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.base import backoff, logs, tasks
from kube_fairlead.client.client import Client
from kube_fairlead.election import lease, lease_client
from kube_fairlead.election.election_record import LeaderElectionRecord, Timing
from kube_fairlead.election.lease import Candidacy, Lock

__all__ = ["Candidate"]

# Followers that see a lease come free wait up to this long, so that one claim is stored and few are refused.
_STAMPEDE_SECONDS = 0.01
# client-go's followers poll after one to 2.2 retry periods.
_POLL_JITTER = 1.2
# Renewals come up to this fraction early: many leaders that began together do not stay together.
_RENEWAL_JITTER = 0.1
# A candidate that may not watch now may be allowed to later.
_FORBIDDEN_SECONDS = 60.0
# A process that ends does not wait longer for an API server that is away: the lease expires by itself.
_RELEASE_SECONDS = 3.0
# A watch that lived this long was a good one, and the next begins without delay.
_GOOD_SECONDS = 5.0

_log = logs.get_logger(__name__)


class Candidate:
    """Takes part in the election for one Lease. Use it inside `following()`.

    `win`, `keep` and `release` are called one after the other, term after term.
    """

    def __init__(
        self,
        client: Client,
        lock: Lock,
        *,
        identity: str,
        timing: Timing | None = None,
        succeeds: str = "",
        on_new_leader: Callable[[str], None] | None = None,
        on_rival: Callable[[], None] | None = None,
        on_renewed: Callable[[], None] | None = None,
    ) -> None:
        self.lock = lock
        self.clock = client.clock
        self.candidacy = Candidacy(identity=identity, timing=timing or Timing(), succeeds=succeeds)
        self.lease: Lease | None = None
        self._randomness = client.randomness
        self._leases = lease_client.LeaseClient(client, lock)
        self._on_new_leader = on_new_leader
        self._on_rival = on_rival  # once, when another process was seen to write under this identity
        self._on_renewed = on_renewed
        self._reported: str | None = None
        self._silent_since: float | None = None
        self._last_error = ""
        self._changed = asyncio.Event()
        self._watching = False
        self._claiming = False
        self._log = _log.bind(lock=str(lock), identity=identity)

    @property
    def identity(self) -> str:
        """The name under which this candidate holds the Lease."""
        return self.candidacy.identity

    @property
    def timing(self) -> Timing:
        """How long leases last here."""
        return self.candidacy.timing

    @property
    def is_valid(self) -> bool:
        """Whether this candidate leads and may rely on it at this moment."""
        return self.clock.monotonic() < self.candidacy.valid_until

    @property
    def outage(self) -> str:
        """Since when the API server does not answer this candidate, and what it says; empty while it answers."""
        if self._silent_since is None:
            return ""
        return (
            f"no answer from the API server for {self.clock.monotonic() - self._silent_since:.0f} s: {self._last_error}"
        )

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[Self]:
        """Watch the Lease as long as the block lasts."""
        async with tasks.TaskScope(f"election/{self.lock}", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(self._watch(), name="watch")
            yield self

    async def win(self) -> LeaderElectionRecord:
        """Follow until the lease is ours; the record of the new term.

        Cancelled while a claim is under way, it gives the lease back, should it have become ours.
        """
        try:
            return await self._win()
        except asyncio.CancelledError:
            if self._claiming:
                await self.release(hold_off=False, read_first=True)
            raise

    async def _win(self) -> LeaderElectionRecord:
        delays = self._delays()
        refused = 0
        while True:
            match self._next_step():
                case lease.Read():
                    if not await self._read():
                        await self._happens_within(next(delays))
                case lease.WaitUntil(moment):
                    delays.reset()
                    refused = 0
                    await self._follow_until(moment)
                case lease.Answer(record):
                    if not await self._answer(record):
                        await self._happens_within(next(delays))
                case lease.Claim() as claim:
                    if await self._claim(claim):
                        return claim.record
                    refused += 1
                    # Once, a refusal is news to act on at once. Again and again, it is a server that will not have it.
                    if not self.candidacy.news or refused > 1:
                        await self._happens_within(next(delays))
                case step:
                    raise AssertionError(f"a follower cannot {step}")

    async def keep(self, asked_to_yield: Callable[[str], object]) -> str:
        """Renew until the lease is lost; why it is. A request in the Lease to yield is handed on, once."""
        delays = self._delays()
        refused = 0
        while True:
            match self._next_step():
                case lease.WaitUntil(moment):
                    await self._happens_within(moment - self.clock.monotonic())
                case lease.Read():
                    await self._read()
                case lease.Renew(record, _):
                    unanswered = self.candidacy.unanswered(self.clock.monotonic())
                    if unanswered:
                        self._log.warning("preferred holder does not answer, continuing to lead", preferred=unanswered)
                    if await self._write(record):
                        refused = 0
                    elif self.candidacy.news:
                        refused += 1
                        if refused > 1:
                            left = self.candidacy.valid_until - self.clock.monotonic()
                            await self._happens_within(min(next(delays), left))
                case lease.YieldTo(preferred):
                    self.asked_to_step_down()
                    asked_to_yield(preferred)
                case lease.Lost(why):
                    return why
                case step:
                    raise AssertionError(f"a leader cannot {step}")

    def asked_to_step_down(self) -> None:
        """Renew while the work ends, but no longer."""
        self.candidacy = self.candidacy.asked_to_step_down()

    async def release(self, *, hold_off: bool, read_first: bool = False) -> bool:
        """Give the lease back, so that another may lead at once. The term is over, whether this succeeds or not.

        Only our own lease is released: the write carries the version of our last renewal, and when that is not
        the current one any more, the Lease is read and its present holder keeps it.

        Args:
            hold_off: others get the first chance at the next term.
            read_first: whether the lease is ours is not known; the read is part of the time that a release may take.

        Returns:
            Whether it was released.
        """
        delays = self._delays()
        released: Lease | None = None
        try:
            async with self.clock.timeout(min(_RELEASE_SECONDS, self.timing.renew_deadline_seconds)):
                if read_first:
                    await self._read()
                while self.candidacy.holds:
                    released = await self._try_to_release()
                    if released is not None:
                        break
                    if not await self._read():
                        await self._happens_within(next(delays))
        except TimeoutError:
            self._log.warning("cannot release the lease; it will expire")
        if released is not None:
            self._observe(released, released.metadata.resource_version)
        self.end(hold_off=hold_off)
        return released is not None

    def end(self, *, hold_off: bool) -> None:
        """The term is over. With `hold_off` others get the first chance at the next one."""
        self.candidacy = self.candidacy.ended(self.clock.monotonic(), hold_off=hold_off)

    def _next_step(self) -> lease.Step:
        return self.candidacy.next_step(self.clock.monotonic(), self.clock.now())

    async def _claim(self, claim: lease.Claim) -> bool:
        if claim.contested and await self._happens_within(self._randomness.uniform(0, _STAMPEDE_SECONDS)):
            return False
        self._claiming = True
        stored = await self._write(claim.record)
        self._claiming = False
        if not stored:
            return False
        if self.is_valid:
            return True
        # The process was suspended while the answer waited: a lease that old is not reliable.
        self.end(hold_off=False)
        return False

    async def _write(self, record: LeaderElectionRecord) -> bool:
        sent = self.clock.monotonic()
        jitter = self._randomness.uniform(0, _RENEWAL_JITTER)
        self.candidacy = self.candidacy.sent(sent, jitter=jitter, record=record)
        try:
            stored = await self._leases.write(self.lease, record, timeout_seconds=self._attempt_seconds(sent))
        except lease_client.REFUTATIONS as error:
            self._log.debug("lease changed meanwhile", error=str(error))
            self.candidacy = self.candidacy.refuted()
            return False
        except lease_client.FAILURES as error:
            self._failed("cannot write the lease", error)
            if not self.candidacy.leads:
                self.candidacy = self.candidacy.doubted()
            return False
        self._silent_since = None
        version = stored.metadata.resource_version
        self.candidacy = self.candidacy.stored(LeaderElectionRecord.of(stored), version, sent)
        if self.candidacy.sighting is not None and self.candidacy.sighting.resource_version == version:
            self.lease = stored
        self._report()
        if self._on_renewed is not None:
            self._on_renewed()
        return True

    def _failed(self, what: str, error: Exception) -> None:
        self._note_outage(error)
        self._log.warning(what, error=self._last_error)

    def _note_outage(self, error: Exception) -> None:
        self._last_error = str(error) or "timed out"
        if self._silent_since is None:
            self._silent_since = self.clock.monotonic()

    async def _answer(self, record: LeaderElectionRecord) -> bool:
        """Say in the Lease that we are alive and would take over; whether that was stored."""
        try:
            stored = await self._leases.write(self.lease, record, timeout_seconds=self.timing.attempt_seconds)
        except lease_client.REFUTATIONS:
            self.candidacy = self.candidacy.refuted()
            return False
        except lease_client.FAILURES as error:
            self._log.warning("cannot answer as the preferred holder", error=str(error) or "timed out")
            self.candidacy = self.candidacy.doubted()
            return False
        self._log.info("answered as the preferred holder", leader=record.holder)
        self._observe(stored, stored.metadata.resource_version)
        return True

    async def _try_to_release(self) -> Lease | None:
        if self.lease is None:
            return None
        record = LeaderElectionRecord.of(self.lease).released(self.clock.now())
        try:
            return await self._leases.write(self.lease, record, timeout_seconds=self.timing.attempt_seconds)
        except lease_client.FAILURES as error:
            self._log.debug("lease not released yet, retrying", error=str(error) or "timed out")
            return None

    async def _read(self) -> bool:
        now = self.clock.monotonic()
        if self.candidacy.leads:
            self.candidacy = self.candidacy.sent(now)
        try:
            found = await self._leases.read(timeout_seconds=self._attempt_seconds(now))
        except lease_client.FAILURES as error:
            self._failed("cannot read the lease", error)
            return False
        self._observe(found, found.metadata.resource_version if found is not None else "")
        return True

    def _attempt_seconds(self, now: float) -> float:
        left = self.candidacy.valid_until - now if self.candidacy.leads else self.timing.attempt_seconds
        return max(0.0, min(self.timing.attempt_seconds, left))

    async def _watch(self) -> None:
        delays = self._delays()
        while True:
            started = self.clock.monotonic()
            wait = next(delays)
            try:
                await self._watch_once()
            except api_errors.Forbidden as error:
                self._log.warning("cannot watch the lease, polling it instead", error=str(error))
                wait = _FORBIDDEN_SECONDS
            except lease_client.FAILURES as error:
                self._log.debug("lease watch ended", error=str(error) or "silence")
                if not isinstance(error, TimeoutError):  # a leader that is gone is silent too
                    self._note_outage(error)
            finally:
                self._watching = False
            if self.clock.monotonic() - started >= _GOOD_SECONDS:
                delays.reset()
            await self.clock.sleep(wait)

    async def _watch_once(self) -> None:
        watch = self._leases.watch(
            timeout_seconds=self.timing.attempt_seconds, silence_seconds=float(self.timing.written_seconds)
        )
        async with contextlib.aclosing(watch) as sightings:
            async for found, version in sightings:
                self._watching = True
                self._silent_since = None
                known = self.candidacy.sighting
                # Our own writes are known before the watch reports them, and older ones are reported too late.
                if known is None or lease.is_newer(version, known.resource_version):
                    self._observe(found, version)

    def _observe(self, found: Lease | None, version: str) -> None:
        record = None if found is None else LeaderElectionRecord.of(found)
        self._silent_since = None
        self.lease = found
        had_rival = self.candidacy.has_rival
        self.candidacy = self.candidacy.seen(record, version, self.clock.monotonic())
        if self.candidacy.has_rival and not had_rival:
            self._log.error("another process uses this identity: give each candidate one of its own")
            if self._on_rival is not None:
                self._on_rival()
        self._changed.set()
        self._report()

    def _report(self) -> None:
        holder = self.candidacy.holder
        if holder == self._reported:
            return
        self._reported = holder
        self._log.info("new leader" if holder else "no leader", leader=holder)
        if self._on_new_leader is not None:
            self._on_new_leader(holder)

    async def _follow_until(self, moment: float) -> None:
        seconds = moment - self.clock.monotonic()
        if self._watching:
            await self._happens_within(seconds)
            return
        poll = self.timing.retry_period_seconds * (1 + self._randomness.random() * _POLL_JITTER)
        if not await self._happens_within(min(poll, seconds)) and not self._watching:
            self.candidacy = self.candidacy.doubted()

    async def _happens_within(self, seconds: float) -> bool:
        """Wait until the Lease changes, but not longer; whether it did."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with self.clock.timeout(max(0.0, seconds)):
                await self._changed.wait()
        return self._changed.is_set()

    def _delays(self) -> backoff.Delays:
        retry_period = self.timing.retry_period_seconds
        schedule = backoff.Backoff(initial_seconds=retry_period / 10, cap_seconds=retry_period, jitter=0.5)
        return schedule.delays(self._randomness)
