"""Admission webhooks: called over TLS, may change, may refuse, may be out of reach."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kube_fairlead_lab.testing.credentials import CertificateAuthority
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import JSON_PATCH, RawApi

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
Json = dict[str, Any]


class Hook:
    """A webhook server that answers what the test says and remembers what it was asked."""

    def __init__(self) -> None:
        self.reviews: list[Json] = []
        self._asked = asyncio.Event()
        self.answer: Callable[[Json], Json] = lambda _: {"allowed": True}
        self.broken = False
        self.open = asyncio.Event()  # answers are held back until it is set
        self.open.set()
        self.url = ""
        self.bundle = ""

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.reviews.append(review["request"])
        self._asked.set()
        await self.open.wait()
        if self.broken:
            failed = web.Response(status=500)
            failed.force_close()
            return failed
        response = {"uid": review["request"]["uid"], **self.answer(review["request"])}
        answer = web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
        answer.force_close()  # so that no connection is left when the test ends
        return answer

    async def wait_asked(self, times: int) -> None:
        """Wait until it was asked that often."""
        while len(self.reviews) < times:
            self._asked.clear()
            await self._asked.wait()


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Hook]:
    hook = Hook()
    authority = CertificateAuthority.create(tmp_path / "pki")
    certificate, key = authority.serving("webhook")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    application = web.Application()
    application.router.add_post("/", hook.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    hook.url = f"https://127.0.0.1:{port}/"
    hook.bundle = base64.b64encode(authority.certificate_file.read_bytes()).decode()
    yield hook
    await runner.cleanup()


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
async def register(
    api: RawApi, hook: Hook, path: str, namespace: str, unique_name: Callable[[str], str]
) -> AsyncIterator[Callable[..., Any]]:
    made: list[str] = []

    async def register(kind: str, **options: Any) -> None:
        """Register the hook for ConfigMaps of the test's namespace and wait until it is called."""
        name = unique_name("hook")
        entry = {
            "name": "test.example.com",
            "clientConfig": {"url": hook.url, "caBundle": hook.bundle},
            "rules": [CONFIG_MAPS],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "timeoutSeconds": 5,
            **options,
        }
        resource = f"{REGISTRATION}/{kind}webhookconfigurations"
        (await api.post(resource, {"metadata": {"name": name}, "webhooks": [entry]})).expect(201)
        made.append(f"{resource}/{name}")

    async def register_and_wait(kind: str, **options: Any) -> None:
        await register(kind, **options)
        probe = config_map("probe")
        await api.poll(path, lambda _: bool(hook.reviews), probe, dryRun="All")
        hook.reviews.clear()

    yield register_and_wait
    for configuration in made:
        (await api.delete(configuration)).expect(200)


