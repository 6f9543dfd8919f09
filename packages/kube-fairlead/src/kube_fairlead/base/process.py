"""Running a component as this process: until it ends by itself, or until a signal asks it to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import FrameType
from typing import Any

__all__ = ["run"]

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(
    component: Callable[[], Coroutine[Any, Any, None]],
    *,
    loop_factory: Callable[[], Any] | None = None,
    on_signal: Mapping[str, Callable[[], object]] | None = None,
) -> None:
    """Run a component to its end.

    The first SIGINT or SIGTERM cancels it; it stops in its own order and the process has done what it was asked to.
    A second signal does not wait for that: it ends the process as the signal alone would have.

    Args:
        component: makes the coroutine to run.
        loop_factory: another event loop than asyncio's own, e.g. `uvloop.new_event_loop`.
        on_signal: what to call, on the loop, for other signals, by name; those that this system lacks are left out.
    """
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_until_signalled(component, on_signal or {}))


async def _until_signalled(
    component: Callable[[], Coroutine[Any, Any, None]], on_signal: Mapping[str, Callable[[], object]]
) -> None:
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

    handlers: dict[int, Callable[[int], object]] = {
        getattr(signal, name): _ignoring_number(call) for name, call in on_signal.items() if hasattr(signal, name)
    }
    handlers.update(dict.fromkeys(_STOP_SIGNALS, stop))
    with _signals(loop, handlers):
        try:
            await component()
        except asyncio.CancelledError:
            if not asked_to_stop:
                raise


def _ignoring_number(call: Callable[[], object]) -> Callable[[int], object]:
    return lambda _number: call()


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, handlers: Mapping[int, Callable[[int], object]]) -> Iterator[None]:
    """Call these on the loop for every such signal that arrives in this block."""

    def relay(number: int, frame: FrameType | None) -> None:
        del frame
        loop.call_soon_threadsafe(handlers[number], number)

    # Plain handlers, because the loop's own do not exist on Windows; asyncio wakes up for either kind.
    before = {number: signal.signal(number, relay) for number in handlers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
