from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api import errors
from kube_fairlead_apiserver.attributes import ANONYMOUS, Attributes, UserInfo
from kube_fairlead_apiserver.security.authorization import Authorization, forbidden
from kube_fairlead_apiserver.security.rbac import Policy, Rbac, aggregated_rules

Json = dict[str, Any]

GET_PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


def role(name: str, *rules: Any, namespace: str = "", labels: Any = None, gathers: Any = ()) -> Json:
    value: Json = {"metadata": {"name": name, "labels": labels or {}}, "rules": list(rules)}
    if namespace:
        value["metadata"]["namespace"] = namespace
    if gathers:
        value["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}} for label in gathers]}
    return value


def binding(name: str, kind: str, to: str, *subjects: str, namespace: str = "") -> Json:
    found = []
    for subject in subjects:
        what, _, who = subject.partition(" ")
        home, _, account = who.rpartition("/")
        found.append(
            {"kind": "ServiceAccount", "name": account, **({"namespace": home} if home else {})}
            if what == "ServiceAccount"
            else {"kind": what, "name": who}
        )
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"metadata": metadata, "roleRef": {"kind": kind, "name": to}, "subjects": found}


def ask(user: UserInfo, namespace: str = "", resource: str = "pods", verb: str = "get") -> Attributes:
    return Attributes(user, verb, "/", resource=resource, namespace=namespace)


@pytest.fixture
def policy() -> Policy:
    policy = Policy()
    policy.put("ClusterRole", role("reader", GET_PODS))
    policy.put("Role", role("local", GET_PODS, namespace="ns"))
    return policy


def test_subjects(policy: Policy) -> None:
    subjects = ("User alice", "Group devs", "ServiceAccount ns/robot")
    policy.put("ClusterRoleBinding", binding("b", "ClusterRole", "reader", *subjects))
    rbac = Rbac(policy)
    for user in (
        UserInfo("alice"),
        UserInfo("x", groups=("other", "devs")),
        UserInfo("system:serviceaccount:ns:robot"),
    ):
        assert rbac.decide(ask(user)).allowed
        assert rbac.decide(ask(user, "anywhere")).allowed
        assert not rbac.decide(ask(user, verb="list")).allowed
    assert not rbac.decide(ask(UserInfo("devs", groups=("alice",)))).allowed


def test_a_role_binding_holds_in_its_namespace(policy: Policy) -> None:
    policy.put("RoleBinding", binding("b", "Role", "local", "User alice", namespace="ns"))
    policy.put("RoleBinding", binding("c", "ClusterRole", "reader", "ServiceAccount robot", namespace="ns"))
    rbac = Rbac(policy)
    for user in (UserInfo("alice"), UserInfo("system:serviceaccount:ns:robot")):
        assert rbac.decide(ask(user, "ns")).allowed
        assert not rbac.decide(ask(user, "other")).allowed
        assert not rbac.decide(ask(user)).allowed


def test_changes_take_effect_at_once(policy: Policy) -> None:
    rbac, alice, bob = Rbac(policy), UserInfo("alice"), UserInfo("bob")
    assert not rbac.decide(ask(alice)).allowed
    policy.put("ClusterRoleBinding", binding("b", "ClusterRole", "reader", "User alice"))
    assert rbac.decide(ask(alice)).allowed
    policy.put("ClusterRoleBinding", binding("b", "ClusterRole", "reader", "User bob"))
    assert not rbac.decide(ask(alice)).allowed
    assert rbac.decide(ask(bob)).allowed
    policy.put("ClusterRole", role("reader"))
    assert not rbac.decide(ask(bob)).allowed
    policy.put("ClusterRole", role("reader", GET_PODS))
    policy.remove("ClusterRoleBinding", "", "b")
    assert not rbac.decide(ask(bob)).allowed
    policy.remove("ClusterRoleBinding", "", "never there")
    with pytest.raises(ValueError, match="Pod is no part of RBAC"):
        policy.put("Pod", role("x"))


def test_a_missing_role_is_told(policy: Policy) -> None:
    policy.put("ClusterRoleBinding", binding("b", "ClusterRole", "ghost", "User alice"))
    policy.put("RoleBinding", binding("b", "Role", "ghost", "User alice", namespace="ns"))
    rbac = Rbac(policy)
    assert rbac.decide(ask(UserInfo("alice"))).reason == (
        'RBAC: clusterrole.rbac.authorization.k8s.io "ghost" not found'
    )
    assert rbac.decide(ask(UserInfo("alice"), "ns")).reason == (
        'RBAC: [clusterrole.rbac.authorization.k8s.io "ghost" not found, '
        'role.rbac.authorization.k8s.io "ghost" not found]'
    )
    assert rbac.rules_for(UserInfo("alice"), "ns").problems


