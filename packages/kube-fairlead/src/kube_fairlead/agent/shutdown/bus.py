"""The system's message bus: calling, reading properties, hearing signals. `dbus` has its messages as bytes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import struct
import urllib.parse
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from kube_fairlead.agent.shutdown import dbus
from kube_fairlead.agent.shutdown.dbus import Kind, Message
from kube_fairlead.base.clock import Clock

__all__ = ["BUS_ADDRESS", "DAEMON", "Bus", "BusError", "Peer", "connected"]

BUS_ADDRESS: Final = "unix:path=/run/dbus/system_bus_socket"
_CALL_SECONDS: Final = 10.0
_READ_BYTES: Final = 64 << 10
_DESCRIPTORS_MAX: Final = 16  # of one reading
_LINE_BYTES_MAX: Final = 16 << 10
_OWNER_CHANGED: Final = "NameOwnerChanged"
_UNKNOWN_METHOD: Final = "org.freedesktop.DBus.Error.UnknownMethod"


class BusError(Exception):
    """Raised when the bus is out of reach, or a call on it fails; then `name` is the D-Bus name of the error."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class Peer:
    """One interface of one object of one service."""

    __slots__ = ("interface", "path", "service")

    def __init__(self, service: str, path: str, interface: str) -> None:
        self.service = service
        self.path = path
        self.interface = interface


DAEMON: Final = Peer("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")


