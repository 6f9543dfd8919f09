from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from kube_fairlead_apiserver.admission.webhooks.http_sender import HttpSender
from kube_fairlead_apiserver.admission.webhooks.sender import Endpoint, SendFailed
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from tests.unit.admission.hookserver import HookServer, allow

QUESTION = json.dumps({"apiVersion": "admission.k8s.io/v1", "request": {"uid": "1"}}).encode()


@pytest.fixture
async def sender() -> AsyncIterator[HttpSender]:
    sender = HttpSender()
    yield sender
    await sender.close()


@pytest.fixture
def bundle(authority: CertificateAuthority) -> str:
    return authority.certificate_file.read_text()


async def test_one_connection_serves_many_calls(sender: HttpSender, hooks: HookServer, bundle: str) -> None:
    hooks.on("check", allow)
    endpoint = Endpoint(f"https://127.0.0.1:{hooks.port}/check", bundle)
    for _ in range(3):
        reply = await sender.post(endpoint, QUESTION, timeout_seconds=3)
        assert reply.status == 200
        assert json.loads(reply.body)["response"] == {"uid": "1", "allowed": True}
    assert len(hooks.peers) == 1
    assert hooks.queries == ["timeout=3s"] * 3


async def test_a_service_is_called_by_its_name_wherever_it_listens(
    sender: HttpSender, hooks: HookServer, bundle: str
) -> None:
    hooks.on("check", allow)
    endpoint = Endpoint("https://localhost:443/check", bundle, address=("127.0.0.1", hooks.port))
    assert (await sender.post(endpoint, QUESTION, timeout_seconds=1)).status == 200
    assert hooks.hosts == ["localhost:443"]
    stranger = Endpoint("https://hook.work.svc:443/check", bundle, address=("127.0.0.1", hooks.port))
    with pytest.raises(SendFailed, match="tls: failed to verify certificate: x509: "):
        await sender.post(stranger, QUESTION, timeout_seconds=1)


@pytest.mark.parametrize(
    "garbage", ["nonsense", "\xff\xfe", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"]
)
async def test_a_bundle_that_is_none_fails_the_call(sender: HttpSender, hooks: HookServer, garbage: str) -> None:
    hooks.on("check", allow)
    with pytest.raises(SendFailed):
        await sender.post(Endpoint(f"https://127.0.0.1:{hooks.port}/check", garbage), QUESTION, timeout_seconds=1)
    assert hooks.reviews == []


async def test_an_answer_without_end_is_cut(
    sender: HttpSender, hooks: HookServer, bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kube_fairlead_apiserver.admission.webhooks.http_sender._MAX_REPLY_BYTES", 1000)
    hooks.on_raw("check", lambda: web.Response(body=b"x" * 5000))
    with pytest.raises(SendFailed, match="larger than 1000 bytes"):
        await sender.post(Endpoint(f"https://127.0.0.1:{hooks.port}/check", bundle), QUESTION, timeout_seconds=1)


async def test_it_can_be_closed_and_used_again(sender: HttpSender, hooks: HookServer, bundle: str) -> None:
    hooks.on("check", allow)
    endpoint = Endpoint(f"https://127.0.0.1:{hooks.port}/check", bundle)
    await sender.close()
    await sender.post(endpoint, QUESTION, timeout_seconds=1)
    await sender.close()
    await sender.close()


def test_nothing_is_loaded_before_it_is_needed() -> None:
    made: Any = HttpSender()
    assert made._session is None
