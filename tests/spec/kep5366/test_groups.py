"""KEP-5366, story 1: several locks in one process. Each group of controllers has a Lease, a service account and a fence
of its own, and replicas share the groups out among themselves by stepping down in order."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_fairlead.election import Lock
from kube_fairlead.election.fence import fence_manifests
from kube_fairlead_lab.testing import Access, ControlPlane
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.manifests import pod
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5366.components import Replica, until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

COMPONENT = "controller-manager"
ACCOUNT = "replicas"
GROUPS = {"a": "event-gc", "b": "stall"}
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{REGISTRATION}/validatingadmissionpolicies"
BINDINGS = f"{REGISTRATION}/validatingadmissionpolicybindings"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EVENTS = "/apis/lifecycle.k8s.io/v1alpha1/lifecycleevents"
CRDS = Path(__file__).parents[3] / "deploy/crds/lifecycle.k8s.io"
Json = dict[str, Any]


def lock(namespace: str, group: str) -> Lock:
    return Lock(namespace, f"fairlead-controller-manager-{group}")


@dataclasses.dataclass
class Site:
    """Where the replicas run: accounts, fences, tokens.

    A pod has one service account, and its token says which pod it is. The accounts of the groups are impersonated: each
    group's kubeconfig says `as` its account and keeps the pod's name and uid, for the fence to compare.
    """

    api: RawApi
    namespace: str
    folder: Path
    stack: contextlib.AsyncExitStack

    async def furnish(self) -> None:
        for account in (ACCOUNT, *GROUPS):
            accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
            (await self.api.post(accounts, {"metadata": {"name": account}})).expect(201)
            binding = {
                "metadata": {"name": f"{self.namespace}-{account}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "namespace": self.namespace, "name": account}],
            }
            await self._make("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        for group in GROUPS:
            accounts_of_it = [(self.namespace, group)]
            policy, binding = fence_manifests(lock(self.namespace, group), service_accounts=accounts_of_it)
            await self._make(POLICIES, policy)
            await self._make(BINDINGS, binding)

    async def start(self, name: str) -> Replica:
        """One more replica."""
        core = f"/api/v1/namespaces/{self.namespace}"
        made = (await self.api.post(f"{core}/pods", pod(name, spec={"serviceAccountName": ACCOUNT}))).expect(201)
        uid = made["metadata"]["uid"]
        reference = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
        asked = {"spec": {"boundObjectRef": reference, "expirationSeconds": 3600}}
        token = (await self.api.post(f"{core}/serviceaccounts/{ACCOUNT}/token", asked)).expect(201)["status"]["token"]
        access = Access(url=self.api.access.url, ca_file=self.api.access.ca_file, user=name, token=token)
        flags = [
            f"--leader-elect-resource-namespace={self.namespace}",
            f"--controllers={','.join(GROUPS.values())}",
            "--leader-elect-groups=" + ";".join(f"{group}={members}" for group, members in GROUPS.items()),
        ]
        for group in GROUPS:
            kubeconfig = write_kubeconfig(self.folder / f"{name}-{group}.kubeconfig", access)
            document = json.loads(kubeconfig.read_text(encoding="utf-8"))
            document["users"][0]["user"] |= {
                "as": f"system:serviceaccount:{self.namespace}:{group}",
                "as-user-extra": {
                    "authentication.kubernetes.io/pod-name": [name],
                    "authentication.kubernetes.io/pod-uid": [uid],
                },
            }
            kubeconfig.write_text(json.dumps(document), encoding="utf-8")
            flags.append(f"--leader-elect-group-kubeconfig={group}={kubeconfig}")
        replica = Replica(COMPONENT, name, flags, self.folder, variables={"POD_NAME": name, "POD_UID": uid})
        self.stack.push_async_callback(replica.stop)
        return replica

    async def holders(self) -> list[str]:
        """The pods that hold the groups' Leases."""
        found = []
        for group in GROUPS:
            name = lock(self.namespace, group).name
            got = await self.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{name}")
            holder = "" if got.code == 404 else got.expect(200)["spec"].get("holderIdentity") or ""
            found.append(holder.split("_")[0])
        return found

    async def until_held_by(self, *names: str) -> None:
        async def is_so() -> bool:
            return sorted(await self.holders()) == sorted(names)

        await until(is_so, what=f"the groups are held by {names}", within_seconds=90)

    async def expect_collection(self, name: str) -> None:
        """A finished event of a node that does not exist is deleted, by whoever leads that group and nobody else."""
        body = {
            "apiVersion": "lifecycle.k8s.io/v1alpha1",
            "kind": "LifecycleEvent",
            "metadata": {"name": f"{self.namespace}-{name}"},
            "spec": {"transitionName": "none", "bindingNode": "none"},
        }
        made = (await self.api.post(EVENTS, body)).expect(201)
        made["status"] = {"claimStatus": "Failed"}
        path = f"{EVENTS}/{made['metadata']['name']}"
        (await self.api.put(f"{path}/status", made)).expect(200)
        await self.api.poll(path, lambda got: got.code == 404)

    async def _make(self, path: str, manifest: Json) -> None:
        (await self.api.post(path, manifest)).expect(201)
        self.stack.push_async_callback(self.api.delete, f"{path}/{manifest['metadata']['name']}")


@pytest.fixture
async def site(control_plane: ControlPlane, api: RawApi, namespace: str, tmp_path: Path) -> AsyncIterator[Site]:
    if control_plane.kind == "kube":
        for path in sorted(CRDS.glob("*.yaml")):
            manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
            (await api.post(DEFINITIONS, manifest)).expect(201, 409)
        await api.poll(EVENTS, lambda got: got.code == 200)
    async with contextlib.AsyncExitStack() as stack:
        site = Site(api, namespace, tmp_path, stack)
        await site.furnish()
        yield site


async def test_replicas_share_the_groups_and_each_group_writes_as_its_own_account(site: Site) -> None:
    first = await site.start("one")
    await site.until_held_by("one", "one")
    await site.expect_collection("x")
    second = await site.start("two")
    await site.until_held_by("one", "two")
    await site.expect_collection("y")
    for replica in (first, second):
        seen = await replica.shown()
        assert (seen.loops, seen.value("fairlead_leaks_total")) == (1, 0)
    # Whoever yields stays, and when one is gone the other has both at once.
    first.send(signal.SIGUSR1)
    await site.until_held_by("two", "two")
    assert first.process.running
    await site.until_held_by("one", "two")
    first.send(signal.SIGTERM)
    await site.until_held_by("two", "two")
    await site.expect_collection("z")
