"""The proposal's integration tests, by name, with `fairlead agent` and a driver as processes of their own.

"We will create integration tests to cover the basic functionality". The drain itself is tested with the drain driver;
here a small driver stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5683.site import EVENTS, Site, condition, until

Json = dict[str, Any]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/fairlead-node-lease/leases"


async def happened(api: RawApi, regarding: str, reason: str) -> Json:
    """The Kubernetes Event of that reason about an object."""

    def found(answer: Any) -> bool:
        return any(item["reason"] == reason for item in answer.json["items"])

    path = "/api/v1/events"
    answer = await api.poll(path, found, fieldSelector=f"involvedObject.name={regarding}")
    items: list[Json] = answer.json["items"]
    return next(item for item in items if item["reason"] == reason)


async def test_coordinating_an_e2e_transition(
    running_site: Site, admin: RawApi, unique_name: Callable[[str], str]
) -> None:
    """From the request to the deleted event, and everything that a user can see on the way."""
    site, name = running_site, unique_name("event")
    async with site.watching(admin) as story:
        uid = (await site.ask(admin, name, hold="end", report="3"))["metadata"]["uid"]
        claimed = (await story.until(name, "held"))["status"]
        assert claimed["claimStatus"] == "Claimed"
        assert claimed["driver"] == "example.com/ledger"
        assert claimed["claimedBy"] == f"node/{site.node}"
        assert claimed["transition"]["start"] == "LedgerOpened"
        assert claimed["options"] == {"hold": "end", "report": "3"}
        assert claimed["sla"] > claimed["claimTime"]

        await until(lambda: "called-end" in site.effects(uid))
        node = (await admin.get(site.node_path)).expect(200)
        shown = condition(node)
        assert (shown["status"], shown["reason"]) == ("True", "LedgerOpened")
        assert shown["message"] == "Lifecycle Transition 'ledger'"
        annotations = node["metadata"]["annotations"]
        assert annotations["cluster-autoscaler.kubernetes.io/scale-down-disabled"] == "true"
        assert annotations["karpenter.sh/do-not-disrupt"] == "true"
        assert annotations["cloudprovider.kubernetes.io/platform"] == "on-prem"
        progress = await admin.poll(f"{EVENTS}/{name}", lambda got: got.json["status"].get("progress") is not None)
        assert progress.json["status"]["progress"]["unit"] == "lines"

        site.release(name)
        await story.until(name, "gone")
    assert story.seen[name] == ["Pending", "Claimed", "held", "Succeeded", "gone"]
    assert site.effects(uid) == ["called-start", "start", "called-end", "end"]
    node = (await admin.get(site.node_path)).expect(200)
    assert condition(node)["reason"] == "LedgerClosed"
    assert "karpenter.sh/do-not-disrupt" not in node["metadata"]["annotations"]
    for reason in ("Claimed", "TransitionStarted", "TransitionSucceeded"):
        await happened(admin, name, reason)
        await happened(admin, site.node, f"Lifecycle{reason}")


async def test_what_the_agent_serves(running_site: Site, admin: RawApi, unique_name: Callable[[str], str]) -> None:
    site, name = running_site, unique_name("event")
    async with site.watching(admin) as story:
        await site.ask(admin, name, "ledger-maintenance")
        await story.until(name, "gone")
    assert await site.scrape("/healthz") == "ok"
    assert "holds the node's lease" in await site.scrape("/readyz?verbose")
    assert await site.metric("fairlead_lifecycle_claims_total") >= 1
    assert await site.metric("fairlead_plugin_manager_total_plugins") == 2  # wanted and there
    # The reserved states also speak the words that Kubernetes itself knows.
    node = (await admin.get(site.node_path)).expect(200)
    assert condition(node)["reason"] == "MaintenanceComplete"
    assert condition(node, "MaintenanceInProgress")["status"] == "False"
    lease = (await admin.poll(f"{LEASES}/{site.node}", lambda got: "ownerReferences" in got.json["metadata"])).json
    assert lease["spec"]["holderIdentity"].startswith(f"{site.node}_")
    assert [owner["uid"] for owner in lease["metadata"]["ownerReferences"]] == [node["metadata"]["uid"]]


async def test_the_kubelet_only_claims_one_lifecycle_event_at_a_time(
    running_site: Site, admin: RawApi, unique_name: Callable[[str], str]
) -> None:
    site = running_site
    names = sorted(unique_name("event") for _ in range(3))
    async with site.watching(admin) as story:
        uids = [(await site.ask(admin, name, hold="end"))["metadata"]["uid"] for name in names]
        for number, name in enumerate(names):
            await story.until(name, "held")
            await until(lambda uid=uids[number]: "called-end" in site.effects(uid))  # type: ignore[misc] # bound now
            listed = (await admin.get(EVENTS, fieldSelector=f"spec.bindingNode={site.node}")).expect(200)["items"]
            claimed = [
                item["metadata"]["name"] for item in listed if item.get("status", {}).get("claimStatus") == "Claimed"
            ]
            assert claimed == [name], "first come, first served, one at a time"
            assert all(site.effects(uid) == [] for uid in uids[number + 1 :])
            site.release(name)
            await story.until(name, "gone")
    assert [site.effects(uid) for uid in uids] == [["called-start", "start", "called-end", "end"]] * 3


async def test_an_expired_sla_transitions_a_lifecycle_event_to_sla_expired_state(
    running_site: Site, admin: RawApi, unique_name: Callable[[str], str]
) -> None:
    site, name = running_site, unique_name("event")
    async with site.watching(admin) as story:
        uid = (await site.ask(admin, name, "ledger-in-a-moment", hold="end"))["metadata"]["uid"]
        expired = (await story.until(name, "SlaExpired"))["status"]
        await story.until(name, "gone")
    assert story.seen[name] == ["Pending", "Claimed", "held", "SlaExpired", "gone"]
    assert "the driver had not finished by the deadline" in expired["message"]
    assert expired["completionTime"] >= expired["sla"]
    assert site.effects(uid) == ["called-start", "start", "called-end"]
    # The reason stays at the state that was really reached.
    shown = condition((await admin.get(site.node_path)).expect(200))
    assert shown["reason"] == "LedgerOpened"
    assert "SlaExpired" in shown["message"] or "deadline" in shown["message"]
    assert (await happened(admin, name, "TransitionSlaExpired"))["type"] == "Warning"


async def test_a_failed_claim_by_the_kubelet_transitions_the_lifecycle_event_to_failed_state(
    running_site: Site, admin: RawApi, unique_name: Callable[[str], str]
) -> None:
    """No driver for it, or a driver that gives up."""
    site, homeless, refused = running_site, unique_name("event"), unique_name("event")
    transition = {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleTransition",
        "metadata": {"name": unique_name("homeless")},
        "spec": {"start": "A", "end": "B", "driver": "example.com/nobody", "nodeName": site.node},
    }
    (await admin.post("/apis/lifecycle.k8s.io/v1alpha1/lifecycletransitions", transition)).expect(201)
    async with site.watching(admin) as story:
        await site.ask(admin, homeless, transition["metadata"]["name"])  # type: ignore[index] # a literal above
        await site.ask(admin, refused, refuse="the disk is full")
        # An event that waits for its driver does not hold up those behind it.
        failed = (await story.until(refused, "Failed"))["status"]
        assert failed["message"] == "the disk is full"
        waited = (await story.until(homeless, "Failed"))["status"]
        assert "driver example.com/nobody is not registered" in waited["message"]
        await story.until_all_gone([homeless, refused])
    assert story.seen[homeless] == ["Pending", "Failed", "gone"]
    assert story.seen[refused] == ["Pending", "Claimed", "held", "Failed", "gone"]
