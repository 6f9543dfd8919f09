"""A private bus, with a logind that the test controls."""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from kube_fairlead_lab.testing.real import require_real

_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow eavesdrop="true"/>
<allow receive_sender="*"/></policy></busconfig>"""


@contextlib.contextmanager
def private_bus(folder: pathlib.Path) -> Iterator[str]:
    daemon = shutil.which("dbus-daemon")
    require_real("dbus-daemon", present=daemon is not None, remedy="on Debian: apt-get install dbus-daemon")
    config = folder / "bus.conf"
    config.write_text(_CONFIG.format(path=folder / "bus"))
    process = subprocess.Popen(
        [str(daemon), f"--config-file={config}", "--nofork", "--nopidfile", "--print-address"], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()  # it listens when it has said where
        yield f"unix:path={folder / 'bus'}"
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


class FakeLogind:
    """As much of logind as an agent sees."""

    def __init__(self) -> None:
        self.delay_usec = 5_000_000
        self.obeys_reload = True
        self.refuses_reload = False
        self.forgets_at_reload = False  # its locks
        self.refuses_locks = 0  # so many requests for one
        self.held_at_reload: list[str] = []
        self.slow_units: set[str] = set()  # they are started, and do not run
        self.drop_in: pathlib.Path | None = None
        self.preparing = False
        self.calls: list[str] = []
        self.locks: list[tuple[str, int]] = []  # who, and our end of the pipe
        self.units: dict[str, str] = {}
        self._connection: MessageBus | None = None
        self._handed_out: list[int] = []  # our copies, to be closed once they were sent

    @contextlib.asynccontextmanager
    async def on(self, address: str) -> AsyncIterator[FakeLogind]:
        connection = await MessageBus(bus_address=address, negotiate_unix_fd=True).connect()
        connection.add_message_handler(self._handle)
        self._connection = connection
        await connection.request_name("org.freedesktop.systemd1")
        await connection.request_name("org.freedesktop.login1")
        try:
            yield self
        finally:
            connection.disconnect()
            await connection.wait_for_disconnect()  # type: ignore[no-untyped-call]  # the library forgot to say

    def close(self) -> None:
        self.holders()
        for _, end in self.locks:
            os.close(end)
        self.locks.clear()

    def holders(self) -> list[str]:
        """Who still holds a lock: the other end of the pipe is open."""
        while self._handed_out:
            os.close(self._handed_out.pop())
        held = []
        for who, end in self.locks:
            poller = select.poll()
            poller.register(end, select.POLLIN)
            if not any(flags & select.POLLHUP for _, flags in poller.poll(0)):
                held.append(who)
        return held

    async def announce(self, preparing: bool, *body: Any) -> None:
        self.preparing = preparing
        assert self._connection is not None
        signal = Message.new_signal(
            "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "PrepareForShutdown", "b", [preparing]
        )
        await self._connection.send(signal)

    async def restart(self) -> None:
        """Leave the bus for a moment."""
        assert self._connection is not None
        await self._connection.release_name("org.freedesktop.login1")
        await self._connection.request_name("org.freedesktop.login1")

    def _handle(self, message: Message) -> Message | bool | None:
        if message.message_type is not MessageType.METHOD_CALL or message.interface == "org.freedesktop.DBus.Peer":
            return None
        self.calls.append(str(message.member))
        match message.member:
            case "Get":
                return Message.new_method_return(message, "v", [self._property(message)])
            case "Inhibit" if self.preparing:
                words = "The operation inhibition has been requested for is already running"
                return Message.new_error(message, "org.freedesktop.login1.OperationInProgress", words)
            case "Inhibit" if self.refuses_locks:
                self.refuses_locks -= 1
                return Message.new_error(message, "org.freedesktop.DBus.Error.AccessDenied", "Permission denied")
            case "Inhibit":
                ours, theirs = os.pipe()
                self.locks.append((message.body[1], ours))
                self._handed_out.append(theirs)
                return Message.new_method_return(message, "h", [0], [theirs])
            case "ListInhibitors":
                rows = [["shutdown", who, "why", "delay", 0, 1] for who in self.holders()]
                return Message.new_method_return(message, "a(ssssuu)", [rows])
            case "KillUnit" if self.refuses_reload:
                return Message.new_error(message, "org.freedesktop.DBus.Error.AccessDenied", "Access denied")
            case "KillUnit":
                self.held_at_reload = self.holders()
                if self.forgets_at_reload:
                    self.forgets_at_reload = False
                    self.close()
                if self.obeys_reload and self.drop_in is not None:
                    text = self.drop_in.read_text().rpartition("InhibitDelayMaxSec=")[2]
                    self.delay_usec = int(text) * 1_000_000
                return Message.new_method_return(message)
            case "StopUnit" | "StartUnit":
                started = "activating" if message.body[0] in self.slow_units else "active"
                self.units[message.body[0]] = "inactive" if message.member == "StopUnit" else started
                return Message.new_method_return(message, "o", ["/org/freedesktop/systemd1/job/1"])
            case "LoadUnit":
                return Message.new_method_return(message, "o", ["/unit/" + message.body[0].replace(".", "_")])
            case _:
                return None

    def _property(self, message: Message) -> Variant:
        name = message.body[1]
        if name == "InhibitDelayMaxUSec":
            return Variant("t", self.delay_usec)
        if name == "PreparingForShutdown":
            return Variant("b", self.preparing)
        unit = str(message.path).removeprefix("/unit/").replace("_", ".")
        if name == "LoadState":
            return Variant("s", "loaded" if unit in self.units else "not-found")
        return Variant("s", self.units.get(unit, "inactive"))
