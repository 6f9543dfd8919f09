"""Whose step runs in this pass of the event loop, and whose step waits. Pure: no clock, no event loop.

The server runs on one event loop. A handler runs in *steps*: from its start, or from the end of a wait (a commit, a
webhook), until it waits again or returns. Another user's request waits for the rest of the current pass. So the steps
of one pass are bounded by their time, and the user that has used the least time comes first (start-time fair queuing).
"""

from __future__ import annotations

import collections
import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["ALONE_SECONDS", "BESIDE_SECONDS", "PRESENT_SECONDS", "STEP_SECONDS", "Share", "Turns"]

# The time of the steps of one pass: while one user is present, and while several are.
ALONE_SECONDS = 0.02
BESIDE_SECONDS = 0.00015
# A user counts as present for this long after its last request.
PRESENT_SECONDS = 60.0
# The unmeasured cost of a step: reading and parsing the request, sending the response.
STEP_SECONDS = 0.00006
# Extra steps beyond the time of a pass, for users without a step in it.
_BEYOND = 4
_KNOWN_USERS = 256  # before absent users are dropped
_SMOOTHING = 0.2

S = TypeVar("S", bound=Hashable)


class Share(Generic[S]):
    """The time that one user has used, and its waiting steps, in order."""

    __slots__ = ("cost", "present_until", "queued", "served", "served_in", "waiting")

    def __init__(self, served: float) -> None:
        self.served = (
            served  # virtual time: seconds used since it arrived, counted from the virtual time at its arrival
        )
        self.cost = STEP_SECONDS  # recent average of its steps
        self.present_until = 0.0  # in seconds of the clock
        self.served_in = -1  # the last pass in which a step of it ran
        self.queued = False  # it is in the heap of users
        # A thousand connections may close at once: each removes its own step without a search.
        self.waiting: collections.OrderedDict[S, None] = collections.OrderedDict()


class Turns(Generic[S]):
    """The order of steps.

    Invariants:
    1. The steps of one user run in the order of their requests.
    2. A waiting step runs before the steps of users that have used more time, whenever those arrived. The used time is
       exact to within one step: a running step counts as the time set aside for it.
    3. The steps of one pass take about the slice together, and there is at least one. Their time is set aside
       beforehand, estimated from the user's recent steps.
    4. A user that returns after a pause is treated as if it had used as much as the user that has used the least.
    5. While a step waits, `turn` chooses one: no step waits for ever.
    """

    def __init__(self) -> None:
        self.waiting = 0  # waiting steps, of all users
        self.shares: dict[Hashable, Share[S]] = {}
        self._order: list[tuple[float, int, Share[S]]] = []  # a heap of the waiting users
        self._pushed = 0
        self._virtual = 0.0
        self._spent = 0.0  # of this pass
        self._slice = ALONE_SECONDS
        self._beyond = 0
        self._pass = 0
        self._others_until = 0.0  # until then more than one user is present
        self._latest: Share[S] | None = None
        self._forget_at = _KNOWN_USERS

    def share(self, user: Hashable, now: float, present_seconds: float = PRESENT_SECONDS) -> Share[S]:
        """The share of a user whose request arrives, and who counts as present for so long."""
        share = self.shares.get(user)
        if share is None:
            if len(self.shares) >= self._forget_at:
                self._forget(now)
            share = self.shares[user] = Share(self._virtual)
        self.note_presence(share, now, present_seconds)
        return share

    def note_presence(self, share: Share[S], now: float, present_seconds: float = PRESENT_SECONDS) -> None:
        """A user's request arrives, or a response is still being sent."""
        share.present_until = now + present_seconds
        if share is not self._latest:
            if self._latest is not None:
                both = min(share.present_until, self._latest.present_until)
                self._others_until = max(self._others_until, both)
            self._latest = share
        self._slice = BESIDE_SECONDS if now < self._others_until else ALONE_SECONDS

    def take(self, share: Share[S]) -> float:
        """The time set aside for a user's next step if it runs in this pass; 0 if it has to `wait`."""
        if (self.waiting or self._spent >= self._slice) and not self._may_run(share):
            return 0.0
        if share.served < self._virtual and not share.queued:
            share.served = self._virtual
        self._spent += share.cost
        return share.cost

    def _may_run(self, share: Share[S]) -> bool:
        if not share.queued and share.served < self._virtual:
            share.served = self._virtual
        if self.waiting and (share.queued or share.served > self._order[0][0]):
            return False
        if self._spent < self._slice:
            return True
        if share.served_in == self._pass or self._beyond >= _BEYOND:
            return False
        self._beyond += 1
        return True

    def wait(self, share: Share[S], step: S) -> None:
        """The step waits for its turn."""
        share.waiting[step] = None
        self.waiting += 1
        self._enter(share)

    def withdraw(self, share: Share[S], step: S) -> None:
        """The step does not wait any more. It may have been chosen already."""
        if step in share.waiting:
            del share.waiting[step]
            self.waiting -= 1

    def ran(self, share: Share[S], seconds: float, set_aside: float) -> bool:
        """Charge a step: the time it took and the time set aside. Returns whether the pass's time is used up."""
        seconds += STEP_SECONDS
        self._spent += seconds - set_aside
        began = share.served
        share.served += seconds
        # While steps wait, virtual time is where the step began; when none waits, all users are equal.
        self._virtual = max(self._virtual, began if self.waiting else share.served)
        share.served_in = self._pass
        share.cost += _SMOOTHING * (seconds - share.cost)
        return self._spent >= self._slice

    @property
    def is_spent(self) -> bool:
        """The time of this pass is used up."""
        return self._spent >= self._slice

    def turn(self) -> list[tuple[S, float]]:
        """Begin a pass. Returns its steps in order, and the time set aside for each."""
        self._pass += 1
        self._spent = 0.0
        self._beyond = 0
        chosen: list[tuple[S, float]] = []
        planned: dict[Share[S], float] = {}
        while self._order and (not chosen or self._spent < self._slice):
            entered, _, share = heapq.heappop(self._order)
            share.queued = False
            if not share.waiting:
                continue
            # Its used time after the chosen steps have run.
            due = share.served + planned.get(share, 0.0)
            if due > entered and self._order and due > self._order[0][0]:
                self._enter(share, due)
                continue
            chosen.append((share.waiting.popitem(last=False)[0], share.cost))
            self.waiting -= 1
            planned[share] = planned.get(share, 0.0) + share.cost
            self._spent += share.cost
            if share.waiting:
                self._enter(share, share.served + planned[share])
        return chosen

    def _enter(self, share: Share[S], due: float | None = None) -> None:
        if not share.queued:
            share.queued = True
            self._pushed += 1
            heapq.heappush(self._order, (share.served if due is None else due, self._pushed, share))

    def _forget(self, now: float) -> None:
        """Drop absent users. A user that returns is treated as a new one."""
        self.shares = {user: share for user, share in self.shares.items() if share.queued or share.present_until >= now}
        self._forget_at = max(_KNOWN_USERS, 2 * len(self.shares))
