"""With the fence on deny, a leader that was frozen beyond its lease (SIGSTOP) and wakes has its first write refused.

The check before each write, on the client's side, is switched off: it is the API server that refuses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kube_fairlead.election import Lock
from kube_fairlead.election.fence import fence_manifests
from kube_fairlead.election.guard import FENCE_MARK
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.interop.election.fleet import ACCOUNT, LEASE, Fleet, Timing

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
RESOURCES = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


@pytest.fixture
async def fenced(api: RawApi, namespace: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    manifests = fence_manifests(Lock(namespace, LEASE), service_accounts=[(namespace, ACCOUNT)])
    for manifest in manifests:
        (await api.post(f"{REGISTRATION}/{RESOURCES[manifest['kind']]}", manifest)).expect(201)
    fleet = Fleet(api, namespace, tmp_path, Timing(), check=False)
    yield fleet
    fleet.end()
    for manifest in manifests:
        path = f"{REGISTRATION}/{RESOURCES[manifest['kind']]}/{manifest['metadata']['name']}"
        (await api.delete(path)).expect(200)


async def test_the_first_write_of_a_leader_that_wakes_too_late_is_refused(fenced: Fleet) -> None:
    await fenced.start("python-1", "python-2")
    await fenced.wait_for_writes()
    frozen = await fenced.leader()
    before = len(frozen.told())
    frozen.process.freeze()
    await fenced.wait_for_writes(by_other_than=frozen.identity)
    frozen.process.thaw()
    await fenced.wait_told(frozen, before)
    first = frozen.told()[before]
    assert first["event"] == "refused"
    assert FENCE_MARK in first["why"]
    assert frozen.process.running
    assert await fenced.leader() is not frozen