def test_aggregated_roles_gather_through_each_other(policy: Policy) -> None:
    list_pods = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}
    policy.put("ClusterRole", role("admin", gathers=["to-admin"]))
    policy.put("ClusterRole", role("edit", labels={"to-admin": "true"}, gathers=["to-edit"]))
    policy.put("ClusterRole", role("part", list_pods, labels={"to-edit": "true"}))
    policy.put("ClusterRoleBinding", binding("b", "ClusterRole", "admin", "User alice"))
    rbac = Rbac(policy)
    assert rbac.decide(ask(UserInfo("alice"), verb="list")).allowed
    policy.put("ClusterRole", role("part", GET_PODS, labels={"to-edit": "true"}))
    assert not rbac.decide(ask(UserInfo("alice"), verb="list")).allowed
    assert rbac.decide(ask(UserInfo("alice"))).allowed


def test_roles_that_gather_each_other_in_a_circle_end() -> None:
    one = role("one", labels={"b": "true"}, gathers=["a"])
    two = role("two", labels={"a": "true"}, gathers=["b"])
    leaf = role("leaf", GET_PODS, labels={"a": "true", "b": "true"})
    assert aggregated_rules(one, [one, two, leaf]) == [GET_PODS]
    assert aggregated_rules(leaf, [one]) is None


def test_roles_that_all_gather_each_other_are_looked_at_once() -> None:
    def looked_at(count: int) -> int:
        looks = 0

        class Counted(dict[str, Any]):
            def get(self, key: str, default: Any = None) -> Any:
                nonlocal looks
                looks += key == "aggregationRule"
                return super().get(key, default)

        every = [Counted(role(f"r{number}", labels={"all": "true"}, gathers=["all"])) for number in range(count)]
        leaf = Counted(role("leaf", *[{**GET_PODS, "verbs": [str(number % 50)]} for number in range(100)]))
        leaf["metadata"]["labels"] = {"all": "true"}
        rules = aggregated_rules(every[0], [*every, leaf])
        assert rules is not None
        assert len(rules) == 50
        return looks

    assert [looked_at(4), looked_at(8)] == [5, 9]


def test_rules_for(policy: Policy) -> None:
    policy.put("ClusterRoleBinding", binding("b", "ClusterRole", "reader", "Group g"))
    policy.put("RoleBinding", binding("b", "Role", "local", "User u", namespace="ns"))
    rbac, user = Rbac(policy), UserInfo("u", groups=("g",))
    assert rbac.rules_for(user, "").rules == [GET_PODS]
    assert rbac.rules_for(user, "ns").rules == [GET_PODS, GET_PODS]


def test_masters_need_no_role() -> None:
    authorization = Authorization([Rbac(Policy())])
    assert authorization.authorize(ask(UserInfo("root", groups=("system:masters",)))) is None
    authorization.require(ask(UserInfo("root", groups=("system:masters",))))


@pytest.mark.parametrize(
    ("attributes", "message", "details"),
    [
        (
            Attributes(UserInfo("bob"), "get", "/", resource="pods", namespace="ns", name="web"),
            'pods "web" is forbidden: User "bob" cannot get resource "pods" in API group "" in the namespace "ns"',
            {"name": "web", "kind": "pods"},
        ),
        (
            Attributes(UserInfo("bob"), "list", "/", resource="deployments", group="apps"),
            (
                'deployments.apps is forbidden: User "bob" cannot list resource "deployments" in API group "apps" '
                "at the cluster scope"
            ),
            {"group": "apps", "kind": "deployments"},
        ),
        (
            Attributes(
                UserInfo("<b>"), "create", "/", resource="pods", subresource="eviction", namespace="n", name="w"
            ),
            (
                'pods "w" is forbidden: User "&lt;b&gt;" cannot create resource "pods/eviction" in API group "" '
                'in the namespace "n"'
            ),
            {"name": "w", "kind": "pods"},
        ),
        (
            Attributes(ANONYMOUS, "get", "/api", is_resource=False),
            'forbidden: User "system:anonymous" cannot get path "/api"',
            {},
        ),
    ],
)
def test_forbidden(attributes: Attributes, message: str, details: Json) -> None:
    authorization = Authorization([Rbac(Policy())])
    assert authorization.authorize(attributes) == message
    with pytest.raises(errors.Forbidden) as caught:
        authorization.require(attributes)
    assert (caught.value.message, caught.value.details) == (message, details)
    assert forbidden(attributes, "RBAC: why").message == f"{message}: RBAC: why"


NAMES = st.sampled_from(["a", "b", "c"])
CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "remove"]), NAMES, st.lists(st.sampled_from(["User u", "Group g", "User v"])))
)


@given(CHANGES)
def test_the_index_is_what_a_scan_would_find(changes: list[tuple[str, str, list[str]]]) -> None:
    policy, plain = Policy(), dict[str, list[str]]()
    policy.put("ClusterRole", role("reader", GET_PODS))
    rbac = Rbac(policy)
    for action, name, subjects in changes:
        if action == "put":
            policy.put("ClusterRoleBinding", binding(name, "ClusterRole", "reader", *subjects))
            plain[name] = subjects
        else:
            policy.remove("ClusterRoleBinding", "", name)
            plain.pop(name, None)
        everybody = {subject for found in plain.values() for subject in found}
        for user, own in ((UserInfo("u"), {"User u"}), (UserInfo("w", groups=("g",)), {"Group g"})):
            assert rbac.decide(ask(user)).allowed == bool(everybody & own)
