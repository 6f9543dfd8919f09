"""Runs the steps of handlers on the event loop, in the order that `fair_queue` decides."""

from __future__ import annotations

import asyncio
import functools
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable
from typing import Any, TypeVar

from kube_fairlead.base.clock import Clock
from kube_fairlead_apiserver.flowcontrol.fair_queue import PRESENT_SECONDS, FairQueue, Flow

__all__ = ["Step", "StepScheduler", "UserFlow"]

_T = TypeVar("_T")
_NOTHING: Any = object()
# Called at its turn, with the seconds reserved for it.
Step = Callable[[float], None]
UserFlow = Flow[Step]


class StepScheduler:
    """Runs the steps of all flows, each in its turn."""

    def __init__(self, clock: Clock) -> None:
        self.now = clock.monotonic
        self._queue: FairQueue[Step] = FairQueue()
        self.take = self._queue.take  # seconds reserved for a flow's next step if it runs now; 0 if it waits
        self._planned = False

    def flow(self, user: Hashable, present_seconds: float = PRESENT_SECONDS) -> UserFlow:
        """Return the flow of a user whose request arrives; the user counts as present for a while."""
        return self._queue.flow(user, self.now(), present_seconds)

    def keep_present(self, flow: UserFlow) -> None:
        """Count the user as present: a response to it is still being sent."""
        self._queue.note_presence(flow, self.now())

    def call_in_turn(self, flow: UserFlow, step: Step) -> None:
        """Call ``step`` when it is the flow's turn."""
        self._queue.wait(flow, step)
        self._plan()

    def withdraw(self, flow: UserFlow, step: Step) -> None:
        """Cancel the call."""
        self._queue.withdraw(flow, step)

    @types.coroutine
    def wait(self, flow: UserFlow) -> Generator[Any, Any, float]:
        """Return at the turn of the flow's next step, with the seconds reserved for it."""
        turn: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        step = functools.partial(_wake, turn)
        self.call_in_turn(flow, step)
        try:
            return (yield from turn)
        except BaseException:
            self._queue.withdraw(flow, step)
            raise

    def ran(self, flow: UserFlow, seconds: float, reserved: float) -> None:
        """Charge a step: the time it took, and the time that was reserved for it."""
        if self._queue.ran(flow, seconds, reserved) and not self._planned:
            self._plan()

    async def run(self, flow: UserFlow, handler: Coroutine[Any, Any, _T], reserved: float = 0.0) -> _T:
        """Run a handler, each step in its turn. The first step has its turn already if time is reserved.

        The task awaits what the handler awaits. A cancellation reaches the handler at once, without waiting for a turn.
        """
        awaited = _NOTHING
        if reserved:
            # Most handlers have only one step.
            now = self.now
            began = now()
            try:
                awaited = handler.send(None)
            except StopIteration as ended:
                result: _T = ended.value
                return result
            finally:
                self.ran(flow, now() - began, reserved)
        return await _Steps(self, flow, handler, awaited)

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Begin a turn: the chosen steps run in the next pass of the event loop, and the next turn begins after it.

        So the loop polls twice between two turns, and another user's new request runs first.
        """
        loop = asyncio.get_running_loop()
        for step, reserved in self._queue.turn():
            try:
                step(reserved)
            except Exception as error:  # noqa: BLE001 - one step that fails takes no turn from the others
                loop.call_exception_handler({"message": "a step failed in its turn", "exception": error})
        self._planned = self._queue.waiting > 0 or self._queue.is_spent
        if self._planned:
            loop.call_soon(self._let_run)

    def _let_run(self) -> None:
        asyncio.get_running_loop().call_soon(self._turn)


class _Steps(Awaitable[_T], Generator[Any, Any, _T]):
    """The steps of one handler. A task resumes them one by one, as it would resume the handler itself."""

    __slots__ = ("_awaited", "_flow", "_handler", "_reserved", "_scheduler", "_waiting")

    def __init__(
        self, scheduler: StepScheduler, flow: UserFlow, handler: Coroutine[Any, Any, _T], awaited: Any
    ) -> None:
        self._scheduler = scheduler
        self._flow = flow
        self._handler = handler
        self._awaited = awaited  # what its first step awaits; _NOTHING: it has not run
        self._reserved = 0.0  # for the next step, if it has its turn
        self._waiting: Generator[Any, Any, float] | None = None  # for the turn of the next step

    def __await__(self) -> Generator[Any, Any, _T]:
        return self

    def send(self, value: Any) -> Any:
        """Resume with the awaited result."""
        if self._awaited is not _NOTHING:
            awaited, self._awaited = self._awaited, _NOTHING
            return awaited
        if self._waiting is None and not self._reserved:
            self._reserved = self._scheduler.take(self._flow)
            if not self._reserved:
                self._waiting = self._scheduler.wait(self._flow)
        if self._waiting is not None:
            try:
                return self._waiting.send(None)
            except StopIteration as turn:
                self._waiting = None
                self._reserved = turn.value
        began = self._scheduler.now()
        try:
            return self._handler.send(value)
        finally:
            self._ran(began)

    def throw(self, *error: Any) -> Any:
        """Resume with a cancellation."""
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None
        began = self._scheduler.now()
        try:
            return self._handler.throw(*error)
        finally:
            self._ran(began)

    def _ran(self, began: float) -> None:
        reserved, self._reserved = self._reserved, 0.0
        self._scheduler.ran(self._flow, self._scheduler.now() - began, reserved)


def _wake(turn: asyncio.Future[float], reserved: float) -> None:
    if not turn.done():
        turn.set_result(reserved)
