"""What runs beside the controllers, leader or not, and the order in which it starts and stops."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from kube_fairlead.base import logs

__all__ = ["Runnable", "RunnableGroup", "started_in_order"]

_log = logs.get_logger(__name__)

RunnableGroup = tuple[str, Sequence["Runnable"]]


class Runnable(Protocol):
    """Something that runs as long as a block."""

    @property
    def name(self) -> str:
        """What the log calls it."""
        ...

    def running(self) -> contextlib.AbstractAsyncContextManager[object]:
        """Runs while the block lasts; entering it returns when it is ready."""
        ...


@contextlib.asynccontextmanager
async def started_in_order(groups: Sequence[RunnableGroup]) -> AsyncIterator[None]:
    """Start group after group, each runnable ready before the next begins; stop in the opposite order."""
    async with contextlib.AsyncExitStack() as stack:
        for group, members in groups:
            for member in members:
                _log.debug("starting", group=group, runnable=member.name)
                await stack.enter_async_context(member.running())
        yield
