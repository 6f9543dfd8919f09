from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.listener import FIRST_BYTE_SECONDS, SILENT_CONNECTIONS
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.manager.health import HealthChecks, Verdict
from kube_fairlead.manager.health_server import HealthServer, ServingOptions
from kube_fairlead_lab.testing.credentials import CertificateAuthority


def a_server(options: ServingOptions | None = None) -> HealthServer:
    live, ready, metrics = HealthChecks(), HealthChecks(), PrometheusMetrics()
    live.add("leaderElection", lambda: Verdict(is_ok=True, note="follows a"))
    ready.add("cache", lambda: Verdict(is_ok=False, note="empty"))
    metrics.counter("fairlead_test_total", "Tests.").inc()
    return HealthServer(options or ServingOptions(), live=live, ready=ready, metrics=metrics, clock=RealClock())


@pytest.fixture
async def server() -> AsyncIterator[HealthServer]:
    async with a_server().running() as running:
        yield running


async def ask(server: HealthServer, request: bytes, tls: ssl.SSLContext | None = None) -> tuple[int, str, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls)
    writer.write(request)
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), head, body


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/healthz", 200, "ok"),
        ("/livez", 200, "ok"),
        ("/healthz?verbose", 200, "[+]ping ok\n[+]leaderElection ok: follows a\nhealthz check passed\n"),
        ("/healthz/leaderElection", 200, "ok: follows a"),
        ("/healthz/nothing", 404, "there is no check nothing\n"),
        ("/readyz", 500, "[+]ping ok\n[-]cache failed: empty\nreadyz check failed\n"),
        ("/readyz?exclude=cache", 200, "ok"),
        ("/elsewhere", 404, "there are /healthz, /livez, /readyz and /metrics\n"),
    ],
)
async def test_pages(server: HealthServer, path: str, status: int, body: str) -> None:
    got, head, text = await ask(server, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert (got, text) == (status, body)
    assert f"Content-Length: {len(body)}" in head
    assert "Connection: close" in head


async def test_metrics(server: HealthServer) -> None:
    status, head, text = await ask(server, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert status == 200
    assert "text/plain; version=0.0.4" in head
    assert "fairlead_test_total 1.0" in text


async def test_a_head_request_gets_no_body(server: HealthServer) -> None:
    status, head, text = await ask(server, b"HEAD /healthz HTTP/1.1\r\n\r\n")
    assert (status, text) == (200, "")
    assert "Content-Length: 2" in head


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /healthz HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /healthz SPDY/3\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n" + b"X: " + b"y" * 40_000 + b"\r\n\r\n", 431),
    ],
)
async def test_what_is_not_answered(server: HealthServer, request_: bytes, status: int) -> None:
    assert (await ask(server, request_))[0] == status


async def test_whoever_hangs_up_early_disturbs_nobody(server: HealthServer) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /heal")
    await writer.drain()
    writer.close()
    assert (await ask(server, b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 200


async def test_open_connections_end_with_the_server() -> None:
    async with a_server().running() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert (await ask(server, b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 200  # the first is accepted by now
    assert await reader.read() == b""
    writer.close()


async def test_with_a_certificate_it_speaks_tls(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path)
    certificate, key = authority.serving("manager")
    options = ServingOptions(certificate_file=certificate, key_file=key)
    async with a_server(options).running() as server:
        assert server.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(authority.certificate_file))
        assert (await ask(server, b"GET /healthz HTTP/1.1\r\n\r\n", context))[0] == 200


async def test_port_none_is_off() -> None:
    async with a_server(ServingOptions(port=None)).running() as server:
        assert server.port == 0


def trusting_nobody() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def test_without_a_certificate_it_makes_one_and_keeps_it_where_it_is_told(tmp_path: Path) -> None:
    shown = []
    for _ in range(2):
        async with a_server(ServingOptions(self_signed=True, folder=tmp_path)).running() as server:
            assert server.url.startswith("https://127.0.0.1:")
            assert (await ask(server, b"GET /healthz HTTP/1.1\r\n\r\n", trusting_nobody()))[0] == 200
        shown.append((tmp_path / "fairlead.crt").read_bytes())
    assert shown[0] == shown[1]
    assert (tmp_path / "fairlead.key").stat().st_mode & 0o777 == 0o600
    # Its clients can trust it by the authority that it shows.
    context = ssl.create_default_context(cafile=str(tmp_path / "fairlead.crt"))
    async with a_server(ServingOptions(self_signed=True, folder=tmp_path)).running() as server:
        assert (await ask(server, b"GET /healthz HTTP/1.1\r\n\r\n", context))[0] == 200


async def test_a_certificate_needs_no_folder() -> None:
    async with a_server(ServingOptions(self_signed=True)).running() as server:
        assert (await ask(server, b"GET /readyz/cache HTTP/1.1\r\n\r\n", trusting_nobody()))[0] == 500


async def test_clients_that_never_speak_are_bounded_and_keep_no_probe_out() -> None:
    async with a_server(ServingOptions(self_signed=True)).running() as server:
        silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(SILENT_CONNECTIONS + 10)]
        assert (await ask(server, b"GET /healthz HTTP/1.1\r\n\r\n", trusting_nobody()))[0] == 200
        # Those that connected first have given way.
        for reader, _ in silent[:5]:
            with contextlib.suppress(ConnectionError):
                async with RealClock().timeout(FIRST_BYTE_SECONDS / 2):
                    assert await reader.read() == b""
        for _, writer in silent:
            writer.close()
