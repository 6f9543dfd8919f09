"""What handlers and callers may rely on."""

from __future__ import annotations

import asyncio
import contextlib
import stat
import tempfile
from pathlib import Path

import h2.errors
import h2.events
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.rpc import client, framing, unixsocket
from kube_fairlead.base.rpc.calls import Limits
from kube_fairlead.base.rpc.errors import StatusError, Unreachable
from kube_fairlead.base.rpc.status import Code, decode_text
from tests.unit.base.rpc.rawclient import RawClient, connected
from tests.unit.base.rpc.service import Service, serving, unary


async def ends(path: Path, method: str, request: bytes = b"", *, timeout_seconds: float | None = None) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await unary(path, method, request, timeout_seconds=timeout_seconds)
    return caught.value


@pytest.mark.parametrize("size", [0, 1, 70_000, 1 << 20])
async def test_a_message_there_and_back(short_path: Path, size: int) -> None:
    """The larger ones exceed the windows of the stream and of the connection."""
    async with serving(short_path) as path:
        assert await unary(path, "Echo", b"x" * size) == b"x" * size


async def test_many_messages_in_order(short_path: Path) -> None:
    async with serving(short_path) as path:
        answer = client.call(client.Target(str(path)), "/s/Count", b"500")
        assert [len(message) async for message in answer] == [1000] * 500


async def test_many_calls_at_once_on_one_connection(short_path: Path) -> None:
    async with serving(short_path) as path, connected(path) as raw:
        streams = [raw.call("/s/Count", b"100") for _ in range(50)]
        assert [await raw.status(stream) for stream in streams] == [("0", "")] * 50
        received = sum(len(event.data or b"") for event in raw.all(h2.events.DataReceived))
        assert received == 50 * 100 * (1000 + 5)


async def test_the_socket_is_its_owners_only_and_goes_at_the_end(short_path: Path) -> None:
    async with serving(short_path) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(unixsocket.SocketTaken):
            unixsocket.BoundSocket(path)
        assert await unary(path, "Echo", b"a") == b"a"
    assert list(short_path.iterdir()) == []


async def test_a_socket_that_was_left_behind_is_replaced(short_path: Path) -> None:
    bound = unixsocket.BoundSocket(short_path / "s")
    bound.socket.close()
    async with serving(short_path) as path:
        bound.remove()
        assert await unary(path, "Echo", b"a") == b"a", "another process' name is left alone"


async def test_a_method_that_is_not_served(short_path: Path) -> None:
    async with serving(short_path) as path:
        error = await ends(path, "Nothing")
        assert (error.code, str(error)) == (Code.UNIMPLEMENTED, "method /s/Nothing is not served here")


async def test_a_handler_that_fails_is_an_answer_and_a_line_in_the_log(
    short_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(short_path) as path:
        error = await ends(path, "Fail")
        assert (error.code, str(error)) == (Code.UNKNOWN, "KeyError: 'disk'")
        assert [record.getMessage() for record in caplog.records] == ["method failed"]
        assert await unary(path, "Echo", b"a") == b"a"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), min_size=1, max_size=5))
@settings(max_examples=20)
def test_the_words_of_a_refusal_arrive(texts: list[str]) -> None:
    async def ask() -> None:
        with tempfile.TemporaryDirectory(prefix="fl-") as folder:
            async with serving(Path(folder)) as path:
                for text in texts:
                    error = await ends(path, "Refuse", text.encode())
                    assert error.code is Code.FAILED_PRECONDITION
                    assert str(error) == (text or "the call ended with gRPC status 9")

    asyncio.run(ask())


async def test_a_deadline_cancels_the_handler(short_path: Path) -> None:
    clock, service = VirtualClock(), Service()
    async with serving(short_path, service, clock=clock) as path, tasks.TaskScope("test") as scope:
        call = scope.start(ends(path, "Hang", timeout_seconds=5), name="call")
        await service.entered.wait()
        await clock.advance(4.9)
        assert service.running == 1
        await clock.advance(0.2)
        await service.cancelled.wait()
        assert (await call).code is Code.DEADLINE_EXCEEDED


