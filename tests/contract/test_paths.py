"""A path is authorised as what it is executed as. tests/parity compares every form of path with kube-apiserver."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import RawApi

RBAC = "/apis/rbac.authorization.k8s.io/v1"
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


async def bind(api: RawApi, user: str, *, namespace: str = "", **rule: list[str]) -> None:
    """Rights in one namespace, or to bare paths everywhere."""
    where = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    kind, roles, bindings = ("Role", "roles", "rolebindings")
    if not namespace:
        kind, roles, bindings = "ClusterRole", "clusterroles", "clusterrolebindings"
    name = f"{user}-rights"
    (await api.post(f"{where}/{roles}", {"metadata": {"name": name}, "rules": [rule]})).expect(201)
    body: dict[str, Any] = {
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        "roleRef": {"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name},
    }
    (await api.post(f"{where}/{bindings}", body)).expect(201)


@pytest.fixture
async def alice(control_plane: ControlPlane, unique_name: Callable[[str], str]) -> AsyncIterator[RawApi]:
    async with RawApi(control_plane.access(unique_name("alice"), ["testers"])) as session:
        yield session


@pytest.fixture
async def mallory(
    control_plane: ControlPlane, api: RawApi, namespace: str, unique_name: Callable[[str], str]
) -> AsyncIterator[RawApi]:
    """May do everything in one namespace."""
    async with RawApi(control_plane.access(unique_name("mallory"), ["testers"])) as session:
        await bind(api, session.access.user, namespace=namespace, **EVERYTHING)
        await session.poll(f"/api/v1/namespaces/{namespace}/configmaps", lambda answer: answer.code == 200)
        yield session


@pytest.fixture
async def other(api: RawApi, unique_name: Callable[[str], str]) -> AsyncIterator[str]:
    name = unique_name("other")
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"a": "b"}}})).expect(201)
    yield name
    (await api.delete(f"/api/v1/namespaces/{name}")).expect(200)


REQUESTS = [
    ("GET", "", None),
    ("DELETE", "", None),
    ("PUT", "", {"metadata": {"name": "NAME", "labels": {"a": "c"}}}),
    ("PATCH", "", {"metadata": {"labels": {"a": "c"}}}),
    ("PUT", "/finalize", {"metadata": {"name": "NAME"}, "spec": {"finalizers": []}}),
    ("PATCH", "/status", {"status": {"phase": "Terminating"}}),
]


@pytest.mark.parametrize(("method", "subresource", "body"), REQUESTS)
async def test_rights_in_a_namespace_reach_no_other(
    api: RawApi, mallory: RawApi, namespace: str, other: str, method: str, subresource: str, body: dict[str, Any] | None
) -> None:
    if body is not None and "name" in body.get("metadata", {}):
        body = {**body, "metadata": {**body["metadata"], "name": other}}
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    before = (await api.get(f"/api/v1/namespaces/{other}")).expect(200)
    for path in (
        f"/api/v1/namespaces/{namespace}/namespaces/{other}{subresource}",
        f"/api/v1/namespaces/{namespace}%2Fnamespaces%2F{other}{subresource}",
    ):
        status = (await mallory.request(method, path, body, content_type=media)).expect(404)
        assert status["message"] == "the server could not find the requested resource"
    assert (await api.get(f"/api/v1/namespaces/{other}")).expect(200) == before


async def test_nothing_outside_of_namespaces_is_made_through_one(api: RawApi, mallory: RawApi, namespace: str) -> None:
    for plural in ("namespaces", "nodes", "persistentvolumes"):
        path = f"/api/v1/namespaces/{namespace}/{plural}"
        (await mallory.post(path, {"metadata": {"name": "made-through-a-namespace"}})).expect(404)
        (await api.get(f"/api/v1/{plural}/made-through-a-namespace")).expect(404)
        (await mallory.get(path)).expect(404)
        (await mallory.delete(path)).expect(404)


async def test_without_rights_the_refusal_names_the_namespace(alice: RawApi, namespace: str, other: str) -> None:
    status = (await alice.delete(f"/api/v1/namespaces/{namespace}/namespaces/{other}")).expect(403)
    assert status["message"] == (
        f'namespaces "{other}" is forbidden: User "{alice.access.user}" cannot delete resource "namespaces" '
        f'in API group "" in the namespace "{namespace}"'
    )


async def test_a_selected_name_counts_for_reading_only(api: RawApi, alice: RawApi, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    (await api.post(maps, config_map("mine"))).expect(201)
    verbs = ["list", "watch", "deletecollection"]
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": verbs}
    await bind(api, alice.access.user, namespace=namespace, **rule)
    await alice.poll(f"{maps}?fieldSelector=metadata.name%3Dmine", lambda answer: answer.code == 200)
    (await alice.get(maps)).expect(403)
    (await alice.delete(maps, fieldSelector="metadata.name=mine")).expect(403)
    (await api.get(f"{maps}/mine")).expect(200)


async def test_the_right_to_a_path_with_a_slash_is_none_to_the_path(api: RawApi, alice: RawApi) -> None:
    await bind(api, alice.access.user, nonResourceURLs=["/metrics/*"], verbs=["get"])
    await alice.poll("/metrics/", lambda answer: answer.code == 404)
    (await alice.get("/metrics")).expect(403)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["watch/configmaps", "watch/namespaces/{}/configmaps", "watch/namespaces/{}/pods/x"])
async def test_the_paths_of_watches_are_only_read(api: RawApi, namespace: str, path: str, method: str) -> None:
    (await api.request(method, f"/api/v1/{path.format(namespace)}", {})).expect(405)


async def test_an_escape_that_is_none(api: RawApi) -> None:
    answer = await api.get("/api/v1/namespaces/%zz")
    assert (answer.code, answer.raw) == (400, b"400 Bad Request")
