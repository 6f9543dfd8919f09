"""Who may do what: authentication, RBAC, and what a refusal says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import config_map, failure
from kube_fairlead_lab.testing.rawhttp import RawApi

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
async def alice(control_plane: ControlPlane, unique_name: Callable[[str], str]) -> AsyncIterator[RawApi]:
    async with RawApi(control_plane.access(unique_name("alice"), ["testers"])) as session:
        yield session


@pytest.fixture
async def nobody(control_plane: ControlPlane) -> AsyncIterator[RawApi]:
    async with RawApi(replace(control_plane.access(), token=None)) as session:
        yield session


async def grant(api: RawApi, namespace: str, user: str, *rules: dict[str, list[str]]) -> None:
    role = {"metadata": {"name": "r"}, "rules": list(rules)}
    (await api.post(f"{RBAC}/namespaces/{namespace}/roles", role)).expect(201)
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}
    binding = {
        "metadata": {"name": "b"},
        "subjects": [subject],
        "roleRef": {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": "r"},
    }
    (await api.post(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)).expect(201)


async def test_an_account_without_a_namespace_is_of_the_bindings_own(api: RawApi, namespace: str) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = {
        "metadata": {"name": "b"},
        "subjects": [{"kind": "ServiceAccount", "name": "default"}],
        "roleRef": role,
    }
    (await api.post(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)).expect(201)
    asked = {"namespace": namespace, "verb": "list", "resource": "configmaps"}
    review = {"spec": {"user": f"system:serviceaccount:{namespace}:default", "resourceAttributes": asked}}
    await api.poll(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews", lambda seen: seen.json["status"]["allowed"], review
    )
    status = (await api.post(f"{RBAC}/clusterrolebindings", binding)).expect(422)
    assert status["details"]["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "subjects[0].namespace"}
    ]


async def test_a_change_that_creates_needs_the_right_to_create(api: RawApi, alice: RawApi, namespace: str) -> None:
    groups, resources = ["", "coordination.k8s.io"], ["configmaps", "leases"]
    await grant(
        api,
        namespace,
        alice.access.user,
        {"verbs": ["get", "update", "patch"], "apiGroups": groups, "resources": resources},
    )
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    await alice.poll(f"{maps}/a", lambda answer: answer.code == 404)
    applied = await alice.apply(f"{maps}/a", config_map("a"), "alice")
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    put = await alice.put(f"{leases}/a", {"metadata": {"name": "a"}, "spec": {"holderIdentity": "alice"}})
    for answer, kind, group in ((applied, "configmaps", ""), (put, "leases", "coordination.k8s.io")):
        assert answer.expect(403)["message"] == (
            f'{kind}{"." if group else ""}{group} "a" is forbidden: User "{alice.access.user}" cannot create resource '
            f'"{kind}" in API group "{group}" in the namespace "{namespace}"'
        )


async def test_no_credentials(nobody: RawApi) -> None:
    status = (await nobody.get("/api/v1/namespaces")).expect(403)
    assert status == failure(
        403,
        "Forbidden",
        'namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" in API group "" at the '
        "cluster scope",
        {"kind": "namespaces"},
    )


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
async def test_anonymous_may_ask_for_health_and_version(nobody: RawApi, path: str) -> None:
    assert (await nobody.get(path)).code == 200


@pytest.mark.parametrize("path", ["/metrics", "/api", "/apis", "/openapi/v3", "/logs"])
async def test_anonymous_may_ask_for_nothing_else(nobody: RawApi, path: str) -> None:
    status = (await nobody.get(path)).expect(403)
    assert status["message"] == f'forbidden: User "system:anonymous" cannot get path "{path}"'


async def test_a_wrong_token(control_plane: ControlPlane) -> None:
    async with RawApi(replace(control_plane.access(), token="wrong")) as stranger:
        status = (await stranger.get("/api/v1/namespaces")).expect(401)
    assert status == failure(401, "Unauthorized", "Unauthorized")


async def test_why_a_token_is_no_good_is_not_said(control_plane: ControlPlane, api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    issued = (await api.post(f"{path}/token", {"spec": {}})).expect(201)["status"]["token"]
    head, claims, signature = issued.split(".")
    (await api.delete(path)).expect(200)
    forged = f"{head}.{claims}.{signature[::-1]}"
    for token in (issued, forged, f"{head}.{claims}.", "a.b.c", "wrong"):
        async with RawApi(replace(control_plane.access(), token=token)) as stranger:
            answer = await stranger.poll("/api/v1/namespaces", lambda seen: seen.code == 401)
        assert answer.json == failure(401, "Unauthorized", "Unauthorized")


async def test_an_aggregation_of_nothing(api: RawApi, unique_name: Callable[[str], str]) -> None:
    empty: list[dict[str, Any]] = [{}, {"clusterRoleSelectors": []}, {"clusterRoleSelectors": None}]
    for rule in empty:
        role = {"metadata": {"name": unique_name("role")}, "aggregationRule": rule}
        status = (await api.post(f"{RBAC}/clusterroles", role)).expect(422)
        assert status["details"]["causes"] == [
            {
                "reason": "FieldValueRequired",
                "message": "Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
                "field": "aggregationRule.clusterRoleSelectors",
            }
        ]


async def test_nothing_is_allowed_by_default(alice: RawApi, namespace: str) -> None:
    user, path = alice.access.user, f"/api/v1/namespaces/{namespace}/configmaps"
    for answer, verb, name in (
        (await alice.get(path), "list", None),
        (await alice.get(path, watch="true"), "watch", None),
        (await alice.get(f"{path}/a"), "get", "a"),
        (await alice.post(path, config_map("a")), "create", None),
        (await alice.put(f"{path}/a", config_map("a")), "update", "a"),
        (await alice.patch(f"{path}/a", {}), "patch", "a"),
        (await alice.delete(f"{path}/a"), "delete", "a"),
        (await alice.delete(path), "deletecollection", None),
    ):
        subject = f'configmaps "{name}"' if name else "configmaps"
        message = (
            f'{subject} is forbidden: User "{user}" cannot {verb} resource "configmaps" in API group "" in the '
            f'namespace "{namespace}"'
        )
        details = {"name": name, "kind": "configmaps"} if name else {"kind": "configmaps"}
        assert answer.expect(403) == failure(403, "Forbidden", message, details)


async def test_groups_and_subresources_in_refusals(alice: RawApi, namespace: str) -> None:
    status = (await alice.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/d/scale")).expect(403)
    assert status["message"] == (
        f'deployments.apps "d" is forbidden: User "{alice.access.user}" cannot get resource "deployments/scale" in API '
        f'group "apps" in the namespace "{namespace}"'
    )
    assert status["details"] == {"name": "d", "group": "apps", "kind": "deployments"}


async def test_everyone_known_may_discover(alice: RawApi) -> None:
    for path in ("/api", "/apis", "/api/v1", "/openapi/v3", "/version"):
        assert (await alice.get(path)).code == 200, path


async def test_a_role_grants(api: RawApi, alice: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"], "resourceNames": []}
    await grant(api, namespace, alice.access.user, rule)
    await alice.poll(f"{path}/none", lambda answer: answer.code == 404)
    (await alice.post(path, config_map("a"))).expect(201)
    (await alice.get(f"{path}/a")).expect(200)
    (await alice.get(path)).expect(403)
    (await alice.delete(f"{path}/a")).expect(403)
    (await alice.get("/api/v1/namespaces/default/configmaps/a")).expect(403)


async def test_resource_names_narrow(api: RawApi, alice: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["mine"]}
    await grant(api, namespace, alice.access.user, rule)
    await alice.poll(f"{path}/mine", lambda answer: answer.code == 404)
    (await alice.get(f"{path}/other")).expect(403)


async def test_by_group(api: RawApi, alice: RawApi, unique_name: Callable[[str], str]) -> None:
    name = unique_name("testers")
    rules = [
        {"apiGroups": ["*"], "resources": ["nodes"], "verbs": ["list"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
    (await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})).expect(201)
    binding = {
        "metadata": {"name": name},
        "subjects": [{"kind": "Group", "name": "testers"}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": name},
    }
    (await api.post(f"{RBAC}/clusterrolebindings", binding)).expect(201)
    await alice.poll("/api/v1/nodes", lambda answer: answer.code == 200)
    await alice.poll("/metrics", lambda answer: answer.code == 200)
    (await api.delete(f"{RBAC}/clusterrolebindings/{name}")).expect(200)
    (await api.delete(f"{RBAC}/clusterroles/{name}")).expect(200)
    await alice.poll("/api/v1/nodes", lambda answer: answer.code == 403)


async def test_nobody_grants_more_than_they_have(api: RawApi, alice: RawApi, namespace: str) -> None:
    roles = f"{RBAC}/namespaces/{namespace}/roles"
    rules = [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]
    await grant(api, namespace, alice.access.user, *rules)
    await alice.poll(f"{roles}/none", lambda answer: answer.code == 404)
    modest = {"metadata": {"name": "modest"}, "rules": [rules[1]]}
    (await alice.post(roles, modest)).expect(201)
    greedy = {
        "metadata": {"name": "greedy"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    status = (await alice.post(roles, greedy)).expect(403)
    assert status["message"] == (
        f'roles.rbac.authorization.k8s.io "greedy" is forbidden: user "{alice.access.user}" '
        '(groups=["testers" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )


async def test_a_role_reference_cannot_change(api: RawApi, alice: RawApi, namespace: str) -> None:
    await grant(api, namespace, alice.access.user, {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
    body = {"roleRef": {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": "other"}}
    status = (await api.patch(f"{RBAC}/namespaces/{namespace}/rolebindings/b", body)).expect(422)
    assert status["message"].endswith("cannot change roleRef")


@pytest.mark.parametrize("name", ["cluster-admin", "admin", "edit", "view", "system:node", "system:discovery"])
async def test_the_usual_roles_are_there(api: RawApi, name: str) -> None:
    role = (await api.get(f"{RBAC}/clusterroles/{name}")).expect(200)
    assert role["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"


async def test_impersonation(api: RawApi, alice: RawApi) -> None:
    as_bob = api.with_headers(impersonate_user="bob", impersonate_group="builders")
    status = (await as_bob.get("/api/v1/namespaces")).expect(403)
    assert 'User "bob" cannot list resource "namespaces"' in status["message"]
    refused = alice.with_headers(impersonate_user="bob")
    status = (await refused.get("/api/v1/namespaces")).expect(403)
    # Since 1.36 kube-apiserver asks for the narrower permission of constrained impersonation last.
    assert f'User "{alice.access.user}" cannot impersonate' in status["message"]
