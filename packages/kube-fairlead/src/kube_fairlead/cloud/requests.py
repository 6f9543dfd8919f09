"""Rate limit of requests: a provider awaits it before each request to the cloud.

One call of a controller may be many requests: pages, parts, steps. `CloudCalls` counts time per request, and checks
before each whether the manager still leads and is not stopping. Which call a request belongs to is known by
the context that it runs in, so a provider only says:

    await requests.before_request()

A provider that never awaits it is limited by its calls alone.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Awaitable, Callable, Iterator

__all__ = ["before_request", "requests_by"]

Leave = Callable[[], Awaitable[None]]

_leave: contextvars.ContextVar[Leave | None] = contextvars.ContextVar("cloud_requests", default=None)


async def before_request() -> None:
    """Wait for one's turn.

    Raises:
        CloudUnavailable: the manager is stopping; nothing more is sent.
        NotLeading: the request belongs to a change, and the lease cannot be relied on any more.
    """
    leave = _leave.get()
    if leave is not None:
        await leave()


@contextlib.contextmanager
def requests_by(leave: Leave) -> Iterator[None]:
    """Have `leave` decide about the requests of this context, and of the tasks that it starts."""
    token = _leave.set(leave)
    try:
        yield
    finally:
        _leave.reset(token)
