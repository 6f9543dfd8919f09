"""A control plane on which what `fairlead install` prints was applied, and the tokens that its pods would have."""

from __future__ import annotations

from typing import Any

from kube_fairlead.base.clock import RealClock
from kube_fairlead.install import bundle, removal
from kube_fairlead.install.installation import AGENT, CLAIMER, DRAIN, MANAGER, NAMESPACE, Installation
from kube_fairlead_lab.testing import Access, ControlPlane
from kube_fairlead_lab.testing.manifests import node as node_manifest
from kube_fairlead_lab.testing.manifests import pod as pod_manifest
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5683.site import EVENTS, NODES

Json = dict[str, Any]

CLOCK = RealClock()
HERE, THERE = "node-here", "node-there"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def path_of(manifest: Json) -> str:
    resource = removal._resource(manifest)
    metadata = manifest["metadata"]
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    within = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{within}/{resource.resource}/{metadata['name']}"


async def install(plane: ControlPlane, plan: Installation, *, pods: bool = True) -> None:
    """Apply the manifests as a user would; `pods`: two nodes, and on each a pod of every account."""
    async with RawApi(plane.access(), timeout_seconds=120) as api:
        for manifest in bundle.manifests(plan):
            if manifest["kind"] == "Namespace":
                (await api.apply(path_of(manifest), manifest, "tests")).expect(201)
        for manifest in bundle.manifests(plan):
            (await api.apply(path_of(manifest), manifest, "tests", dryRun="All")).expect(200, 201)
        for manifest in bundle.manifests(plan):
            (await api.apply(path_of(manifest), manifest, "tests")).expect(200, 201)
        await api.poll(EVENTS, lambda answer: answer.code == 200)
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        await api.poll(f"{accounts}/default", lambda answer: answer.code == 200)
        for name in (HERE, THERE):
            (await api.post(NODES, node_manifest(name))).expect(201)
            # Nobody would end them where a whole cluster is taken down again.
            accounts_there = (AGENT, DRAIN, MANAGER, CLAIMER) if plan.claimer else (AGENT, DRAIN, MANAGER)
            for account in accounts_there if pods else ():
                pod = pod_manifest(f"{account}-{name}", node_name=name, spec={"serviceAccountName": account})
                (await api.post(PODS, pod)).expect(201)


async def access_of(admin: RawApi, account: str, node: str = HERE) -> Access:
    """What a pod of that account on that node would have."""
    pod = (await admin.get(f"{PODS}/{account}-{node}")).expect(200)
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, "boundObjectRef": bound},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    token = (await admin.post(path, request)).expect(201)["status"]["token"]
    return Access(url=admin.access.url, ca_file=admin.access.ca_file, user=account, token=token)


async def until_policed(account: RawApi, foreign: str = THERE) -> None:
    """Wait until rights and policies have taken hold, which nothing announces."""
    own = HERE if foreign == THERE else THERE
    labelled: Json = {"metadata": {"labels": {"a": "b"}}}
    cordoned: Json = {"spec": {"unschedulable": True}}
    tried = [(own, labelled, "own-fields")]
    if account.access.user in {AGENT, DRAIN}:
        tried.append((foreign, cordoned, "own-node"))
    async with CLOCK.timeout(60):
        for node, patch, policy in tried:
            while policy not in (await account.patch(f"{NODES}/{node}", patch, dryRun="All")).text:
                await CLOCK.sleep(0.05)
