"""Carries out the decisions of `turns`: a handler's steps run in their turns, on the event loop."""

from __future__ import annotations

import asyncio
import functools
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable
from typing import Any, TypeVar

from kube_fairlead.base.clock import Clock
from kube_fairlead_apiserver.flowcontrol.turns import PRESENT_SECONDS, Share, Turns

__all__ = ["Pacer", "Step", "UserShare"]

_T = TypeVar("_T")
_NOTHING: Any = object()
# Called at its turn, with the time set aside for it.
Step = Callable[[float], None]
UserShare = Share[Step]


class Pacer:
    """Runs the steps of all users, each in its turn."""

    def __init__(self, clock: Clock) -> None:
        self.now = clock.monotonic
        self._turns: Turns[Step] = Turns()
        self.take = self._turns.take  # the time set aside for a user's next step if it runs now; 0 if it has to wait
        self._planned = False

    def share(self, user: Hashable, present_seconds: float = PRESENT_SECONDS) -> UserShare:
        """The share of a user whose request arrives; the user counts as present for a while."""
        return self._turns.share(user, self.now(), present_seconds)

    def still_there(self, share: UserShare) -> None:
        """A response to the user is still being sent."""
        self._turns.note_presence(share, self.now())

    def call_in_turn(self, share: UserShare, step: Step) -> None:
        """Call this when it is the user's turn."""
        self._turns.wait(share, step)
        self._plan()

    def withdraw(self, share: UserShare, step: Step) -> None:
        """Cancel the call."""
        self._turns.withdraw(share, step)

    @types.coroutine
    def wait(self, share: UserShare) -> Generator[Any, Any, float]:
        """Return at the turn of the user's next step, with the time set aside for it."""
        turn: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        step = functools.partial(_wake, turn)
        self.call_in_turn(share, step)
        try:
            return (yield from turn)
        except BaseException:
            self._turns.withdraw(share, step)
            raise

    def ran(self, share: UserShare, seconds: float, set_aside: float) -> None:
        """Charge a step: the time it took, and the time that was set aside for it."""
        if self._turns.ran(share, seconds, set_aside) and not self._planned:
            self._plan()

    async def run(self, share: UserShare, handler: Coroutine[Any, Any, _T], set_aside: float = 0.0) -> _T:
        """Run a handler, each step in its turn. The first step has its turn already if time is set aside.

        The task awaits what the handler awaits. A cancellation reaches the handler at once, without waiting for a turn.
        """
        awaited = _NOTHING
        if set_aside:
            # Most handlers have only one step.
            now = self.now
            began = now()
            try:
                awaited = handler.send(None)
            except StopIteration as ended:
                result: _T = ended.value
                return result
            finally:
                self.ran(share, now() - began, set_aside)
        return await _Steps(self, share, handler, awaited)

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Begin a turn: the chosen steps run in the next pass of the event loop, and the next turn begins after it.

        So the loop polls twice between two turns, and another user's new request runs first.
        """
        loop = asyncio.get_running_loop()
        for step, set_aside in self._turns.turn():
            try:
                step(set_aside)
            except Exception as error:  # noqa: BLE001 - one step that fails takes no turn from the others
                loop.call_exception_handler({"message": "a step failed in its turn", "exception": error})
        self._planned = self._turns.waiting > 0 or self._turns.is_spent
        if self._planned:
            loop.call_soon(self._let_run)

    def _let_run(self) -> None:
        asyncio.get_running_loop().call_soon(self._turn)


class _Steps(Awaitable[_T], Generator[Any, Any, _T]):
    """The steps of one handler. A task resumes them one by one, as it would resume the handler itself."""

    __slots__ = ("_awaited", "_handler", "_pacer", "_set_aside", "_share", "_waiting")

    def __init__(self, pacer: Pacer, share: UserShare, handler: Coroutine[Any, Any, _T], awaited: Any) -> None:
        self._pacer = pacer
        self._share = share
        self._handler = handler
        self._awaited = awaited  # what its first step awaits; _NOTHING: it has not run
        self._set_aside = 0.0  # for the next step, if it has its turn
        self._waiting: Generator[Any, Any, float] | None = None  # for the turn of the next step

    def __await__(self) -> Generator[Any, Any, _T]:
        return self

    def send(self, value: Any) -> Any:
        """Resume with the awaited result."""
        if self._awaited is not _NOTHING:
            awaited, self._awaited = self._awaited, _NOTHING
            return awaited
        if self._waiting is None and not self._set_aside:
            self._set_aside = self._pacer.take(self._share)
            if not self._set_aside:
                self._waiting = self._pacer.wait(self._share)
        if self._waiting is not None:
            try:
                return self._waiting.send(None)
            except StopIteration as turn:
                self._waiting = None
                self._set_aside = turn.value
        began = self._pacer.now()
        try:
            return self._handler.send(value)
        finally:
            self._ran(began)

    def throw(self, *error: Any) -> Any:
        """Resume with a cancellation."""
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None
        began = self._pacer.now()
        try:
            return self._handler.throw(*error)
        finally:
            self._ran(began)

    def _ran(self, began: float) -> None:
        set_aside, self._set_aside = self._set_aside, 0.0
        self._pacer.ran(self._share, self._pacer.now() - began, set_aside)


def _wake(turn: asyncio.Future[float], set_aside: float) -> None:
    if not turn.done():
        turn.set_result(set_aside)
