"""A connection to a daemon that does what no daemon should. The real daemon is in test_logind_listener."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import socket
from collections.abc import AsyncIterator

import pytest

from kube_fairlead.agent.shutdown import bus, dbus
from kube_fairlead.agent.shutdown.bus import BusError, Peer, connected
from kube_fairlead.agent.shutdown.dbus import Kind, Message
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import RealClock, VirtualClock

PEER = Peer("a.b", "/a", "a.b.C")


class Daemon:
    """One end of a connection, as bytes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.address = f"unix:path={folder / 'bus'}"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "bus"))
        self._listening.listen()
        self._listening.setblocking(False)
        self.opened: socket.socket | None = None
        self.loop = asyncio.get_running_loop()

    async def accept(self, answer: bytes = b"DATA\r\nOK 1234\r\nAGREE_UNIX_FD\r\n") -> None:
        self.opened, _ = await self.loop.sock_accept(self._listening)
        asked = b""
        while not asked.endswith(b"NEGOTIATE_UNIX_FD\r\n"):
            asked += await self.loop.sock_recv(self.opened, 1)
        assert asked.startswith(b"\0AUTH EXTERNAL\r\nDATA\r\n")
        await self.send(answer)

    async def greet(self) -> None:
        """Authenticate the client and answer its Hello."""
        await self.accept()
        assert self.opened is not None
        begin = b""
        while not begin.endswith(b"BEGIN\r\n"):
            begin += await self.loop.sock_recv(self.opened, 1)
        hello = await self.next()
        assert hello.member == "Hello"
        await self.reply(hello, "s", ":1.1")

    async def subscribed(self, owner: str) -> None:
        """Answer the three calls of one subscription."""
        for member in ("AddMatch", "GetNameOwner", "AddMatch"):
            call = await self.next()
            assert call.member == member
            await (self.reply(call, "s", owner) if member == "GetNameOwner" else self.reply(call))

    async def next(self) -> Message:
        assert self.opened is not None
        data = b""
        while len(data) < dbus.HEAD_BYTES or len(data) < dbus.size(data[: dbus.HEAD_BYTES]):
            data += await self.loop.sock_recv(self.opened, 1)
        return dbus.decode(data)

    async def reply(self, call: Message, signature: str = "", *body: object) -> None:
        answer = Message(
            kind=Kind.RETURN, serial=1, reply_serial=call.serial, signature=signature, body=body, wants_reply=False
        )
        await self.send(dbus.encode(answer))

    async def send(self, data: bytes) -> None:
        assert self.opened is not None
        await self.loop.sock_sendall(self.opened, data)

    def close(self) -> None:
        self._listening.close()
        if self.opened is not None:
            self.opened.close()


@pytest.fixture
async def daemon(short_path: pathlib.Path) -> AsyncIterator[Daemon]:
    made = Daemon(short_path)
    try:
        yield made
    finally:
        made.close()


def handle_reply(call: Message) -> bytes:
    """A reply with one descriptor, which the library for tests cannot write."""
    data = bytearray(
        dbus.encode(
            Message(kind=Kind.RETURN, serial=1, reply_serial=call.serial, signature="u", body=(0,), wants_reply=False)
        )
    )
    data[data.index(b"\x01u\x00", 28) + 1] = ord("h")
    # The number of descriptors is one more field of the head: code 9, a variant of u.
    fields = int.from_bytes(data[12:16], "little")
    head, body = data[: 16 + fields], data[16 + fields + -fields % 8 :]
    head += bytes(-len(head) % 8) + b"\x09\x01u\x00" + (1).to_bytes(4, "little")
    head[12:16] = (len(head) - 16).to_bytes(4, "little")
    return bytes(head + bytes(-len(head) % 8) + body)


async def is_closed_elsewhere(reading: int) -> None:
    """Wait until no process has the other end of a pipe."""
    readable = asyncio.Event()
    asyncio.get_running_loop().add_reader(reading, readable.set)
    try:
        await readable.wait()
    finally:
        asyncio.get_running_loop().remove_reader(reading)
    assert os.read(reading, 1) == b""


@pytest.mark.parametrize("is_late", [False, True])
async def test_descriptors_are_the_callers_or_closed(daemon: Daemon, is_late: bool) -> None:
    clock = VirtualClock()
    reading, writing = os.pipe()
    async with tasks.TaskScope("test") as scope:
        greeting = scope.start(daemon.greet(), name="greet")
        async with connected(daemon.address, clock) as made:
            await greeting
            calling = scope.start(outcome(made), name="call")
            call = await daemon.next()
            if is_late:
                await clock.advance(11)
                assert "no answer for 10 s" in str(await calling)
            assert daemon.opened is not None
            socket.send_fds(daemon.opened, [handle_reply(call)], [writing])
            os.close(writing)
            if not is_late:
                received = await calling
                assert isinstance(received, list)
                assert not os.get_inheritable(received[0])
                os.close(received[0])
            await is_closed_elsewhere(reading)
    os.close(reading)


async def outcome(made: bus.Bus) -> object:
    try:
        return await made.call(PEER, "D")
    except BusError as error:
        return error


