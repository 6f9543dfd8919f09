"""Empty values of built-in kinds: Kubernetes keeps them where they say something, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import config_map, pod
from kube_fairlead_lab.testing.rawhttp import JSON_PATCH, RawApi

Json = dict[str, Any]


SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"


def slice_of(name: str, **fields: Any) -> Json:
    return {"metadata": {"name": name}, "addressType": "IPv4", **fields}


def deployment(**container: Any) -> Json:
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {}},
        "spec": {
            "containers": [{"name": "c", "image": "i", **container}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "nodeSelector": {},
            "tolerations": [],
            "securityContext": {},
        },
    }
    spec = {"selector": {"matchLabels": {"a": "b"}, "matchExpressions": []}, "template": template, "replicas": 0}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


async def test_empty_maps_and_lists_are_left_out(api: RawApi, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    container = {"env": [], "command": [], "args": [], "ports": [], "resources": {"limits": {}}, "stdin": False}
    made = (await api.post(path, deployment(**container))).expect(201)
    assert made["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    assert "annotations" not in made["spec"]["template"]["metadata"]
    shown = made["spec"]["template"]["spec"]
    assert set(shown["containers"][0]) == {
        "image",
        "imagePullPolicy",
        "name",
        "resources",
        "terminationMessagePath",
        "terminationMessagePolicy",
    }
    assert shown["containers"][0]["resources"] == {}
    assert not {"nodeSelector", "tolerations"} & set(shown)
    # What is a struct or a pointer in Go says something even if it is empty.
    assert shown["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert shown["securityContext"] == {}
    assert made["spec"]["replicas"] == 0


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
async def test_data(api: RawApi, namespace: str, kind: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/{kind.lower()}s"
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "labels": {}}, "data": {}, "immutable": False}
    made = (await api.post(path, body)).expect(201)
    assert "data" not in made
    assert made["immutable"] is False
    refused = await api.patch(f"{path}/a", [{"op": "add", "path": "/data/x", "value": "eA=="}], JSON_PATCH)
    assert refused.code == 422
    (await api.patch(f"{path}/a", {"data": {"x": "eA=="}})).expect(200)
    emptied = (await api.patch(f"{path}/a", {"data": {"x": None}})).expect(200)
    assert "data" not in emptied
    again = (await api.put(f"{path}/a", {**emptied, "data": {}})).expect(200)
    assert again == emptied
    empty = (await api.patch(f"{path}/a", {"data": {"x": ""}})).expect(200)
    assert empty["data"] == {"x": ""}


async def test_zeros_of_pods(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    zeros = {"nodeName": "", "hostNetwork": False, "hostname": "", "automountServiceAccountToken": False}
    made = (await api.post(path, pod("a", spec=zeros))).expect(201)
    assert not {"nodeName", "hostNetwork", "hostname"} & set(made["spec"])
    assert made["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("zero", [{"nodeName": False}, {"hostNetwork": ""}, {"tolerations": {}}, {"nodeSelector": []}])
async def test_a_zero_of_the_wrong_type_is_refused(api: RawApi, namespace: str, zero: Json) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    (await api.post(path, pod("a", spec=zero))).expect(400)


async def test_applied_empty_values(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/a"
    made = (await api.apply(path, config_map("a", {}), "me")).expect(201)
    assert "data" not in made
    later = (await api.apply(path, {**config_map("a", {}), "binaryData": {}}, "me")).expect(200)
    assert not {"data", "binaryData"} & set(later)
    again = (await api.apply(path, {**config_map("a", {}), "binaryData": {}}, "me")).expect(200)
    assert again == later
    assert [sorted(entry["fieldsV1"]) for entry in again["metadata"]["managedFields"]] == [["f:binaryData", "f:data"]]


async def test_lists_that_are_always_written(api: RawApi, namespace: str) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles"
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}, "rules": []}
    made = (await api.post(path, body)).expect(201)
    assert made["rules"] is None
    made = (await api.post(SLICES.format(namespace), slice_of("a"))).expect(201)
    assert (made["endpoints"], made["ports"]) == (None, None)


@pytest.mark.parametrize("nothing", [{}, {"ports": None}, {"ports": []}])
async def test_nothing_is_nothing_however_it_is_said(api: RawApi, namespace: str, nothing: Json) -> None:
    path = SLICES.format(namespace)
    made = (await api.post(path, slice_of("s", endpoints=[], ports=None))).expect(201)
    assert (made["endpoints"], made["ports"]) == (None, None)
    again = (await api.put(f"{path}/s", slice_of("s", endpoints=[], **nothing))).expect(200)
    assert (again["endpoints"], again["ports"], again["metadata"]["generation"]) == (None, None, 1)
    filled = (await api.patch(f"{path}/s", {"ports": [{"port": 80}]})).expect(200)
    assert filled["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    emptied = (await api.put(f"{path}/s", slice_of("s", **nothing))).expect(200)
    assert (emptied["ports"], emptied["metadata"]["generation"]) == (None, 3)
    assert (await api.get(f"{path}/s")).expect(200) == emptied
