"""`asyncio.timeout`, also where Python's own is not reliable yet.

Until Python 3.11.3 it takes a task that was cancelled once and has survived it for one that is cancelled for good:
instead of a TimeoutError the CancelledError itself comes out, and the waiting task ends. Debian 12 has 3.11.2.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final

__all__ = ["timeout"]

_IS_RELIABLE: Final = sys.version_info[:3] >= (3, 11, 3)


def timeout(seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
    """Raise TimeoutError when the block takes longer; None: it may take for ever."""
    made = asyncio.timeout(seconds)
    return made if _IS_RELIABLE else _Reliable(made)


class _Reliable:
    """Counts the cancellations that came before the block."""

    def __init__(self, inner: asyncio.Timeout) -> None:
        self._inner = inner
        self._before = 0

    async def __aenter__(self) -> asyncio.Timeout:
        self._before = _cancellations()
        return await self._inner.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, traceback)
        is_cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        if is_cancelled and self._inner.expired() and _cancellations() <= self._before:
            raise TimeoutError from error


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
