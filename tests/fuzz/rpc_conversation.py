"""A connection of the RPC server on a transport of memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import h2.config
import h2.connection
import hyperframe.frame

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.rpc import framing
from kube_fairlead.base.rpc.calls import Budget, Limits, Send
from kube_fairlead.base.rpc.connection import Connection
from kube_fairlead.base.rpc.wire import Wire as RpcWire
from tests.fuzz.conversation import Wire

__all__ = ["RPC_BEGINNING", "RPC_PIECES", "converse_rpc"]

_LIMITS = Limits(message_bytes_max=4096, pending_bytes_max=8192, streams_max=4)
_METHODS = ("/s/Echo", "/s/Hang", "/s/Flood")


async def converse_rpc(stream: bytes, size: int) -> None:
    """Send all of it, then hang up: the connection ends, without an error, a task or a byte that it still holds."""
    reader = asyncio.StreamReader()
    wire = Wire()
    writer = asyncio.StreamWriter(wire, asyncio.StreamReaderProtocol(reader), reader, asyncio.get_running_loop())
    budget = Budget(_LIMITS.pending_bytes_max)
    methods = {"/s/Echo": _echo, "/s/Hang": _hang, "/s/Flood": _flood}
    connection = Connection(RpcWire(reader, writer, client_side=False), methods, _LIMITS, budget, RealClock())
    async with tasks.TaskScope("fuzz") as scope:
        running = scope.start(connection.run(), name="connection")
        for start in range(0, len(stream), size):
            reader.feed_data(stream[start : start + size])
            await asyncio.sleep(0)
            assert len(connection._calls) <= _LIMITS.streams_max
        reader.feed_eof()
        await running
    assert wire.closed
    assert budget.used == 0
    assert not connection._calls
    assert tasks.live_tasks("rpc") == ()
    rest = bytes(wire.sent)
    while rest:
        # What is answered is whole frames and nothing else.
        frame, length = hyperframe.frame.Frame.parse_frame_header(memoryview(rest[:9]))
        frame.parse_body(memoryview(rest[9 : 9 + length]))
        assert len(rest) >= 9 + length
        rest = rest[9 + length :]


async def _echo(request: bytes, send: Send) -> None:
    await send(request)


async def _hang(request: bytes, send: Send) -> None:
    await send(request)
    await asyncio.Event().wait()


async def _flood(request: bytes, send: Send) -> None:
    while True:
        await send(request * 100)


def _pieces() -> Iterator[bytes]:
    """What a proper client sends, cut where it is a unit."""
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    client.initiate_connection()
    yield client.data_to_send()
    for method in _METHODS:
        stream = client.get_next_available_stream_id()
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("grpc-timeout", "1S"),
        ]
        client.send_headers(stream, headers)
        yield client.data_to_send()
        client.send_data(stream, framing.encode_message(b"abc"), end_stream=True)
        yield client.data_to_send()
        client.increment_flow_control_window(70_000)
        yield client.data_to_send()
        client.reset_stream(stream)
        yield client.data_to_send()
    client.ping(b"fairlead")
    yield client.data_to_send()
    client.close_connection()
    yield client.data_to_send()


RPC_BEGINNING, *_REST = _pieces()
RPC_PIECES = tuple(_REST)
