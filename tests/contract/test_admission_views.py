"""What admission is shown of writes that are not plain objects: subresources with a kind of their own, collections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import config_map, pod
from kube_fairlead_lab.testing.rawhttp import RawApi

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
Json = dict[str, Any]

RULES = [
    {"apiGroups": ["", "apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}
    for resource in ("configmaps", "deployments/*", "pods/*", "serviceaccounts/token")
]
# Everything is refused, and the refusal says what was seen.
TOLD = """
[request.operation, request.kind.kind, request.resource.resource, request.?subResource.orValue('-'),
 request.?name.orValue('-'),
 object == null ? '-' : string(object.kind), oldObject == null ? '-' : string(oldObject.kind)
].join(' ')
"""
DEPLOYMENT: Json = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
        },
    },
}


@pytest.fixture
async def watched(api: RawApi, namespace: str, unique_name: Callable[[str], str]) -> AsyncIterator[str]:
    """A namespace with a deployment, a pod and a config map, in which every write is refused from now on."""
    path = f"/api/v1/namespaces/{namespace}"
    (await api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", DEPLOYMENT)).expect(201)
    (await api.post(f"{path}/pods", pod("a"))).expect(201)
    (await api.post(f"{path}/configmaps", config_map("a"))).expect(201)
    name = unique_name("views")
    policy = {
        "matchConstraints": {"resourceRules": RULES},
        "validations": [{"expression": "false", "messageExpression": " ".join(TOLD.split())}],
    }
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": selector}
    made = []
    for resource, body in (("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", bound)):
        (await api.post(f"{REGISTRATION}/{resource}", {"metadata": {"name": name}, "spec": body})).expect(201)
        made.append(f"{REGISTRATION}/{resource}/{name}")
    probe = config_map("probe")
    await api.poll(f"{path}/configmaps", lambda answer: answer.code == 422, probe, dryRun="All")
    yield namespace
    for resource in reversed(made):
        (await api.delete(resource)).expect(200)


def seen(status: Json) -> str:
    told: str = status["message"].rpartition("denied request: ")[2]
    return told


async def test_scale(api: RawApi, watched: str) -> None:
    path = f"/apis/apps/v1/namespaces/{watched}/deployments/web/scale"
    refused = (await api.patch(path, {"spec": {"replicas": 3}})).expect(422)
    assert seen(refused) == "UPDATE Scale deployments scale web Scale Scale"


async def test_status(api: RawApi, watched: str) -> None:
    path = f"/api/v1/namespaces/{watched}/pods/a/status"
    refused = (await api.patch(path, {"status": {"message": "hello"}})).expect(422)
    assert seen(refused) == "UPDATE Pod pods status a Pod Pod"


async def test_binding(api: RawApi, watched: str) -> None:
    path = f"/api/v1/namespaces/{watched}/pods/a/binding"
    refused = (await api.post(path, {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}})).expect(422)
    assert seen(refused) == "CREATE Binding pods binding a Binding -"


async def test_eviction(api: RawApi, watched: str) -> None:
    path = f"/api/v1/namespaces/{watched}/pods/a/eviction"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    refused = (await api.post(path, eviction)).expect(422)
    assert seen(refused) == "CREATE Eviction pods eviction a Eviction -"


async def test_delete(api: RawApi, watched: str) -> None:
    refused = (await api.delete(f"/api/v1/namespaces/{watched}/configmaps/a")).expect(422)
    assert seen(refused) == "DELETE ConfigMap configmaps - a - ConfigMap"


async def test_a_collection_has_no_name(api: RawApi, watched: str) -> None:
    refused = (await api.delete(f"/api/v1/namespaces/{watched}/configmaps")).expect(422)
    assert seen(refused) == "DELETE ConfigMap configmaps - - - ConfigMap"


async def test_token_request(api: RawApi, watched: str) -> None:
    path = f"/api/v1/namespaces/{watched}/serviceaccounts/default/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    refused = (await api.post(path, request)).expect(422)
    assert seen(refused) == "CREATE TokenRequest serviceaccounts token default TokenRequest -"


async def test_a_refused_client_is_warned_too(api: RawApi, watched: str, unique_name: Callable[[str], str]) -> None:
    bindings = f"{REGISTRATION}/validatingadmissionpolicybindings"
    listed = (await api.get(bindings)).expect(200)["items"]
    denying = next(one for one in listed if watched in str(one["spec"]["matchResources"]))
    name = unique_name("views-warn")
    warning = {**denying["spec"], "validationActions": ["Warn"]}
    (await api.post(bindings, {"metadata": {"name": name}, "spec": warning})).expect(201)
    path = f"/api/v1/namespaces/{watched}/configmaps"
    answer = await api.poll(path, lambda answer: "Warning" in answer.headers, config_map("b"))
    (await api.delete(f"{bindings}/{name}")).expect(200)
    answer.expect(422)
    assert f"with binding '{name}': CREATE ConfigMap configmaps - b ConfigMap -" in answer.headers["Warning"]
