"""Where the webhook's certificates are stored: several replicas write one Secret."""

from __future__ import annotations

import json
from pathlib import Path

from aiohttp import web

from kube_fairlead.base.clock import RealClock
from kube_fairlead.webhook.certificate_manager import CertificateManager, CertificateSettings
from tests.unit.client.scripted import client_for, serving


class CountingClock(RealClock):
    """Real time, without the waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_a_secret_that_others_write_is_tried_again_with_growing_pauses(tmp_path: Path) -> None:
    stored: dict[str, object] = {}

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response(
                stored or {"kind": "Status", "code": 404, "reason": "NotFound"}, status=200 if stored else 404
            )
        if len(clock.slept) < 4:
            return web.json_response({"kind": "Status", "code": 409, "reason": "AlreadyExists"}, status=409)
        stored.update(json.loads(await request.read()))
        return web.json_response(stored, status=201)

    clock = CountingClock()
    async with serving() as server, client_for(server.url, clock=clock) as client:
        server.script(answer)
        settings = CertificateSettings(
            namespace="n", secret="s", names=("webhook.n.svc",), registrations=(), folder=tmp_path / "tls"
        )
        await CertificateManager(client, settings).look()
    assert settings.certificate.exists()
    assert len(clock.slept) == 4
    assert clock.slept[0] < clock.slept[1] < clock.slept[2] < clock.slept[3]
