"""Requests that were made to hurt, or look as if they were: refused, and the server goes on."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kube_fairlead_lab.testing.control_plane import ControlPlane
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, RawApi


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def test_aliases_that_would_grow_without_bound(api: RawApi, path: str) -> None:
    levels = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    levels += [
        f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]" for before, name in zip("abcdefg", "bcdefgh", strict=True)
    ]
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\n" + "\n".join(levels)
    answer = await api.request("POST", path, body.encode(), content_type="application/yaml")
    assert answer.code in {400, 413, 422}
    (await api.get(path)).expect(200)


@pytest.mark.parametrize("kid", [[1], {"a": 1}, 5])
async def test_a_token_whose_header_makes_no_sense(api: RawApi, kid: Any) -> None:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    issuer = "https://kubernetes.default.svc.cluster.local"
    token = f"{part({'alg': 'ES256', 'kid': kid})}.{part({'iss': issuer})}.{part('x')}"
    answer = await api.with_headers(authorization=f"Bearer {token}").get("/api/v1/namespaces")
    assert answer.code == 401


@pytest.mark.parametrize("query", [{}, {"watch": "true"}])
async def test_a_version_of_five_thousand_digits(
    api: RawApi, path: str, query: dict[str, str], control_plane: ControlPlane
) -> None:
    # kube-apiserver calls it an error of its own when a watch asks so.
    codes = (400, 500) if query and control_plane.kind == "kube" else (400,)
    (await api.get(path, resourceVersion="9" * 5000, **query)).expect(*codes)


async def test_preconditions_that_are_no_object(api: RawApi, path: str) -> None:
    (await api.post(path, config_map("a"))).expect(201)
    answer = await api.delete(f"{path}/a", {"preconditions": "x"})
    assert answer.code in {400, 422}
    (await api.get(f"{path}/a")).expect(200)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ({"spec": "x"}, MERGE_PATCH),
        ({"metadata": 5}, MERGE_PATCH),
        ({"spec": {"replicas": 2**40}}, MERGE_PATCH),
        ([{"op": "replace", "path": "/spec", "value": 5}], JSON_PATCH),
    ],
)
async def test_a_scale_that_is_none(api: RawApi, namespace: str, body: Any, content_type: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"x": "y"}}, "template": template}
    (await api.post(path, {"metadata": {"name": "d"}, "spec": spec})).expect(201)
    answer = await api.patch(f"{path}/d/scale", body, content_type, fieldManager="m")
    assert answer.code in {400, 422}
    assert (await api.get(f"{path}/d")).expect(200)["spec"]["replicas"] == 1


async def test_a_number_that_no_client_could_read(api: RawApi, namespace: str) -> None:
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 2**40, "selector": {}}}
    assert (await api.post(path, budget)).code in {400, 422}


async def test_a_selector_that_gathers_by_an_unknown_operator(api: RawApi) -> None:
    rule = {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Bogus"}]}]}
    role = {"metadata": {"name": "gathers-nothing"}, "aggregationRule": rule}
    assert (await api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)).code == 422


async def test_an_endless_grace_can_still_be_cut_short(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"containers": [{"name": "c", "image": "i:1"}], "nodeName": "n", "terminationGracePeriodSeconds": 2**40}
    (await api.post(path, {"metadata": {"name": "p"}, "spec": spec})).expect(201)
    (await api.delete(f"{path}/p")).expect(200)
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)
    (await api.get(f"{path}/p")).expect(404)


async def test_a_watch_with_a_table_that_is_none(api: RawApi, path: str) -> None:
    table = api.with_headers(accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    answer = await table.get(path, watch="true", includeObject="Everything", timeoutSeconds="1")
    assert answer.code == 400


async def test_apply_of_a_large_object_does_not_take_seconds(api: RawApi, path: str) -> None:
    body = json.dumps(config_map("large", {f"k{n}": "v" * 1000 for n in range(800)})).encode()
    made = (await api.patch(f"{path}/large", body, APPLY_PATCH, fieldManager="m")).expect(201)
    assert len(made["data"]) == 800
