from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import pathlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from kube_fairlead.base.clock import RealClock, VirtualClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.client import connection, errors, retry
from kube_fairlead.client.http import HttpTransport
from kube_fairlead.client.server_access import Access
from kube_fairlead.client.transport import Request
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from tests.unit.client import scripted

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
GET = Request(method="GET", path="/version", timeout_seconds=10)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextlib.asynccontextmanager
async def raw(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that speaks bytes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"{'https' if context else 'http'}://127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def transport_to(
    access: Access | str, clock: RealClock | VirtualClock | None = None
) -> AsyncIterator[HttpTransport]:
    access = Access(server=access) if isinstance(access, str) else access
    transport = HttpTransport(access, clock=clock or RealClock(), environment=Environment({}))
    try:
        yield transport
    finally:
        await transport.close()


async def read_head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


def tls_pair(folder: pathlib.Path) -> tuple[ssl.SSLContext, bytes]:
    authority = CertificateAuthority.create(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.serving("server"))
    return context, authority.certificate_file.read_bytes()


@pytest.mark.parametrize(("method", "is_repeated"), [("GET", True), ("PUT", False), ("DELETE", False), ("POST", False)])
async def test_a_kept_connection_that_was_closed_meanwhile(method: str, is_repeated: bool) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_head(reader)
        writer.write(OK)
        await read_head(reader)  # the server restarts: this one is never answered
        if connections > 1:
            writer.write(OK)

    request = Request(method=method, path="/x", timeout_seconds=10)
    async with raw(serve) as url, transport_to(url) as transport:
        await transport.send(GET)
        if is_repeated:
            assert (await transport.send(request)).status == 200
        else:
            with pytest.raises(errors.ConnectionBroken, match=f"{method} /x: the server closed it"):
                await transport.send(request)
    assert connections == 1 + is_repeated


async def test_a_kept_connection_is_not_used_for_ever() -> None:
    ports: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_head(reader)
            ports.append(writer.get_extra_info("peername")[1])
            writer.write(OK)

    clock = VirtualClock()
    async with raw(serve) as url, transport_to(url, clock) as transport:
        await transport.send(GET)
        await clock.advance(59)
        await transport.send(GET)
        await clock.advance(61)
        await transport.send(GET)
    assert ports[0] == ports[1] != ports[2]


async def test_bytes_that_no_request_asked_for_end_a_connection() -> None:
    connections = 0
    late = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_head(reader)
        writer.write(OK)
        if connections == 1:
            await late.wait()
            writer.write(b"HTTP/1.1 500 Not yours\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    async with raw(serve) as url, transport_to(url) as transport:
        await transport.send(GET)
        assert transport._pool is not None
        (kept,) = transport._pool._idle
        late.set()
        while kept.is_usable:  # noqa: ASYNC110 - only the event loop can change it
            await asyncio.sleep(0)
        assert (await transport.send(GET)).status == 200
    assert connections == 2


async def test_an_answer_in_gzip() -> None:
    items = [{"name": f"pod-{number}"} for number in range(50_000)]

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "gzip"
        body = gzip.compress(json.dumps({"items": items}).encode())
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    async with scripted.serving() as server, transport_to(server.url) as transport:
        server.script(answer)
        assert json.loads((await transport.send(GET)).body) == {"items": items}


async def test_large_bodies_through_tls(tmp_path: pathlib.Path) -> None:
    context, pem = tls_pair(tmp_path / "pki")
    body = bytes(range(256)) * (8 << 12)  # 8 MiB: many records, and more than any buffer on the way

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=await request.read())

    application = web.Application(client_max_size=1 << 30)
    application.router.add_post("/echo", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        async with transport_to(Access(server=url, certificate_authority=pem)) as transport:
            for _ in range(2):  # the second on the same connection
                sent = Request(method="POST", path="/echo", body=body, timeout_seconds=60)
                assert (await transport.send(sent)).body == body
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_reader_that_waits_makes_the_server_wait(tmp_path: pathlib.Path, encrypted: bool) -> None:
    context, pem = tls_pair(tmp_path / "pki")
    stuck = asyncio.Event()
    total = 64 << 20
    written = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        while written < total:
            writer.write(bytes(1 << 20))
            written += 1 << 20
            if writer.transport.get_write_buffer_size():
                stuck.set()
            await writer.drain()

    async with raw(serve, context if encrypted else None) as url:
        access = Access(server=url, certificate_authority=pem)
        async with transport_to(access) as transport, transport.stream(GET) as answer:
            await stuck.wait()
            for _ in range(1000):  # whatever the loop could still move
                await asyncio.sleep(0)
            assert written < total // 2
            assert sum([len(chunk) async for chunk in answer.chunks()]) == total


async def test_every_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(OK)

    async with raw(serve) as url:
        port = int(url.rpartition(":")[2])
        deaf = socket.create_server(("127.0.0.2", port), backlog=0)
        # The kernel drops what does not fit into its queue: to that address a connection takes minutes.
        fillers = [socket.socket() for _ in range(3)]
        with deaf, contextlib.ExitStack() as stack:
            for filler in fillers:
                stack.enter_context(filler).setblocking(False)
                filler.connect_ex(("127.0.0.2", port))
            hosts = [b"127.0.0.3", b"127.0.0.2", b"127.0.0.1"]  # refused, silent, right
            resolved = [socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0] for host in hosts]

            async def resolve(*_: object) -> list[tuple[object, ...]]:
                return list(resolved)

            monkeypatch.setattr(connection, "_resolve", resolve)
            async with transport_to(f"http://server.example:{port}") as transport:
                assert (await transport.send(GET)).status == 200


