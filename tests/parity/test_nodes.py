"""What a kubelet may do: every verb on everything that the node authorizer and NodeRestriction look at."""

from __future__ import annotations

import asyncio
import itertools
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.rawhttp import RawApi
from kube_fairlead_lab.testing.wire import WireAnswer, WireApi
from tests.parity.conftest import Planes

pytestmark = pytest.mark.kube

CORE = "/api/v1/namespaces/default"
STORAGE, RESOURCE = "/apis/storage.k8s.io/v1", "/apis/resource.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
KUBELETS = ("system:node:n1", "system:node:n2", "system:node:")


def pod(number: int) -> dict[str, Any]:
    """A pod of node n1 or n2, whose objects have its number."""
    return {
        "metadata": {"name": f"p{number}"},
        "spec": {
            "nodeName": f"n{number}",
            "serviceAccountName": f"a{number}",
            "automountServiceAccountToken": False,
            "imagePullSecrets": [{"name": f"pull{number}"}],
            "containers": [
                {
                    "name": "main",
                    "image": "a:1",
                    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": f"env{number}", "key": "k"}}}],
                    "envFrom": [{"configMapRef": {"name": f"env{number}"}}],
                }
            ],
            "resourceClaims": [{"name": "d", "resourceClaimName": f"d{number}"}],
            "volumes": [
                {"name": "s", "secret": {"secretName": f"vol{number}"}},
                {"name": "m", "configMap": {"name": f"vol{number}"}},
                {"name": "c", "persistentVolumeClaim": {"claimName": f"c{number}"}},
            ],
        },
    }


def volume(number: int) -> dict[str, Any]:
    secrets = {
        f"{use}SecretRef": {"name": f"{use.lower()}{number}", "namespace": "default"}
        for use in ("nodePublish", "nodeStage", "controllerPublish")
    }
    return {
        "metadata": {"name": f"v{number}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": f"c{number}"},
            "csi": {"driver": "example.com", "volumeHandle": f"h{number}", **secrets},
        },
    }


def claim(number: int) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": f"v{number}"}
    return {"metadata": {"name": f"c{number}"}, "spec": {**spec, "storageClassName": ""}}


SECRETS = ("pull", "env", "vol", "nodepublish", "nodestage", "controllerpublish", "unused")


