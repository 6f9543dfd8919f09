"""Which metadata a write to a subresource changes, kind by kind: labels, annotations, finalizers, owners."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.parity.conftest import Planes

pytestmark = pytest.mark.kube

Json = dict[str, Any]

CONTAINERS = [{"name": "main", "image": "a:1"}]
SELECTOR = {"matchLabels": {"app": "a"}}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": CONTAINERS}}
ONCE = {"template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
VOLUME = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
DEVICES = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "example.com"}}]}}
POLICY = {
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}
        ]
    },
    "validations": [{"expression": "true"}],
}
SCALED = {"scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}, "maxReplicas": 2}
ATTACHED = {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
NAME = "parity"

KINDS: dict[str, Json] = {
    "/api/v1/nodes": {},
    "/api/v1/namespaces": {},
    "/api/v1/persistentvolumes": VOLUME,
    "/api/v1/namespaces/default/pods": {"containers": CONTAINERS, "automountServiceAccountToken": False},
    "/api/v1/namespaces/default/persistentvolumeclaims": CLAIM,
    "/api/v1/namespaces/default/services": {"ports": [{"port": 80}]},
    "/api/v1/namespaces/default/replicationcontrollers": {"selector": {"app": "a"}, "template": TEMPLATE},
    "/api/v1/namespaces/default/resourcequotas": {"hard": {"example.com/things": "1"}},
    "/apis/apps/v1/namespaces/default/deployments": {"selector": SELECTOR, "template": TEMPLATE},
    "/apis/apps/v1/namespaces/default/replicasets": {"selector": SELECTOR, "template": TEMPLATE},
    "/apis/apps/v1/namespaces/default/statefulsets": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "a"},
    "/apis/apps/v1/namespaces/default/daemonsets": {"selector": SELECTOR, "template": TEMPLATE},
    "/apis/batch/v1/namespaces/default/jobs": ONCE,
    "/apis/batch/v1/namespaces/default/cronjobs": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": ONCE}},
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {"selector": SELECTOR, "minAvailable": 1},
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers": SCALED,
    "/apis/networking.k8s.io/v1/namespaces/default/ingresses": {
        "defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}
    },
    "/apis/networking.k8s.io/v1/servicecidrs": {"cidrs": ["10.9.0.0/24"]},
    "/apis/storage.k8s.io/v1/volumeattachments": ATTACHED,
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims": DEVICES,
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": POLICY,
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CHANGES: Json = {
    "labels": {"changed": "yes"},
    "annotations": {"changed": "yes"},
    "finalizers": ["example.com/changed"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "other", "uid": "u"}],
}


def subresources(path: str) -> Iterator[str]:
    yield "status"
    if path.endswith("/pods"):
        yield from ("ephemeralcontainers", "resize")


async def changed_by(plane: ControlPlane) -> dict[str, list[str]]:
    """For each kind and subresource, the metadata that a write to it has changed."""
    found: dict[str, list[str]] = {}
    async with RawApi(plane.access()) as api:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
        manifest = custom_resource_definition(
            "things", "meta.example.com", kind="Thing", version={"subresources": {"status": {}}}
        )
        (await api.post(CRDS, manifest)).expect(201)
        custom = "/apis/meta.example.com/v1/namespaces/default/things"
        await api.poll(custom, lambda answer: answer.code == 200)
        thing = {"apiVersion": "meta.example.com/v1", "kind": "Thing"}
        for path, spec in {**KINDS, custom: {}}.items():
            kind = thing if path == custom else {}
            (await api.post(path, {**kind, "metadata": {"name": NAME}, "spec": spec})).expect(201)
            for subresource in subresources(path):
                body = {"metadata": CHANGES}
                after = (await api.patch(f"{path}/{NAME}/{subresource}", body)).expect(200)["metadata"]
                found[f"{path} {subresource}"] = [field for field in CHANGES if after.get(field)]
                undone = {"metadata": dict.fromkeys(CHANGES)}
                (await api.patch(f"{path}/{NAME}", undone)).expect(200)
            await api.delete(f"{path}/{NAME}", gracePeriodSeconds=0)
    return found


def test_what_a_write_to_a_subresource_changes(planes: Planes) -> None:
    kube, embedded = (asyncio.run(changed_by(plane)) for plane in planes)
    different = [f"{key}: kube {kube[key]}, embedded {embedded[key]}" for key in kube if kube[key] != embedded[key]]
    assert not different, "\n".join(different)


async def reshaped(plane: ControlPlane) -> Json:
    """A pod after writes to its subresources that ask for another pod altogether."""
    path = "/api/v1/namespaces/default/pods"
    async with RawApi(plane.access()) as api:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
        spec = {"containers": CONTAINERS, "automountServiceAccountToken": False, "nodeName": "n1"}
        (await api.post(path, {"metadata": {"name": "reshaped"}, "spec": spec})).expect(201)
        for subresource in ("ephemeralcontainers", "resize"):
            other = {"nodeName": "n2", "hostNetwork": True, "priority": 7, "serviceAccountName": "root"}
            body = {
                "spec": {**other, "containers": [{"name": "main", "image": "evil:1"}]},
                "status": {"phase": "Failed"},
            }
            (await api.patch(f"{path}/reshaped/{subresource}", body)).expect(200, 422)
        pod = (await api.get(f"{path}/reshaped")).expect(200)
        await api.delete(f"{path}/reshaped", gracePeriodSeconds=0)
    seen = {field: pod["spec"].get(field) for field in ("nodeName", "hostNetwork", "serviceAccountName")}
    return {**seen, "images": [one["image"] for one in pod["spec"]["containers"]], "phase": pod["status"]["phase"]}


def test_a_pod_is_not_made_another_through_its_subresources(planes: Planes) -> None:
    kube, embedded = (asyncio.run(reshaped(plane)) for plane in planes)
    assert kube["nodeName"] == embedded["nodeName"] == "n1"
    assert {**kube, "serviceAccountName": ""} == {**embedded, "serviceAccountName": ""}
