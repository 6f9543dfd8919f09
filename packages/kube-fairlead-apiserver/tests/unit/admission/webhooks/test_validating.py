from __future__ import annotations

import json
import re
from typing import Any

import pytest
from aiohttp import web

from kube_fairlead.api import errors
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.admission.webhooks.sender import Endpoint, Reply
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from tests.unit.admission.hookserver import HookServer, allow, configuration, deny, webhook
from tests.unit.admission.plane import Plane, config_map, pod, running

NAME = "check.example.com"


async def install(plane: Plane, hooks: HookServer, path: str = "check", **fields: Any) -> None:
    hook = webhook(NAME, hooks.client_config(path), **fields)
    await plane.create(configuration("Validating", "checks", hook))


async def test_it_is_asked_as_kubernetes_asks(plane: Plane, hooks: HookServer) -> None:
    hooks.on("check", allow)
    await install(plane, hooks)
    user = UserInfo("jane", uid="7", groups=("dev",), extra={"example.com/tier": ("gold",)})
    await plane.create(config_map("a", color="red"), user=user)
    ((_, review),) = hooks.reviews
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    request = review["request"]
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    assert request.pop("uid")
    assert request.pop("object")["data"] == {"color": "red"}
    assert request == {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "a",
        "namespace": "work",
        "operation": "CREATE",
        "userInfo": {"username": "jane", "uid": "7", "groups": ["dev"], "extra": {"example.com/tier": ["gold"]}},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    assert hooks.queries == ["timeout=10s"]


async def test_update_and_delete_show_what_was_there(plane: Plane, hooks: HookServer) -> None:
    hooks.on("check", allow)
    await plane.create(config_map("a", color="red"))
    await install(plane, hooks)
    await plane.change("ConfigMap", "a", lambda obj: obj["data"].update(color="blue"), namespace="work")
    await plane.delete("ConfigMap", "a", namespace="work")
    changed, deleted = hooks.asked("check")
    assert (changed["oldObject"]["data"], changed["object"]["data"]) == ({"color": "red"}, {"color": "blue"})
    assert (deleted["operation"], deleted["object"]) == ("DELETE", None)
    assert deleted["oldObject"]["data"] == {"color": "blue"}


@pytest.mark.parametrize(
    ("behaviour", "message", "code", "reason"),
    [
        (deny("no reds"), f'admission webhook "{NAME}" denied the request: no reds', 400, ""),
        (deny(), f'admission webhook "{NAME}" denied the request without explanation', 400, ""),
        (deny(reason="Forbidden"), f'admission webhook "{NAME}" denied the request: Forbidden', 400, "Forbidden"),
        (
            deny("no", code=403, reason="Forbidden"),
            f'admission webhook "{NAME}" denied the request: no',
            403,
            "Forbidden",
        ),
        (deny("busy", code=429), f'admission webhook "{NAME}" denied the request: busy', 429, ""),
        (deny("odd", code=200), f'admission webhook "{NAME}" denied the request: odd', 400, ""),
    ],
)
async def test_a_denial_says_so(
    plane: Plane, hooks: HookServer, behaviour: Any, message: str, code: int, reason: str
) -> None:
    hooks.on("check", behaviour)
    await install(plane, hooks)
    with pytest.raises(errors.ApiError) as raised:
        await plane.create(config_map("a"))
    assert (raised.value.message, raised.value.code, raised.value.reason) == (message, code, reason)
    assert plane.core.store.newest("configmaps", "work/a") is None


async def test_warnings_and_notes_are_passed_on(plane: Plane, hooks: HookServer) -> None:
    hooks.on("check", lambda _: {"allowed": True, "warnings": ["old style"], "auditAnnotations": {"seen": "yes"}})
    await install(plane, hooks)
    options = plane.options()
    await plane.create(config_map("a"), options=options)
    assert options.warnings == ["old style"]
    assert options.audit_annotations == {f"{NAME}/seen": "yes"}


def page(status: int, text: str) -> Any:
    return lambda: web.Response(status=status, text=text)


def answer(**response: Any) -> Any:
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return lambda: web.json_response(body)


BROKEN: list[tuple[Any, str]] = [
    (
        page(500, "boom"),
        'failed to call webhook: an error on the server ("boom") has prevented the request from succeeding',
    ),
    (page(404, "none"), "failed to call webhook: the server could not find the requested resource"),
    (page(200, "<html>"), "failed to call webhook: couldn't get version/kind; json parse error: "),
    (page(200, "{}"), "received invalid webhook response: webhook response was absent"),
    (answer(uid="other", allowed=True), 'received invalid webhook response: expected response.uid="'),
    (answer(uid=3), "failed to call webhook: json: cannot unmarshal number into Go struct field AdmissionResponse"),
    (
        page(200, ""),
        "failed to call webhook: 0-length response with status code: 200 and content type: text/plain; charset=utf-8",
    ),
    (
        lambda: web.json_response({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}),
        "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
    ),
    (
        lambda: web.Response(status=302, headers={"Location": "https://127.0.0.1:1/"}),
        "failed to call webhook: the server responded with the status code 302",
    ),
]


@pytest.mark.parametrize(("raw", "why"), BROKEN)
async def test_a_broken_webhook_fails_closed(plane: Plane, hooks: HookServer, raw: Any, why: str) -> None:
    hooks.on_raw("check", raw)
    await install(plane, hooks)
    with pytest.raises(errors.InternalError) as raised:
        await plane.create(config_map("a"))
    assert raised.value.message.startswith(f'Internal error occurred: failed calling webhook "{NAME}": {why}')
    assert raised.value.code == 500


@pytest.mark.parametrize(("raw", "why"), BROKEN)
async def test_or_open_when_told_so(plane: Plane, hooks: HookServer, raw: Any, why: str) -> None:
    hooks.on_raw("check", raw)
    await install(plane, hooks, failurePolicy="Ignore")
    options = plane.options()
    await plane.create(config_map("a"), options=options)
    assert options.audit_annotations == {"failed-open.validating.webhook.admission.k8s.io/round_0_index_0": NAME}


async def test_a_validating_webhook_may_not_patch(plane: Plane, hooks: HookServer) -> None:
    hooks.on("check", lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": "W10="})
    await install(plane, hooks)
    with pytest.raises(errors.InternalError, match=r"validating webhook may not return response\.patch$"):
        await plane.create(config_map("a"))


async def test_a_slow_webhook_runs_out_of_time(hooks: HookServer) -> None:
    clock = VirtualClock()
    async with running(clock=clock) as plane:
        await plane.namespace("work")
        hooks.on_hang("check")
        await install(plane, hooks, timeoutSeconds=3)

        async def refused() -> str:
            with pytest.raises(errors.InternalError) as raised:
                await plane.create(config_map("a"))
            return raised.value.message

        async with TaskScope("test") as scope:
            creating = scope.start(refused(), name="create")
            await hooks.hanging.wait()
            assert not creating.done()
            await clock.advance(3)
        url = f"https://127.0.0.1:{hooks.port}/check?timeout=3s"
        assert creating.result() == (
            f'Internal error occurred: failed calling webhook "{NAME}": '
            f'failed to call webhook: Post "{url}": context deadline exceeded'
        )
        await hooks.cancelled.wait()


async def test_a_client_that_hangs_up_takes_its_calls_with_it(plane: Plane, hooks: HookServer) -> None:
    hooks.on_hang("check")
    await install(plane, hooks)
    async with TaskScope("test") as scope:
        creating = scope.start(plane.create(config_map("a")), name="create")
        await hooks.hanging.wait()
        creating.cancel()
    await hooks.cancelled.wait()


async def test_nobody_listens(plane: Plane, hooks: HookServer) -> None:
    client = {"url": "https://127.0.0.1:1/check", "caBundle": hooks.ca_bundle}
    await plane.create(configuration("Validating", "checks", webhook(NAME, client)))
    with pytest.raises(errors.InternalError) as raised:
        await plane.create(config_map("a"))
    assert raised.value.message.endswith(
        'Post "https://127.0.0.1:1/check?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused'
    )


async def test_a_certificate_must_be_signed_by_the_bundle(
    plane: Plane, hooks: HookServer, other_authority: CertificateAuthority
) -> None:
    hooks.on("check", allow)
    stranger = HookServer(other_authority)
    client = {**hooks.client_config("check"), "caBundle": stranger.ca_bundle}
    await plane.create(configuration("Validating", "checks", webhook(NAME, client)))
    with pytest.raises(errors.InternalError, match="x509: certificate signed by unknown authority"):
        await plane.create(config_map("a"))
    assert hooks.reviews == []


async def test_all_are_asked_at_once_and_the_first_refusal_is_told(plane: Plane, hooks: HookServer) -> None:
    names = ("one", "two", "three")
    hooks.together(3, *names)
    hooks.on("one", allow)
    hooks.on("two", deny("second"))
    hooks.on("three", deny("third"))
    webhooks = [webhook(f"{name}.example.com", hooks.client_config(name)) for name in names]
    await plane.create(configuration("Validating", "checks", *webhooks))
    with pytest.raises(errors.ApiError, match=r'"two\.example\.com" denied the request: second'):
        await plane.create(config_map("a"))
    assert sorted(name for name, _ in hooks.reviews) == sorted(names)


async def test_configurations_count_as_soon_as_they_are_stored(plane: Plane, hooks: HookServer) -> None:
    hooks.on("check", deny("no"))
    await plane.create(config_map("a"))
    await install(plane, hooks)
    with pytest.raises(errors.ApiError):
        await plane.create(config_map("b"))

    def spare(obj: dict[str, Any]) -> None:
        obj["webhooks"][0]["objectSelector"] = {"matchLabels": {"check": "me"}}

    await plane.change("ValidatingWebhookConfiguration", "checks", spare)
    await plane.create(config_map("b"))
    labelled = config_map("c")
    labelled["metadata"]["labels"] = {"check": "me"}
    with pytest.raises(errors.ApiError):
        await plane.create(labelled)
    # Deleting the configuration itself is nobody's to refuse.
    await plane.delete("ValidatingWebhookConfiguration", "checks")
    await plane.create(labelled)


@pytest.mark.parametrize(("effects", "asked"), [("None", True), ("NoneOnDryRun", True), ("Some", False)])
async def test_a_dry_run_asks_only_those_without_effects(
    plane: Plane, hooks: HookServer, monkeypatch: pytest.MonkeyPatch, effects: str, asked: bool
) -> None:
    hooks.on("check", allow)
    plane.take_anything("ValidatingWebhookConfiguration", monkeypatch)
    await install(plane, hooks, sideEffects=effects, failurePolicy="Ignore")
    options = plane.options(dry_run=True)
    if asked:
        await plane.create(config_map("a"), options=options)
        assert hooks.asked("check")[0]["dryRun"] is True
    else:
        refusal = re.escape(f'admission webhook "{NAME}" does not support dry run')
        with pytest.raises(errors.BadRequest, match=f"^{refusal}$"):
            await plane.create(config_map("a"), options=options)


@pytest.mark.parametrize(
    ("condition", "called"),
    [
        ("object.data.color == 'red'", True),
        ("object.data.color == 'blue'", False),
        ("request.userInfo.username == 'admin' && request.operation == 'CREATE'", True),
        ("authorizer.group('').resource('configmaps').namespace('work').check('break').allowed()", False),
        ("authorizer.requestResource.check('create').allowed()", True),
    ],
)
async def test_match_conditions_spare_a_call(plane: Plane, hooks: HookServer, condition: str, called: bool) -> None:
    hooks.on("check", allow)
    plane.refused.add("break")
    await install(plane, hooks, matchConditions=[{"name": "only", "expression": condition}])
    await plane.create(config_map("a", color="red"))
    assert bool(hooks.reviews) is called


async def test_a_failing_match_condition_follows_the_failure_policy(plane: Plane, hooks: HookServer) -> None:
    hooks.on("check", allow)
    await install(plane, hooks, matchConditions=[{"name": "only", "expression": "object.data.missing == 'x'"}])
    with pytest.raises(errors.Forbidden) as raised:
        await plane.create(config_map("a", color="red"))
    assert raised.value.message == (
        "configmaps \"a\" is forbidden: expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
    )
    await plane.change(
        "ValidatingWebhookConfiguration", "checks", lambda obj: obj["webhooks"][0].update(failurePolicy="Ignore")
    )
    await plane.create(config_map("a", color="red"))
    assert hooks.reviews == []


class Recorder:
    """A sender that remembers where it was sent to and allows everything."""

    def __init__(self) -> None:
        self.sent: list[Endpoint] = []

    async def post(self, endpoint: Endpoint, body: bytes, *, timeout_seconds: int) -> Reply:
        self.sent.append(endpoint)
        uid = json.loads(body)["request"]["uid"]
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": uid, "allowed": True},
        }
        return Reply(200, json.dumps(review).encode())


def service(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook", "namespace": "work"}, "spec": spec}


SLICE: dict[str, Any] = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "hook-1", "namespace": "work", "labels": {"kubernetes.io/service-name": "hook"}},
    "addressType": "IPv4",
    "ports": [{"name": "https", "port": 9443}],
    "endpoints": [
        {"addresses": ["10.1.1.1"], "conditions": {"ready": False}},
        {"addresses": ["10.1.1.2"], "conditions": {"ready": True}},
    ],
}


