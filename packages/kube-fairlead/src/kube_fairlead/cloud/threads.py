"""Calling a vendor's blocking library without blocking the event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

__all__ = ["Threads"]

_T = TypeVar("_T")


class Threads:
    """A few threads, for as long as the block lasts.

    A sent call cannot be undone. So a caller that is cancelled while it is under way waits until it has ended, which
    the library's own timeouts bound: when a controller has stopped, nothing it began still changes the cloud.
    """

    def __init__(self, name: str, *, number: int = 4) -> None:
        self._name = name
        self._number = number
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None

    async def __aenter__(self) -> Self:
        self._executor = concurrent.futures.ThreadPoolExecutor(self._number, thread_name_prefix=self._name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._executor is not None:
            # Every call has ended, because each caller has waited for its own: the threads are idle and end.
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None

    async def run(self, function: Callable[..., _T], /, *arguments: Any, **named: Any) -> _T:
        """Call it in a thread and wait for what it returns."""
        if self._executor is None:
            raise RuntimeError(f"{self._name} is used outside of its block")
        call = self._executor.submit(functools.partial(function, *arguments, **named))
        ended = asyncio.wrap_future(call)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            # One that no thread has started can still be cancelled.
            if not call.cancel():
                await asyncio.wait([ended])
            if ended.done() and not ended.cancelled():
                ended.exception()  # it is not read anywhere, and asyncio would log that
            raise
