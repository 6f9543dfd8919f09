"""The system's message bus: calling, reading properties, hearing signals. Everything about D-Bus itself is here."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kube_fairlead.base.clock import Clock

if TYPE_CHECKING:
    from dbus_fast import Message
    from dbus_fast.aio import MessageBus

__all__ = ["BUS_ADDRESS", "Bus", "BusError", "Peer", "connected"]

BUS_ADDRESS: Final = "unix:path=/run/dbus/system_bus_socket"
_CALL_SECONDS: Final = 10.0


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


class Bus:
    """A connection. It is good until `wait_lost` returns."""

    def __init__(self, connection: MessageBus, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def call(self, peer: Peer, member: str, signature: str = "", *arguments: Any) -> list[Any]:
        """Call a method; what it returns. File descriptors in it are this process's own from now on."""
        from dbus_fast import Message

        message = Message(
            destination=peer.service,
            path=peer.path,
            interface=peer.interface,
            member=member,
            signature=signature,
            body=list(arguments),
        )
        reply = await self._exchange(message, f"{peer.service} {member}")
        handles = list(reply.unix_fds)
        return [
            handles[value] if kind.token == "h" else value  # noqa: S105 - the D-Bus sign for a file descriptor
            for kind, value in zip(reply.signature_tree.types, reply.body, strict=True)
        ]

    async def get(self, peer: Peer, name: str) -> Any:
        """Read a property, past every cache."""
        properties = Peer(peer.service, peer.path, "org.freedesktop.DBus.Properties")
        (value,) = await self.call(properties, "Get", "ss", peer.interface, name)
        return value.value

    async def hear(self, rule: str, member: str, listener: Callable[[Sequence[Any]], None]) -> None:
        """Have a listener called with the body of every signal of this name that the rule lets through."""
        from dbus_fast import MessageType

        def handle(message: Message) -> None:
            if message.message_type is MessageType.SIGNAL and message.member == member:
                listener(message.body)

        self._connection.add_message_handler(handle)
        daemon = Peer("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
        await self.call(daemon, "AddMatch", "s", f"type='signal',member='{member}',{rule}")

    async def wait_lost(self) -> None:
        """Return when the connection has broken."""
        with contextlib.suppress(Exception):  # however it ended, it ended
            await self._connection.wait_for_disconnect()  # type: ignore[no-untyped-call]  # the library forgot to say

    async def _exchange(self, message: Message, what: str) -> Message:
        from dbus_fast import MessageType
        from dbus_fast.errors import DBusFastError

        try:
            async with self._clock.timeout(_CALL_SECONDS):
                reply: Message | None = await self._connection.call(message)
        except TimeoutError as error:
            raise BusError(f"{what}: no answer for {_CALL_SECONDS:g} s") from error
        except (OSError, EOFError, DBusFastError) as error:
            raise BusError(f"{what}: {error!s}") from error
        if reply is None:
            raise BusError(f"{what}: no answer")
        if reply.message_type is MessageType.ERROR:
            words = str(reply.body[0]) if reply.body else str(reply.error_name)
            raise BusError(f"{what}: {words}", str(reply.error_name))
        return reply


@contextlib.asynccontextmanager
async def connected(address: str, clock: Clock) -> AsyncIterator[Bus]:
    """A connection that lasts as long as the block.

    Raises:
        BusError: the bus is out of reach.
    """
    from dbus_fast.aio import MessageBus
    from dbus_fast.errors import DBusFastError

    connection = MessageBus(bus_address=address, negotiate_unix_fd=True)
    try:
        async with clock.timeout(_CALL_SECONDS):
            await connection.connect()
    except TimeoutError as error:
        raise BusError(f"cannot reach the system bus at {address}: no answer") from error
    except (OSError, EOFError, DBusFastError) as error:
        raise BusError(f"cannot reach the system bus at {address}: {error}") from error
    try:
        yield Bus(connection, clock)
    finally:
        connection.disconnect()
        with contextlib.suppress(Exception):  # however it ended, it ended
            await connection.wait_for_disconnect()  # type: ignore[no-untyped-call]  # the library forgot to say
