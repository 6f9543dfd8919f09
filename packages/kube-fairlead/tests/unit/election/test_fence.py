from __future__ import annotations

import pytest

from kube_fairlead.election import Lock
from kube_fairlead.election.fence import FenceMode, anchor_manifests, fence_manifests
from kube_fairlead.election.guard import FENCE_MARK

LOCK = Lock("kube-system", "x")
ACCOUNTS = [("ns", "a"), ("ns", "b")]


def test_off_is_nothing() -> None:
    assert fence_manifests(LOCK, service_accounts=ACCOUNTS, mode=FenceMode.OFF) == []


@pytest.mark.parametrize(("mode", "actions"), [(FenceMode.WARN, ["Warn", "Audit"]), (FenceMode.DENY, ["Deny"])])
def test_the_binding_names_the_lease_and_what_happens(mode: FenceMode, actions: list[str]) -> None:
    policy, binding = fence_manifests(LOCK, service_accounts=ACCOUNTS, mode=mode)
    assert policy["metadata"]["name"] == binding["spec"]["policyName"] == "fence.kube-system.x.fairlead.dev"
    assert binding["spec"]["paramRef"] == {
        "name": "x",
        "namespace": "kube-system",
        "parameterNotFoundAction": "Allow",
    }
    assert binding["spec"]["validationActions"] == actions


def test_the_anchor_has_the_parameters_of_fences_and_concerns_nobody() -> None:
    (policy, binding), (fence, _) = anchor_manifests(), fence_manifests(LOCK, service_accounts=ACCOUNTS)
    assert policy["spec"]["paramKind"] == fence["spec"]["paramKind"]
    assert policy["metadata"]["name"] == binding["spec"]["policyName"]
    assert policy["spec"]["matchConstraints"]["resourceRules"][0]["apiGroups"] == ["fairlead.invalid"]


def test_the_policy_is_for_the_managers_and_never_about_their_lease() -> None:
    policy, _ = fence_manifests(LOCK, service_accounts=ACCOUNTS)
    spec = policy["spec"]
    assert spec["matchConditions"][0]["expression"] == (
        "request.userInfo.username in ['system:serviceaccount:ns:a', 'system:serviceaccount:ns:b']"
    )
    assert spec["matchConstraints"]["excludeResourceRules"][0]["resourceNames"] == ["x"]
    assert FENCE_MARK in spec["validations"][0]["messageExpression"]
