"""Broken and malicious drivers cannot crash, block or fool the agent: a process, with real sockets in its folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import h2.config
import h2.connection
import h2.events

from kube_fairlead.driverapi import codec, contracts
from kube_fairlead.driverapi.messages import OfferedTransition, PluginInfo, Progress, Reached
from kube_fairlead.drivers import sdk
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5683.site import LIFECYCLE, Site, condition

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Answer = list[bytes | list[tuple[str, str]]]

GRPC = [(":status", "200"), ("content-type", "application/grpc")]
OK = [("grpc-status", "0")]
ENDED = "fairlead.lifecycle.v1alpha1.EndLifecycleTransitionResponse"


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def reached(state: str, node: str) -> bytes:
    return framed(codec.encode_reached(Reached(state=state, node_name=node)).SerializeToString())


def ended(**content: object) -> bytes:
    return framed(contracts.message(ENDED)(**content).SerializeToString())


class Scripted:
    """A peer that answers each method with what it is given for it; None means never."""

    def __init__(self, answers: dict[str, Answer | None]) -> None:
        self.heard: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._answers = answers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, request, connection, stream = await _request(reader, writer)
        self.heard.put_nowait((method, request))
        for number, part in enumerate(answer := self._answers[method] or [], 1):
            last = number == len(answer)
            if isinstance(part, bytes):
                for begin in range(0, len(part), 16384):
                    connection.send_data(stream, part[begin : begin + 16384])
            else:
                connection.send_headers(stream, part, end_stream=last)
        writer.write(connection.data_to_send())
        await reader.read()  # until it is left


async def _request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[str, bytes, h2.connection.H2Connection, int]:
    """Be a proper HTTP/2 server until the request is complete: its method and its message."""
    connection = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, validate_outbound_headers=False)
    )
    connection.initiate_connection()
    writer.write(connection.data_to_send())
    method, body = "", b""
    while data := await reader.read(65536):
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                method = dict(event.headers)[b":path"].decode().rpartition("/")[2]
            if isinstance(event, h2.events.DataReceived):
                body += event.data or b""
            if isinstance(event, h2.events.StreamEnded):
                return method, body[5:], connection, event.stream_id
        writer.write(connection.data_to_send())
    raise ConnectionResetError


def registration(name: str, endpoint: Path) -> Scripted:
    """One who registers in order, under whatever name."""
    info = PluginInfo(
        type=contracts.PLUGIN_TYPE,
        name=name,
        endpoint=str(endpoint),
        supported_versions=(contracts.DRIVER_VERSION,),
    )
    return Scripted(
        {
            "GetInfo": [GRPC, framed(codec.encode_info(info).SerializeToString()), OK],
            "NotifyRegistrationStatus": [GRPC, framed(b""), OK],
        }
    )


async def refusal(peer: Scripted) -> str:
    """What the agent tells one whom it does not register."""
    async with asyncio.timeout(60):
        while True:
            method, request = await peer.heard.get()
            if method == "NotifyRegistrationStatus":
                told = contracts.message("pluginregistration.RegistrationStatus").FromString(request)
                assert not told.plugin_registered
                return str(told.error)


@contextlib.asynccontextmanager
async def listening(path: Path, peer: Peer) -> AsyncIterator[None]:
    """Have a peer on a socket, whatever comes of its conversations."""
    serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving[task] = writer
        with contextlib.suppress(OSError):
            await peer(reader, writer)
        writer.close()

    path.parent.mkdir(parents=True, exist_ok=True)
    async with await asyncio.start_unix_server(serve, str(path)):
        yield
    for task, writer in serving.items():
        writer.transport.abort()
        task.cancel()
    if serving:
        await asyncio.wait(serving)
    await asyncio.sleep(0)


def raw(data: bytes) -> Peer:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await reader.read()

    return peer


async def flooding(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One message without end."""
    _, _, connection, stream = await _request(reader, writer)
    connection.send_headers(stream, GRPC)
    connection.send_data(stream, b"\0\x7f\xff\xff\xff")
    writer.write(connection.data_to_send())
    while True:
        writer.write(b"\x00\x40\x00\x00\x00" + stream.to_bytes(4, "big") + b"x" * 16384)
        await writer.drain()


# They are never registered.
STRANGERS: dict[str, Peer] = {
    "silent": raw(b""),
    "garbage": raw(b"\xff" * 65536),
    "http1": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * 50),
    "huge": flooding,
}


class Good(sdk.Driver):
    """One whom the others must not hurt."""

    name = "example.com/good"

    def __init__(self, transition: str) -> None:
        self.transitions = (OfferedTransition(name=transition, start="GoodStarted", end="GoodEnded"),)
        self.did: list[str] = []

    async def start(self, work: sdk.Work) -> None:
        self.did.append(f"start {work.event_uid}")

    async def end(self, work: sdk.Work, report: sdk.Report) -> None:
        report(sdk.Progress(message="nearly"))
        self.did.append(f"end {work.event_uid}")


def resident_megabytes(pid: int) -> int:
    found = re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1]) // 1024