async def test_what_a_webhook_is_asked(api: RawApi, hook: Hook, register: Any, path: str, namespace: str) -> None:
    await register("validating")
    (await api.post(path, config_map("a", {"k": "1"}))).expect(201)
    (await api.patch(f"{path}/a", {"data": {"k": "2"}})).expect(200)
    (await api.delete(f"{path}/a", {"gracePeriodSeconds": 5})).expect(200)
    created, updated, deleted = hook.reviews
    assert created["operation"] == "CREATE"
    assert created["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert created["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert created["requestKind"] == created["kind"]
    assert (created["name"], created["namespace"], created["dryRun"]) == ("a", namespace, False)
    assert created["userInfo"]["groups"] == ["system:masters", "system:authenticated"]
    assert created["object"]["data"] == {"k": "1"}
    assert created["oldObject"] is None
    assert created["options"]["kind"] == "CreateOptions"
    assert updated["options"]["kind"] == "UpdateOptions"
    assert (updated["operation"], updated["oldObject"]["data"], updated["object"]["data"]) == (
        "UPDATE",
        {"k": "1"},
        {"k": "2"},
    )
    assert (deleted["operation"], deleted["object"], deleted["oldObject"]["data"]) == ("DELETE", None, {"k": "2"})
    assert deleted["options"]["gracePeriodSeconds"] == 5


async def test_a_refusal(api: RawApi, hook: Hook, register: Any, path: str) -> None:
    await register("validating")
    hook.answer = lambda _: {"allowed": False, "status": {"message": "not on a Friday", "code": 418}}
    status = (await api.post(path, config_map("a"))).expect(418)
    assert status["message"] == 'admission webhook "test.example.com" denied the request: not on a Friday'
    hook.answer = lambda _: {"allowed": False}
    status = (await api.post(path, config_map("a"))).expect(400)
    assert status["message"] == 'admission webhook "test.example.com" denied the request without explanation'
    hook.answer = lambda _: {"allowed": False, "status": {"reason": "Forbidden", "code": 403, "message": "no"}}
    status = (await api.post(path, config_map("a"))).expect(403)
    assert (status["reason"], status["status"]) == ("Forbidden", "Failure")


async def test_a_change(api: RawApi, hook: Hook, register: Any, path: str) -> None:
    await register("mutating")
    operations = [{"op": "add", "path": "/data", "value": {"added": "yes"}}]
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    hook.answer = lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    made = (await api.post(path, config_map("a"))).expect(201)
    assert made["data"] == {"added": "yes"}


async def test_nobody_owns_what_a_webhook_set_and_none_can_break_the_record(
    api: RawApi, hook: Hook, register: Any, path: str
) -> None:
    await register("mutating")
    operations = [
        {"op": "add", "path": "/data/added", "value": "yes"},
        {"op": "replace", "path": "/metadata/managedFields/0/operation", "value": "Magic"},
    ]
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    hook.answer = lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    answer = await api.post(path, config_map("a", {"sent": "yes"}), fieldManager="me")
    (entry,) = answer.expect(201)["metadata"]["managedFields"]
    assert (entry["operation"], entry["fieldsV1"]) == ("Update", {"f:data": {".": {}, "f:sent": {}}})
    assert ".metadata.managedFields was in an invalid state after admission" in answer.headers["Warning"]


async def test_warnings(api: RawApi, hook: Hook, register: Any, path: str) -> None:
    await register("validating")
    hook.answer = lambda _: {"allowed": True, "warnings": ["mind the gap"]}
    answer = await api.post(path, config_map("a"))
    answer.expect(201)
    assert answer.headers["Warning"] == '299 - "mind the gap"'


async def test_out_of_reach(api: RawApi, hook: Hook, register: Any, path: str) -> None:
    await register("validating", failurePolicy="Fail")

    hook.broken = True
    status = (await api.post(path, config_map("a"))).expect(500)
    assert status["reason"] == "InternalError"
    assert status["message"].startswith('Internal error occurred: failed calling webhook "test.example.com": ')


async def test_out_of_reach_and_ignored(api: RawApi, hook: Hook, register: Any, path: str) -> None:
    await register("validating", failurePolicy="Ignore")

    hook.broken = True
    (await api.post(path, config_map("a"))).expect(201)
    assert hook.reviews


async def test_match_conditions(api: RawApi, hook: Hook, register: Any, path: str) -> None:
    condition = {"name": "only-probe-and-b", "expression": "object.metadata.name in ['probe', 'b']"}
    await register("validating", matchConditions=[condition])
    (await api.post(path, config_map("a"))).expect(201)
    (await api.post(path, config_map("b"))).expect(201)
    assert [review["name"] for review in hook.reviews] == ["b"]


async def test_object_selectors(api: RawApi, hook: Hook, register: Any, path: str) -> None:
    await register("validating", objectSelector={"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]})
    (await api.post(path, config_map("a", labels={"skip": "yes"}))).expect(201)
    (await api.post(path, config_map("b"))).expect(201)
    assert [review["name"] for review in hook.reviews] == ["b"]


async def test_dry_runs_say_so(api: RawApi, hook: Hook, register: Any, path: str) -> None:
    await register("validating")
    (await api.post(path, config_map("a"), dryRun="All")).expect(201)
    assert hook.reviews[0]["dryRun"] is True


async def test_a_collection_has_no_name(api: RawApi, hook: Hook, register: Any, path: str) -> None:
    """Each object of a collection is asked about by itself; its name is in oldObject."""
    (await api.post(path, config_map("a"))).expect(201)
    await register("validating")
    (await api.delete(path, fieldSelector="metadata.name=a")).expect(200)
    (review,) = hook.reviews
    assert review["operation"] == "DELETE"
    assert review["oldObject"]["metadata"]["name"] == "a"


async def test_after_a_change_it_may_be_asked_again(api: RawApi, hook: Hook, register: Any, path: str) -> None:
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    await register("mutating", reinvocationPolicy="IfNeeded")
    hook.answer = lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    made = (await api.post(path, config_map("a"))).expect(201)
    assert made["metadata"]["labels"] == {"seen": "yes"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"name": "short"}, "webhooks[0].name"),
    ],
)
async def test_configurations_that_are_refused(api: RawApi, change: Json, field: str) -> None:
    entry = {
        "name": "test.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [CONFIG_MAPS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **change,
    }
    body = {"metadata": {"name": "refused"}, "webhooks": [entry]}
    status = (await api.post(f"{REGISTRATION}/validatingwebhookconfigurations", body)).expect(422)
    assert field in {cause["field"] for cause in status["details"]["causes"]}


async def test_defaults(api: RawApi, hook: Hook, register: Any, path: str) -> None:
    await register("validating")
    listed = (await api.get(f"{REGISTRATION}/validatingwebhookconfigurations")).expect(200)
    entry = next(
        item["webhooks"][0] for item in listed["items"] if item["webhooks"][0]["clientConfig"].get("url") == hook.url
    )
    assert (entry["failurePolicy"], entry["matchPolicy"], entry["objectSelector"]) == ("Fail", "Equivalent", {})
    (name,) = [item["metadata"]["name"] for item in listed["items"] if item["webhooks"][0] == entry]
    operations = [{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 3}]
    (await api.patch(f"{REGISTRATION}/validatingwebhookconfigurations/{name}", operations, JSON_PATCH)).expect(200)
