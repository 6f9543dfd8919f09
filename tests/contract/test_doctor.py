"""`fairlead doctor` on a real API server: what is really missing, expired or forbidden is found."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.api import crds
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.api.reserved import LIFECYCLE_GROUP_ALTERNATIVE, NAMESPACE_NODE_LEASE
from kube_fairlead.base import certificates
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main
from kube_fairlead.webhook import manifests
from kube_fairlead_lab.testing import ControlPlane, EmbeddedControlPlane
from kube_fairlead_lab.testing.embedded import EmbeddedOptions
from kube_fairlead_lab.testing.manifests import node as node_manifest
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import Answer, RawApi
from tests.planes import BOTH, make_plane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SPACE = "fairlead-system"
IN_SPACE = f"/api/v1/namespaces/{SPACE}"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{SPACE}/endpointslices"
EVENTS = "/apis/lifecycle.k8s.io/v1alpha1/lifecycleevents"
TRANSITIONS = "/apis/lifecycle.k8s.io/v1alpha1/lifecycletransitions"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE_NODE_LEASE}/leases"
SERVICE = f"{SPACE}/fairlead-webhook"
Json = dict[str, Any]


@pytest.fixture(params=BOTH)
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of the test's own, without the lifecycle kinds."""
    folder = tmp_path_factory.mktemp(request.param)
    options = EmbeddedOptions(flags=["--feature-gates=SpecializedLifecycleManagement=false"])
    made = EmbeddedControlPlane(folder, options) if request.param == "embedded" else make_plane("kube", folder)
    yield from watch_over(request.config, made)


class Doctor:
    """The command, as a user runs it."""

    def __init__(self, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._flag = f"--kubeconfig={kubeconfig}"
        self._capsys = capsys

    def says(self, *flags: str, code: int) -> str:
        got = main(["doctor", self._flag, *flags], environment=Environment({}))
        captured = self._capsys.readouterr()
        assert got == code, captured
        return captured.out

    async def findings(self, *, code: int) -> dict[tuple[str, str], tuple[str, str]]:
        """By check and object: severity and problem."""
        said = json.loads(await asyncio.to_thread(self.says, "--output=json", code=code))
        found = {(one["check"], one["object"]): (one["severity"], one["problem"]) for one in said["findings"]}
        assert all(one["fix"] for one in said["findings"])
        return found


@pytest.fixture
def doctor(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(plane.kubeconfig, capsys)


def authority(*, days: int) -> certificates.Pair:
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    return certificates.make_authority("test", now=now + dt.timedelta(days=days - 10), lifetime=dt.timedelta(days=10))


async def install_kinds(api: RawApi, *group: str) -> None:
    for manifest in crds.crds(*group):
        (await api.apply(f"{CRDS}/{manifest['metadata']['name']}", manifest, "tests")).expect(200, 201)
    for manifest in crds.crds(*group):
        group_path, plural = f"/apis/{manifest['spec']['group']}/v1alpha1", manifest["spec"]["names"]["plural"]
        await api.poll(group_path, functools.partial(is_served, plural))


def is_served(plural: str, answer: Answer) -> bool:
    return answer.code == 200 and plural in [one["name"] for one in answer.json["resources"]]


async def furnish(api: RawApi) -> None:
    """A cluster in which nothing is wrong, with one node."""
    await install_kinds(api)
    (await api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE_NODE_LEASE}})).expect(201)
    await add_node(api)
    (await api.post(LEASES, lease("node-1", renewed=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)))).expect(201)


async def add_node(api: RawApi) -> None:
    ready = {"type": "Ready", "status": "True"}
    (await api.post("/api/v1/nodes", node_manifest("node-1") | {"status": {"conditions": [ready]}})).expect(201)


