"""Whatever listens on the socket: a call ends in an answer or a DriverError, soon, and without eating memory."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import h2.config
import h2.connection
import h2.errors
import h2.events
import hyperframe.frame
import pytest

from kube_fairlead.driverapi import codec, contracts, errors
from kube_fairlead.driverapi.grpc_channel import GrpcDriverChannel
from kube_fairlead.driverapi.messages import Progress, Reached
from tests.unit.driverapi.scripted import WORK

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = [("grpc-status", "0")]
GRPC = [(":status", "200"), ("content-type", "application/grpc")]


@contextlib.asynccontextmanager
async def listening(path: pathlib.Path, peer: Peer) -> AsyncIterator[GrpcDriverChannel]:
    serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
    accepted = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving[task] = writer
        accepted.set()
        with contextlib.suppress(OSError):
            await peer(reader, writer)
        writer.close()

    server = await asyncio.start_unix_server(serve, str(path))
    async with server:
        yield GrpcDriverChannel(str(path))
        await accepted.wait()
    for task, writer in serving.items():
        writer.transport.abort()
        task.cancel()
    await asyncio.wait(serving)
    await asyncio.sleep(0)


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


async def request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[h2.connection.H2Connection, int]:
    """Be a proper HTTP/2 server until the request is complete."""
    connection = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, validate_outbound_headers=False, normalize_outbound_headers=False)
    )
    connection.initiate_connection()
    writer.write(connection.data_to_send())
    while data := await reader.read(65536):
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.StreamEnded):
                return connection, event.stream_id
        writer.write(connection.data_to_send())
    raise ConnectionResetError


def answering(*parts: bytes | Sequence[tuple[str, str | bytes]]) -> Peer:
    """Headers, messages and trailers as given; the last headers end the stream."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, stream = await request(reader, writer)
        for number, part in enumerate(parts, 1):
            last = number == len(parts)
            if isinstance(part, bytes):
                for start in range(0, len(part), 16384):
                    connection.send_data(stream, part[start : start + 16384])
                if last:
                    connection.end_stream(stream)
            else:
                connection.send_headers(stream, part, end_stream=last)
        writer.write(connection.data_to_send())
        await reader.read()

    return peer


def raw(data: bytes, *, wait: bool = True) -> Peer:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        if wait:
            await reader.read()

    return peer


async def resetting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection, stream = await request(reader, writer)
    connection.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
    writer.write(connection.data_to_send())
    await reader.read()


