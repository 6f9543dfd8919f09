"""A drain by EvictionRequests, on the first Kubernetes that has them: 1.37 with its gate on.

The group there is Kubernetes' own, so Fairlead's kinds live under the other name. Kubernetes 1.37 has the kind and its
rules but nobody who acts on a request, so the controller that would is played here, through the real API.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.api import crds
from kube_fairlead.api.reserved import DRIVER_DRAIN, LIFECYCLE_GROUP_ALTERNATIVE
from kube_fairlead_lab.testing import KubeControlPlane, KubeOptions, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5683.conftest import CRDS
from tests.spec.kep5683.draining import Fleet, fleet_of

pytestmark = [pytest.mark.long, pytest.mark.kube, pytest.mark.timeout(600)]

NAMESPACE = "shop"
REQUESTS = f"/apis/lifecycle.k8s.io/v1alpha1/namespaces/{NAMESPACE}/evictionrequests"
OPTIONS = KubeOptions(
    feature_gates={"EvictionRequestAPI": True},
    # No controller manager runs here that would make the accounts.
    apiserver_flags=["--runtime-config=lifecycle.k8s.io/v1alpha1=true", "--disable-admission-plugins=ServiceAccount"],
)


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    """One node with agent and driver, on Kubernetes 1.37."""
    binaries = KubeBinaries.find("1.37")
    present = not binaries.missing("etcd", "kube-apiserver")
    require_real("Kubernetes 1.37", present=present, remedy='run: make kube KUBE_VERSIONS="1.37:kube-apiserver"')
    folder = Path(tempfile.mkdtemp(prefix="fl-"))
    plane = KubeControlPlane(folder, OPTIONS, binaries=binaries)
    try:
        await plane.start()
        async with RawApi(plane.access(), timeout_seconds=180) as api:
            for manifest in crds.crds(LIFECYCLE_GROUP_ALTERNATIVE):
                (await api.apply(f"{CRDS}/{manifest['metadata']['name']}", manifest, "tests")).expect(201)
            (await api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})).expect(201)
            group = LIFECYCLE_GROUP_ALTERNATIVE
            await api.poll(f"/apis/{group}/v1alpha1/lifecycleevents", lambda answer: answer.code == 200)
            async with fleet_of(plane, api, folder, "n", NAMESPACE, group=group) as made:
                made.start(made.node)
                await made.ready()
                yield made
    finally:
        await plane.stop()
        shutil.rmtree(folder)


async def the_request(fleet: Fleet, pod: dict[str, Any]) -> dict[str, Any]:
    """The request that there is for a pod, as soon as there is one."""
    uid = pod["metadata"]["uid"]
    path = f"{REQUESTS}/fairlead-{uid}"
    return dict((await fleet.api.poll(path, lambda answer: answer.code == 200)).json)


async def respond(fleet: Fleet, request: dict[str, Any], *conditions: dict[str, Any]) -> None:
    """As a controller that has looked at a request."""
    metadata = request["metadata"]
    status = {"observedGeneration": metadata["generation"], "conditions": list(conditions)}
    (await fleet.api.patch(f"{REQUESTS}/{metadata['name']}/status", {"status": status})).expect(200)


async def test_responders_come_first_and_what_nobody_answers_is_evicted(fleet: Fleet) -> None:
    machine, failing = await fleet.pod("machine"), await fleet.pod("failing")
    drain = await fleet.fairlead("drain", fleet.node, f"--lifecycle-api-group={fleet.group}")
    asked = await the_request(fleet, machine)
    assert asked["spec"] == {
        "target": {"pod": {"name": "machine", "uid": machine["metadata"]["uid"]}},
        "requester": DRIVER_DRAIN,
        "intent": "Eviction",
    }
    # Somebody answers both: one is moved, which takes its time, and one cannot be.
    await respond(fleet, asked)
    now = asked["metadata"]["creationTimestamp"]
    failed = {"type": "Failed", "status": "True", "reason": "NoResponder", "message": "", "lastTransitionTime": now}
    await respond(fleet, await the_request(fleet, failing), failed)
    await fleet.api.poll(f"{fleet.pods}/failing", lambda answer: answer.code == 404)
    await drain.until("waiting for the responder to an EvictionRequest: shop/machine")
    assert await fleet.left() == ["machine"], "a pod whose responder is at work was evicted"
    (await fleet.api.delete(f"{fleet.pods}/machine")).expect(200)
    assert await drain.ended() == 0, f"{drain.out}\n{fleet.last_words()}"
    assert await fleet.left() == []


async def test_nobody_acts_on_requests_so_every_pod_is_evicted(fleet: Fleet) -> None:
    web, other = await fleet.pod("web"), await fleet.pod("other")
    drain = await fleet.fairlead("drain", fleet.node, f"--lifecycle-api-group={fleet.group}")
    await the_request(fleet, web)
    await the_request(fleet, other)
    assert await drain.ended() == 0, f"{drain.out}\n{fleet.last_words()}"
    assert await fleet.left() == []


async def test_a_drain_that_runs_out_of_time_takes_its_requests_back(fleet: Fleet) -> None:
    machine = await fleet.pod("machine")
    drain = await fleet.fairlead("drain", fleet.node, f"--lifecycle-api-group={fleet.group}", "--timeout=5s")
    asked = await the_request(fleet, machine)
    await respond(fleet, asked)
    assert await drain.ended() == 1, drain.out
    await fleet.api.poll(f"{REQUESTS}/{asked['metadata']['name']}", lambda answer: answer.code == 404)
    assert await fleet.left() == ["machine"]