def slice_manifest(*, ready: bool) -> Json:
    return {
        "metadata": {"name": "webhook-1", "labels": {"kubernetes.io/service-name": "fairlead-webhook"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
    }


def lease(name: str, *, renewed: dt.datetime) -> Json:
    moment = renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "agent-a", "leaseDurationSeconds": 40, "renewTime": moment, "acquireTime": moment}
    return {"metadata": {"name": name}, "spec": spec}


async def test_a_cluster_is_mended_finding_by_finding(plane: ControlPlane, doctor: Doctor) -> None:
    async with RawApi(plane.access(), timeout_seconds=60) as api:
        found = await doctor.findings(code=1)
        severity, problem = found.pop(("lifecycle-kinds", "CustomResourceDefinitions"))
        assert severity == "error"
        assert "serves no LifecycleEvents" in problem
        deletion = ("deletion-webhook", "ValidatingWebhookConfiguration/fairlead-webhook")
        # An API server of Fairlead's honours the grace period itself.
        assert [(check, one[0]) for check, one in found.items()] == (
            [] if plane.kind == "embedded" else [(deletion, "info")]
        )

        await install_kinds(api)
        assert (await doctor.findings(code=1))["lease-namespace", f"Namespace/{NAMESPACE_NODE_LEASE}"][0] == "error"
        (await api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE_NODE_LEASE}})).expect(201)
        await add_node(api)
        assert (await doctor.findings(code=1))["agents", "Nodes"][0] == "warning"
        now = dt.datetime.now(dt.UTC)
        (await api.post(LEASES, lease("node-1", renewed=now - dt.timedelta(hours=1)))).expect(201)
        severity, problem = (await doctor.findings(code=1))["agents", "Node/node-1"]
        assert severity == "error"
        assert "agent-a last renewed it at" in problem
        alive = lease("node-1", renewed=now + dt.timedelta(hours=1))
        (await api.patch(f"{LEASES}/node-1", {"spec": alive["spec"]})).expect(200)
        await doctor.findings(code=0)
        said = await asyncio.to_thread(doctor.says, f"--lifecycle-api-group={LIFECYCLE_GROUP_ALTERNATIVE}", code=1)
        assert f"serves LifecycleEvents in lifecycle.k8s.io, not in {LIFECYCLE_GROUP_ALTERNATIVE}" in said

        await install_kinds(api, LIFECYCLE_GROUP_ALTERNATIVE)
        assert (
            "wait"
            in (await doctor.findings(code=1))["lifecycle-kinds", f"lifecycle.k8s.io, {LIFECYCLE_GROUP_ALTERNATIVE}"][1]
        )
        for manifest in crds.crds(LIFECYCLE_GROUP_ALTERNATIVE):
            (await api.delete(f"{CRDS}/{manifest['metadata']['name']}")).expect(200)
        await api.poll(f"/apis/{LIFECYCLE_GROUP_ALTERNATIVE}/v1alpha1", lambda got: got.code == 404)
        await doctor.findings(code=0)


async def test_webhooks_that_are_away_or_not_trusted(plane: ControlPlane, doctor: Doctor) -> None:
    async with RawApi(plane.access(), timeout_seconds=60) as api:
        await furnish(api)
        (await api.post("/api/v1/namespaces", {"metadata": {"name": SPACE}})).expect(201)
        *_, evictions = manifests.eviction_manifests([(SPACE, "fairlead-drain")], namespace=SPACE)
        deletions = manifests.registration(
            [GroupResource("example.com", "widgets")], namespace=SPACE, name=manifests.NAME
        )
        for manifest in (evictions, deletions):
            (await api.post(HOOKS, manifest)).expect(201)
        found = await doctor.findings(code=1)
        for check, name in (
            ("deletion-webhook", "fairlead-webhook"),
            ("eviction-webhook", "fairlead-webhook-evictions"),
        ):
            assert "missing, and" in found[check, f"Service/{SERVICE}"][1]
            severity, problem = found[check, f"ValidatingWebhookConfiguration/{name}"]
            assert severity == "error"
            assert "caBundle is empty" in problem

        (await api.post(f"{IN_SPACE}/services", manifests.service(SPACE))).expect(201)
        (await api.post(SLICES, slice_manifest(ready=False))).expect(201)
        assert "no endpoint is ready" in (await doctor.findings(code=1))["eviction-webhook", f"Service/{SERVICE}"][1]
        (await api.put(f"{SLICES}/webhook-1", slice_manifest(ready=True))).expect(200)

        expired, fresh = authority(days=-1), authority(days=9)
        await trust(api, expired)
        found = await doctor.findings(code=1)
        assert (
            "caBundle expired at"
            in found["eviction-webhook", "ValidatingWebhookConfiguration/fairlead-webhook-evictions"][1]
        )
        await trust(api, fresh)
        data = {"tls.crt": base64.b64encode(expired.certificate).decode()}
        secret = {"metadata": {"name": manifests.own_secret_name()}, "data": data}
        (await api.post(f"{IN_SPACE}/secrets", secret)).expect(201)
        found = await doctor.findings(code=1)
        assert (
            "serving certificate expired at"
            in found["eviction-webhook", f"Secret/{SPACE}/{manifests.own_secret_name()}"][1]
        )
        data = {"tls.crt": base64.b64encode(fresh.certificate).decode()}
        (await api.patch(f"{IN_SPACE}/secrets/{manifests.own_secret_name()}", {"data": data})).expect(200)
        assert await doctor.findings(code=0) == {}

        changed = [{**evictions["webhooks"][0], "failurePolicy": "Ignore"}]
        bundle = {"caBundle": base64.b64encode(fresh.certificate).decode()}
        changed[0]["clientConfig"] = {**changed[0]["clientConfig"], **bundle}
        (await api.patch(f"{HOOKS}/fairlead-webhook-evictions", {"webhooks": changed})).expect(200)
        severity, problem = (await doctor.findings(code=1)).popitem()[1]
        assert (severity, "failurePolicy is Ignore" in problem) == ("warning", True)
        (await api.delete(f"{HOOKS}/fairlead-webhook-evictions")).expect(200)


