from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import errors
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.security.authorization import Authorization
from kube_fairlead_apiserver.security.impersonation import Impersonation, impersonate, read_impersonation
from kube_fairlead_apiserver.security.rbac import Policy, Rbac

ALICE = UserInfo("alice")
ANYBODY = {"verbs": ["impersonate"], "apiGroups": ["", "authentication.k8s.io"], "resources": ["*"]}


def authorization(*rules: Any) -> Authorization:
    policy = Policy()
    policy.put("ClusterRole", {"metadata": {"name": "r"}, "rules": list(rules)})
    reference = {"kind": "ClusterRole", "name": "r"}
    subjects = [{"kind": "User", "name": "alice"}]
    policy.put("ClusterRoleBinding", {"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects})
    return Authorization([Rbac(policy)])


def test_headers() -> None:
    assert read_impersonation([("accept", "x"), ("user-agent", "y")]) is None
    assert read_impersonation(
        [
            ("impersonate-user", "bob"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b, c"),
            ("impersonate-uid", "1"),
            ("impersonate-extra-scopes", "s2"),
            ("impersonate-extra-acme.com%2fproject", "p"),
        ]
    ) == Impersonation("bob", ("a", "b, c"), "1", (("acme.com/project", "p"), ("scopes", "s2")))


@pytest.mark.parametrize("header", [("impersonate-group", "a"), ("impersonate-uid", "1"), ("impersonate-extra-x", "y")])
def test_nothing_without_a_user(header: tuple[str, str]) -> None:
    with pytest.raises(errors.BadRequest, match="without impersonating a user"):
        read_impersonation([header])


def test_the_new_user() -> None:
    wanted = Impersonation("bob", ("a",), "1", (("k", "v1"), ("k", "v2")))
    assert impersonate(ALICE, wanted, authorization(ANYBODY)) == UserInfo(
        "bob", uid="1", groups=("a", "system:authenticated"), extra={"k": ("v1", "v2")}
    )


@pytest.mark.parametrize(
    ("user", "groups", "result"),
    [
        ("bob", (), ("system:authenticated",)),
        ("bob", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:anonymous", (), ("system:unauthenticated",)),
        (
            "system:serviceaccount:ns:robot",
            (),
            ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
        ),
        ("system:serviceaccount:ns:robot", ("x",), ("x", "system:authenticated")),
        ("system:serviceaccount:Bad:name", (), ("system:authenticated",)),
    ],
)
def test_groups(user: str, groups: tuple[str, ...], result: tuple[str, ...]) -> None:
    assert impersonate(ALICE, Impersonation(user, groups, "", ()), authorization(ANYBODY)).groups == result


@pytest.mark.parametrize(
    ("wanted", "rule", "message"),
    [
        (Impersonation("bob", (), "", ()), None, 'cannot impersonate resource "users" in API group ""'),
        (Impersonation("bob", ("a",), "", ()), "users", 'cannot impersonate resource "groups" in API group ""'),
        (
            Impersonation("bob", (), "1", ()),
            "users",
            'cannot impersonate resource "uids" in API group "authentication.k8s.io"',
        ),
        (
            Impersonation("bob", (), "", (("k", "v"),)),
            "users",
            'cannot impersonate resource "userextras/k" in API group "authentication.k8s.io"',
        ),
        (
            Impersonation("system:serviceaccount:ns:robot", (), "", ()),
            "users",
            'cannot impersonate resource "serviceaccounts" in API group "" in the namespace "ns"',
        ),
    ],
)
def test_each_part_needs_the_right(wanted: Impersonation, rule: str | None, message: str) -> None:
    rules = [] if rule is None else [{"verbs": ["impersonate"], "apiGroups": [""], "resources": [rule]}]
    with pytest.raises(errors.Forbidden) as caught:
        impersonate(ALICE, wanted, authorization(*rules))
    assert f'User "alice" {message}' in caught.value.message