async def test_strangers_and_a_thief_in_the_registry(
    site: Site, admin: RawApi, unique_name: Callable[[str], str]
) -> None:
    agent = site.start_agent()
    good = Good(unique_name("good"))
    async with contextlib.AsyncExitStack() as stack:
        for name, peer in STRANGERS.items():
            await stack.enter_async_context(listening(site.folder / "registry" / f"{name}.sock", peer))
        options = sdk.Options(registry=site.folder / "registry")
        serving = await stack.enter_async_context(sdk.serving(good, options))
        async with asyncio.timeout(60):
            while not serving.registered:
                await serving.wait_told()

        thief = registration(good.name, serving.service_socket)  # the name and the place of another
        await stack.enter_async_context(listening(site.folder / "registry" / "thief.sock", thief.serve))
        assert "is registered already" in await refusal(thief)
        if os.geteuid() == 0:  # the owners of the sockets tell the users apart, and only root can give one away
            stranger = registration(good.name, site.folder / "stranger.sock")
            hidden = site.folder / "stranger-reg.sock"
            await stack.enter_async_context(listening(hidden, stranger.serve))
            os.chown(hidden, 12345, 12345)
            hidden.rename(site.folder / "registry" / "stranger.sock")
            assert "is registered by another user" in await refusal(stranger)

        async with site.watching(admin) as story:
            uid = (await site.ask(admin, name := unique_name("event"), good.transitions[0].name))["metadata"]["uid"]
            await story.until(name, "gone")
        assert story.seen[name] == ["Pending", "Claimed", "held", "Succeeded", "gone"]
        assert good.did == [f"start {uid}", f"end {uid}"]
        assert agent.running
        assert resident_megabytes(agent.pid) < 150
    assert "Traceback" not in agent.last_words()


async def test_drivers_that_answer_wrongly(site: Site, admin: RawApi, unique_name: Callable[[str], str]) -> None:
    node = site.node
    mark = unique_name("x")

    def named(what: str) -> str:
        return f"{mark}-{what}"

    def good_start(what: str) -> Answer:
        return [GRPC, reached(f"{named(what)}-a", node), OK]

    def result(what: str) -> bytes:
        return ended(result=codec.encode_reached(Reached(state=f"{named(what)}-b", node_name=node)))

    backwards = ended(progress=codec.encode_progress(Progress(done=-5)))
    chatter = ended(progress=codec.encode_progress(Progress(done=1, total=2, message="m" * 60_000)))
    cases: dict[str, tuple[Answer | None, Answer | None, str, str]] = {
        "garbage": ([GRPC, b"\0\0\0\0\x03\xff\xff\xff", OK], None, "Failed", "malformed"),
        "twice": ([GRPC, reached(f"{named('twice')}-a", node) * 2, OK], None, "Failed", "answered twice"),
        "elsewhere": ([GRPC, reached(f"{named('elsewhere')}-a", "other"), OK], None, "Failed", "not requested"),
        "too-far": ([GRPC, reached(f"{named('too-far')}-b", node), OK], None, "Failed", "not requested"),
        "two-ends": (
            good_start("two-ends"),
            [GRPC, result("two-ends") * 2, OK],
            "Failed",
            "sent a message after its result",
        ),
        "no-end": (good_start("no-end"), [GRPC, OK], "Failed", "without a result"),
        "backwards": (good_start("backwards"), [GRPC, backwards, OK], "Failed", ""),
        "big": (good_start("big"), [GRPC, b"\0\x7f\xff\xff\xff" + b"x" * 60_000], "Failed", "more than"),
        "never": (None, None, "SlaExpired", "the driver had not started"),
        "chatter": (good_start("chatter"), [GRPC, chatter], "SlaExpired", "the driver had not finished"),
    }
    agent = site.start_agent()
    async with contextlib.AsyncExitStack() as stack:
        for what, (start, end, status, _) in cases.items():
            sla = "2s" if status == "SlaExpired" else ""
            name = named(what)
            offered = OfferedTransition(name=name, start=f"{name}-a", end=f"{name}-b", sla=sla)
            transitions = framed(codec.encode_transitions([offered]).SerializeToString())
            answers = {"StartLifecycleTransition": start, "EndLifecycleTransition": end}
            driver = Scripted({"GetTransitions": [GRPC, transitions, OK], **answers})
            endpoint = site.folder / "plugins" / what
            await stack.enter_async_context(listening(endpoint, driver.serve))
            plugin = registration(f"example.com/{name}", endpoint)
            await stack.enter_async_context(listening(site.folder / "registry" / f"{what}.sock", plugin.serve))
        async with site.watching(admin) as story:
            for what in cases:
                await admin.poll(f"{LIFECYCLE}/lifecycletransitions/{named(what)}", lambda got: got.code == 200)
                await site.ask(admin, named(what), named(what))
            for what, (_, _, status, words) in cases.items():
                settled = (await story.until(named(what), status))["status"]
                assert words in settled["message"], what
                await story.until(named(what), "gone")
                assert "Succeeded" not in story.seen[named(what)], what
        assert agent.running
        assert resident_megabytes(agent.pid) < 150
    shown = condition((await admin.get(site.node_path)).expect(200))["reason"]
    assert not shown.endswith("-b"), "no end state was ever believed"
    assert "Traceback" not in agent.last_words()
