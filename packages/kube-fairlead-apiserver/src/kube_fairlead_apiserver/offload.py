"""Runs work on large objects in a thread, so that the event loop serves all other requests meanwhile.

Work on an object of megabytes (decoding, validation, tracking, encoding) takes up to seconds. Such a step is a plain
function over values that only its request holds, so it can run in a thread; the interpreter switches to the event loop
every few instructions. There is one thread: more would not be faster, and would hold more memory. The steps of
different users run in turn. Small requests, nearly all, never leave the event loop. A strategy can give a costly kind a
higher weight than its bytes.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextvars
import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

__all__ = ["LARGE_BYTES", "Offload", "begin_request", "weigh", "weighed"]

# The most costly step takes about 30 milliseconds at this size.
LARGE_BYTES = 64 * 1024

_P = ParamSpec("_P")
_T = TypeVar("_T")
_weight: contextvars.ContextVar[int] = contextvars.ContextVar("weight", default=0)
_user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="")


def begin_request(user: str) -> None:
    """Reset the weight for a new request of a user."""
    _weight.set(0)
    _user.set(user)


def weigh(size: int) -> None:
    """Raise the weight of the current request: the bytes of its body, or of the object that it changes or returns."""
    if size > _weight.get():
        _weight.set(size)


def weighed() -> int:
    """Return the weight of the current request, in bytes."""
    return _weight.get()


class _Step:
    __slots__ = ("call", "done", "user")

    def __init__(self, user: str, call: Callable[[], Any], done: asyncio.Future[Any]) -> None:
        self.user = user
        self.call = call
        self.done = done


class Offload:
    """The thread, started when the first large request needs it.

    1. One step runs at a time.
    2. The steps of one user run in the order of their requests.
    3. Users take turns: between two steps of one user, each other waiting user has one.
    4. A step whose request is cancelled while it waits does not run.
    """

    def __init__(self) -> None:
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        self._waiting: collections.OrderedDict[str, collections.OrderedDict[_Step, None]] = collections.OrderedDict()
        self._busy = False

    async def run(self, function: Callable[_P, _T], /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        """Call the function here, or in the thread when the request is large.

        The function must use no shared state. A cancelled caller does not wait for the end of the step; its result is
        dropped.
        """
        if _weight.get() < LARGE_BYTES:
            return function(*arguments, **named)
        done: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        step = _Step(_user.get(), functools.partial(function, *arguments, **named), done)
        self._waiting.setdefault(step.user, collections.OrderedDict())[step] = None
        if not self._busy:
            self._next()
        try:
            return await done
        except asyncio.CancelledError:
            self._drop(step)  # its body is released before its turn
            raise

    def _drop(self, step: _Step) -> None:
        steps = self._waiting.get(step.user)
        if steps is not None and step in steps:
            del steps[step]
            if not steps:
                del self._waiting[step.user]

    def _next(self) -> None:
        """Begin the next step, if there is one."""
        while self._waiting:
            user, steps = next(iter(self._waiting.items()))
            step, _ = steps.popitem(last=False)
            if steps:
                self._waiting.move_to_end(user)
            else:
                del self._waiting[user]
            if not step.done.done():
                self._begin(step)
            if self._busy:
                return

    def _begin(self, step: _Step) -> None:
        if self._executor is None:
            self._executor = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="large-objects")
        try:
            running = asyncio.get_running_loop().run_in_executor(self._executor, step.call)
        except RuntimeError as error:  # no thread can be started now; the next large request retries
            step.done.set_exception(error)
            return
        self._busy = True
        running.add_done_callback(functools.partial(self._ended, step))

    def _ended(self, step: _Step, ran: asyncio.Future[Any]) -> None:
        self._busy = False
        self._next()  # before its caller resumes: the thread need not wait for it
        failure = None if ran.cancelled() else ran.exception()
        if step.done.done():
            return
        if ran.cancelled():
            step.done.cancel()
        elif failure is not None:
            step.done.set_exception(failure)
        else:
            step.done.set_result(ran.result())
