"""KEP-5683, Driver Write Permission: a token stolen from the driver of one node evicts nothing on another."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_fairlead_lab.testing import Access, ControlPlane
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from kube_fairlead_lab.testing.manifests import node as node_manifest
from kube_fairlead_lab.testing.manifests import pod as pod_manifest
from kube_fairlead_lab.testing.ports import ReservedPort
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5673.programs import run

Json = dict[str, Any]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DRIVER, WEBHOOK = "driver", "fairlead-webhook"


class Town:
    """Two nodes, a driver's pod on each, and a webhook that judges evictions."""

    def __init__(self, api: RawApi, namespace: str, nodes: tuple[str, str]) -> None:
        self.api = api
        self.namespace = namespace
        self.nodes = nodes

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    async def furnish(self) -> None:
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        (await self.api.post(accounts, {"metadata": {"name": DRIVER}})).expect(201)
        rules = [{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}]
        metadata = {"name": self.namespace}
        (await self.api.post(f"{RBAC}/clusterroles", {"metadata": metadata, "rules": rules})).expect(201)
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.namespace}
        subject = {"kind": "ServiceAccount", "name": DRIVER, "namespace": self.namespace}
        binding = {"metadata": metadata, "roleRef": role, "subjects": [subject]}
        (await self.api.post(f"{RBAC}/clusterrolebindings", binding)).expect(201)
        for node in self.nodes:
            (await self.api.post("/api/v1/nodes", node_manifest(node))).expect(201)
            driver = pod_manifest(f"driver-{node}", node, {"serviceAccountName": DRIVER})
            for body in (driver, pod_manifest(f"web-{node}", node)):
                (await self.api.post(self.pods, body)).expect(201)

    async def token(self, account: str, pod: str = "") -> str:
        spec: Json = {"expirationSeconds": 3600}
        if pod:
            uid = (await self.api.get(f"{self.pods}/{pod}")).expect(200)["metadata"]["uid"]
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        token: str = (await self.api.post(path, body)).expect(201)["status"]["token"]
        return token

    def access(self, token: str) -> Access:
        return Access(url=self.api.access.url, ca_file=self.api.access.ca_file, user="thief", token=token)

    async def clear(self) -> None:
        for path in (
            f"{RBAC}/clusterroles/{self.namespace}",
            f"{RBAC}/clusterrolebindings/{self.namespace}",
            f"{RBAC}/clusterroles/fairlead-webhook-evictions",
            f"{RBAC}/clusterrolebindings/fairlead-webhook-evictions",
            f"{HOOKS}/fairlead-webhook-evictions",
            *(f"/api/v1/nodes/{node}" for node in self.nodes),
        ):
            await self.api.delete(path)


@pytest.fixture
async def town(
    control_plane: ControlPlane, api: RawApi, namespace: str, unique_name: Callable[[str], str]
) -> AsyncIterator[Town]:
    folder = Path(tempfile.mkdtemp(prefix="fl-"))
    made = Town(api, namespace, (unique_name("a"), unique_name("b")))
    authority = CertificateAuthority.create(folder / "pki")
    certificate, key = authority.serving("fairlead-webhook")
    port = ReservedPort()
    await made.furnish()
    printed = await run(
        sys.executable,
        *("-m", "kube_fairlead.cli", "webhook", "manifests"),
        f"--namespace={namespace}",
        f"--evictions-of={namespace}/{DRIVER}",
        f"--url=https://127.0.0.1:{port.number}",
        f"--ca-file={authority.certificate_file}",
    )
    kinds = {"ClusterRole": f"{RBAC}/clusterroles", "ClusterRoleBinding": f"{RBAC}/clusterrolebindings"}
    kinds |= {"ServiceAccount": f"/api/v1/namespaces/{namespace}/serviceaccounts"}
    registration: Json = {}
    for document in yaml.safe_load_all(printed):
        if document["kind"] in kinds:
            (await api.post(kinds[document["kind"]], document)).expect(201, 409)
        elif document["kind"] == "ValidatingWebhookConfiguration":
            registration = document
    kubeconfig = write_kubeconfig(folder / "kc", made.access(await made.token(WEBHOOK)))
    port.release()
    words = ["webhook", f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={port.number}"]
    words += [f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"]
    webhook = ManagedProcess("webhook", [sys.executable, "-m", "kube_fairlead.cli", *words], folder=folder)
    webhook.start()

    async def listening() -> bool:
        return b"listens" in webhook.log.read_bytes()

    try:
        await wait_until_ready(listening, [webhook], what="the webhook", timeout_seconds=60)
        (await api.post(HOOKS, registration)).expect(201)
        yield made
    finally:
        webhook.kill()
        await made.clear()
        shutil.rmtree(folder)


async def test_a_stolen_token_evicts_nothing_on_another_node(town: Town) -> None:
    here, there = town.nodes
    async with RawApi(town.access(await town.token(DRIVER, f"driver-{here}"))) as thief:

        def eviction(pod: str) -> Json:
            return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}

        foreign = f"{town.pods}/web-{there}/eviction"
        # Nothing announces that rights and a registration have taken hold, so ask without effect until they have.
        dry = {**eviction(f"web-{there}"), "deleteOptions": {"dryRun": ["All"]}}
        answer = await thief.poll(foreign, lambda got: "evicts pods of that node only" in got.text, body=dry)
        assert answer.code == 403
        refused = (await thief.post(foreign, eviction(f"web-{there}"))).expect(403)
        said = f"pod {town.namespace}/web-{there} is on node {there}; a token of node {here} evicts pods of that node"
        assert said in refused["message"]
        # A driver that means the pod which was on its node before hears what is not final, and from nobody's budget.
        moved = {**eviction(f"web-{there}"), "deleteOptions": {"preconditions": {"uid": "the-one-before"}}}
        assert "the pod that was meant has gone" in (await thief.post(foreign, moved)).expect(409)["message"]
        assert "deletionTimestamp" not in (await town.api.get(f"{town.pods}/web-{there}")).expect(200)["metadata"]
        (await thief.post(f"{town.pods}/web-{here}/eviction", eviction(f"web-{here}"))).expect(201)
        (await thief.post(f"{town.pods}/nobody/eviction", eviction("nobody"))).expect(404)
    async with RawApi(town.access(await town.token(DRIVER))) as unbound:
        (await unbound.post(foreign, eviction(f"web-{there}"))).expect(403)
    # Others' evictions are none of its business.
    (await town.api.post(foreign, eviction(f"web-{there}"))).expect(201)
