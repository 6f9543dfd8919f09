"""Receive the announcement of a shutdown on Linux, from systemd-logind over D-Bus.

A delay lock makes logind wait, for at most `InhibitDelayMaxSec`; a drop-in file raises that where it is too short. The
listener takes the lock first, so that there is never a moment without one, and retries until logind grants it.
The signal PrepareForShutdown announces the beginning and the cancellation of a shutdown. The property
PreparingForShutdown has the same value; the listener reads it at every connection, so that no signal is lost.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go,
    k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/systemd/inhibit_linux.go
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

from kube_fairlead.agent.shutdown.bus import BUS_ADDRESS, DAEMON, Bus, BusError, Peer, connected
from kube_fairlead.agent.shutdown.lock_store import LockStore, NoLockStore
from kube_fairlead.base import files, logs, tasks
from kube_fairlead.base.clock import Clock

__all__ = ["LOGIND", "SYSTEMD", "WHO", "LogindListener", "LogindPlaces"]

LOGIND: Final = Peer("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
SYSTEMD: Final = Peer("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")

WHO: Final = "fairlead-agent"
_LOST: Final = "the node shuts down without waiting for its pods: the shutdown lock was lost"
_WHY: Final = "Terminate pods in order before the node shuts down"
_DROP_IN: Final = "99-z-fairlead.conf"  # it must sort after the kubelet's 99-kubelet.conf
_RECONNECT_SECONDS: Final = 1.0
_AGAIN_FIRST_SECONDS: Final = 0.5
_AGAIN_MOST_SECONDS: Final = 30.0
_RELOAD_ATTEMPTS: Final = 5
_RELOAD_FIRST_SECONDS: Final = 0.1
_SIGHUP: Final = 1

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogindPlaces:
    """Paths on this node. They differ for an agent in a container that mounts the host's files."""

    bus_address: str = BUS_ADDRESS
    drop_ins: Path = Path("/etc/systemd/logind.conf.d")


