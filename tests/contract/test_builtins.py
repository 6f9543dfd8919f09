"""What clients rely on in the other built-in kinds: defaults and the odd rule."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import MERGE_PATCH, RawApi

TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "a:1"}]}}
SELECTOR = {"matchLabels": {"app": "x"}}


async def test_secrets_take_text(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    body = {"metadata": {"name": "s"}, "stringData": {"k": "text"}, "data": {"l": base64.b64encode(b"x").decode()}}
    made = (await api.post(path, body)).expect(201)
    assert made["type"] == "Opaque"
    assert made["data"] == {"k": base64.b64encode(b"text").decode(), "l": base64.b64encode(b"x").decode()}
    assert "stringData" not in made
    status = (await api.patch(f"{path}/s", {"type": "other"})).expect(422)
    assert status["details"]["causes"][0]["field"] == "type"
    bad = (await api.post(path, {"metadata": {"name": "t"}, "data": {"k": "not base64!"}})).expect(400)
    assert bad["reason"] == "BadRequest"


async def test_services(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    made = (await api.post(path, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})).expect(201)
    spec = made["spec"]
    assert spec["type"] == "ClusterIP"
    assert spec["clusterIP"].startswith("10.0.0.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["ports"] == [{"protocol": "TCP", "port": 80, "targetPort": 80}]
    assert (spec["sessionAffinity"], spec["internalTrafficPolicy"]) == ("None", "Cluster")
    assert spec["ipFamilies"] == ["IPv4"]
    assert made["status"] == {"loadBalancer": {}}
    headless = {"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
    assert (await api.post(path, headless)).expect(201)["spec"]["clusterIP"] == "None"


async def test_deployments(api: RawApi, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    made = (
        await api.post(path, {"metadata": {"name": "d"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}})
    ).expect(201)
    spec = made["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert made["metadata"]["generation"] == 1
    changed = (await api.patch(f"{path}/d", {"spec": {"selector": {"matchLabels": {"app": "y"}}}})).expect(422)
    assert {cause["field"] for cause in changed["details"]["causes"]} >= {"spec.selector"}
    other = {"metadata": {"name": "e"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
    status = (await api.post(path, other)).expect(422)
    assert status["message"] == (
        'Deployment.apps "e" is invalid: spec.template.metadata.labels: Invalid value: {"app":"x"}: '
        "`selector` does not match template `labels`"
    )


@pytest.mark.parametrize(
    ("resource", "kind", "spec", "expected"),
    [
        ("replicasets", "ReplicaSet", {}, {"replicas": 1}),
        (
            "statefulsets",
            "StatefulSet",
            {"serviceName": "s"},
            {"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10},
        ),
        (
            "daemonsets",
            "DaemonSet",
            {},
            {"revisionHistoryLimit": 10},
        ),
    ],
)
async def test_the_other_workloads(
    api: RawApi, namespace: str, resource: str, kind: str, spec: dict[str, Any], expected: dict[str, Any]
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/{resource}"
    body = {"metadata": {"name": "w"}, "spec": {"selector": SELECTOR, "template": TEMPLATE, **spec}}
    made = (await api.post(path, body)).expect(201)
    assert made["kind"] == kind
    assert {key: made["spec"][key] for key in expected} == expected
    (await api.delete(f"{path}/w")).expect(200)


async def test_jobs(api: RawApi, namespace: str) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a:1"}]}}
    made = (await api.post(path, {"metadata": {"name": "j"}, "spec": {"template": template}})).expect(201)
    spec = made["spec"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert (spec["completionMode"], spec["suspend"]) == ("NonIndexed", False)
    labels = {"batch.kubernetes.io/controller-uid": made["metadata"]["uid"]}
    assert spec["selector"] == {"matchLabels": labels}
    assert spec["template"]["metadata"]["labels"]["job-name"] == "j"


async def test_cron_jobs(api: RawApi, namespace: str) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/cronjobs"
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "a"}]}}}}
    body = {"metadata": {"name": "c"}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": template}}
    spec = (await api.post(path, body)).expect(201)["spec"]
    assert (spec["concurrencyPolicy"], spec["suspend"]) == ("Allow", False)
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (3, 1)


async def test_leases(api: RawApi, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    spec = {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-02T03:04:05.123456Z",
        "renewTime": "2026-01-02T03:04:06.000000Z",
        "leaseTransitions": 1,
    }
    made = (await api.post(path, {"metadata": {"name": "l"}, "spec": spec})).expect(201)
    assert made["spec"] == spec
    status = (await api.patch(f"{path}/l", {"spec": {"leaseDurationSeconds": 0}})).expect(422)
    assert status["details"]["causes"][0]["field"] == "spec.leaseDurationSeconds"


async def test_one_event_in_two_groups(api: RawApi, namespace: str) -> None:
    core = f"/api/v1/namespaces/{namespace}/events"
    group = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    body = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "namespace": namespace, "name": "p"},
        "eventTime": "2026-01-02T03:04:05.123456Z",
        "reportingController": "example.com/tester",
        "reportingInstance": "tester-1",
        "action": "Testing",
        "reason": "Tested",
        "note": "it works",
        "type": "Normal",
    }
    (await api.post(group, body)).expect(201)
    seen = (await api.get(f"{core}/e")).expect(200)
    assert (seen["involvedObject"]["name"], seen["message"]) == ("p", "it works")
    assert seen["reportingComponent"] == "example.com/tester"
    listed = (await api.get(group, fieldSelector="regarding.name=p")).expect(200)
    assert [item["note"] for item in listed["items"]] == ["it works"]


async def test_endpoint_slices(api: RawApi, namespace: str) -> None:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    body = {
        "metadata": {"name": "e"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}],
        "ports": [{"port": 80}],
    }
    made = (await api.post(path, body)).expect(201)
    assert made["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]


async def test_storage(api: RawApi, namespace: str) -> None:
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    name = f"fast-{namespace}"
    made = (await api.post(classes, {"metadata": {"name": name}, "provisioner": "example.com/disk"})).expect(201)
    assert (made["reclaimPolicy"], made["volumeBindingMode"]) == ("Delete", "Immediate")
    (await api.delete(f"{classes}/{name}")).expect(200)
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    claim = (await api.post(claims, {"metadata": {"name": "c"}, "spec": spec})).expect(201)
    assert claim["status"] == {"phase": "Pending"}
    assert claim["spec"]["volumeMode"] == "Filesystem"


async def test_quantities_are_written_canonically(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    resources = {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"cpu": "1000m", "memory": "2048Mi"}}
    containers = [{"name": "main", "image": "a:1", "resources": resources}]
    made = (await api.post(path, {"metadata": {"name": "p"}, "spec": {"containers": containers}})).expect(201)
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "2Gi"},
    }


async def test_a_template_asks_for_nothing_by_its_limits(api: RawApi, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    container = {"name": "main", "image": "a:1", "resources": {"limits": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    made = (await api.post(path, {"metadata": {"name": "d"}, "spec": spec})).expect(201)
    assert made["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}


async def test_annotations_of_a_deployment_count_in_its_generation(api: RawApi, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "a:1"}]}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    (await api.post(path, {"metadata": {"name": "d"}, "spec": spec})).expect(201)
    generations = [
        (await api.patch(f"{path}/d{subresource}", {"metadata": metadata})).expect(200)["metadata"]["generation"]
        for subresource, metadata in (
            ("", {"labels": {"a": "1"}}),
            ("", {"annotations": {"a": "1"}}),
            ("", {"annotations": {"a": "1"}}),
            ("/status", {"annotations": {"a": "2"}}),
        )
    ]
    assert generations == [1, 2, 2, 2]


async def test_times_are_checked(api: RawApi, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    body = {"metadata": {"name": "l"}, "spec": {"renewTime": "yesterday"}}
    status = (await api.post(path, body)).expect(400)
    assert status["reason"] == "BadRequest"
    assert "yesterday" in status["message"]


async def test_service_account_tokens_are_mounted(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    containers = [{"name": "main", "image": "a:1"}]
    made = (await api.post(path, {"metadata": {"name": "p"}, "spec": {"containers": containers}})).expect(201)
    (mount,) = made["spec"]["containers"][0]["volumeMounts"]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert mount["readOnly"] is True
    (volume,) = made["spec"]["volumes"]
    assert volume["name"] == mount["name"]
    assert volume["name"].startswith("kube-api-access-")
    sources = [next(iter(source)) for source in volume["projected"]["sources"]]
    assert sources == ["serviceAccountToken", "configMap", "downwardAPI"]
    spec = {"containers": containers, "serviceAccountName": "none"}
    status = (await api.post(path, {"metadata": {"name": "q"}, "spec": spec})).expect(403)
    assert status["message"] == (
        f'pods "q" is forbidden: error looking up service account {namespace}/none: serviceaccount "none" not found'
    )


async def test_merge_patch_of_a_typed_field_with_the_wrong_type(api: RawApi, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    (await api.post(path, {"metadata": {"name": "l"}})).expect(201)
    answer = await api.patch(f"{path}/l", {"spec": {"leaseDurationSeconds": "long"}}, MERGE_PATCH)
    assert answer.code in {400, 422}