async def test_a_timeout_of_the_handlers_own_is_no_deadline(short_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(short_path) as path:
        error = await ends(path, "Late", timeout_seconds=60)
        assert (error.code, str(error)) == (Code.UNKNOWN, "TimeoutError: the handler's own")


async def test_a_client_that_resets_its_call_cancels_that_one_only(
    short_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service()
    async with serving(short_path, service) as path, connected(path) as raw:
        first = raw.call("/s/Hang")
        raw.call("/s/Hang")
        await raw.flush()
        await service.entered.wait()
        raw.h2.reset_stream(first, h2.errors.ErrorCodes.CANCEL)
        await raw.flush()
        await service.cancelled.wait()
        assert await raw.status(raw.call("/s/Echo")) == ("0", "")
        assert service.running == 1
        assert caplog.records == [], "a client may cancel"


async def test_a_client_that_hangs_up_cancels_its_calls(short_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = Service()
    async with serving(short_path, service) as path:
        async with connected(path) as raw:
            raw.call("/s/Hang", b"x")
            raw.call("/s/Count", b"1000000")
            await raw.next(h2.events.DataReceived)
        await service.cancelled.wait()
    assert service.running == 0
    assert caplog.records == []


async def test_a_client_that_says_goodbye_still_gets_its_answers(short_path: Path) -> None:
    service = Service()
    goodbye = bytes([0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    async with serving(short_path, service) as path, connected(path) as raw:
        stream = raw.call("/s/Count", b"100")
        await raw.flush()
        raw.writer.write(goodbye)
        assert await raw.status(stream) == ("0", "")


async def test_pings_are_answered(short_path: Path) -> None:
    async with serving(short_path) as path, connected(path) as raw:
        raw.h2.ping(b"fairlead")
        answer = await raw.next(h2.events.PingAckReceived)
        assert answer.ping_data == b"fairlead"


async def test_stopping_ends_calls_in_order(short_path: Path) -> None:
    """The call's status, then a GOAWAY without an error, then the end. The next caller finds no socket."""
    service = Service()
    async with serving(short_path, service) as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        raw = RawClient(reader, writer)
        stream = raw.call("/s/Hang", b"begun")
        await raw.next(h2.events.DataReceived)
    assert service.running == 0
    code, words = await raw.status(stream)
    assert (int(code), decode_text(words)) == (Code.UNAVAILABLE, "the server is stopping")
    await raw.closed()
    (goodbye,) = raw.all(h2.events.ConnectionTerminated)
    assert (goodbye.error_code, goodbye.last_stream_id) == (h2.errors.ErrorCodes.NO_ERROR, stream)
    writer.close()
    assert tasks.live_tasks("rpc") == ()
    with pytest.raises(Unreachable):
        await unary(path, "Echo")


async def test_stopping_waits_for_handlers(short_path: Path) -> None:
    service = Service()
    async with contextlib.AsyncExitStack() as stack, tasks.TaskScope("test") as scope:
        path = await stack.enter_async_context(serving(short_path, service))
        call = scope.start(ends(path, "Cling"), name="call")
        await service.entered.wait()
        stopping = scope.start(stack.aclose(), name="stop")
        await service.cancelled.wait()
        assert not stopping.done()
        service.release.set()
        await stopping
        assert (await call).code is Code.UNAVAILABLE


async def test_a_client_that_does_not_read_is_waited_for(short_path: Path) -> None:
    """It gets as much as its window holds, and the handler waits; when it reads, the rest comes."""
    service = Service()
    async with serving(short_path, service) as path, connected(path) as raw:
        raw.acknowledges = False
        stream = raw.call("/s/Count", b"1000")
        received = 0
        while received < 65_535:
            await raw.next(h2.events.DataReceived)
            received = sum(event.flow_controlled_length or 0 for event in raw.all(h2.events.DataReceived))
        raw.h2.ping(b"fairlead")
        await raw.next(h2.events.PingAckReceived)
        assert service.sent == 65_535 // 1005
        raw.acknowledges = True
        raw.h2.increment_flow_control_window(1 << 30)
        raw.h2.increment_flow_control_window(1 << 30, stream)
        assert await raw.status(stream) == ("0", "")
        assert service.sent == 1000


async def test_calls_above_the_limit_are_refused_and_may_be_made_again(short_path: Path) -> None:
    service = Service()
    async with serving(short_path, service, limits=Limits(streams_max=3)) as path, connected(path) as raw:
        streams = [raw.call("/s/Hang") for _ in range(5)]
        while len(refused := raw.all(h2.events.StreamReset)) < 2:
            await raw.next(h2.events.StreamReset)
        assert [event.stream_id for event in refused] == streams[3:]
        assert {event.error_code for event in refused} == {h2.errors.ErrorCodes.REFUSED_STREAM}
        raw.h2.reset_stream(streams[0])
        await raw.flush()
        await service.cancelled.wait()
        assert await raw.status(raw.call("/s/Echo")) == ("0", "")


async def test_a_call_that_is_being_cancelled_keeps_its_place(short_path: Path) -> None:
    """A client that makes calls and resets them at once does not make the server run more than its limit."""
    service = Service()
    async with serving(short_path, service, limits=Limits(streams_max=1)) as path, connected(path) as raw:
        raw.h2.reset_stream(raw.call("/s/Cling"))
        await raw.flush()
        await service.cancelled.wait()
        refused = raw.call("/s/Echo")
        event = await raw.next(h2.events.StreamReset)
        assert event.stream_id == refused
        service.release.set()


async def test_connections_above_the_limit_are_refused(short_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = Service()
    async with serving(short_path, service, limits=Limits(connections_max=1)) as path:
        async with connected(path) as raw:
            raw.call("/s/Hang")
            await raw.flush()
            await service.entered.wait()
            with pytest.raises(Unreachable):
                await unary(path, "Echo")
        await service.cancelled.wait()
    assert [record.getMessage() for record in caplog.records] == ["connection refused: too many"]


async def test_a_request_that_is_too_large_is_refused_by_its_first_bytes(short_path: Path) -> None:
    async with serving(short_path, limits=Limits(message_bytes_max=100)) as path:
        assert (await ends(path, "Echo", b"x" * 5_000_000)).code is Code.RESOURCE_EXHAUSTED
        async with connected(path) as raw:
            stream = raw.open("/s/Echo")
            raw.h2.send_data(stream, b"\0\0\0\0\x65")
            code, words = await raw.status(stream)
            assert (int(code), decode_text(words)) == (
                Code.RESOURCE_EXHAUSTED,
                "the message has 101 bytes, more than 100",
            )
            assert await raw.status(raw.call("/s/Echo")) == ("0", "")


async def test_requests_that_never_become_whole_hold_a_bounded_amount(short_path: Path) -> None:
    limits = Limits(pending_bytes_max=20_000)
    async with serving(short_path, limits=limits) as path:
        async with connected(path) as raw:
            begun = framing.encode_message(b"x" * 50_000)[:9000]
            streams = [raw.open("/s/Echo") for _ in range(3)]
            for stream in streams:
                raw.h2.send_data(stream, begun)
            assert int((await raw.status(streams[2]))[0]) == Code.RESOURCE_EXHAUSTED
            assert await raw.status(raw.call("/s/Echo")) == ("0", "")
        assert await unary(path, "Echo", b"x" * 15_000) == b"x" * 15_000


async def test_a_request_that_does_not_arrive_is_not_waited_for(short_path: Path) -> None:
    clock = VirtualClock()
    async with serving(short_path, clock=clock, limits=Limits(request_seconds=10)) as path, connected(path) as raw:
        stream = raw.open("/s/Echo")
        raw.h2.ping(b"fairlead")
        await raw.next(h2.events.PingAckReceived)
        await clock.advance(10)
        code, words = await raw.status(stream)
        assert (int(code), decode_text(words)) == (Code.DEADLINE_EXCEEDED, "the request did not arrive within 10 s")


async def test_a_connection_that_stays_silent_is_closed(short_path: Path) -> None:
    clock = VirtualClock()
    async with serving(short_path, clock=clock, limits=Limits(request_seconds=10)) as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        assert await reader.read(9), "the server's settings"
        await clock.advance(10)
        while await reader.read(100):
            pass
        writer.close()
