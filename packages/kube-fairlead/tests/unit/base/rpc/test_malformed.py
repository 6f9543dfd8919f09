"""Whatever a client sends: its call or its connection ends, the log says so, and others are served."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import h2.errors
import h2.events
import hyperframe.frame
import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.rpc import framing
from kube_fairlead.base.rpc.calls import Limits
from kube_fairlead.base.rpc.status import Code
from tests.unit.base.rpc import rawclient
from tests.unit.base.rpc.rawclient import connected
from tests.unit.base.rpc.service import Service, serving, unary

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = hyperframe.frame.SettingsFrame(0).serialize()
BEGUN = PREFACE + SETTINGS


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n", id="HTTP/1.1"),
        pytest.param(b"\xff" * 100, id="garbage"),
        pytest.param(PREFACE + b"\xff" * 100, id="garbage after the preface"),
        pytest.param(PREFACE + hyperframe.frame.PingFrame(0).serialize(), id="no settings"),
        pytest.param(BEGUN + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", id="a frame of 16 MiB"),
        pytest.param(BEGUN + hyperframe.frame.DataFrame(1, b"x").serialize(), id="data of no stream"),
        pytest.param(
            BEGUN + hyperframe.frame.HeadersFrame(2, b"", flags=["END_HEADERS"]).serialize(), id="even stream"
        ),
        pytest.param(
            BEGUN + hyperframe.frame.HeadersFrame(1, b"\xff\xff\xff", flags=["END_HEADERS"]).serialize(), id="no HPACK"
        ),
        pytest.param(BEGUN + hyperframe.frame.HeadersFrame(1, b"", flags=["END_HEADERS"]).serialize(), id="no headers"),
        pytest.param(
            BEGUN
            + hyperframe.frame.HeadersFrame(1, b"\x82").serialize()
            + hyperframe.frame.ContinuationFrame(1, b"\x82" * 100).serialize() * 100,
            id="continuations without end",
        ),
        pytest.param(
            BEGUN + hyperframe.frame.WindowUpdateFrame(0, window_increment=1).serialize()[:-1] + b"\0", id="0"
        ),
        pytest.param(
            BEGUN + hyperframe.frame.WindowUpdateFrame(0, window_increment=2**31 - 1).serialize() * 2, id="overflow"
        ),
        pytest.param(
            BEGUN + hyperframe.frame.PushPromiseFrame(1, 2, b"", flags=["END_HEADERS"]).serialize(), id="a push"
        ),
    ],
)
async def test_malformed_input_ends_its_connection_only(
    short_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service()
    async with serving(short_path, service) as path, tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(unary(path, "Hang"), name="another")
        await service.entered.wait()
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(data)
        answer = b""
        try:
            while more := await reader.read(65536):
                answer += more
        except ConnectionResetError:
            pass
        writer.close()
        assert [record.getMessage() for record in caplog.records] == ["malformed input ended a connection"]
        assert service.running == 1, "another client's call goes on"
        assert await unary(path, "Echo", b"a") == b"a"
        assert last_frame(answer) == 7, "a GOAWAY says that it is over"


def last_frame(data: bytes) -> int:
    kind = -1
    while data:
        frame, length = hyperframe.frame.Frame.parse_frame_header(memoryview(data[:9]))
        assert frame.type is not None
        kind, data = frame.type, data[9 + length :]
    return kind


def sent(*messages: bytes) -> bytes:
    return b"".join(framing.encode_message(message) for message in messages)


@pytest.mark.parametrize(
    ("headers", "body", "code"),
    [
        pytest.param([], b"", Code.UNIMPLEMENTED, id="no message"),
        pytest.param([], sent(b"a", b"b"), Code.UNIMPLEMENTED, id="two messages"),
        pytest.param([], sent(b"abc")[:-1], Code.INTERNAL, id="half a message"),
        pytest.param([], b"\0\0", Code.INTERNAL, id="half a prefix"),
        pytest.param([], b"\1\0\0\0\0", Code.INTERNAL, id="compressed"),
        pytest.param([("grpc-encoding", "gzip")], sent(b""), Code.UNIMPLEMENTED, id="an encoding"),
        pytest.param([("grpc-encoding", "identity")], sent(b""), Code.OK, id="no encoding"),
        pytest.param([("grpc-timeout", "soon")], sent(b""), Code.INTERNAL, id="no timeout"),
        pytest.param([("grpc-timeout", "1H")], sent(b""), Code.OK, id="a timeout"),
        pytest.param([("x", "\udcff")], sent(b""), Code.OK, id="no UTF-8"),
    ],
)
async def test_requests_that_are_none(
    short_path: Path, headers: list[tuple[str, str]], body: bytes, code: Code, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(short_path) as path, connected(path) as raw:
        stream = raw.h2.get_next_available_stream_id()
        raw.h2.send_headers(stream, _encoded(headers))
        raw.h2.send_data(stream, body, end_stream=True)
        assert int((await raw.status(stream))[0]) == code
        assert await raw.status(raw.call("/s/Echo", b"a")) == ("0", "")
    assert caplog.records == []


def _encoded(more: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    found = rawclient.headers("/s/Echo", *more)
    return [(key.encode(), value.encode(errors="surrogateescape")) for key, value in found]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(":method", "GET"), (":scheme", "http"), (":path", "/s/Echo")], "405"),
        ([(":method", "POST"), (":scheme", "http"), (":path", "/s/Echo")], "415"),
        (
            [(":method", "POST"), (":scheme", "http"), (":path", "/s/Echo"), ("content-type", "application/grpc-web")],
            "415",
        ),
    ],
)
@pytest.mark.parametrize("ends", [True, False])
async def test_what_is_http_but_not_grpc(
    short_path: Path, headers: list[tuple[str, str]], status: str, ends: bool
) -> None:
    async with serving(short_path) as path, connected(path) as raw:
        stream = raw.h2.get_next_available_stream_id()
        raw.h2.send_headers(stream, [(":authority", "localhost"), *headers], end_stream=ends)
        assert (await raw.status(stream))[0] == status
        assert await raw.status(raw.call("/s/Echo", b"a")) == ("0", "")


async def test_what_arrives_after_the_answer_is_dropped(short_path: Path) -> None:
    """A client that goes on sending a request which is refused by then."""
    async with serving(short_path) as path, connected(path) as raw:
        stream = raw.open("/s/Echo")
        raw.h2.send_data(stream, b"\0\xff\xff\xff\xff")
        for _ in range(3):
            raw.h2.send_data(stream, b"x" * 16384)
        assert int((await raw.status(stream))[0]) == Code.RESOURCE_EXHAUSTED
        assert await raw.status(raw.call("/s/Echo", b"x" * 10_000)) == ("0", "")


async def test_a_flood_of_pings_by_a_client_that_never_reads(short_path: Path) -> None:
    ping = hyperframe.frame.PingFrame(0, opaque_data=b"fairlead").serialize()
    async with serving(short_path) as path:
        _, writer = await asyncio.open_unix_connection(str(path))
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        writer.write(BEGUN)

        async def flood() -> None:
            while True:
                writer.write(ping * 100)
                await writer.drain()

        tracemalloc.start()
        try:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(flood(), 1)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        writer.transport.abort()
        assert peak < 8 << 20
        assert await unary(path, "Echo", b"a") == b"a"


async def test_streams_that_are_opened_and_reset_without_end(short_path: Path) -> None:
    """Each is started and cancelled; the next ones are answered as before."""
    service = Service()
    async with serving(short_path, service) as path, connected(path) as raw:
        raw.h2.ping(b"settings")
        await raw.next(h2.events.PingAckReceived)
        for _ in range(2000):
            raw.h2.reset_stream(raw.call("/s/Hang"))
            await raw.flush()
        assert await raw.status(raw.call("/s/Echo")) == ("0", "")
        assert service.running == 0


async def test_a_client_that_ignores_the_limit_of_streams_gets_no_more(
    short_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service()
    async with serving(short_path, service, limits=Limits(streams_max=10)) as path, connected(path) as raw:
        for _ in range(50):
            raw.call("/s/Hang")
        raw.h2.ping(b"fairlead")
        await raw.next(h2.events.PingAckReceived)
        assert service.running == 10
        assert len(raw.all(h2.events.StreamReset)) == 40
    assert caplog.records == []


def goaway_code(data: bytes) -> int:
    """Why the server ended the connection, as its GOAWAY says."""
    code = -1
    while data:
        frame, length = hyperframe.frame.Frame.parse_frame_header(memoryview(data[:9]))
        if frame.type == 7:
            code = int.from_bytes(data[13:17], "big")
        data = data[9 + length :]
    return code


async def read_to_its_end(reader: asyncio.StreamReader) -> bytes:
    answer = b""
    try:
        while more := await reader.read(65536):
            answer += more
    except ConnectionResetError:
        pass
    return answer


@pytest.mark.parametrize("block_bytes", [64 << 10, (64 << 10) + 1])
async def test_a_header_block_that_is_too_long_ends_its_connection(short_path: Path, block_bytes: int) -> None:
    """The frames arrive one by one, and none but the last has all the bytes that are too many."""
    first, rest = b"\x82" * 1000, block_bytes - 1000
    async with serving(short_path) as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(BEGUN + hyperframe.frame.HeadersFrame(1, first).serialize())
        while rest:
            size = min(rest, 16 << 10)
            writer.write(hyperframe.frame.ContinuationFrame(1, b"\x82" * size).serialize())
            rest -= size
        if block_bytes > 64 << 10:
            assert goaway_code(await read_to_its_end(reader)) == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        else:
            ping = hyperframe.frame.PingFrame(0).serialize()  # not allowed inside of a block: so it was held until now
            writer.write(ping)
            assert goaway_code(await read_to_its_end(reader)) == h2.errors.ErrorCodes.PROTOCOL_ERROR
        writer.close()
        assert await unary(path, "Echo", b"a") == b"a"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(PREFACE[:10], id="half a preface"),
        pytest.param(PREFACE, id="no settings"),
        pytest.param(PREFACE + SETTINGS[:5], id="half of the settings"),
        pytest.param(BEGUN + hyperframe.frame.HeadersFrame(1, b"\x82").serialize(), id="half a header block"),
        pytest.param(
            BEGUN + hyperframe.frame.HeadersFrame(1, b"\x82" * 50, flags=["END_HEADERS"]).serialize()[:-1],
            id="half a frame",
        ),
    ],
)
async def test_what_has_begun_must_end_in_time(short_path: Path, data: bytes) -> None:
    clock = VirtualClock()
    async with serving(short_path, clock=clock, limits=Limits(request_seconds=30)) as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(data)
        reading = asyncio.ensure_future(read_to_its_end(reader))
        await until(lambda: clock.sleepers == 1)
        await arrived(clock)
        await clock.advance(29)
        assert not reading.done()
        await clock.advance(2)
        await reading
        writer.close()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - only the event loop can change it
        await asyncio.sleep(0)


async def arrived(clock: VirtualClock) -> None:
    """Let the server read what was written."""
    for _ in range(50):
        await clock.settle()


async def test_a_header_block_cannot_be_dripped(short_path: Path) -> None:
    """Every frame of it is in time, and the whole is not."""
    clock = VirtualClock()
    async with serving(short_path, clock=clock, limits=Limits(request_seconds=30)) as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(BEGUN + hyperframe.frame.HeadersFrame(1, b"\x82").serialize())
        reading = asyncio.ensure_future(read_to_its_end(reader))
        for _ in range(4):
            await arrived(clock)
            await clock.advance(10)
            if not reading.done() and not writer.transport.is_closing():
                writer.write(hyperframe.frame.ContinuationFrame(1, b"").serialize())
        await reading
        writer.close()


async def test_an_idle_connection_is_not_ended_for_being_idle(short_path: Path) -> None:
    clock = VirtualClock()
    async with serving(short_path, clock=clock) as path, connected(path) as raw:
        assert await raw.status(raw.call("/s/Echo", b"a")) == ("0", "")
        await clock.advance(3600)
        assert await raw.status(raw.call("/s/Echo", b"a")) == ("0", "")


async def test_idle_connections_keep_no_client_away(short_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service, clock = Service(), VirtualClock()
    async with (
        serving(short_path, service, clock=clock, limits=Limits(connections_max=3)) as path,
        connected(path) as busy,
        connected(path) as first,
        connected(path) as second,
    ):
        busy.call("/s/Hang")
        await busy.flush()
        await service.entered.wait()
        await clock.advance(1)
        assert await first.status(first.call("/s/Echo", b"a")) == ("0", "")
        await clock.advance(1)
        assert await second.status(second.call("/s/Echo", b"a")) == ("0", "")
        assert await unary(path, "Echo", b"a") == b"a"
        await first.closed()
        assert await second.status(second.call("/s/Echo", b"a")) == ("0", "")
        assert service.running == 1
    assert caplog.records == []


async def test_connections_with_calls_are_not_ended_for_another(
    short_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service()
    async with serving(short_path, service, limits=Limits(connections_max=1)) as path, connected(path) as busy:
        busy.call("/s/Hang")
        await busy.flush()
        await service.entered.wait()
        async with connected(path) as other:
            await other.closed()
        assert service.running == 1
    assert [record.getMessage() for record in caplog.records] == ["connection refused: too many"]
