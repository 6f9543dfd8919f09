"""What a server refuses in autoscalers, requests for certificates, namespaces and nodes; and what it fills in."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.conftest import Refused, inside

AUTOSCALERS = "horizontalpodautoscalers.autoscaling/v2"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}


def autoscaler(**spec: Any) -> dict[str, Any]:
    return {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}}


AUTOSCALER_RULES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "more at least than at most": (
        {"minReplicas": 5},
        ["spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"],
    ),
    "none at most": (
        {"maxReplicas": 0},
        [
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
            "spec.maxReplicas: Required value: must be set and greater than 0",
        ],
    ),
    "nothing to scale": (
        {"scaleTargetRef": {"apiVersion": "v1"}},
        [
            'spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group',
            "spec.scaleTargetRef.kind: Required value",
            "spec.scaleTargetRef.name: Required value",
        ],
    ),
    "no measure": (
        {"metrics": [{"type": "Resource"}]},
        ["spec.metrics[0].resource: Required value: must populate information for the given metric source"],
    ),
    "a measure of nothing": (
        {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "X"}}}]},
        [
            (
                "spec.metrics[0].resource.target.averageUtilization: Required value: "
                "must set either a target raw value or a target utilization"
            ),
            (
                'spec.metrics[0].resource.target.type: Invalid value: "X": '
                "must be either Utilization, Value, or AverageValue"
            ),
        ],
    ),
    "a pace of nothing": (
        {"behavior": {"scaleUp": {"policies": [{"type": "X", "value": 0, "periodSeconds": 2000}]}}},
        [
            "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 2000: must be less than or equal to 1800",
            'spec.behavior.scaleUp.policies[0].type: Unsupported value: "X": supported values: "Percent", "Pods"',
            "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
        ],
    ),
}


@pytest.mark.parametrize("case", AUTOSCALER_RULES)
async def test_an_autoscaler_that_cannot_be(refused: Refused, case: str) -> None:
    spec, expected = AUTOSCALER_RULES[case]
    assert await refused(AUTOSCALERS, autoscaler(**spec)) == expected


async def test_autoscalers_are_filled_in(api: RawApi, namespace: str) -> None:
    own = [{"type": "Pods", "value": 1, "periodSeconds": 10}]
    body = {"metadata": {"name": "a"}, **autoscaler(behavior={"scaleDown": {"policies": own}})}
    spec = (await api.post(inside(namespace, AUTOSCALERS), body, dryRun="All")).expect(201)["spec"]
    assert spec["minReplicas"] == 1
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    assert spec["metrics"] == [{"type": "Resource", "resource": cpu}]
    assert spec["behavior"] == {
        "scaleDown": {"policies": own, "selectPolicy": "Max"},
        "scaleUp": {
            "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ],
            "selectPolicy": "Max",
            "stabilizationWindowSeconds": 0,
        },
    }


async def test_requests_for_certificates(refused: Refused) -> None:
    text = base64.b64encode(b"please").decode()
    spec = {"request": text, "signerName": "x", "usages": ["client auth", "client auth"], "expirationSeconds": 5}
    assert await refused(REQUESTS, {"spec": spec}) == [
        "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)",
        f'spec.request: Invalid value: "{text}": PEM block type must be CERTIFICATE REQUEST',
        (
            'spec.signerName: Invalid value: "x": '
            "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        ),
        'spec.usages[1]: Duplicate value: "client auth"',
    ]


async def test_nobody_asks_in_anothers_name(api: RawApi, namespace: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    spec = {"request": base64.b64encode(pem).decode(), "signerName": "a.b/c", "usages": ["client auth"]}
    body = {"metadata": {"name": namespace}, "spec": {**spec, "username": "somebody", "groups": ["else"]}}
    made = (await api.post(REQUESTS, body, dryRun="All")).expect(201)
    review = (await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})).expect(201)
    caller = review["status"]["userInfo"]
    assert (made["spec"]["username"], made["spec"]["groups"]) == (caller["username"], caller["groups"])


@pytest.mark.parametrize("phase", ["Terminating", "Other"])
async def test_a_namespace_ends_by_being_deleted(refused: Refused, namespace: str, phase: str) -> None:
    path, body = "/api/v1/namespaces", {"status": {"phase": phase}}
    assert await refused(path, body, patch=f"{namespace}/status") == [
        f"status.Phase: Invalid value: \"{phase}\": may only be 'Active' if `deletionTimestamp` is empty"
    ]


async def test_a_node_has_ranges_of_addresses(refused: Refused) -> None:
    assert await refused("/api/v1/nodes", {"spec": {"podCIDRs": ["x"]}}) == [
        'spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'
    ]


async def test_limits_of_containers_are_filled_in(api: RawApi, namespace: str) -> None:
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Gi"}}
    body = {"metadata": {"name": "l"}, "spec": {"limits": [item]}}
    made = (await api.post(inside(namespace, "limitranges.v1"), body, dryRun="All")).expect(201)
    filled = {"default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Gi"}}
    assert made["spec"]["limits"] == [{**item, **filled}]


async def test_the_generation_of_a_priority_stays_one(api: RawApi, namespace: str) -> None:
    made = (await api.post(PRIORITIES, {"metadata": {"name": namespace}, "value": 5})).expect(201)
    changed = (await api.patch(f"{PRIORITIES}/{namespace}", {"description": "x"})).expect(200)
    assert (made["metadata"]["generation"], changed["metadata"]["generation"]) == (1, 1)
    (await api.delete(f"{PRIORITIES}/{namespace}")).expect(200)


async def test_a_quota_has_not_been_counted(api: RawApi, namespace: str) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "10"}}}
    made = (await api.post(inside(namespace, "resourcequotas.v1"), body, dryRun="All")).expect(201)
    assert made["status"] == {}
