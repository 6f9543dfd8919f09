"""Hearing a Linux machine go down, from systemd-logind over D-Bus.

A delay lock makes logind wait, for `InhibitDelayMaxSec` at most; where that is too short a drop-in file raises it. The
lock comes first, so that there is no moment without one, and is asked for until it is had.
The signal PrepareForShutdown tells of the beginning and of a cancellation. The property PreparingForShutdown tells the
same to whoever comes later, and is read at every connection: a signal that nobody was there to hear is not lost.

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

from kube_fairlead.agent.shutdown.bus import BUS_ADDRESS, Bus, BusError, Peer, connected
from kube_fairlead.agent.shutdown.lock_store import LockStore, NoLockStore
from kube_fairlead.base import files, logs, tasks
from kube_fairlead.base.clock import Clock

__all__ = ["LOGIND", "SYSTEMD", "WHO", "LogindListener", "LogindPlaces"]

LOGIND: Final = Peer("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
SYSTEMD: Final = Peer("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")

WHO: Final = "fairlead-agent"
_LOST: Final = "the machine is going down and does not wait for us: the shutdown lock was lost"
_WHY: Final = "Pods of this node end in order before it goes down"
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
    """Where things are on this machine; elsewhere for an agent in a container that sees its host under a folder."""

    bus_address: str = BUS_ADDRESS
    drop_ins: Path = Path("/etc/systemd/logind.conf.d")


class LogindListener:
    """A `ShutdownListener` at logind. `problem` says what keeps it from its duty, if something does."""

    def __init__(self, clock: Clock, keeper: LockStore | None = None, places: LogindPlaces | None = None) -> None:
        self._clock = clock
        self._keeper = keeper or NoLockStore()
        self._places = places or LogindPlaces()
        self._words: asyncio.Queue[bool] = asyncio.Queue()
        self._known = asyncio.Event()
        self._stirred = asyncio.Event()  # something happened that may have cost us the lock
        self._preparing: bool | None = None
        self._lock: int | None = None
        self._released = False  # the machine was let go; it is not held up again before the shutdown is called off
        self.problem = ""

    @property
    def preparing(self) -> bool | None:
        """Whether the machine is going down; None as long as logind was not reached."""
        return self._preparing

    @property
    def holds_lock(self) -> bool:
        """Whether the machine waits for us."""
        return self._lock is not None

    @contextlib.asynccontextmanager
    async def running(self, needed_seconds: float) -> AsyncIterator[None]:
        """Listen. At the end of the block this process lets the lock go; whoever keeps a copy of it does not."""
        self._lock = self._keeper.recall()
        if self._lock is not None:
            _log.info("has the shutdown lock of the agent before it")
        try:
            async with tasks.TaskScope("logind", on_exit=tasks.OnExit.CANCEL) as scope:
                scope.start(self._listen(needed_seconds), name="listen")
                await self._known.wait()
                yield
        finally:
            if self._lock is not None:
                os.close(self._lock)  # whoever keeps a copy still does
                self._lock = None

    async def next_word(self) -> bool:
        """The next announcement."""
        return await self._words.get()

    async def release(self) -> None:
        """Let the machine go down."""
        self._released = True
        self._keeper.drop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
            _log.info("released the shutdown lock")

    async def _listen(self, needed_seconds: float) -> None:
        while True:
            try:
                async with connected(self._places.bus_address, self._clock) as bus:
                    await self._serve(bus, needed_seconds)
                self._trouble("the connection to the system bus was lost")
            except BusError as error:
                self._trouble(str(error))
            self._known.set()
            await self._clock.sleep(_RECONNECT_SECONDS)

    async def _serve(self, bus: Bus, needed_seconds: float) -> None:
        """Hear everything that comes over one connection, until it breaks."""
        signals: asyncio.Queue[bool | None] = asyncio.Queue()  # None: logind is another now
        await bus.hear(
            f"sender='{LOGIND.service}',path='{LOGIND.path}',interface='{LOGIND.interface}'",
            "PrepareForShutdown",
            lambda body: _announced(signals, body),
        )
        await bus.hear(
            f"sender='org.freedesktop.DBus',arg0='{LOGIND.service}'",
            "NameOwnerChanged",
            lambda body: signals.put_nowait(None) if body[0] == LOGIND.service and body[2] else None,
        )
        await self._ask(bus)
        async with tasks.TaskScope("logind/connection", on_exit=tasks.OnExit.CANCEL) as scope:
            serving = scope.start(self._obey(bus, signals), name="signals")
            holding = scope.start(self._hold(bus, needed_seconds), name="hold")
            lost = scope.start(bus.wait_lost(), name="lost")
            await asyncio.wait([serving, holding, lost], return_when=asyncio.FIRST_COMPLETED)

    async def _obey(self, bus: Bus, signals: asyncio.Queue[bool | None]) -> None:
        """Pass on what is heard. Returns when logind does not answer: then everything begins anew."""
        while True:
            word = await signals.get()
            if word is None:
                _log.info("logind was restarted")
                try:
                    await self._ask(bus)
                except BusError as error:
                    self._trouble(str(error))
                    return
            else:
                self._say(word)
                self._known.set()
            self._stirred.set()

    async def _ask(self, bus: Bus) -> None:
        """Find out where things stand."""
        preparing = bool(await bus.get(LOGIND, "PreparingForShutdown"))
        if self._known.is_set():
            self._say(preparing)
        else:
            self._preparing = preparing  # whoever started us asks for it

    async def _hold(self, bus: Bus, needed_seconds: float) -> None:
        """See to it that the machine waits for us, now and whenever something has stirred."""
        pause = _AGAIN_FIRST_SECONDS
        while True:
            self._stirred.clear()
            try:
                await self._hold_up(bus, needed_seconds)
                pause, again_seconds = _AGAIN_FIRST_SECONDS, None
            except BusError as error:
                self._trouble(str(error))
                pause, again_seconds = min(2 * pause, _AGAIN_MOST_SECONDS), pause
            self._known.set()
            with contextlib.suppress(TimeoutError):
                async with self._clock.timeout(again_seconds):
                    await self._stirred.wait()

    def _say(self, preparing: bool) -> None:  # noqa: FBT001 - the one thing there is to say
        """Pass a word on, once."""
        if not preparing:
            self._released = False
        if preparing is self._preparing:
            return
        # After a start without logind that it does not go down is news too: a disk may have said that it does.
        self._preparing = preparing
        self._words.put_nowait(preparing)

    async def _hold_up(self, bus: Bus, needed_seconds: float) -> None:
        """Have the lock, and one that lasts long enough.

        Raises:
            BusError: there is none to be had; it is worth trying again.
        """
        if self._preparing:
            # No lock is to be had now, and none that we have is to be tried out.
            self._trouble(_LOST if self._lock is None and not self._released else "")
            return
        await self._take(bus)
        trouble = await self._lengthen(bus, needed_seconds)
        await self._take(bus)  # it may not have outlived what logind was told
        self._trouble(trouble)

    async def _take(self, bus: Bus) -> None:
        """Take the lock, unless we have one that logind knows of."""
        if self._lock is not None and await _is_listed(bus):
            return
        (lock,) = await bus.call(LOGIND, "Inhibit", "ssss", "shutdown", WHO, _WHY, "delay")
        if self._lock is not None:
            os.close(self._lock)
        self._lock = lock
        self._keeper.drop()
        self._keeper.keep(lock)
        _log.info("took the shutdown lock")

    async def _lengthen(self, bus: Bus, needed_seconds: float) -> str:
        """Have logind wait long enough; where it does not, what is the matter."""
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
            return f"logind cannot be told to wait {allowed} s: {error}"
        pause = _RELOAD_FIRST_SECONDS
        for _ in range(_RELOAD_ATTEMPTS):
            if await _delay_seconds(bus) >= needed_seconds:
                _log.info("logind waits longer now", seconds=allowed)
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
            f"# Written by fairlead agent: its pods may need this long to end.\n[Login]\nInhibitDelayMaxSec={seconds}\n"
        )
        files.write_atomically(self._places.drop_ins / _DROP_IN, text.encode(), mode=0o644)

    def _trouble(self, what: str) -> None:
        if what and what != self.problem and not self._released:  # a machine that was let go takes its bus down too
            _log.error("the machine may not wait for its pods", problem=what)
        self.problem = what


def _announced(signals: asyncio.Queue[bool | None], body: Sequence[Any]) -> None:
    if body and isinstance(body[0], bool):
        signals.put_nowait(body[0])


async def _delay_seconds(bus: Bus) -> float:
    return float(await bus.get(LOGIND, "InhibitDelayMaxUSec")) / 1e6


async def _is_listed(bus: Bus) -> bool:
    (inhibitors,) = await bus.call(LOGIND, "ListInhibitors")
    return any(who == WHO and "shutdown" in what.split(":") for what, who, *_ in inhibitors)
