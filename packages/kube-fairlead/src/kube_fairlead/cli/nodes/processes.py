"""Ending the command that `fairlead maintain` runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Final

from kube_fairlead.base.clock import Clock

__all__ = ["end"]

# How long a command that was asked to end may take to do so.
_END_SECONDS: Final = 10.0


async def end(process: asyncio.subprocess.Process, clock: Clock) -> str:
    """Ask a command to end, kill it if it does not, and wait until it has ended; how that went, for people to read."""
    if process.returncode is not None:
        return "the command had ended"
    _send(process, force=False)
    try:
        async with clock.timeout(_END_SECONDS):
            await process.wait()
    except TimeoutError:
        _send(process, force=True)
        await process.wait()
        return f"the command did not end within {_END_SECONDS:g} s and was killed"
    return "the command was ended"


def _send(process: asyncio.subprocess.Process, *, force: bool) -> None:
    if sys.platform == "win32":
        process.terminate()
        return
    # A terminal sends Ctrl-C to the command too. `terminate` and `kill` would reap a command that has ended of it, and
    # asyncio, which waits for it in another thread, would complain of an unknown child process.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL if force else signal.SIGTERM)