class LogindListener:
    """A `ShutdownListener` for logind. `problem` says why logind might not wait long enough."""

    def __init__(self, clock: Clock, lock_store: LockStore | None = None, places: LogindPlaces | None = None) -> None:
        self._clock = clock
        self._lock_store = lock_store or NoLockStore()
        self._places = places or LogindPlaces()
        self._announcements: asyncio.Queue[bool] = asyncio.Queue()
        self._ready = asyncio.Event()
        self._changed = asyncio.Event()  # an event after which the lock may be lost
        self._preparing: bool | None = None
        self._lock: int | None = None
        self._released = False  # no lock is taken again before the shutdown is cancelled
        self.problem = ""

    @property
    def preparing(self) -> bool | None:
        """Whether the node is shutting down; None while logind is unreachable."""
        return self._preparing

    @property
    def holds_lock(self) -> bool:
        """Whether the agent holds the lock."""
        return self._lock is not None

    @contextlib.asynccontextmanager
    async def running(self, needed_seconds: float) -> AsyncIterator[None]:
        """Listen. At the end of the block this process closes its lock; a copy in the lock store remains."""
        self._lock = self._lock_store.take()
        if self._lock is not None:
            _log.info("shutdown lock taken over from the previous agent")
        try:
            async with tasks.TaskScope("logind", on_exit=tasks.OnExit.CANCEL) as scope:
                scope.start(self._listen(needed_seconds), name="listen")
                await self._ready.wait()
                yield
        finally:
            if self._lock is not None:
                os.close(self._lock)  # a copy in the lock store remains
                self._lock = None

    async def next_announcement(self) -> bool:
        """Wait for the next announcement."""
        return await self._announcements.get()

    async def release(self) -> None:
        """Release the lock and its stored copy."""
        self._released = True
        self._lock_store.remove()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
            _log.info("shutdown lock released")

    async def _listen(self, needed_seconds: float) -> None:
        while True:
            try:
                async with connected(self._places.bus_address, self._clock) as bus:
                    await self._serve(bus, needed_seconds)
                self._set_problem("the connection to the system bus was lost")
            except BusError as error:
                self._set_problem(str(error))
            self._ready.set()
            await self._clock.sleep(_RECONNECT_SECONDS)

    async def _serve(self, bus: Bus, needed_seconds: float) -> None:
        """Handle the signals of one connection until it is lost."""
        signals: asyncio.Queue[bool | None] = asyncio.Queue()  # None: logind restarted
        await bus.subscribe(LOGIND, "PrepareForShutdown", lambda body: _announced(signals, body))
        await bus.subscribe(
            DAEMON,
            "NameOwnerChanged",
            lambda body: signals.put_nowait(None) if body[0] == LOGIND.service and body[2] else None,
            first_argument=LOGIND.service,
        )
        await self._read_preparing(bus)
        async with tasks.TaskScope("logind/connection", on_exit=tasks.OnExit.CANCEL) as scope:
            serving = scope.start(self._handle_signals(bus, signals), name="signals")
            holding = scope.start(self._maintain_lock(bus, needed_seconds), name="hold")
            lost = scope.start(bus.wait_lost(), name="lost")
            await asyncio.wait([serving, holding, lost], return_when=asyncio.FIRST_COMPLETED)

    async def _handle_signals(self, bus: Bus, signals: asyncio.Queue[bool | None]) -> None:
        """Handle signals. Returns when logind does not respond, so that the connection is opened again."""
        while True:
            preparing = await signals.get()
            if preparing is None:
                _log.info("logind restarted")
                try:
                    await self._read_preparing(bus)
                except BusError as error:
                    self._set_problem(str(error))
                    return
            else:
                self._announce(preparing)
                self._ready.set()
            self._changed.set()

    async def _read_preparing(self, bus: Bus) -> None:
        """Read whether logind prepares a shutdown."""
        preparing = bool(await bus.get(LOGIND, "PreparingForShutdown"))
        if self._ready.is_set():
            self._announce(preparing)
        else:
            self._preparing = preparing  # the caller of `running` reads it first

    async def _maintain_lock(self, bus: Bus, needed_seconds: float) -> None:
        """Take the lock, and check it again after every event that may have cost it."""
        pause = _AGAIN_FIRST_SECONDS
        while True:
            self._changed.clear()
            try:
                await self._ensure_lock(bus, needed_seconds)
                pause, again_seconds = _AGAIN_FIRST_SECONDS, None
            except BusError as error:
                self._set_problem(str(error))
                pause, again_seconds = min(2 * pause, _AGAIN_MOST_SECONDS), pause
            self._ready.set()
            with contextlib.suppress(TimeoutError):
                async with self._clock.timeout(again_seconds):
                    await self._changed.wait()

    def _announce(self, preparing: bool) -> None:  # noqa: FBT001 - the only argument
        """Pass a change on, once."""
        if not preparing:
            self._released = False
        if preparing is self._preparing:
            return
        # After a start without logind, False is a change too: the state file may contain a shutdown.
        self._preparing = preparing
        self._announcements.put_nowait(preparing)

    async def _ensure_lock(self, bus: Bus, needed_seconds: float) -> None:
        """Take the lock and raise its maximum delay.

        Raises:
            BusError: logind does not grant it; the caller retries.
        """
        if self._preparing:
            # logind grants no lock now, and an existing lock must not be replaced.
            self._set_problem(_LOST if self._lock is None and not self._released else "")
            return
        await self._take_lock(bus)
        problem = await self._raise_delay(bus, needed_seconds)
        await self._take_lock(bus)  # the reload of logind may have dropped it
        self._set_problem(problem)

    async def _take_lock(self, bus: Bus) -> None:
        """Take the lock, unless the agent has one that logind lists."""
        if self._lock is not None and await _is_listed(bus):
            return
        (lock,) = await bus.call(LOGIND, "Inhibit", "ssss", "shutdown", WHO, _WHY, "delay")
        if self._lock is not None:
            os.close(self._lock)
        self._lock = lock
        self._lock_store.remove()
        self._lock_store.store(lock)
        _log.info("shutdown lock acquired")

    async def _raise_delay(self, bus: Bus, needed_seconds: float) -> str:
        """Raise InhibitDelayMaxSec if it is too short; return the problem if that fails."""
        if await _delay_seconds(bus) >= needed_seconds:
            return ""
        allowed = math.ceil(needed_seconds)
        try:
            await asyncio.to_thread(self._write_drop_in, allowed)
        except OSError as error:
            return f"cannot raise InhibitDelayMaxSec to {allowed} s: {error}"
        try:
            await bus.call(SYSTEMD, "KillUnit", "ssi", "systemd-logind.service", "all", _SIGHUP)
        except BusError as error:
            return f"logind cannot be reloaded to wait {allowed} s: {error}"
        pause = _RELOAD_FIRST_SECONDS
        for _ in range(_RELOAD_ATTEMPTS):
            if await _delay_seconds(bus) >= needed_seconds:
                _log.info("InhibitDelayMaxSec raised", seconds=allowed)
                return ""
            await self._clock.sleep(pause)
            pause *= 2
        delay = await _delay_seconds(bus)
        return (
            f"logind waits {delay:g} s at most and pods may need {needed_seconds:g} s; InhibitDelayMaxSec in "
            f"{self._places.drop_ins / _DROP_IN} did not change that after {_RELOAD_ATTEMPTS} attempts"
        )

    def _write_drop_in(self, seconds: int) -> None:
        self._places.drop_ins.mkdir(mode=0o755, parents=True, exist_ok=True)
        text = (
            "# Written by fairlead agent: the time that pods may need to terminate.\n"
            f"[Login]\nInhibitDelayMaxSec={seconds}\n"
        )
        files.write_atomically(self._places.drop_ins / _DROP_IN, text.encode(), mode=0o644)

    def _set_problem(self, problem: str) -> None:
        if problem and problem != self.problem and not self._released:  # in a released shutdown the bus stops too
            _log.error("the node may shut down before its pods end", problem=problem)
        self.problem = problem


def _announced(signals: asyncio.Queue[bool | None], body: Sequence[Any]) -> None:
    if body and isinstance(body[0], bool):
        signals.put_nowait(body[0])


async def _delay_seconds(bus: Bus) -> float:
    return float(await bus.get(LOGIND, "InhibitDelayMaxUSec")) / 1e6


async def _is_listed(bus: Bus) -> bool:
    (inhibitors,) = await bus.call(LOGIND, "ListInhibitors")
    return any(who == WHO and "shutdown" in what.split(":") for what, who, *_ in inhibitors)