def objects(number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    named = {"metadata": {"name": f"n{number}"}}
    yield "/api/v1/nodes", named
    for name in SECRETS:
        yield f"{CORE}/secrets", {"metadata": {"name": f"{name}{number}"}}
    for name in ("env", "vol", "unused"):
        yield f"{CORE}/configmaps", {"metadata": {"name": f"{name}{number}"}}
    yield f"{CORE}/serviceaccounts", {"metadata": {"name": f"a{number}"}}
    yield "/api/v1/persistentvolumes", volume(number)
    yield f"{CORE}/persistentvolumeclaims", claim(number)
    yield f"{CORE}/pods", pod(number)
    yield LEASES, {**named, "spec": {"holderIdentity": f"n{number}"}}
    yield f"{STORAGE}/csinodes", {**named, "spec": {"drivers": []}}
    source = {"persistentVolumeName": f"v{number}"}
    attachment = {"attacher": "example.com", "nodeName": f"n{number}", "source": source}
    yield f"{STORAGE}/volumeattachments", {"metadata": {"name": f"at{number}"}, "spec": attachment}
    pool = {"name": f"n{number}", "generation": 1, "resourceSliceCount": 1}
    described = {"driver": "example.com", "nodeName": f"n{number}", "pool": pool, "devices": [{"name": "d"}]}
    yield f"{RESOURCE}/resourceslices", {"metadata": {"name": f"sl{number}"}, "spec": described}
    asked = {"requests": [{"name": "r", "exactly": {"deviceClassName": "example.com"}}]}
    yield (
        f"{RESOURCE}/namespaces/default/resourceclaims",
        {"metadata": {"name": f"d{number}"}, "spec": {"devices": asked}},
    )


async def furnish(plane: ControlPlane) -> None:
    async with RawApi(plane.access()) as api:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
        for path, body in itertools.chain(objects(1), objects(2)):
            (await api.post(path, body)).expect(201)
    for number in (1, 2):
        async with RawApi(plane.access(f"system:node:n{number}", ["system:nodes"])) as kubelet:
            # kube-apiserver learns of relations a moment later.
            for path in (f"{CORE}/secrets/nodestage{number}", f"{STORAGE}/volumeattachments/at{number}"):
                await kubelet.poll(path, lambda answer: answer.code == 200)
            await kubelet.poll(f"{RESOURCE}/resourceslices/sl{number}", lambda answer: answer.code == 200)


@pytest.fixture(scope="module", autouse=True)
def _furnished(planes: Planes) -> None:
    for plane in planes:
        asyncio.run(furnish(plane))


COLLECTIONS = {
    "/api/v1/nodes": ("n1", "n2", "n3"),
    f"{CORE}/pods": ("p1", "p2", "p3"),
    "/api/v1/pods": (),
    f"{CORE}/secrets": (*(f"{name}{number}" for name in SECRETS for number in (1, 2)), "none"),
    "/api/v1/secrets": (),
    f"{CORE}/configmaps": ("env1", "env2", "vol1", "vol2", "unused1", "none"),
    f"{CORE}/serviceaccounts": ("a1", "a2", "none"),
    f"{CORE}/persistentvolumeclaims": ("c1", "c2", "none"),
    "/api/v1/persistentvolumes": ("v1", "v2", "none"),
    LEASES: ("n1", "n2"),
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": ("n1",),
    f"{STORAGE}/csinodes": ("n1", "n2"),
    f"{STORAGE}/volumeattachments": ("at1", "at2", "none"),
    f"{STORAGE}/csidrivers": ("none",),
    f"{RESOURCE}/resourceslices": ("sl1", "sl2", "none"),
    f"{RESOURCE}/namespaces/default/resourceclaims": ("d1", "d2", "none"),
    f"{CORE}/services": ("none",),
    f"{CORE}/events": ("none",),
    f"{CORE}/endpoints": ("none",),
    "/apis/certificates.k8s.io/v1/certificatesigningrequests": ("none",),
    "/apis/node.k8s.io/v1/runtimeclasses": ("none",),
    "/apis/apps/v1/namespaces/default/deployments": ("none",),
    "/api/v1/namespaces": ("default",),
}
SUBRESOURCES = ("", "/status", "/eviction", "/token", "/binding", "/ephemeralcontainers", "/resize")
SELECTORS = (
    "metadata.name=n1",
    "metadata.name=env1",
    "metadata.name=p1",
    "metadata.name=p2",
    "metadata.name!=n2",
    "spec.nodeName=n1",
    "spec.nodeName==n1",
    "spec.nodeName=n2",
    "spec.nodeName!=n2",
    "spec.nodeName=n1,metadata.name=p2",
    "metadata.name=p1,spec.nodeName=n2",
    "spec.nodeName=n2,spec.nodeName=n1",
)


def cases() -> Iterator[tuple[str, str]]:
    for path, names in COLLECTIONS.items():
        yield "POST", path
        for method, query in itertools.product(("GET", "DELETE"), ("", *SELECTORS)):
            selector = f"?fieldSelector={urllib.parse.quote(query)}" if query else ""
            yield method, f"{path}{selector}"
            if method == "GET":
                yield method, f"{path}{selector}{'&' if selector else '?'}watch=1&timeoutSeconds=1"
        for name, subresource in itertools.product(names, SUBRESOURCES):
            yield from ((method, f"{path}/{name}{subresource}") for method in ("GET", "PUT", "PATCH", "DELETE", "POST"))
        root, _, rest = path.partition("/v1/")
        yield from (("GET", f"{root}/v1/watch/{rest}/{name}?timeoutSeconds=1") for name in names)
    yield from (("GET", path) for path in ("/metrics", "/healthz", "/api", "/version", "/logs"))


def send(api: WireApi, method: str, path: str) -> WireAnswer:
    patch = {"Content-Type": "application/merge-patch+json"}
    headers = patch if method == "PATCH" else {"Content-Type": "application/json"}
    dry = path if method == "GET" else f"{path}{'&' if '?' in path else '?'}dryRun=All"
    return api.send(method, dry, None if method in {"GET", "DELETE"} else b"{}", headers)


def summary(answer: WireAnswer) -> tuple[int, str]:
    """Refusals in full; which fault of an empty body is found first does not matter."""
    code = 400 if answer.code in {404, 405, 415, 422, 500, 503} else answer.code
    return code, answer.message if code == 403 else ""


def compare(planes: Planes, user: str, asked: Iterable[tuple[str, str]]) -> list[str]:
    different = []
    groups = ["system:nodes"]
    with WireApi(planes.kube.access(user, groups)) as kube, WireApi(planes.embedded.access(user, groups)) as embedded:
        for method, path in asked:
            wanted, got = summary(send(kube, method, path)), summary(send(embedded, method, path))
            if wanted != got:
                different.append(f"{method} {path}\n  kube     {wanted}\n  embedded {got}")
    return different


@pytest.mark.parametrize("user", KUBELETS)
def test_some_of_what_a_kubelet_may_do(planes: Planes, user: str) -> None:
    """A part of the next test: every seventh case, another one for each user."""
    part = itertools.islice(cases(), KUBELETS.index(user), None, 7)
    different = compare(planes, user, part)
    assert not different, "\n".join(different)


@pytest.mark.long
@pytest.mark.parametrize("user", KUBELETS)
def test_what_a_kubelet_may_do(planes: Planes, user: str) -> None:
    different = compare(planes, user, cases())
    assert not different, "\n".join(different)