async def leaving(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection, _ = await request(reader, writer)
    connection.close_connection()
    writer.write(connection.data_to_send())
    await reader.read()


STARTED = codec.encode_reached(Reached(state="Rebooting", node_name="node-1")).SerializeToString()
SETTINGS = hyperframe.frame.SettingsFrame(0).serialize()


@pytest.mark.parametrize(
    ("peer", "error"),
    [
        pytest.param(raw(b"", wait=False), errors.DriverGone, id="closes at once"),
        pytest.param(raw(b"\xff" * 4096), errors.DriverMisbehaved, id="garbage"),
        pytest.param(raw(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20), errors.DriverMisbehaved, id="HTTP/1.1"),
        pytest.param(raw(SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"), errors.DriverMisbehaved, id="huge frame"),
        pytest.param(raw(SETTINGS, wait=False), errors.DriverGone, id="settings and no more"),
        pytest.param(answering(GRPC, b"\x00\x00"), errors.DriverMisbehaved, id="half a prefix"),
        pytest.param(answering(GRPC, b"\0\0\0\0\x09abc", OK), errors.DriverMisbehaved, id="half a message"),
        pytest.param(answering(GRPC, b"\0\xff\xff\xff\xff", OK), errors.DriverMisbehaved, id="4 GiB announced"),
        pytest.param(answering(GRPC, b"\x01\0\0\0\x01x", OK), errors.DriverMisbehaved, id="compressed"),
        pytest.param(answering(GRPC, framed(b"\xff\xff\xff"), OK), errors.DriverMisbehaved, id="no protobuf"),
        pytest.param(answering(GRPC, framed(b"\x0a\x03\xff\xfe\xfd"), OK), errors.DriverMisbehaved, id="no UTF-8"),
        pytest.param(answering(GRPC, framed(STARTED) * 2, OK), errors.DriverMisbehaved, id="answers twice"),
        pytest.param(answering(GRPC, OK), errors.DriverMisbehaved, id="answers nothing"),
        pytest.param(answering(GRPC, framed(STARTED)), errors.DriverMisbehaved, id="no trailers"),
        pytest.param(answering(GRPC, framed(STARTED), [("x", "y")]), errors.DriverMisbehaved, id="no status"),
        pytest.param(answering(GRPC, [("grpc-status", "²")]), errors.DriverMisbehaved, id="odd status"),
        pytest.param(answering(GRPC, [("grpc-status", "99")]), errors.DriverMisbehaved, id="unknown status"),
        pytest.param(answering([(":status", "404")]), errors.DriverMisbehaved, id="404"),
        pytest.param(
            answering([(":status", "200"), ("content-type", "text/html")], b"<html>"),
            errors.DriverMisbehaved,
            id="html",
        ),
        pytest.param(answering([*GRPC, ("grpc-status", "12")]), errors.DriverMisbehaved, id="unimplemented"),
        pytest.param(answering([*GRPC, ("grpc-status", "14")]), errors.DriverGone, id="unavailable"),
        pytest.param(answering([*GRPC, ("grpc-status", "4")]), errors.DriverGone, id="deadline"),
        pytest.param(answering([*GRPC, ("grpc-status", "9")]), errors.DriverRefused, id="refused without words"),
        pytest.param(answering(GRPC, framed(STARTED), [("grpc-status", "13")]), errors.DriverRefused, id="fails after"),
        pytest.param(
            answering([*GRPC, ("grpc-status", "9"), ("grpc-message", b"ger\xe4t")]),
            errors.DriverRefused,
            id="words in Latin-1",
        ),
        pytest.param(resetting, errors.DriverMisbehaved, id="resets"),
        pytest.param(leaving, errors.DriverGone, id="goes away"),
        pytest.param(answering([*GRPC, *[("x", "y" * 4000)] * 100]), errors.DriverMisbehaved, id="headers without end"),
    ],
)
async def test_no_start_of_theirs_is_believed(short_path: pathlib.Path, peer: Peer, error: type[Exception]) -> None:
    async with listening(short_path / "s", peer) as channel:
        with pytest.raises(error):
            await channel.start(WORK)


def end_message(**content: object) -> bytes:
    answer = contracts.message("fairlead.lifecycle.v1alpha1.EndLifecycleTransitionResponse")
    return framed(answer(**content).SerializeToString())


RESULT = end_message(result=codec.encode_reached(Reached(state="Rebooted", node_name="node-1")))


@pytest.mark.parametrize(
    ("peer", "error"),
    [
        pytest.param(answering(GRPC, OK), errors.DriverMisbehaved, id="no result"),
        pytest.param(answering(GRPC, RESULT * 2, OK), errors.DriverMisbehaved, id="two results"),
        pytest.param(answering(GRPC, RESULT, [("grpc-status", "2")]), errors.DriverRefused, id="result, then failure"),
        pytest.param(
            answering(GRPC, end_message(progress=codec.encode_progress(Progress(done=-5))) + RESULT, OK),
            errors.DriverMisbehaved,
            id="progress backwards",
        ),
    ],
)
async def test_no_end_of_theirs_is_believed(short_path: pathlib.Path, peer: Peer, error: type[Exception]) -> None:
    async with listening(short_path / "s", peer) as channel:
        with pytest.raises(error):
            await channel.end(WORK, lambda _: None)


async def test_messages_of_a_later_version_are_passed_over(short_path: pathlib.Path) -> None:
    later = framed(b"\x9a\x06\x03new")  # a field that we do not know
    async with listening(short_path / "s", answering(GRPC, later + RESULT, OK)) as channel:
        assert (await channel.end(WORK, lambda _: None)).state == "Rebooted"


async def test_one_that_never_answers_can_be_left(short_path: pathlib.Path) -> None:
    async with listening(short_path / "s", raw(b"")) as channel:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await channel.start(WORK)


async def test_a_flood_of_pings_by_one_who_never_reads(short_path: pathlib.Path) -> None:
    async def flooding(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SETTINGS)
        ping = hyperframe.frame.PingFrame(0, opaque_data=b"fairlead").serialize()
        for _ in range(2000):
            writer.write(ping * 100)
            await writer.drain()

    tracemalloc.start()
    try:
        async with listening(short_path / "s", flooding) as channel:
            with pytest.raises((TimeoutError, errors.DriverError)):
                async with asyncio.timeout(1):
                    await channel.start(WORK)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


async def test_an_endless_message_is_not_kept(short_path: pathlib.Path) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, stream = await request(reader, writer)
        connection.send_headers(stream, GRPC)
        connection.send_data(stream, b"\0\x7f\xff\xff\xff")
        writer.write(connection.data_to_send())
        while True:
            frame = hyperframe.frame.DataFrame(stream, b"x" * 16384).serialize()
            writer.write(frame)
            await writer.drain()

    async with listening(short_path / "s", endless) as channel:
        with pytest.raises(errors.DriverMisbehaved, match="bytes, more than"):
            await channel.start(WORK)