async def trust(api: RawApi, signer: certificates.Pair) -> None:
    bundle = base64.b64encode(signer.certificate).decode()
    for name in manifests.REGISTRATIONS:
        hooks = (await api.get(f"{HOOKS}/{name}")).expect(200)["webhooks"]
        hooks[0]["clientConfig"]["caBundle"] = bundle
        (await api.patch(f"{HOOKS}/{name}", {"webhooks": hooks})).expect(200)


async def test_transitions_and_events_that_no_component_looks_after(plane: ControlPlane, doctor: Doctor) -> None:
    async with RawApi(plane.access(), timeout_seconds=60) as api:
        await furnish(api)
        spec = {"start": "A", "end": "B", "driver": "example.com/d", "allNodes": True}
        marks = {
            "lifecycle.fairlead.dev/published-by": "example.com/d",
            "lifecycle.fairlead.dev/offered-at": "2020-01-01T00:00:00Z",
        }
        kind = {"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "LifecycleTransition"}
        body = {**kind, "metadata": {"name": "left", "annotations": marks}, "spec": spec}
        (await api.post(TRANSITIONS, body)).expect(201)
        event = {
            "apiVersion": "lifecycle.k8s.io/v1alpha1",
            "kind": "LifecycleEvent",
            "metadata": {"name": "held", "finalizers": ["lifecycle.k8s.io/claimed"]},
            "spec": {"transitionName": "left", "bindingNode": "node-1"},
        }
        (await api.post(EVENTS, event)).expect(201)
        done = {"claimStatus": "Failed", "completionTime": "2020-01-01T00:00:00Z", "message": "m"}
        (await api.patch(f"{EVENTS}/held/status", {"status": done})).expect(200)
        found = await doctor.findings(code=1)
        assert "no driver example.com/d offers it" in found["transitions", "LifecycleTransition/left"][1]
        assert "has not removed its finalizer since 2020-01-01" in found["finalizers", "LifecycleEvent/held"][1]


async def test_missing_rights_are_said(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    async with RawApi(plane.access(), timeout_seconds=60) as api:
        await install_kinds(api)
    found = await Doctor(plane.kubeconfig_for("guest"), capsys).findings(code=1)
    assert {check: one[0] for (check, _), one in found.items()} == dict.fromkeys(
        ["deletion-webhook", "eviction-webhook", "lease-namespace", "agents", "transitions", "finalizers"], "unknown"
    )
    assert all("not checked" in problem and "forbidden" in problem for _, problem in found.values())


def test_usage_and_a_server_that_is_away(
    plane: ControlPlane, doctor: Doctor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--output=xml"], environment=Environment({})) == 2
    capsys.readouterr()
    away = tmp_path / "away"
    away.write_text(plane.kubeconfig.read_text().replace(plane.url, "https://127.0.0.1:1"))
    said = Doctor(away, capsys).says(code=1)
    assert "ERROR api-server https://127.0.0.1:1" in said
    assert "finalizers         not checked" in said
    assert "Fix: see that the API server runs" in said
    assert f"API server {plane.url}, v1." in doctor.says(code=1)