@pytest.mark.parametrize("sent", [b"", b"x" * 16, b"l\x02\x01\x01\xff\xff\xff\x7f" + bytes(8)])
async def test_a_daemon_that_hangs_up_or_talks_nonsense_is_lost(daemon: Daemon, sent: bytes) -> None:
    async with tasks.TaskScope("test") as scope:
        greeting = scope.start(daemon.greet(), name="greet")
        async with connected(daemon.address, RealClock()) as made:
            await greeting
            calling = scope.start(outcome(made), name="call")
            await daemon.next()
            if sent:
                await daemon.send(sent)
            else:
                daemon.close()
            await made.wait_lost()
            assert str(await calling) == "a.b D: the connection to the bus was lost"
            assert "was lost" in str(await outcome(made))


async def test_signals_come_in_any_pieces_and_calls_are_refused(daemon: Daemon) -> None:
    heard: list[object] = []
    signal = dbus.encode(
        Message(
            kind=Kind.SIGNAL,
            serial=5,
            path="/a",
            interface="a.b.C",
            member="S",
            sender=":1.7",
            signature="b",
            body=(True,),
        )
    )
    call = dbus.encode(Message(kind=Kind.CALL, serial=6, path="/a", member="Ping", sender=":1.9"))
    async with tasks.TaskScope("test") as scope:
        greeting = scope.start(daemon.greet(), name="greet")
        async with connected(daemon.address, RealClock()) as made:
            await greeting
            hearing = scope.start(made.subscribe(PEER, "S", heard.append), name="hear")
            await daemon.subscribed(":1.7")
            await hearing
            for byte in signal + call:
                await daemon.send(bytes([byte]))
            refusal = await daemon.next()
    assert heard == [[True]]
    assert (refusal.kind, refusal.reply_serial, refusal.destination) == (Kind.ERROR, 6, ":1.9")
    assert refusal.error_name == "org.freedesktop.DBus.Error.UnknownMethod"


async def test_only_the_owner_of_a_service_is_believed(daemon: Daemon) -> None:
    """Any user may send this process a signal; the bus daemon says who sent it."""
    heard: list[object] = []

    def signal(sender: str, text: str, path: str = "/a", interface: str = "a.b.C") -> bytes:
        message = Message(
            kind=Kind.SIGNAL,
            serial=5,
            sender=sender,
            path=path,
            interface=interface,
            member="S",
            signature="s",
            body=(text,),
        )
        return dbus.encode(message)

    def owner(sender: str, name: str) -> bytes:
        message = Message(
            kind=Kind.SIGNAL,
            serial=5,
            sender=sender,
            path=bus.DAEMON.path,
            interface=bus.DAEMON.interface,
            member="NameOwnerChanged",
            signature="sss",
            body=("a.b", ":1.7", name),
        )
        return dbus.encode(message)

    async with tasks.TaskScope("test") as scope:
        greeting = scope.start(daemon.greet(), name="greet")
        async with connected(daemon.address, RealClock()) as made:
            await greeting
            hearing = scope.start(made.subscribe(PEER, "S", heard.append), name="hear")
            await daemon.subscribed(":1.7")
            await hearing
            await daemon.send(signal(":1.8", "another sender"))
            await daemon.send(signal(":1.7", "another object", path="/b"))
            await daemon.send(signal(":1.7", "another interface", interface="a.b.D"))
            await daemon.send(owner(":1.8", ":1.8"))  # only the daemon says who owns a name
            await daemon.send(signal(":1.8", "still another sender"))
            await daemon.send(signal(":1.7", "first"))
            await daemon.send(owner("org.freedesktop.DBus", ":1.9"))
            await daemon.send(signal(":1.7", "the process before"))
            await daemon.send(signal(":1.9", "second"))
            await daemon.send(dbus.encode(Message(kind=Kind.CALL, serial=6, path="/a", member="Ping", sender=":1.9")))
            await daemon.next()  # everything before has been read
    assert heard == [["first"], ["second"]]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"REJECTED EXTERNAL\r\n", "it refused the connection: REJECTED EXTERNAL"),
        (b"DATA\r\nOK 1\r\nERROR\r\n", "it refused the connection: ERROR"),
        (b"x" * 20_000, "it closed the connection"),
    ],
)
async def test_a_daemon_that_refuses(daemon: Daemon, answer: bytes, words: str) -> None:
    async with tasks.TaskScope("test") as scope:
        scope.start(daemon.accept(answer), name="accept")
        with pytest.raises(BusError) as caught:
            async with connected(daemon.address, RealClock()):
                pass
    assert str(caught.value) == f"cannot reach the system bus at {daemon.address}: {words}"


async def test_a_daemon_that_is_silent(daemon: Daemon) -> None:
    clock = VirtualClock()
    async with tasks.TaskScope("test") as scope:
        trying = scope.start(attempt(daemon.address, clock), name="connect")
        await daemon.accept(b"DATA\r\n")
        await clock.advance(11)
        assert "no answer" in await trying


async def attempt(address: str, clock: VirtualClock) -> str:
    with contextlib.suppress(BusError):
        try:
            async with connected(address, clock):
                return ""
        except BusError as error:
            return str(error)
    return ""


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("unix:path=/run/dbus/system_bus_socket", "/run/dbus/system_bus_socket"),
        ("unix:path=/a%20b,guid=1", "/a b"),
        ("unix:abstract=x", "\0x"),
        ("tcp:host=h,port=1;unix:path=/a", "/a"),
    ],
)
def test_addresses(address: str, path: str) -> None:
    assert bus._path_of(address) == path


async def test_an_address_that_is_none() -> None:
    with pytest.raises(BusError, match="tcp:host=h: it is not the address of a socket"):
        async with connected("tcp:host=h", RealClock()):
            pass
