"""Lifecycle Controllers: "If allowed by the Admin, a controller can claim Events as they wish"."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from kube_fairlead.install.accounts import access_manifests
from kube_fairlead.install.installation import CLAIMER, Installation
from kube_fairlead_lab.testing import Access
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.installed import path_of
from tests.spec.kep5683.site import EVENTS, Site, condition, until


async def account(admin: RawApi, folder: Path, namespace: str) -> Path:
    """The claimer's own account, with the rights that `fairlead install --claimer` gives it, and no more."""
    (await admin.post("/api/v1/namespaces", {"metadata": {"name": namespace}})).expect(201)
    (await admin.post("/api/v1/namespaces", {"metadata": {"name": "fairlead-node-lease"}})).expect(201, 409)
    for manifest in access_manifests(Installation(namespace=namespace, claimer=True)):
        if manifest["metadata"]["name"] == CLAIMER:
            (await admin.apply(path_of(manifest), manifest, "tests")).expect(200, 201)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{CLAIMER}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = (await admin.post(path, request)).expect(201)["status"]["token"]
    access = Access(url=admin.access.url, ca_file=admin.access.ca_file, user=CLAIMER, token=token)
    return write_kubeconfig(folder / "claimer.kubeconfig", access)


async def test_the_central_claimer(site: Site, admin: RawApi, unique_name: Callable[[str], str]) -> None:
    """For a node without an agent; killed with -9 in the middle it resumes; beside an agent it stands by."""
    command = [
        sys.executable,
        "-m",
        "kube_fairlead.cli",
        "controller-manager",
        f"--kubeconfig={await account(admin, site.folder, unique_name('claimer'))}",
        "--controllers=claimer",
        f"--claimer-registry-dir={site.folder / 'registry'}",
        "--leader-elect=false",
        "--secure-port=0",
    ]
    manager = ManagedProcess("manager", command, folder=site.folder)
    manager.start()
    try:
        site.start_driver()
        async with site.watching(admin) as story:
            uid = (await site.ask(admin, name := unique_name("event"), hold="end"))["metadata"]["uid"]
            claimed = (await story.until(name, "held"))["status"]
            assert claimed["claimedBy"] == "claimer/central"
            await until(lambda: "called-end" in site.effects(uid))
            manager.kill()
            manager.start()
            site.release(name)
            await story.until(name, "gone")
            assert story.seen[name] == ["Pending", "Claimed", "held", "Succeeded", "gone"]
            assert [effect for effect in site.effects(uid) if not effect.startswith("called")] == ["start", "end"]
            assert condition((await admin.get(site.node_path)).expect(200))["reason"] == "LedgerClosed"

            # An agent that has no such driver holds the node now: the claimer may not go over its head.
            agent = site.start_agent("agent", f"--registry-dir={site.folder / 'other'}")
            lease = f"/apis/coordination.k8s.io/v1/namespaces/fairlead-node-lease/leases/{site.node}"
            await admin.poll(lease, lambda got: got.json["spec"].get("holderIdentity", "").startswith(f"{site.node}_"))
            await site.ask(admin, name := unique_name("event"))
            waiting = await admin.poll(f"{EVENTS}/{name}", lambda got: "message" in got.json.get("status", {}))
            assert waiting.json["status"]["claimStatus"] == "Pending"
            assert "is not registered" in waiting.json["status"]["message"]
            await agent.stop(grace_seconds=60)
            await story.until(name, "gone")
            assert story.last[name]["status"]["claimedBy"] == "claimer/central"
        await manager.stop(grace_seconds=60)
        assert "forbidden" not in manager.last_words()
    finally:
        manager.kill()
