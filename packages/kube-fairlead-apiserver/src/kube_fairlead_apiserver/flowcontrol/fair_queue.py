"""Fair queuing of the event loop's time: which step runs in this pass, and which one waits. Pure.

The server runs on one event loop. A handler runs in *steps*: from its start, or from the end of a wait (a commit, a
webhook), until it waits again or returns. Another user's request waits for the rest of the current pass. So the steps
of one pass are bounded by their time, and the user that has used the least time comes first (start-time fair queuing).
"""

from __future__ import annotations

import collections
import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["ALONE_SECONDS", "BESIDE_SECONDS", "PRESENT_SECONDS", "STEP_SECONDS", "FairQueue", "Flow"]

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


class Flow(Generic[S]):
    """The requests of one user: the time that they used, and their waiting steps, in order."""

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


class FairQueue(Generic[S]):
    """The flows of all users, and the order in which their steps run.

    Invariants:
    1. The steps of one user run in the order of their requests.
    2. A waiting step runs before the steps of users that have used more time, whenever those arrived. The used time is
       exact to within one step: a running step counts as the time reserved for it.
    3. The steps of one pass take about the slice together, and there is at least one. Their time is reserved
       beforehand, estimated from the user's recent steps.
    4. A user that returns after a pause is treated as if it had used as much as the user that has used the least.
    5. While a step waits, `turn` chooses one: no step waits for ever.
    """

    def __init__(self) -> None:
        self.waiting = 0  # waiting steps, of all users
        self.flows: dict[Hashable, Flow[S]] = {}
        self._order: list[tuple[float, int, Flow[S]]] = []  # a heap of the waiting users
        self._pushed = 0
        self._virtual = 0.0
        self._spent = 0.0  # of this pass
        self._slice = ALONE_SECONDS
        self._beyond = 0
        self._pass = 0
        self._others_until = 0.0  # until then more than one user is present
        self._latest: Flow[S] | None = None
        self._forget_at = _KNOWN_USERS

    def flow(self, user: Hashable, now: float, present_seconds: float = PRESENT_SECONDS) -> Flow[S]:
        """Return the flow of a user whose request arrives, and who counts as present for so long."""
        flow = self.flows.get(user)
        if flow is None:
            if len(self.flows) >= self._forget_at:
                self._forget(now)
            flow = self.flows[user] = Flow(self._virtual)
        self.note_presence(flow, now, present_seconds)
        return flow

    def note_presence(self, flow: Flow[S], now: float, present_seconds: float = PRESENT_SECONDS) -> None:
        """Count a user as present: its request arrives, or a response is still being sent."""
        flow.present_until = now + present_seconds
        if flow is not self._latest:
            if self._latest is not None:
                both = min(flow.present_until, self._latest.present_until)
                self._others_until = max(self._others_until, both)
            self._latest = flow
        self._slice = BESIDE_SECONDS if now < self._others_until else ALONE_SECONDS

    def take(self, flow: Flow[S]) -> float:
        """Return the seconds reserved for a flow's next step if it runs in this pass; 0 if it has to `wait`."""
        if (self.waiting or self._spent >= self._slice) and not self._may_run(flow):
            return 0.0
        if flow.served < self._virtual and not flow.queued:
            flow.served = self._virtual
        self._spent += flow.cost
        return flow.cost

    def _may_run(self, flow: Flow[S]) -> bool:
        if not flow.queued and flow.served < self._virtual:
            flow.served = self._virtual
        if self.waiting and (flow.queued or flow.served > self._order[0][0]):
            return False
        if self._spent < self._slice:
            return True
        if flow.served_in == self._pass or self._beyond >= _BEYOND:
            return False
        self._beyond += 1
        return True

    def wait(self, flow: Flow[S], step: S) -> None:
        """Queue a step."""
        flow.waiting[step] = None
        self.waiting += 1
        self._enter(flow)

    def withdraw(self, flow: Flow[S], step: S) -> None:
        """Remove a step from the queue. It may have been chosen already."""
        if step in flow.waiting:
            del flow.waiting[step]
            self.waiting -= 1

    def ran(self, flow: Flow[S], seconds: float, reserved: float) -> bool:
        """Charge a step: the time it took and the time reserved. Returns whether the pass's time is used up."""
        seconds += STEP_SECONDS
        self._spent += seconds - reserved
        began = flow.served
        flow.served += seconds
        # While steps wait, virtual time is where the step began; when none waits, all users are equal.
        self._virtual = max(self._virtual, began if self.waiting else flow.served)
        flow.served_in = self._pass
        flow.cost += _SMOOTHING * (seconds - flow.cost)
        return self._spent >= self._slice

    @property
    def is_spent(self) -> bool:
        """Whether the time of this pass is used up."""
        return self._spent >= self._slice

    def turn(self) -> list[tuple[S, float]]:
        """Begin a pass. Returns its steps in order, and the seconds reserved for each."""
        self._pass += 1
        self._spent = 0.0
        self._beyond = 0
        chosen: list[tuple[S, float]] = []
        planned: dict[Flow[S], float] = {}
        while self._order and (not chosen or self._spent < self._slice):
            entered, _, flow = heapq.heappop(self._order)
            flow.queued = False
            if not flow.waiting:
                continue
            # Its used time after the chosen steps have run.
            due = flow.served + planned.get(flow, 0.0)
            if due > entered and self._order and due > self._order[0][0]:
                self._enter(flow, due)
                continue
            chosen.append((flow.waiting.popitem(last=False)[0], flow.cost))
            self.waiting -= 1
            planned[flow] = planned.get(flow, 0.0) + flow.cost
            self._spent += flow.cost
            if flow.waiting:
                self._enter(flow, flow.served + planned[flow])
        return chosen

    def _enter(self, flow: Flow[S], due: float | None = None) -> None:
        if not flow.queued:
            flow.queued = True
            self._pushed += 1
            heapq.heappush(self._order, (flow.served if due is None else due, self._pushed, flow))

    def _forget(self, now: float) -> None:
        """Drop absent users. A user that returns is treated as a new one."""
        self.flows = {user: flow for user, flow in self.flows.items() if flow.queued or flow.present_until >= now}
        self._forget_at = max(_KNOWN_USERS, 2 * len(self.flows))
