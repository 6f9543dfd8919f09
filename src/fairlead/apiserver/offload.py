"""Work on large objects, done beside the event loop, so that everybody else is answered meanwhile.

What is done to an object of megabytes (reading, checking, tracking, encoding) takes up to seconds. Such a step is a
plain function over values that only its request holds, so it can run in a thread; the interpreter lets the event loop
in between every few instructions. There is one thread: more would not be faster, and would hold more at once. Small
requests, nearly all, never leave the event loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["LARGE_BYTES", "Offload", "begin_request", "weigh"]

# What costs most per byte takes some 30 milliseconds at this size.
LARGE_BYTES = 64 * 1024

_P = ParamSpec("_P")
_T = TypeVar("_T")
_weight: contextvars.ContextVar[int] = contextvars.ContextVar("weight", default=0)


def begin_request() -> None:
    """Nothing is known yet of the request at hand."""
    _weight.set(0)


def weigh(size: int) -> None:
    """The request at hand works on so many bytes: its body, or the object that it changes or shows."""
    if size > _weight.get():
        _weight.set(size)


class Offload:
    """The thread, started when the first large request needs it."""

    def __init__(self) -> None:
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None

    async def run(self, function: Callable[_P, _T], /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        """Call it here, or in the thread when the request is large.

        The function must touch nothing that others hold. Who is cancelled does not wait for its end: what it makes is
        dropped.
        """
        if _weight.get() < LARGE_BYTES:
            return function(*arguments, **named)
        if self._executor is None:
            self._executor = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="large-objects")
        call = functools.partial(function, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)
