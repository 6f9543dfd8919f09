"""The webhook over real HTTPS on loopback; its client is a stub that never needs to write."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kube_fairlead.base import listener, tasks
from kube_fairlead.base.clock import RealClock, VirtualClock
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.inprocess import InProcessTransport
from kube_fairlead.webhook import server
from kube_fairlead_lab.testing.credentials import CertificateAuthority

Json = dict[str, Any]
VERSION = b'{"gitVersion":"v1.36.4"}'


class Stub:
    """An API server that answers /version when it is up."""

    def __init__(self) -> None:
        self.is_up = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not self.is_up:
            raise ConnectionError("down")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": VERSION})


class Running:
    """A webhook that serves, and the world around it."""

    def __init__(self, folder: Path) -> None:
        self.authority = CertificateAuthority.create(folder / "pki")
        made = self.authority.serving("webhook")
        self.certificate, self.key = (folder / path.name for path in made)
        for source, target in zip(made, (self.certificate, self.key), strict=True):
            shutil.copy(source, target)
        self.stub = Stub()
        self.clock = VirtualClock()
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []  # of clients that stay connected
        self.client_ca: Path | None = None
        self.client_names: frozenset[str] = frozenset()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        transport = InProcessTransport(self.stub, clock=self.clock)
        client = Client(transport, clock=self.clock, randomness=SeededRandomness(1), retry_policy=retry.NEVER)
        listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        settings = server.Settings(self.certificate, self.key, "127.0.0.1", 0, self.client_ca, self.client_names)
        async with client, tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(server.serve(client, PrometheusMetrics(), settings, listening.set_result), name="webhook")
            self.port = await listening
            yield

    @contextlib.asynccontextmanager
    async def session(self, authority: CertificateAuthority | None = None) -> AsyncIterator[aiohttp.ClientSession]:
        context = ssl.create_default_context(cafile=str((authority or self.authority).certificate_file))
        base = f"https://127.0.0.1:{self.port}"
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        async with aiohttp.ClientSession(base, connector=connector) as session:
            yield session


@pytest.fixture
def webhook(tmp_path: Path) -> Running:
    return Running(tmp_path)


OLD = {"name": "a", "uid": "o-1", "resourceVersion": "7", "finalizers": ["x"]}


def review(**request: Any) -> Json:
    whole = {
        "uid": "u-1",
        "operation": "DELETE",
        "resource": {"group": "example.com", "version": "v1", "resource": "r"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**whole, **request}}


async def test_a_review_is_answered_in_kind(webhook: Running) -> None:
    async with webhook.serving(), webhook.session() as session:
        old = {"metadata": OLD}
        async with session.post("/delete", json=review(oldObject=old, options={"kind": "DeleteOptions"})) as got:
            assert got.status == 200
            assert await got.json() == {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {"uid": "u-1", "allowed": True},
            }


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "this is no AdmissionReview"),
        (b"[]", "this is no AdmissionReview"),
        (b'{"kind":"Pod","apiVersion":"v1"}', "this is no AdmissionReview"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "has no request"),
    ],
)
async def test_what_is_no_review_is_refused(webhook: Running, body: bytes, words: str) -> None:
    async with webhook.serving(), webhook.session() as session, session.post("/delete", data=body) as got:
        assert got.status == 400
        assert words in await got.text()


@pytest.mark.parametrize(
    ("path", "request_fields", "words"),
    [
        ("/delete", {"oldObject": []}, "request.oldObject: Expected `object`, got `array`"),
        ("/delete", {"oldObject": "text"}, "request.oldObject: Expected `object`, got `str`"),
        ("/delete", {"oldObject": {}}, "request.oldObject: Object missing required field `metadata`"),
        ("/delete", {"oldObject": {"metadata": None}}, "request.oldObject: Expected `object`, got `null`"),
        ("/delete", {"oldObject": {"metadata": {"name": "a"}}}, "missing required field `uid`"),
        ("/delete", {"oldObject": {"metadata": {**OLD, "name": ""}}}, "$.metadata.name"),
        ("/delete", {"oldObject": {"metadata": {**OLD, "annotations": []}}}, "$.metadata.annotations"),
        ("/delete", {"oldObject": {"metadata": {**OLD, "annotations": {"a": 1}}}}, "$.metadata.annotations"),
        ("/delete", {"oldObject": {"metadata": {**OLD, "finalizers": 3}}}, "$.metadata.finalizers"),
        ("/delete", {"oldObject": {"metadata": OLD}, "options": []}, "request.options: Expected `object`"),
        ("/delete", {"oldObject": {"metadata": OLD}, "options": {"gracePeriodSeconds": "5"}}, "$.gracePeriodSeconds"),
        ("/delete", {"oldObject": {"metadata": OLD}, "options": {"preconditions": 1}}, "$.preconditions"),
        (
            "/delete",
            {"oldObject": {"metadata": OLD}, "resource": {"group": "example.com", "version": "v1", "resource": "../x"}},
            "request.resource.resource: '../x'",
        ),
        ("/evict", {"resource": {"resource": "pods"}, "subResource": "eviction"}, "request.name"),
    ],
)
async def test_a_malformed_review_is_400_without_a_traceback(
    webhook: Running, caplog: pytest.LogCaptureFixture, path: str, request_fields: Json, words: str
) -> None:
    async with (
        webhook.serving(),
        webhook.session() as session,
        session.post(path, json=review(**request_fields)) as got,
    ):
        assert (got.status, words in await got.text()) == (400, True), await got.text()
    assert not [record for record in caplog.records if record.exc_info]


async def test_ready_is_who_has_reached_the_api_server(webhook: Running) -> None:
    webhook.stub.is_up = False
    async with webhook.serving(), webhook.session() as session:
        async with session.get("/healthz") as got:
            assert got.status == 200
        async with session.get("/readyz") as got:
            assert (got.status, await got.text()) == (503, "the API server has not answered yet\n")
        webhook.stub.is_up = True
        await webhook.clock.advance(10)
        async with session.get("/readyz") as got:
            assert got.status == 200


async def test_what_it_counts(webhook: Running) -> None:
    async with webhook.serving(), webhook.session() as session:
        async with session.post("/delete", json=review(operation="UPDATE")) as got:
            assert got.status == 200
        async with session.get("/metrics") as got:
            text = await got.text()
    assert 'fairlead_webhook_deletes_total{result="unneeded"} 1.0' in text
    assert "fairlead_webhook_request_duration_seconds_count 1.0" in text


async def test_a_renewed_certificate_is_shown(webhook: Running, tmp_path: Path) -> None:
    other = CertificateAuthority.create(tmp_path / "other")
    async with webhook.serving():
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            async with webhook.session(other) as session:
                await session.get("/healthz")
        certificate, key = other.serving("webhook")
        shutil.copy(certificate, webhook.certificate)
        await webhook.clock.advance(10)  # half of it is there: the old one stays
        async with webhook.session() as session, session.get("/healthz") as got:
            assert got.status == 200
        shutil.copy(key, webhook.key)
        await webhook.clock.advance(10)
        async with webhook.session(other) as session, session.get("/healthz") as got:
            assert got.status == 200


@contextlib.asynccontextmanager
async def calling_as(webhook: Running, name: str) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cafile=str(webhook.authority.certificate_file))
    context.load_cert_chain(*webhook.authority.client(name, []))
    connector = aiohttp.TCPConnector(ssl=context, force_close=True)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{webhook.port}", connector=connector) as session:
        yield session


async def test_only_callers_with_a_certificate_get_a_review(webhook: Running) -> None:
    webhook.client_ca = webhook.authority.certificate_file
    async with webhook.serving():
        async with webhook.session() as session:
            for path in ("/delete", "/evict"):
                async with session.post(path, json=review()) as got:
                    assert (got.status, "no client certificate" in await got.text()) == (401, True)
            async with session.get("/healthz") as got:  # a kubelet's probe has no certificate
                assert got.status == 200
        async with calling_as(webhook, "kube-apiserver") as session, session.post("/delete", json=review()) as got:
            assert got.status == 200


async def test_only_callers_by_name(webhook: Running) -> None:
    webhook.client_ca = webhook.authority.certificate_file
    webhook.client_names = frozenset({"kube-apiserver"})
    async with webhook.serving():
        for name, status in (("kube-apiserver", 200), ("system:node:a", 401)):
            async with calling_as(webhook, name) as session, session.post("/delete", json=review()) as got:
                assert got.status == status


async def test_a_certificate_of_another_authority_ends_the_handshake(webhook: Running, tmp_path: Path) -> None:
    webhook.client_ca = CertificateAuthority.create(tmp_path / "other").certificate_file
    async with webhook.serving():
        with pytest.raises(aiohttp.ClientError):
            async with calling_as(webhook, "kube-apiserver") as session, session.get("/healthz") as got:
                await got.read()


async def test_it_ends_promptly_and_leaves_nothing(webhook: Running) -> None:
    async with (
        RealClock().timeout(10),
        webhook.serving(),
        webhook.session() as session,
        session.get("/healthz") as got,
    ):
        assert got.status == 200
    assert tasks.live_tasks() == ()


async def open_connections(webhook: Running, sent: bytes, count: int) -> list[asyncio.StreamReader]:
    """Clients that have sent this after the handshake, and send nothing more."""
    context = ssl.create_default_context(cafile=str(webhook.authority.certificate_file))
    readers = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", webhook.port, ssl=context)
        writer.write(sent)
        await writer.drain()
        webhook.writers.append(writer)
        readers.append(reader)
    return readers


async def end_of(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        async with RealClock().timeout(10):
            await reader.read()


async def test_half_a_head_is_bounded(webhook: Running) -> None:
    async with webhook.serving(), webhook.session() as session:
        readers = await open_connections(webhook, b"G", listener.HANDSHAKES + 5)
        async with session.get("/healthz") as got:
            assert got.status == 200
        for reader in readers[:5]:  # well before the time that a silent client has
            await end_of(reader)
        for writer in webhook.writers:
            writer.close()


async def test_connections_that_have_sent_a_head_are_bounded(webhook: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_CONNECTIONS", 4)
    async with webhook.serving():
        head = b"POST /delete HTTP/1.1\r\nHost: webhook\r\nContent-Length: 5\r\n\r\n"
        await open_connections(webhook, head, 4)
        (refused,) = await open_connections(webhook, head, 1)
        await end_of(refused)
        for writer in webhook.writers:
            writer.close()


async def test_a_body_that_does_not_come_is_not_waited_for(webhook: Running) -> None:
    async with webhook.serving():
        head = b"POST /delete HTTP/1.1\r\nHost: webhook\r\nContent-Length: 5\r\n\r\n"
        (reader,) = await open_connections(webhook, head, 1)
        answer = asyncio.ensure_future(reader.readline())
        async with RealClock().timeout(10):
            while not answer.done():
                await webhook.clock.advance(1)
                await RealClock().sleep(0.005)
        assert answer.result().startswith(b"HTTP/1.1 408 ")
        for writer in webhook.writers:
            writer.close()