class Bus:
    """A connection. It is good until `wait_lost` returns."""

    def __init__(self, connection: _Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def call(self, peer: Peer, member: str, signature: str = "", *arguments: Any) -> list[Any]:
        """Call a method; what it returns. File descriptors in it are this process's own from now on."""
        what = f"{peer.service} {member}"
        try:
            async with self._clock.timeout(_CALL_SECONDS):
                reply = await self._connection.call(peer, member, signature, arguments)
        except TimeoutError as error:
            raise BusError(f"{what}: no answer for {_CALL_SECONDS:g} s") from error
        except OSError as error:
            raise BusError(f"{what}: {error.strerror or error}") from error
        if reply.kind is Kind.ERROR:
            words = str(reply.body[0]) if reply.body else reply.error_name
            raise BusError(f"{what}: {words}", reply.error_name)
        return list(reply.body)

    async def get(self, peer: Peer, name: str) -> Any:
        """Read a property, past every cache."""
        properties = Peer(peer.service, peer.path, "org.freedesktop.DBus.Properties")
        (value,) = await self.call(properties, "Get", "ss", peer.interface, name)
        return value

    async def subscribe(
        self, peer: Peer, member: str, listener: Callable[[Sequence[Any]], None], *, first_argument: str = ""
    ) -> None:
        """Have a listener called with the body of every signal of this name that this peer sends.

        Every user of the machine can send a signal to this process, whatever the match rules are. Only the sender,
        which the bus daemon fills in, proves that it is the peer's.
        """
        if peer.service != DAEMON.service:
            await self._follow_owner(peer.service)
        self._connection.listeners.append((peer, member, listener))
        only = f",arg0='{first_argument}'" if first_argument else ""
        where = f"sender='{peer.service}',path='{peer.path}',interface='{peer.interface}'"
        await self.call(DAEMON, "AddMatch", "s", f"type='signal',member='{member}',{where}{only}")

    async def _follow_owner(self, service: str) -> None:
        """Know the unique name of a service's process, from now on."""
        owners = self._connection.owners
        owners[service] = ""
        where = f"sender='{DAEMON.service}',path='{DAEMON.path}',interface='{DAEMON.interface}'"
        await self.call(DAEMON, "AddMatch", "s", f"type='signal',member='{_OWNER_CHANGED}',{where},arg0='{service}'")
        with contextlib.suppress(BusError):  # it does not run yet
            (owner,) = await self.call(DAEMON, "GetNameOwner", "s", service)
            owners[service] = owners[service] or str(owner)

    async def wait_lost(self) -> None:
        """Return when the connection has broken."""
        await self._connection.lost.wait()


@contextlib.asynccontextmanager
async def connected(address: str, clock: Clock) -> AsyncIterator[Bus]:
    """A connection that lasts as long as the block.

    Raises:
        BusError: the bus is out of reach.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as opened:
        opened.setblocking(False)
        try:
            async with clock.timeout(_CALL_SECONDS):
                await asyncio.get_running_loop().sock_connect(opened, _path_of(address))
                await _authenticate(opened)
        except TimeoutError as error:
            raise BusError(f"cannot reach the system bus at {address}: no answer") from error
        except OSError as error:
            raise BusError(f"cannot reach the system bus at {address}: {error.strerror or error}") from error
        connection = _Connection(opened)
        connection.start()
        try:
            bus = Bus(connection, clock)
            await bus.call(DAEMON, "Hello")
            yield bus
        finally:
            connection.stop()


def _path_of(address: str) -> str:
    """The socket of the first address that is one."""
    for one in address.split(";"):
        transport, _, rest = one.partition(":")
        options = dict(option.partition("=")[::2] for option in rest.split(","))
        if transport == "unix" and options.get("path"):
            return urllib.parse.unquote(options["path"])
        if transport == "unix" and options.get("abstract"):
            return "\0" + urllib.parse.unquote(options["abstract"])
    raise OSError(0, "it is not the address of a socket")


async def _authenticate(opened: socket.socket) -> None:
    """As the user that the kernel says this process is; a name of ours would be wrong in a user namespace."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(opened, b"\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\n")
    for expected in (b"DATA", b"OK ", b"AGREE_UNIX_FD"):
        line = b""
        while not line.endswith(b"\r\n"):
            # Byte by byte, because what follows the last line may come with descriptors.
            byte = await loop.sock_recv(opened, 1)
            if not byte or len(line) > _LINE_BYTES_MAX:
                raise ConnectionResetError(0, "it closed the connection")
            line += byte
        if not line.startswith(expected):
            raise PermissionError(0, f"it refused the connection: {line.decode('latin-1').strip()}")
    await loop.sock_sendall(opened, b"BEGIN\r\n")


class _Connection:
    """Reads messages as they arrive, and gives each reply to its call."""

    def __init__(self, opened: socket.socket) -> None:
        self.lost = asyncio.Event()
        self.listeners: list[tuple[Peer, str, Callable[[Sequence[Any]], None]]] = []
        self.owners: dict[str, str] = {}  # the unique name of each service's process; empty: it does not run
        self._socket = opened
        self._loop = asyncio.get_running_loop()
        self._serials = itertools.count(1)
        self._calls: dict[int, asyncio.Future[tuple[Message, list[int]]]] = {}
        self._sending = asyncio.Lock()
        self._buffer = bytearray()
        self._descriptors: list[int] = []  # that arrived, and whose message has not

    def start(self) -> None:
        """Read from now on."""
        self._loop.add_reader(self._socket, self._readable)

    def stop(self) -> None:
        """Read no more. Calls under way fail."""
        if self.lost.is_set():
            return
        self.lost.set()
        self._loop.remove_reader(self._socket)
        _close(self._descriptors)
        for waiting in self._calls.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError(0, "the connection to the bus was lost"))

    async def call(self, peer: Peer, member: str, signature: str, arguments: Sequence[Any]) -> Message:
        """Send a call and wait for its reply."""
        if self.lost.is_set():
            raise ConnectionResetError(0, "the connection to the bus was lost")
        serial = next(self._serials)
        message = Message(
            kind=Kind.CALL,
            serial=serial,
            destination=peer.service,
            path=peer.path,
            interface=peer.interface,
            member=member,
            signature=signature,
            body=arguments,
        )
        reply: asyncio.Future[tuple[Message, list[int]]] = self._loop.create_future()
        self._calls[serial] = reply
        try:
            async with self._sending:
                await self._loop.sock_sendall(self._socket, dbus.encode(message))
            answer, _ = await reply
        except BaseException:
            # The reply may have come in the moment of a cancellation. A shutdown lock in it must not stay open.
            if reply.done() and not reply.cancelled() and reply.exception() is None:
                _close(reply.result()[1])
            raise
        finally:
            del self._calls[serial]
        return answer

    def _readable(self) -> None:
        try:
            # Not socket.recv_fds, which leaves out the flag: children must not inherit a shutdown lock.
            data, ancillary, _, _ = self._socket.recvmsg(
                _READ_BYTES, socket.CMSG_SPACE(_DESCRIPTORS_MAX * 4), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except OSError:
            self.stop()
            return
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._descriptors += struct.unpack(f"{len(content) // 4}i", content[: len(content) // 4 * 4])
        self._buffer += data
        try:
            while len(self._buffer) >= dbus.HEAD_BYTES:
                length = dbus.size(bytes(self._buffer[: dbus.HEAD_BYTES]))
                if len(self._buffer) < length:
                    break
                whole = bytes(self._buffer[:length])
                del self._buffer[:length]
                self._take(whole)
        except dbus.MalformedMessage:
            data = b""
        if not data:
            self.stop()

    def _take(self, data: bytes) -> None:
        count = dbus.descriptor_count(data)
        own, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        try:
            message = dbus.decode(data, own)
        except dbus.MalformedMessage:
            _close(own)
            raise
        reply = self._calls.get(message.reply_serial)
        if message.kind in {Kind.RETURN, Kind.ERROR} and reply is not None and not reply.done():
            reply.set_result((message, own))
            return
        _close(own)
        if message.kind is Kind.SIGNAL:
            self._signal(message)
        elif message.kind is Kind.CALL and message.wants_reply:
            self._refuse(message)

    def _signal(self, signal: Message) -> None:
        daemon = DAEMON.service
        if (signal.sender, signal.interface, signal.member) == (daemon, DAEMON.interface, _OWNER_CHANGED):
            name, _, owner = signal.body
            if name in self.owners:
                self.owners[name] = owner
        for peer, member, listener in list(self.listeners):
            sender = daemon if peer.service == daemon else self.owners.get(peer.service, "")
            expected = (sender, peer.path, peer.interface, member)
            if sender and (signal.sender, signal.path, signal.interface, signal.member) == expected:
                listener(signal.body)

    def _refuse(self, call: Message) -> None:
        """Nothing of ours can be called; a peer that asks must not wait. If there is no room to say so, it must."""
        refusal = Message(
            kind=Kind.ERROR,
            serial=next(self._serials),
            reply_serial=call.serial,
            destination=call.sender,
            error_name=_UNKNOWN_METHOD,
            signature="s",
            body=("this process has no methods",),
            wants_reply=False,
        )
        if not self._sending.locked():
            with contextlib.suppress(OSError):
                self._socket.send(dbus.encode(refusal))


def _close(descriptors: list[int]) -> None:
    while descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptors.pop())
