"""Running a component as this process: until it ends by itself, or until a signal asks it to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any

__all__ = ["run"]

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(component: Callable[[], Coroutine[Any, Any, None]], *, loop_factory: Callable[[], Any] | None = None) -> None:
    """Run a component to its end.

    The first SIGINT or SIGTERM cancels it; it stops in its own order and the process has done what it was asked to.
    A second signal does not wait for that: it ends the process as the signal alone would have.

    Args:
        component: makes the coroutine to run.
        loop_factory: another event loop than asyncio's own, e.g. `uvloop.new_event_loop`.
    """
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_until_signalled(component))


async def _until_signalled(component: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    asked_to_stop = False

    def stop(received: int) -> None:
        nonlocal asked_to_stop
        if asked_to_stop:
            signal.signal(received, signal.SIG_DFL)
            signal.raise_signal(received)
            return
        asked_to_stop = True
        if main is not None:
            main.cancel()

    with _stop_signals(loop, stop):
        try:
            await component()
        except asyncio.CancelledError:
            if not asked_to_stop:
                raise


@contextlib.contextmanager
def _stop_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` on the loop for every stop signal that arrives in this block."""

    def relay(number: int, frame: FrameType | None) -> None:
        del frame
        loop.call_soon_threadsafe(stop, number)

    # Plain handlers, because the loop's own do not exist on Windows; asyncio wakes up for either kind.
    before = {number: signal.signal(number, relay) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
