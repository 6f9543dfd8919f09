"""Asking the server who one is and what one may: reviews and service account tokens."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import pod
from kube_fairlead_lab.testing.rawhttp import RawApi

AUTHENTICATION = "/apis/authentication.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"


@pytest.fixture
async def alice(control_plane: ControlPlane, unique_name: Callable[[str], str]) -> AsyncIterator[RawApi]:
    async with RawApi(control_plane.access(unique_name("alice"), ["testers"])) as session:
        yield session


def claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return decoded


async def token_for(api: RawApi, namespace: str, **spec: Any) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    made = (await api.post(path, {"spec": spec})).expect(201)
    token: str = made["status"]["token"]
    return token


async def test_self_subject_review(alice: RawApi) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    review = (await alice.post(f"{AUTHENTICATION}/selfsubjectreviews", body)).expect(201)
    assert review["status"]["userInfo"]["username"] == alice.access.user
    assert review["status"]["userInfo"]["groups"] == ["testers", "system:authenticated"]


async def test_self_subject_access_review(alice: RawApi, api: RawApi, namespace: str) -> None:
    attributes = {"namespace": namespace, "verb": "get", "resource": "pods"}
    for session, allowed in ((alice, False), (api, True)):
        body = {"spec": {"resourceAttributes": attributes}}
        review = (await session.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", body)).expect(201)
        assert review["kind"] == "SelfSubjectAccessReview"
        assert review["status"]["allowed"] is allowed
        assert review["spec"]["resourceAttributes"] == attributes


async def test_subject_access_review(api: RawApi) -> None:
    attributes = {"verb": "get", "path": "/version"}
    body = {"spec": {"user": "anyone", "groups": ["system:authenticated"], "nonResourceAttributes": attributes}}
    review = (await api.post(f"{AUTHORIZATION}/subjectaccessreviews", body)).expect(201)
    assert review["status"]["allowed"] is True
    assert "RBAC: allowed by ClusterRoleBinding" in review["status"]["reason"]


async def test_local_subject_access_review(api: RawApi, namespace: str) -> None:
    attributes = {"namespace": namespace, "verb": "get", "resource": "pods"}
    path = f"{AUTHORIZATION}/namespaces/{namespace}/localsubjectaccessreviews"
    body = {"metadata": {"namespace": namespace}, "spec": {"user": "bob", "resourceAttributes": attributes}}
    review = (await api.post(path, body)).expect(201)
    assert review["status"]["allowed"] is False


async def test_an_access_review_needs_something_to_review(api: RawApi) -> None:
    status = (await api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {}})).expect(422)
    assert status["reason"] == "Invalid"


async def test_self_subject_rules_review(api: RawApi, namespace: str) -> None:
    review = (await api.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": namespace}})).expect(
        201
    )
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in review["status"]["resourceRules"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in review["status"]["nonResourceRules"]


async def test_token_request(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    account = (await api.get(path)).expect(200)
    made = (await api.post(f"{path}/token", {"spec": {"expirationSeconds": 600}})).expect(201)
    assert (made["kind"], made["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert made["spec"]["audiences"]
    assert made["status"]["expirationTimestamp"]
    said = claims(made["status"]["token"])
    assert said["sub"] == f"system:serviceaccount:{namespace}:default"
    assert said["aud"] == made["spec"]["audiences"]
    assert said["exp"] - said["iat"] == 600
    assert said["kubernetes.io"]["namespace"] == namespace
    assert said["kubernetes.io"]["serviceaccount"] == {"name": "default", "uid": account["metadata"]["uid"]}


async def test_a_token_works(api: RawApi, control_plane: ControlPlane, namespace: str) -> None:
    token = await token_for(api, namespace, expirationSeconds=600)
    async with RawApi(replace(control_plane.access(), token=token)) as account:
        status = (await account.get(f"/api/v1/namespaces/{namespace}/pods")).expect(403)
        assert f'User "system:serviceaccount:{namespace}:default" cannot list' in status["message"]
        review = (await account.post(f"{AUTHENTICATION}/selfsubjectreviews", {})).expect(201)
    assert set(review["status"]["userInfo"]["groups"]) == {
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    }


async def test_token_review(api: RawApi, namespace: str) -> None:
    token = await token_for(api, namespace)
    review = (await api.post(f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": token}})).expect(201)
    assert review["status"]["authenticated"] is True
    assert review["status"]["user"]["username"] == f"system:serviceaccount:{namespace}:default"
    wrong = (await api.post(f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": token[:-6] + "AAAAAA"}})).expect(201)
    assert wrong["status"].get("authenticated", False) is False
    assert wrong["status"]["error"]


async def test_audiences_are_kept_apart(api: RawApi, control_plane: ControlPlane, namespace: str) -> None:
    token = await token_for(api, namespace, audiences=["elsewhere"])
    async with RawApi(replace(control_plane.access(), token=token)) as account:
        (await account.get("/api/v1/namespaces")).expect(401)
    review = {"spec": {"token": token, "audiences": ["elsewhere"]}}
    assert (await api.post(f"{AUTHENTICATION}/tokenreviews", review)).expect(201)["status"]["audiences"] == [
        "elsewhere"
    ]


async def test_a_token_bound_to_a_pod_dies_with_it(api: RawApi, control_plane: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    made = (await api.post(path, pod("p"))).expect(201)
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": made["metadata"]["uid"]}
    token = await token_for(api, namespace, boundObjectRef=reference)
    assert claims(token)["kubernetes.io"]["pod"] == {"name": "p", "uid": made["metadata"]["uid"]}
    review = {"spec": {"token": token}}
    status = (await api.post(f"{AUTHENTICATION}/tokenreviews", review)).expect(201)["status"]
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)
    # A token that was good a moment ago may live on in a cache for ten seconds.
    path = f"{AUTHENTICATION}/tokenreviews"
    await api.poll(path, lambda answer: not answer.json["status"].get("authenticated", False), review)


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"expirationSeconds": 5}, "spec.expirationSeconds"), ({"expirationSeconds": 2**33}, "spec.expirationSeconds")],
)
async def test_token_requests_that_are_refused(api: RawApi, namespace: str, spec: dict[str, Any], field: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    status = (await api.post(path, {"spec": spec})).expect(422)
    assert [cause["field"] for cause in status["details"]["causes"]] == [field]


async def test_the_keys_are_published(api: RawApi, namespace: str) -> None:
    discovery = (await api.get("/.well-known/openid-configuration")).expect(200)
    token = await token_for(api, namespace)
    assert discovery["issuer"] == claims(token)["iss"]
    keys = (await api.get("/openid/v1/jwks")).expect(200)["keys"]
    header = token.split(".")[0]
    named = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))["kid"]
    assert named in {key["kid"] for key in keys}
