from __future__ import annotations

import asyncio
import contextlib
import pathlib
import shutil
import socket
import ssl
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import RealClock, VirtualClock
from kube_fairlead.client import credentials, errors, retry
from kube_fairlead.client.server_access import Access, Impersonation
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from tests.unit.client import scripted


@pytest.fixture
def authority(tmp_path: pathlib.Path) -> CertificateAuthority:
    return CertificateAuthority.create(tmp_path / "authority")


def serving_context(authority: CertificateAuthority, *, ask_for_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.serving("server"))
    if ask_for_certificate:
        context.load_verify_locations(authority.certificate_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def certificate(authority: CertificateAuthority, user: str) -> credentials.Certificate:
    chain, key = authority.client(user, ())
    return credentials.Certificate(chain.read_bytes(), key.read_bytes())


def static(credential: credentials.Credential) -> credentials.StaticCredentials:
    return credentials.StaticCredentials(credential)


async def names_the_caller(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    peer = request.transport.get_extra_info("peercert") or {}
    names = [value for part in peer.get("subject", ()) for key, value in part if key == "commonName"]
    return web.json_response({"certificate": names, "authorization": request.headers.get("Authorization", "")})


async def test_headers_say_who_asks_and_for_what() -> None:
    async with scripted.serving() as server:
        server.script(scripted.answers({}))
        access = Access(
            server=server.url,
            credentials=static(credentials.Credential(credentials.bearer("secret"))),
            impersonation=Impersonation(
                user="jane", uid="7", groups=("a", "b"), extra={"example.com/scopes": ("x", "y")}
            ),
        )
        async with scripted.client_for(access) as client:
            await client.request("GET", "/version")
        headers = server.seen[0].headers
        assert headers["Accept"] == "application/json"
        assert headers["User-Agent"].startswith("fairlead/")
        assert headers["Authorization"] == "Bearer secret"
        assert headers["Impersonate-User"] == "jane"
        assert headers["Impersonate-Uid"] == "7"
        assert headers.getall("Impersonate-Group") == ["a", "b"]  # type: ignore[attr-defined]  # a multi-dict
        assert headers.getall("Impersonate-Extra-example.com%2Fscopes") == ["x", "y"]  # type: ignore[attr-defined]  # a multi-dict


async def test_a_server_below_a_path() -> None:
    async with scripted.serving() as server:
        server.script(scripted.answers({}))
        async with scripted.client_for(Access(server=f"{server.url}/k8s/clusters/c-1")) as client:
            await client.request("GET", "/api/v1/nodes/a%3Ab", query=(("labelSelector", "a in (b,c)"),))
        assert server.seen[0].path == "/k8s/clusters/c-1/api/v1/nodes/a%3Ab"
        assert server.seen[0].query == {"labelSelector": "a in (b,c)"}


async def test_connections_are_kept() -> None:
    ports: set[int] = set()

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return web.json_response({})

    async with scripted.serving() as server, scripted.client_for(server.url) as client:
        server.script(answer)
        for _ in range(5):
            await client.request("GET", "/version")
    assert len(ports) == 1


async def test_tls_with_a_client_certificate(authority: CertificateAuthority) -> None:
    async with scripted.serving(serving_context(authority, ask_for_certificate=True)) as server:
        server.script(names_the_caller)
        access = Access(
            server=server.url,
            certificate_authority=authority.certificate_file.read_bytes(),
            credentials=static(credentials.Credential(certificate=certificate(authority, "jane"))),
        )
        async with scripted.client_for(access) as client:
            assert (await client.request("GET", "/")).body == b'{"certificate": ["jane"], "authorization": ""}'


async def test_a_server_that_is_not_trusted(authority: CertificateAuthority, tmp_path: pathlib.Path) -> None:
    stranger = CertificateAuthority.create(tmp_path / "stranger")
    async with scripted.serving(serving_context(authority)) as server:
        access = Access(server=server.url, certificate_authority=stranger.certificate_file.read_bytes())
        async with scripted.client_for(access) as client:
            with pytest.raises(errors.CertificateRejected, match=f"certificate of {server.url} is not trusted: ."):
                await client.request("GET", "/")
        assert not server.seen


async def test_a_server_with_another_name(authority: CertificateAuthority) -> None:
    pem = authority.certificate_file.read_bytes()
    async with scripted.serving(serving_context(authority)) as server:
        server.script(scripted.answers({}))
        wrong = Access(server=server.url, certificate_authority=pem, tls_server_name="elsewhere.example.com")
        async with scripted.client_for(wrong) as client:
            with pytest.raises(errors.CertificateRejected, match=r"elsewhere\.example\.com"):
                await client.request("GET", "/")
        right = Access(server=server.url, certificate_authority=pem, tls_server_name="localhost")
        async with scripted.client_for(right) as client:
            await client.request("GET", "/")


async def test_verification_can_be_skipped(authority: CertificateAuthority) -> None:
    async with scripted.serving(serving_context(authority)) as server:
        server.script(scripted.answers({}))
        async with scripted.client_for(Access(server=server.url, insecure_skip_tls_verify=True)) as client:
            await client.request("GET", "/")


async def test_a_server_that_wants_a_certificate_we_do_not_have(authority: CertificateAuthority) -> None:
    async with scripted.serving(serving_context(authority, ask_for_certificate=True)) as server:
        server.script(scripted.answers({}))
        access = Access(server=server.url, certificate_authority=authority.certificate_file.read_bytes())
        async with scripted.client_for(access, policy=retry.NEVER) as client:
            with pytest.raises(errors.TransportError):
                await client.request("GET", "/")


async def test_https_to_a_server_without_tls() -> None:
    async with scripted.serving() as server:
        access = Access(server=server.url.replace("http:", "https:"), insecure_skip_tls_verify=True)
        async with scripted.client_for(access) as client:
            with pytest.raises(errors.CertificateRejected, match="does not speak TLS"):
                await client.request("GET", "/")


async def test_an_authority_that_is_no_certificate() -> None:
    access = Access(server="https://127.0.0.1:1", certificate_authority=b"nonsense")
    async with scripted.client_for(access) as client:
        with pytest.raises(errors.ConfigError, match="not a PEM certificate"):
            await client.request("GET", "/")


async def test_a_certificate_that_does_not_fit_its_key(authority: CertificateAuthority) -> None:
    mixed = credentials.Certificate(certificate(authority, "a").chain, certificate(authority, "b").key)
    access = Access(server="https://127.0.0.1:1", credentials=static(credentials.Credential(certificate=mixed)))
    async with scripted.client_for(access) as client:
        with pytest.raises(errors.ConfigError, match="do not belong together"):
            await client.request("GET", "/")


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_an_unreachable_server_is_one_sentence() -> None:
    url = f"http://127.0.0.1:{unused_port()}"
    async with scripted.client_for(url, policy=retry.NEVER) as client:
        with pytest.raises(errors.ServerUnreachable) as caught:
            await client.request("GET", "/version")
    assert str(caught.value) == f"cannot connect to {url}: Connection refused"


async def test_an_unknown_host() -> None:
    async with scripted.client_for("https://no-such-host.invalid", policy=retry.NEVER) as client:
        with pytest.raises(errors.ServerUnreachable, match=r"no-such-host\.invalid"):
            await client.request("GET", "/version")


async def test_a_connection_that_breaks_before_the_answer() -> None:
    async with scripted.serving() as server, scripted.client_for(server.url, policy=retry.NEVER) as client:
        server.script(scripted.hangs_up())
        with pytest.raises(errors.ConnectionBroken, match="broke during POST /api/v1/nodes"):
            await client.request("POST", "/api/v1/nodes", body={})


async def test_a_connection_that_breaks_inside_the_answer() -> None:
    async with scripted.serving() as server, scripted.client_for(server.url, policy=retry.NEVER) as client:
        server.script(scripted.streams(b'{"items":[', then="cut"))
        with pytest.raises(errors.ConnectionBroken, match=r"GET /api/v1/nodes: the answer was cut off$"):
            await client.request("GET", "/api/v1/nodes")


async def test_a_slow_server_runs_out_of_time() -> None:
    clock = VirtualClock()
    arrived = asyncio.Event()

    async def answer(_: web.Request) -> web.StreamResponse:
        arrived.set()
        await scripted.never()
        return web.Response()

    async with (
        scripted.serving() as server,
        scripted.client_for(server.url, clock=clock, timeout_seconds=30) as client,
    ):
        server.script(answer)

        async def ask() -> None:
            with pytest.raises(errors.RequestTimedOut, match=r"GET /version was not answered within 30 s"):
                await client.request("GET", "/version")

        async with tasks.TaskScope("test") as scope:
            scope.start(ask(), name="ask")
            await arrived.wait()
            await clock.advance(31)


async def test_cancelling_a_request_is_prompt() -> None:
    arrived = asyncio.Event()

    async def answer(_: web.Request) -> web.StreamResponse:
        arrived.set()
        await scripted.never()
        return web.Response()

    async with scripted.serving() as server, scripted.client_for(server.url) as client:
        server.script(answer)
        async with tasks.TaskScope("test") as scope:
            asking = scope.start(client.request("GET", "/version"), name="ask")
            await arrived.wait()
            asking.cancel()
        assert asking.cancelled()


async def test_a_closed_client_says_so() -> None:
    async with scripted.serving() as server:
        client = scripted.client_for(server.url, policy=retry.NEVER)
        await client.close()
        with pytest.raises(errors.ServerUnreachable, match="closed"):
            await client.request("GET", "/version")


class Rotating:
    """Credentials of which the first is refused."""

    def __init__(self, *issued: credentials.Credential) -> None:
        self._issued = list(issued)

    async def current(self) -> credentials.Credential:
        return self._issued[0]

    async def refused(self, credential: credentials.Credential) -> bool:
        if credential == self._issued[0] and len(self._issued) > 1:
            self._issued.pop(0)
        return credential != self._issued[0]


async def test_a_refused_token_is_renewed_and_the_request_repeated() -> None:
    async with scripted.serving() as server:
        server.script(scripted.answers(scripted.status(401, "Unauthorized"), status=401), scripted.answers({"ok": 1}))
        rotating = Rotating(*(credentials.Credential(credentials.bearer(token)) for token in ("old", "new")))
        async with scripted.client_for(Access(server=server.url, credentials=rotating)) as client:
            assert (await client.request("POST", "/x", body={"a": 1})).body == b'{"ok": 1}'
        assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer old", "Bearer new"]
        assert [seen.body for seen in server.seen] == [b'{"a":1}'] * 2


async def test_a_token_that_stays_refused_is_an_error() -> None:
    from kube_fairlead.api import errors as api_errors

    async with scripted.serving() as server:
        server.script(scripted.answers(scripted.status(401, "Unauthorized"), status=401))
        access = Access(server=server.url, credentials=static(credentials.Credential(credentials.bearer("x"))))
        async with scripted.client_for(access) as client:
            with pytest.raises(api_errors.Unauthorized):
                await client.request("GET", "/x")
        assert len(server.seen) == 1


async def test_a_new_client_certificate_is_used_at_once(authority: CertificateAuthority) -> None:
    pem = authority.certificate_file.read_bytes()
    first, second = (credentials.Credential(certificate=certificate(authority, user)) for user in ("a", "b"))
    issued = Rotating(first, second)
    async with scripted.serving(serving_context(authority, ask_for_certificate=True)) as server:
        server.script(names_the_caller)
        access = Access(server=server.url, certificate_authority=pem, credentials=issued)
        async with scripted.client_for(access) as client:
            assert b'"a"' in (await client.request("GET", "/")).body
            async with client.stream("/") as held:
                await issued.refused(first)
                assert b'"b"' in (await client.request("GET", "/")).body
                assert b'"a"' in await held.read()


async def test_a_replaced_authority_is_read_again(authority: CertificateAuthority, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(CertificateAuthority.create(tmp_path / "previous").certificate_file.read_bytes())
    async with scripted.serving(serving_context(authority)) as server:
        server.script(scripted.answers({}))
        access = Access(server=server.url, certificate_authority_file=file)
        async with scripted.client_for(access) as client:
            with pytest.raises(errors.CertificateRejected):
                await client.request("GET", "/")
            shutil.copy(authority.certificate_file, file)
            await client.request("GET", "/")


async def test_a_missing_authority_file(tmp_path: pathlib.Path) -> None:
    access = Access(server="https://127.0.0.1:1", certificate_authority_file=tmp_path / "gone")
    async with scripted.client_for(access) as client:
        with pytest.raises(errors.ConfigError, match="gone: No such file"):
            await client.request("GET", "/")


@contextlib.asynccontextmanager
async def proxying(seen: list[bytes]) -> AsyncIterator[str]:
    """A forward proxy that only notes what it was asked for, and answers itself."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_requests_go_through_the_proxy() -> None:
    seen: list[bytes] = []
    async with proxying(seen) as proxy:
        access = Access(server="http://cluster.example.com:8080", proxy_url=proxy)
        async with scripted.client_for(access) as client:
            await client.request("GET", "/version")
    assert seen[0].startswith(b"GET http://cluster.example.com:8080/version HTTP/1.1")


@contextlib.asynccontextmanager
async def tunnelling(target: str, seen: list[bytes]) -> AsyncIterator[str]:
    """A proxy that connects every tunnel to one server."""
    port = int(target.rpartition(":")[2])

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(65536):
            writer.write(piece)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with tasks.TaskScope("tunnel") as scope:
            scope.start(copy(reader, forth), name="there")
            scope.start(copy(back, writer), name="back")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://me:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_tls_goes_through_the_proxy_untouched(authority: CertificateAuthority) -> None:
    seen: list[bytes] = []
    async with (
        scripted.serving(serving_context(authority, ask_for_certificate=True)) as server,
        tunnelling(server.url, seen) as proxy,
    ):
        server.script(names_the_caller)
        access = Access(
            server="https://cluster.example.com:6443",
            proxy_url=proxy,
            tls_server_name="localhost",
            certificate_authority=authority.certificate_file.read_bytes(),
            credentials=static(credentials.Credential(certificate=certificate(authority, "jane"))),
        )
        async with scripted.client_for(access) as client:
            assert b"jane" in (await client.request("GET", "/")).body
    assert seen[0].startswith(b"CONNECT cluster.example.com:6443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic" in seen[0]


async def test_the_proxy_of_the_environment() -> None:
    seen: list[bytes] = []
    async with proxying(seen) as proxy:
        access = Access(server="http://cluster.example.com")
        async with scripted.client_for(access, environment={"HTTP_PROXY": proxy}) as client:
            await client.request("GET", "/version")
    assert len(seen) == 1


async def test_an_unreachable_proxy_is_named_without_its_password() -> None:
    access = Access(server="http://a.example.com", proxy_url=f"http://me:secret@127.0.0.1:{unused_port()}")
    async with scripted.client_for(access, policy=retry.NEVER) as client:
        with pytest.raises(errors.ServerUnreachable, match="proxy") as caught:
            await client.request("GET", "/version")
    assert "secret" not in str(caught.value)


async def test_the_real_clock_times_out_too() -> None:
    async with (
        scripted.serving() as server,
        scripted.client_for(server.url, clock=RealClock(), timeout_seconds=0.05) as client,
    ):
        server.script(scripted.streams(b"{", then="silence"))
        with pytest.raises(errors.RequestTimedOut):
            await client.request("GET", "/version")
