"""No platform is two managers': the second waits, says for which Lease, and touches no node."""

from __future__ import annotations

import pytest

from kube_fairlead.cloud.wellknown import ANNOTATION_PLATFORMS
from kube_fairlead.install import bundle
from kube_fairlead.install.cloud_managers import cloud_managers
from kube_fairlead.install.installation import Installation
from kube_fairlead_lab.testing.rawhttp import Answer
from tests.spec.kep5778.cluster import NODES, apply, create_node, set_ready
from tests.spec.kep5778.hybrid import Hybrid
from tests.spec.kep5778.test_installed import WORKLOADS, Installed

pytestmark = pytest.mark.timeout(300)

_EVENTS = "/api/v1/namespaces/fairlead-system/events"


async def _install(hybrid: Hybrid, cloud: str, inventory: str) -> Installed:
    [manager] = cloud_managers([cloud], [], namespace="fairlead-system", cluster_cidr="")
    manifests = bundle.manifests(Installation(lifecycle=False, clouds=(manager,)))
    await apply(hybrid.api, [one for one in manifests if one["kind"] not in WORKLOADS])
    path = hybrid.folder / f"{manager.name}.yaml"
    path.write_text(inventory, encoding="utf-8")
    return Installed(hybrid, manager, manifests, path)


async def test_the_second_manager_of_a_platform_does_not_start(hybrid: Hybrid) -> None:
    both = "platforms: [lab]\ninstances: [{name: lab-a}, {name: lab-b}]\n"
    first = await _install(hybrid, "static=lab", both)
    # Installed by itself, so that nothing but the managers can see the mistake.
    second = await _install(hybrid, "static=lab,extra", "platforms: [lab, extra]\ninstances: [{name: lab-a}]\n")
    for name in ("lab-a", "lab-b"):
        await create_node(hybrid.api, name, waiting=True)
    leader = await first.start("ccm-first")
    await hybrid.initialised("lab-a", "lab-b")
    await set_ready(hybrid.api, "lab-b", "Unknown")
    lease = (await hybrid.api.get(first.lease)).expect(200)
    assert lease["metadata"]["annotations"][ANNOTATION_PLATFORMS] == "lab"

    await second.until_leads(await second.start("ccm-second"))

    def is_told_or_deleted(answer: Answer) -> bool:
        reasons = {one["reason"] for one in answer.expect(200)["items"] if one["involvedObject"]["kind"] == "Lease"}
        deleted = [write for write in hybrid.writes() if write.verb == "delete"]
        return bool(deleted) or "PlatformsCollide" in reasons

    events = (await hybrid.api.poll(_EVENTS, is_told_or_deleted)).json["items"]
    assert [write for write in hybrid.writes() if write.user == second.manager.user] == []
    [told] = [one for one in events if one["reason"] == "PlatformsCollide"]
    assert told["involvedObject"]["name"] == second.manager.name
    assert f"Lease {first.manager.name}, held by ccm-first_" in told["message"]
    assert told["message"].endswith("names lab too")

    # When the first has ended, the platform is the second's.
    await leader.process.stop()
    await hybrid.api.poll(f"{NODES}/lab-b", lambda answer: answer.code == 404)
