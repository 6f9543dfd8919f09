"""A real admission webhook that denies evictions for now does not end a drain, as users had it (kured#1269)."""

from __future__ import annotations

import base64
import itertools
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5683.draining import Fleet, fleet_of

Json = dict[str, Any]

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class Operator:
    """A webhook as operators of databases have it: no eviction before it has moved something."""

    def __init__(self, folder: Path) -> None:
        self.authority = CertificateAuthority.create(folder / "pki")
        self.denials: Iterator[int] = iter(())
        self.denied = 0
        self.asked: list[tuple[str, bool]] = []  # the pod, and whether it was only a question
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        is_question = bool((asked["object"].get("deleteOptions") or {}).get("dryRun"))
        self.asked.append((asked["name"], is_question))
        response: Json = {"uid": asked["uid"], "allowed": True}
        if is_question:
            # How the test finds out that the API server calls this webhook by now.
            response |= {"allowed": False, "status": {"code": 400, "message": "heard"}}
        elif (code := next(self.denials, None)) is not None:
            self.denied += 1
            status = {"code": code, "message": "the broker moves first"}
            response |= {"allowed": False, "status": status}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        answer = web.json_response(body)
        answer.force_close()  # so that no connection is left when the test ends
        return answer

    def registration(self, name: str, namespace: str) -> Json:
        bundle = base64.b64encode(self.authority.certificate_file.read_bytes()).decode()
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
        hook = {
            "name": "evictions.example.com",
            "clientConfig": {"url": self.url, "caBundle": bundle},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 10,
        }
        return {"metadata": {"name": name}, "webhooks": [hook]}


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    folder = Path(tempfile.mkdtemp(prefix="fl-"))
    made = Operator(folder)
    certificate, key = made.authority.serving("webhook")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    application = web.Application()
    application.router.add_post("/", made.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    made.url = f"https://127.0.0.1:{runner.addresses[0][1]}/"
    yield made
    await runner.cleanup()
    shutil.rmtree(folder)


async def test_denials_are_reported_and_waited_out(
    lifecycle_plane: ControlPlane,
    admin: RawApi,
    namespace: str,
    unique_name: Callable[[str], str],
    operator: Operator,
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="fl-"))
    name = unique_name("hook")
    try:
        async with fleet_of(lifecycle_plane, admin, folder, unique_name("n"), namespace) as fleet:
            fleet.start(fleet.node)
            await fleet.ready()
            await fleet.pod("kafka-0")
            await fleet.pod("web")
            (await admin.post(HOOKS, operator.registration(name, namespace))).expect(201)
            await until_called(fleet, admin)
            operator.asked.clear()
            operator.denials = itertools.cycle([500, 429, 503, 500])
            drain = await fleet.fairlead("drain", fleet.node)
            await drain.until("by an error that is retried (admission webhook")
            operator.denials = iter(())
            assert await drain.ended() == 0, drain.out
            assert await fleet.left() == []
            # Each pod once, and once more for each denial.
            assert sorted({pod for pod, _ in operator.asked}) == ["kafka-0", "web"]
            assert operator.denied >= 1
            assert len(operator.asked) == operator.denied + 2
    finally:
        (await admin.delete(f"{HOOKS}/{name}")).expect(200)
        shutil.rmtree(folder)


async def until_called(fleet: Fleet, admin: RawApi) -> None:
    """API servers learn of a webhook in their own time, so ask without effect until it answers."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
    dry = {**eviction, "deleteOptions": {"dryRun": ["All"]}}
    await admin.poll(f"{fleet.pods}/web/eviction", lambda answer: "heard" in answer.text, body=dry)
