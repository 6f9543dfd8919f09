from __future__ import annotations

import pytest

from kube_fairlead_apiserver.attributes import ANONYMOUS, Attributes, UserInfo
from kube_fairlead_apiserver.security import bootstrap_policy
from kube_fairlead_apiserver.security.authorization import Authorization
from kube_fairlead_apiserver.security.rbac import Policy, Rbac

AUTHENTICATED = ("system:authenticated",)
ALICE = UserInfo("alice", groups=AUTHENTICATED)
MANAGER = UserInfo("system:kube-controller-manager", groups=AUTHENTICATED)
SCHEDULER = UserInfo("system:kube-scheduler", groups=AUTHENTICATED)


def controller(name: str) -> UserInfo:
    return UserInfo(f"system:serviceaccount:kube-system:{name}", groups=("system:serviceaccounts", *AUTHENTICATED))


@pytest.fixture(scope="module")
def authorization() -> Authorization:
    policy = Policy()
    for found in bootstrap_policy.bootstrap_policy():
        policy.put(found["kind"], found)
    for role in ("admin", "edit", "view"):
        subjects = [{"kind": "User", "name": role}]
        reference = {"kind": "ClusterRole", "name": role}
        metadata = {"name": role, "namespace": "ns"}
        policy.put("RoleBinding", {"metadata": metadata, "roleRef": reference, "subjects": subjects})
    return Authorization([Rbac(policy)])


def test_every_binding_finds_its_role() -> None:
    objects = bootstrap_policy.bootstrap_policy()
    names = [(found["kind"], found["metadata"].get("namespace"), found["metadata"]["name"]) for found in objects]
    assert len(names) == len(set(names))
    for found in objects:
        assert found["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        if "roleRef" in found:
            wanted = (found["roleRef"]["kind"], found["metadata"].get("namespace"), found["roleRef"]["name"])
            assert wanted in names


def test_objects_are_made_anew_each_time() -> None:
    first, second = bootstrap_policy.bootstrap_policy(), bootstrap_policy.bootstrap_policy()
    assert first == second
    first[0]["metadata"]["name"] = "changed"
    assert bootstrap_policy.bootstrap_policy() == second


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version", "/version/"])
def test_anonymous_may_see_health_and_version(authorization: Authorization, path: str) -> None:
    assert authorization.authorize(Attributes(ANONYMOUS, "get", path, is_resource=False)) is None


@pytest.mark.parametrize("path", ["/api", "/apis", "/metrics", "/openapi/v2", "/openid/v1/jwks", "/healthz/etcd", "/"])
def test_anonymous_may_see_no_more(authorization: Authorization, path: str) -> None:
    assert authorization.authorize(Attributes(ANONYMOUS, "get", path, is_resource=False)) is not None
    assert authorization.authorize(Attributes(ANONYMOUS, "list", path, resource="pods")) is not None


@pytest.mark.parametrize(
    ("user", "verb", "group", "resource", "namespace", "allowed"),
    [
        (UserInfo("root", groups=("system:masters",)), "delete", "", "nodes", "", True),
        (ALICE, "list", "", "pods", "", False),
        (ALICE, "create", "authorization.k8s.io", "selfsubjectaccessreviews", "", True),
        (ALICE, "create", "authentication.k8s.io", "selfsubjectreviews", "", True),
        (UserInfo("view"), "list", "", "pods", "ns", True),
        (UserInfo("view"), "list", "", "secrets", "ns", False),
        (UserInfo("view"), "create", "", "pods", "ns", False),
        (UserInfo("edit"), "create", "apps", "deployments", "ns", True),
        (UserInfo("edit"), "get", "", "secrets", "ns", True),
        (UserInfo("edit"), "list", "", "pods", "ns", True),
        (UserInfo("edit"), "create", "rbac.authorization.k8s.io", "roles", "ns", False),
        (UserInfo("admin"), "create", "rbac.authorization.k8s.io", "roles", "ns", True),
        (UserInfo("admin"), "create", "", "pods", "ns", True),
        (UserInfo("admin"), "create", "", "pods", "other", False),
        (MANAGER, "create", "", "serviceaccounts", "kube-system", True),
        (MANAGER, "create", "", "serviceaccounts/token", "kube-system", True),
        (MANAGER, "update", "coordination.k8s.io", "leases", "kube-system", True),
        (SCHEDULER, "create", "", "pods/binding", "ns", True),
        (SCHEDULER, "update", "coordination.k8s.io", "leases", "kube-system", True),
        (SCHEDULER, "get", "", "persistentvolumes", "", True),
        (controller("deployment-controller"), "create", "apps", "replicasets", "ns", True),
        (controller("replicaset-controller"), "create", "", "pods", "ns", True),
        (controller("generic-garbage-collector"), "delete", "any.io", "things", "ns", True),
        (controller("namespace-controller"), "deletecollection", "any.io", "things", "ns", True),
        (controller("deployment-controller"), "create", "", "secrets", "ns", False),
        (controller("unknown"), "list", "", "pods", "ns", False),
        (UserInfo("system:node:n1", groups=("system:nodes",)), "list", "", "pods", "ns", False),
    ],
)
def test_defaults(
    authorization: Authorization,
    user: UserInfo,
    verb: str,
    group: str,
    resource: str,
    namespace: str,
    allowed: bool,
) -> None:
    resource, _, subresource = resource.partition("/")
    attributes = Attributes(
        user, verb, "/", resource=resource, group=group, subresource=subresource, namespace=namespace, name="x"
    )
    assert (authorization.authorize(attributes) is None) is allowed


@pytest.mark.parametrize("path", ["/api", "/apis/apps/v1", "/openapi/v3", "/version"])
def test_who_is_known_may_discover(authorization: Authorization, path: str) -> None:
    assert authorization.authorize(Attributes(ALICE, "get", path, is_resource=False)) is None


@pytest.mark.parametrize(
    "text",
    ["rule x", "role", "role x of", "role x\n  get", "role x\n  a b c d e", "binding x\n  clan y", "  get pods core"],
)
def test_broken_lines_are_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"file\.txt:\d: .* is no line of a policy"):
        bootstrap_policy._parse("file.txt", text)
