"""An independent implementation against ours, in both directions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpclib
import grpclib.client
import grpclib.const
import grpclib.encoding.base
import grpclib.server
import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.rpc import client
from kube_fairlead.base.rpc.errors import ProtocolError, StatusError, Unreachable
from kube_fairlead.base.rpc.status import Code
from tests.unit.base.rpc.service import Service, serving


class Bytes(grpclib.encoding.base.CodecBase):
    """Messages are bytes, as ours are."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> Any:
        return data


@contextlib.asynccontextmanager
async def calling(path: Path) -> AsyncIterator[grpclib.client.Channel]:
    channel = grpclib.client.Channel(path=str(path), codec=Bytes())
    try:
        yield channel
    finally:
        channel.close()


def unary(channel: grpclib.client.Channel, method: str) -> grpclib.client.UnaryUnaryMethod[bytes, bytes]:
    return grpclib.client.UnaryUnaryMethod(channel, f"/s/{method}", bytes, bytes)


def streaming(channel: grpclib.client.Channel, method: str) -> grpclib.client.UnaryStreamMethod[bytes, bytes]:
    return grpclib.client.UnaryStreamMethod(channel, f"/s/{method}", bytes, bytes)


@pytest.mark.parametrize("size", [0, 1, 70_000, 1 << 20])
async def test_their_client_gets_our_answer(short_path: Path, size: int) -> None:
    async with serving(short_path) as path, calling(path) as channel:
        assert await unary(channel, "Echo")(b"x" * size) == b"x" * size


async def test_their_client_gets_our_stream(short_path: Path) -> None:
    async with serving(short_path) as path, calling(path) as channel:
        assert await streaming(channel, "Count")(b"300") == [b"x" * 1000] * 300


async def test_their_client_makes_many_calls_at_once(short_path: Path) -> None:
    async with serving(short_path) as path, calling(path) as channel:
        answers = await asyncio.gather(*(unary(channel, "Echo")(b"%d" % number) for number in range(90)))
        assert answers == [b"%d" % number for number in range(90)]


@pytest.mark.parametrize(
    ("method", "request_", "code", "words"),
    [
        ("Refuse", "für immer: 100 %\n", grpclib.const.Status.FAILED_PRECONDITION, "für immer: 100 %\n"),
        ("Fail", "", grpclib.const.Status.UNKNOWN, "KeyError: 'disk'"),
        ("Nothing", "", grpclib.const.Status.UNIMPLEMENTED, "method /s/Nothing is not served here"),
        ("Echo", "x" * 2_000_000, grpclib.const.Status.RESOURCE_EXHAUSTED, "the message has 2000000 bytes"),
    ],
)
async def test_their_client_reads_our_errors(
    short_path: Path, method: str, request_: str, code: grpclib.const.Status, words: str
) -> None:
    async with serving(short_path) as path, calling(path) as channel:
        with pytest.raises(grpclib.GRPCError) as caught:
            await unary(channel, method)(request_.encode())
        assert caught.value.status is code
        assert str(caught.value.message).startswith(words)
        assert await unary(channel, "Echo")(b"a") == b"a", "the connection serves on"


async def test_their_deadline_ends_our_handler(short_path: Path) -> None:
    """By our clock, before theirs: it is the header that we honour."""
    clock, service = VirtualClock(), Service()
    async with serving(short_path, service, clock=clock) as path, calling(path) as channel:
        call = asyncio.ensure_future(unary(channel, "Hang")(b"", timeout=60))
        await service.entered.wait()
        await clock.advance(60)
        await service.cancelled.wait()
        with pytest.raises(grpclib.GRPCError) as caught:
            await call
        assert caught.value.status is grpclib.const.Status.DEADLINE_EXCEEDED


async def test_their_client_cancels(short_path: Path) -> None:
    service = Service()
    async with serving(short_path, service) as path, calling(path) as channel:
        async with streaming(channel, "Hang").open() as stream:
            await stream.send_message(b"begun", end=True)
            assert await stream.recv_message() == b"begun"
            await stream.cancel()
        await service.cancelled.wait()
        assert await unary(channel, "Echo")(b"a") == b"a"


async def test_their_client_sees_us_stop(short_path: Path) -> None:
    service = Service()
    async with calling(short_path / "s") as channel:
        async with serving(short_path, service):
            call = asyncio.ensure_future(unary(channel, "Hang")(b""))
            await service.entered.wait()
        with pytest.raises((grpclib.GRPCError, grpclib.exceptions.StreamTerminatedError, OSError)) as caught:
            await call
        assert getattr(caught.value, "status", None) in {None, grpclib.const.Status.UNAVAILABLE}
        async with serving(short_path):
            assert await unary(channel, "Echo")(b"a") == b"a", "it connects again"


class Theirs:
    """Their server."""

    def __mapping__(self) -> dict[str, grpclib.const.Handler]:
        unary_unary, unary_stream = grpclib.const.Cardinality.UNARY_UNARY, grpclib.const.Cardinality.UNARY_STREAM
        return {
            "/s/Echo": grpclib.const.Handler(self.echo, unary_unary, bytes, bytes),
            "/s/Count": grpclib.const.Handler(self.count, unary_stream, bytes, bytes),
            "/s/Refuse": grpclib.const.Handler(self.refuse, unary_unary, bytes, bytes),
        }

    async def echo(self, stream: Any) -> None:
        await stream.send_message(await stream.recv_message())

    async def count(self, stream: Any) -> None:
        for _ in range(int(await stream.recv_message())):
            await stream.send_message(b"x" * 1000)

    async def refuse(self, stream: Any) -> None:
        raise grpclib.GRPCError(grpclib.const.Status.FAILED_PRECONDITION, (await stream.recv_message()).decode())


@contextlib.asynccontextmanager
async def their_server(path: Path) -> AsyncIterator[client.Target]:
    server = grpclib.server.Server([Theirs()], codec=Bytes())
    await server.start(path=str(path))
    try:
        yield client.Target(str(path))
    finally:
        server.close()
        await server.wait_closed()


async def test_our_client_and_their_server(short_path: Path) -> None:
    async with their_server(short_path / "s") as target:
        for size in (0, 1, 70_000, 1 << 20):
            assert await client.unary(target, "/s/Echo", b"x" * size) == b"x" * size
        assert [len(one) async for one in client.call(target, "/s/Count", b"300")] == [1000] * 300
        with pytest.raises(StatusError) as caught:
            await client.unary(target, "/s/Refuse", "für immer: 100 %\n".encode())
        assert (caught.value.code, str(caught.value)) == (Code.FAILED_PRECONDITION, "für immer: 100 %\n")
        with pytest.raises(ProtocolError, match="not gRPC"):  # it refuses without a content type
            await client.unary(target, "/s/Nothing", b"")
    with pytest.raises(Unreachable):
        await client.unary(target, "/s/Echo", b"")