async def test_a_server_that_never_accepts_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf, contextlib.ExitStack() as stack:
        for filler in [socket.socket() for _ in range(3)]:
            stack.enter_context(filler).setblocking(False)
            filler.connect_ex(deaf.getsockname())
        access = Access(server=f"http://127.0.0.1:{deaf.getsockname()[1]}")
        transport = HttpTransport(access, clock=RealClock(), environment=Environment({}), connect_timeout_seconds=0.05)
        with pytest.raises(errors.ServerUnreachable, match="it does not answer"):
            await transport.send(GET)
        await transport.close()
        assert all(opened.fileno() == -1 for opened in transport._sockets)


async def test_a_server_that_is_silent_in_the_handshake_is_given_up(tmp_path: pathlib.Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw(serve) as url:
        access = Access(server=url.replace("http:", "https:"), insecure_skip_tls_verify=True)
        transport = HttpTransport(access, clock=RealClock(), environment=Environment({}), connect_timeout_seconds=0.05)
        with pytest.raises(errors.ServerUnreachable, match="it does not answer"):
            await transport.send(GET)
        await transport.close()


async def test_close_ends_requests_under_way_and_leaves_no_socket(tmp_path: pathlib.Path) -> None:
    context, pem = tls_pair(tmp_path / "pki")
    arrived = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        arrived.set()
        await reader.read()

    async with raw(serve, context) as url:
        access = Access(server=url, certificate_authority=pem)
        transport = HttpTransport(access, clock=RealClock(), environment=Environment({}))
        async with transport.stream(GET) as answer:
            await arrived.wait()
            (opened,) = transport._sockets
            await transport.close()
            assert opened.fileno() == -1
            with pytest.raises(errors.ConnectionBroken, match="cut off"):
                await answer.read()


async def test_an_answer_that_is_no_http_breaks_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"220 smtp.example.com ESMTP\r\n\r\n")
        await reader.read()

    async with raw(serve) as url, transport_to(url) as transport:
        with pytest.raises(errors.ConnectionBroken, match="does not begin with a status line"):
            await transport.send(GET)


@pytest.mark.parametrize("server", ["ftp://a", "https://", "https://a:x", "nonsense"])
async def test_a_server_that_is_no_url(server: str) -> None:
    async with transport_to(server) as transport:
        with pytest.raises(errors.ConfigError, match="is not a URL that can be connected to"):
            await transport.send(GET)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 Connection established\r\n\r\n",
        b"HTTP/1.0 200 Connection established\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
    ],
)
async def test_a_proxy_with_tls(tmp_path: pathlib.Path, answer: bytes) -> None:
    """TLS to the server runs inside of TLS to the proxy."""
    context, pem = tls_pair(tmp_path / "pki")
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(OK)

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await read_head(reader))
        back, forth = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(answer)
        await asyncio.gather(copy(reader, forth), copy(back, writer))

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
        target.close()

    async with raw(serve, context) as url, raw(tunnel, context) as proxy:
        access = Access(
            server="https://cluster.example.com:6443",
            proxy_url=proxy,
            tls_server_name="localhost",
            certificate_authority=pem,
        )
        async with transport_to(access) as transport:
            assert (await transport.send(GET)).body == b"{}"
    assert asked[0].startswith(b"CONNECT cluster.example.com:6443 HTTP/1.1\r\nHost: cluster.example.com:6443\r\n")


async def test_a_proxy_that_refuses() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 403 Not from here\r\nContent-Length: 0\r\n\r\n")

    async with raw(refuse) as proxy:
        access = Access(server="https://a.example.com", proxy_url=proxy)
        async with scripted.client_for(access, policy=retry.NEVER) as client:
            with pytest.raises(errors.ServerUnreachable) as caught:
                await client.request("GET", "/version")
    assert str(caught.value) == f"the proxy {proxy} refused to connect to https://a.example.com: 403 Not from here"


@pytest.mark.parametrize(
    ("url", "host", "full"),
    [
        ("https://a.example", "a.example", "a.example:443"),
        ("https://a.example:6443/x/", "a.example:6443", "a.example:6443"),
        ("http://[::1]", "[::1]", "[::1]:80"),
        ("http://[fd00::1]:8080", "[fd00::1]:8080", "[fd00::1]:8080"),
        ("https://bücher.example", "xn--bcher-kva.example", "xn--bcher-kva.example:443"),
    ],
)
def test_names_of_an_endpoint(url: str, host: str, full: str) -> None:
    endpoint = connection.Endpoint.of(url)
    assert (endpoint.short_name, endpoint.full_name) == (host, full)


def test_the_user_in_a_url() -> None:
    assert connection.Endpoint.of("http://me:p%40ss@a").authorization == "Basic bWU6cEBzcw=="