@pytest.mark.parametrize(
    ("stored", "address"),
    [
        ([service(type="ExternalName", externalName="localhost")], ("localhost", 8443)),
        (
            [service(type="ClusterIP", clusterIP="10.0.0.9", ports=[{"name": "https", "port": 8443}])],
            ("10.0.0.9", 8443),
        ),
        (
            [service(type="ClusterIP", clusterIP="10.0.0.9", ports=[{"name": "https", "port": 8443}]), SLICE],
            ("10.1.1.2", 9443),
        ),
    ],
)
async def test_a_service_is_found_where_it_listens(stored: list[Any], address: tuple[str, int]) -> None:
    sender = Recorder()
    async with running(sender=sender) as plane:
        await plane.namespace("work")
        for obj in stored:
            await plane.create(obj)
        client = {"service": {"name": "hook", "namespace": "work", "path": "/check", "port": 8443}}
        await plane.create(configuration("Validating", "checks", webhook(NAME, client)))
        await plane.create(config_map("a"))
        (endpoint,) = sender.sent
        assert endpoint.url == "https://hook.work.svc:8443/check"
        assert endpoint.address == address


async def test_a_service_that_is_not_there(plane: Plane) -> None:
    client = {"service": {"name": "hook", "namespace": "work"}}
    await plane.create(configuration("Validating", "checks", webhook(NAME, client)))
    with pytest.raises(errors.InternalError, match=r'"https://hook\.work\.svc:443/\?timeout=10s": service "hook" not'):
        await plane.create(config_map("a"))


async def test_only_what_its_rules_name_is_shown_to_it(plane: Plane, hooks: HookServer) -> None:
    hooks.on("check", allow)
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    await install(plane, hooks, rules=[rule])
    await plane.create(config_map("a"))
    await plane.create(pod("a"))
    assert [request["resource"]["resource"] for request in hooks.asked("check")] == ["pods"]
