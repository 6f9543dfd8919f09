"""The kinds under the alternative group, installed after the agent was started."""

from __future__ import annotations

from collections.abc import Callable

from kube_fairlead.api import crds, reserved
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5683.conftest import CRDS
from tests.spec.kep5683.site import Site, condition

GROUP = reserved.LIFECYCLE_GROUP_ALTERNATIVE
EVENTS = f"/apis/{GROUP}/v1alpha1/lifecycleevents"


async def test_kinds_that_come_later_under_another_group(
    site: Site, admin: RawApi, unique_name: Callable[[str], str]
) -> None:
    site.start_agent("agent", f"--lifecycle-api-group={GROUP}", "--finished-event-ttl=1m")
    site.start_driver("driver", f"--lifecycle-api-group={GROUP}")
    # It is there and waits: it holds the node's Lease, and has nothing to claim yet.
    lease = f"/apis/coordination.k8s.io/v1/namespaces/fairlead-node-lease/leases/{site.node}"
    await admin.poll(lease, lambda got: got.code == 200 and bool(got.json["spec"].get("holderIdentity")))
    try:
        for manifest in crds.crds(GROUP):
            (await admin.apply(f"{CRDS}/{manifest['metadata']['name']}", manifest, "tests")).expect(201)
        await admin.poll(EVENTS, lambda got: got.code == 200)
        event = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "LifecycleEvent",
            "metadata": {"name": (name := unique_name("event"))},
            "spec": {"transitionName": "ledger", "bindingNode": site.node},
        }
        (await admin.post(EVENTS, event)).expect(201)
        done = await admin.poll(
            f"{EVENTS}/{name}", lambda got: got.json.get("status", {}).get("claimStatus") == "Succeeded"
        )
        assert site.effects(done.json["metadata"]["uid"]) == ["called-start", "start", "called-end", "end"]
        assert condition((await admin.get(site.node_path)).expect(200))["reason"] == "LedgerClosed"
    finally:
        for manifest in crds.crds(GROUP):
            (await admin.delete(f"{CRDS}/{manifest['metadata']['name']}")).expect(200)
