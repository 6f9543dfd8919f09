"""A manager as `fairlead install` sets it up: its printed rights, policy, fence and flags, and nothing else."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from typing import Any

import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead.cloud.enforcement import Manager
from kube_fairlead.election.guard import FENCE_MARK
from kube_fairlead.install import bundle
from kube_fairlead.install.cloud_managers import cloud_managers
from kube_fairlead.install.installation import Installation
from kube_fairlead_lab.testing import Access
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.manifests import pod
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5778.cluster import NODES, apply, create_node, set_ready
from tests.spec.kep5778.hybrid import Hybrid

pytestmark = pytest.mark.timeout(300)

Json = dict[str, Any]
# What runs in the cluster is started here as processes instead.
WORKLOADS = frozenset({"Deployment", "PodDisruptionBudget"})


@dataclasses.dataclass
class Replica:
    """A process with the credentials of a pod of the printed Deployment."""

    pod: str
    access: Access
    process: ManagedProcess


@dataclasses.dataclass
class Installed:
    """What was printed and applied."""

    hybrid: Hybrid
    manager: Manager
    manifests: list[Json]
    inventory: pathlib.Path | None = None  # the hybrid's, unless given

    @property
    def lease(self) -> str:
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.manager.namespace}/leases"
        return f"{leases}/{self.manager.name}"

    async def start(self, name: str) -> Replica:
        """One replica, run with the flags that the Deployment has."""
        api, namespace = self.hybrid.api, f"/api/v1/namespaces/{self.manager.namespace}"
        made = (await api.post(f"{namespace}/pods", pod(name, spec={"serviceAccountName": self.manager.name}))).expect(
            201
        )
        uid = made["metadata"]["uid"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
        path = f"{namespace}/serviceaccounts/{self.manager.name}/token"
        asked = {"spec": {"boundObjectRef": bound, "expirationSeconds": 3600}}
        token = (await api.post(path, asked)).expect(201)["status"]["token"]
        access = Access(url=api.access.url, ca_file=api.access.ca_file, user=self.manager.user, token=token)
        kubeconfig = write_kubeconfig(self.hybrid.folder / f"{name}.kubeconfig", access)
        [deployment] = [one for one in self.manifests if one["kind"] == "Deployment"]
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        inventory = str(self.inventory or self.hybrid.write_inventory())
        flags = [
            one.replace("/etc/cloud/cloud.conf", inventory).replace("$(POD_IP)", "127.0.0.1")
            for one in container["args"]
            if not one.startswith("--secure-port")
        ]
        command = ["env", f"POD_NAME={name}", f"POD_UID={uid}", sys.executable, "-m", "kube_fairlead.cli", *flags]
        own = [f"--kubeconfig={kubeconfig}", "--secure-port=0", "--node-monitor-period=300ms"]
        process = ManagedProcess(name, [*command, *own], folder=self.hybrid.folder)
        self.hybrid.processes[name] = process
        process.start()
        return Replica(name, access, process)

    async def until_leads(self, replica: Replica) -> None:
        await self.hybrid.api.poll(
            self.lease,
            lambda answer: (
                answer.code == 200
                and str(answer.json["spec"].get("holderIdentity") or "").startswith(f"{replica.pod}_")
            ),
        )


@pytest.fixture
async def installed(hybrid: Hybrid) -> Installed:
    [manager] = cloud_managers(["static=on-prem"], [], namespace="fairlead-system", cluster_cidr="")
    manifests = bundle.manifests(Installation(lifecycle=False, clouds=(manager,)))
    await apply(hybrid.api, [one for one in manifests if one["kind"] not in WORKLOADS])
    hybrid.managers["static"] = manager
    return Installed(hybrid, manager, manifests)


async def test_behind_the_fence_that_install_prints(installed: Installed) -> None:
    hybrid = installed.hybrid
    names = [await hybrid.join_static(f"y{number}", annotated=True) for number in range(4)]
    mine = await hybrid.get(await hybrid.join("mine"))
    leader = await installed.start("ccm-a")
    await installed.until_leads(leader)
    await hybrid.initialised(*names)
    follower = await installed.start("ccm-b")

    # The API server refuses what a replica writes that does not lead, though it is the same account.
    patch = {"metadata": {"labels": {"a": "b"}}}
    clock = RealClock()
    async with RawApi(follower.access) as account, clock.timeout(60):
        while FENCE_MARK not in (await account.patch(f"{NODES}/{names[0]}", patch, dryRun="All")).text:
            await clock.sleep(0.05)

    # Everything that the leader does goes through: what vanished is written down, and its node goes.
    await _vanish(hybrid, names[0])
    # And for whoever leads next.
    await leader.process.stop()
    await installed.until_leads(follower)
    new = await hybrid.join_static("y9")
    await hybrid.initialised(new)
    refused = [write for write in hybrid.writes() if write.user == installed.manager.user and write.code == 403]
    assert {write.node for write in refused} <= {names[0]}  # the test's own attempts
    record = f"/api/v1/namespaces/{installed.manager.namespace}/configmaps/{installed.manager.name}-vanished"
    noted = (await hybrid.api.get(record)).expect(200)["data"]
    assert [text.split()[1] for text in noted.values()] == [names[0]]
    assert await hybrid.get("mine") == mine


async def test_two_managers_of_one_provider_side_by_side(hybrid: Hybrid) -> None:
    """`install --ccm static=on-prem --ccm static=lab`: two inventories, and nothing that their managers share."""
    managers = cloud_managers(["static=on-prem", "static=lab"], [], namespace="fairlead-system", cluster_cidr="")
    manifests = bundle.manifests(Installation(lifecycle=False, clouds=managers))
    await apply(hybrid.api, [one for one in manifests if one["kind"] not in WORKLOADS])
    for manager in managers:
        [platform] = manager.platforms
        inventory = hybrid.folder / f"{platform}.yaml"
        inventory.write_text(f"platforms: [{platform}]\ninstances: [{{name: {platform}-1}}]\n", encoding="utf-8")
        own = [one for one in manifests if one["metadata"]["name"] == manager.name]
        installed = Installed(hybrid, manager, own, inventory)
        hybrid.owner[f"{platform}-1"] = manager.name
        await create_node(hybrid.api, f"{platform}-1", waiting=True)
        hybrid.managers[manager.name] = manager
        await installed.until_leads(await installed.start(f"ccm-{platform}"))
    # Both lead at once, and each has initialised its own.
    for platform in ("on-prem", "lab"):
        node = await hybrid.until(f"{platform}-1", lambda node: "providerID" in node["spec"])
        assert node["spec"]["providerID"] == f"{platform}://{platform}-1"
    users = {write.node: write.user for write in hybrid.writes() if write.code == 200 and write.user.endswith("-prem")}
    assert set(users) == {"on-prem-1"}
    hybrid.judge()


async def _vanish(hybrid: Hybrid, name: str) -> None:
    del hybrid.machines[name]
    hybrid.write_inventory()
    await set_ready(hybrid.api, name, "Unknown")
    await hybrid.until_gone(name)
