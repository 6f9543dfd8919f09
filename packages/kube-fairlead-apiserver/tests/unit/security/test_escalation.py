from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import errors
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.security.authorization import Authorization
from kube_fairlead_apiserver.security.escalation import EscalationCheck
from kube_fairlead_apiserver.security.rbac import Policy, Rbac

Json = dict[str, Any]

READ_PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
ALL = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
RBAC = "rbac.authorization.k8s.io"
ALICE = UserInfo("alice", groups=("devs",))


def role(name: str, *rules: Any, **more: Any) -> Json:
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def binding(to: str, **metadata: Any) -> Json:
    return {"metadata": {"name": "b", **metadata}, "roleRef": {"kind": "ClusterRole", "name": to}}


def checker(*held: Any) -> EscalationCheck:
    policy = Policy()
    policy.put("ClusterRole", role("held", *held))
    policy.put("ClusterRole", role("strong", *ALL))
    policy.put("ClusterRole", role("weak", READ_PODS))
    policy.put(
        "ClusterRoleBinding",
        {
            "metadata": {"name": "alice"},
            "roleRef": {"kind": "ClusterRole", "name": "held"},
            "subjects": [{"kind": "User", "name": "alice"}],
        },
    )
    rbac = Rbac(policy)
    return EscalationCheck(rbac, Authorization([rbac]))


def test_what_is_held_may_be_granted() -> None:
    check = checker(READ_PODS)
    check.check(ALICE, "ClusterRole", role("new", {**READ_PODS, "verbs": ["get"], "resourceNames": ["x"]}))
    check.check(ALICE, "ClusterRoleBinding", binding("weak"))
    check.check(ALICE, "RoleBinding", binding("weak", namespace="ns"))
    check.check(ALICE, "ConfigMap", {"metadata": {"name": "c"}})


def test_more_may_not() -> None:
    check = checker(READ_PODS)
    with pytest.raises(errors.Forbidden) as caught:
        check.check(ALICE, "ClusterRole", role("new", {**READ_PODS, "verbs": ["get", "delete", "watch"]}))
    assert caught.value.message == (
        'clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "alice" (groups=["devs"]) is attempting to '
        'grant RBAC permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["delete" "watch"]}'
    )
    with pytest.raises(errors.Forbidden, match=r'clusterrolebindings.rbac.authorization.k8s.io "b" is forbidden'):
        check.check(ALICE, "ClusterRoleBinding", binding("strong"))
    with pytest.raises(errors.NotFound, match=r'clusterrole.rbac.authorization.k8s.io "ghost" not found'):
        check.check(ALICE, "ClusterRoleBinding", binding("ghost"))


def test_escalate_and_bind_are_rights_of_their_own() -> None:
    escalate = {"verbs": ["escalate"], "apiGroups": [RBAC], "resources": ["clusterroles"]}
    bind = {"verbs": ["bind"], "apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": ["strong"]}
    checker(escalate).check(ALICE, "ClusterRole", role("new", *ALL))
    checker(bind).check(ALICE, "ClusterRoleBinding", binding("strong"))
    with pytest.raises(errors.Forbidden):
        checker(bind).check(ALICE, "ClusterRole", role("new", *ALL))
    with pytest.raises(errors.Forbidden):
        checker(bind).check(ALICE, "RoleBinding", binding("weak", namespace="ns"))


def test_masters_may() -> None:
    checker().check(UserInfo("root", groups=("system:masters",)), "ClusterRole", role("new", *ALL))


def test_an_aggregation_rule_needs_everything() -> None:
    gathering = role("new", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    with pytest.raises(errors.Forbidden, match="must have cluster-admin privileges to use the aggregationRule"):
        checker(READ_PODS).check(ALICE, "ClusterRole", gathering)
    with pytest.raises(errors.Forbidden, match="must have cluster-admin privileges"):
        checker(READ_PODS).check(ALICE, "ClusterRole", role("new"), gathering)
    checker(*ALL).check(ALICE, "ClusterRole", gathering)


def test_the_garbage_collector_may_clear_owners() -> None:
    old = role("new", *ALL) | {"metadata": {"name": "new", "ownerReferences": [{"uid": "u"}], "finalizers": ["f"]}}
    checker().check(ALICE, "ClusterRole", role("new", *ALL), old)
    with pytest.raises(errors.Forbidden):
        checker().check(ALICE, "ClusterRole", role("new", *ALL), role("new"))
