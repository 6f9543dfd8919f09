"""What a server refuses in workloads, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.conftest import Refused, inside

SELECTOR = {"matchLabels": {"a": "b"}}
KINDS = ("deployments", "replicasets", "statefulsets", "daemonsets")
MISMATCH = "`selector` does not match template `labels`"
NEGATIVE = "Invalid value: -1: must be greater than or equal to 0"


def template(*, labels: dict[str, str] | None = None, ports: Any = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "a:1", "ports": ports or []}
    return {"metadata": {"labels": labels or {"a": "b"}}, "spec": {"containers": [container], **spec}}


def workload(**spec: Any) -> dict[str, Any]:
    return {"spec": {"selector": SELECTOR, "template": template(), **spec}}


def port(container: int, host: int) -> dict[str, int]:
    return {"containerPort": container, "hostPort": host}


EVERY_KIND: dict[str, tuple[dict[str, Any], list[str]]] = {
    "pods that end": (
        {"template": template(restartPolicy="Never")},
        ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
    ),
    "other pods' labels": (
        {"selector": {"matchLabels": {"z": "b"}}},
        [f"spec.template.metadata.labels: Invalid value: {{}}: {MISMATCH}"],
    ),
    "labels that are none": (
        {"template": template(labels={"a": "b", "c": "x y"})},
        [
            (
                'spec.template.labels: Invalid value: "x y": a valid label must be an empty string or consist of '
                "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
                "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            )
        ],
    ),
    "a port of the host that is not the container's": (
        {"template": template(hostNetwork=True, ports=[port(80, 8080)])},
        [
            (
                "spec.template.spec.containers[0].ports[0].hostPort: Invalid value: 8080: "
                "must match `containerPort` when `hostNetwork` is true"
            )
        ],
    ),
    "a port of the host twice": (
        {"template": template(ports=[port(80, 80), port(81, 80)])},
        ['spec.template.spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"'],
    ),
    "a wait of less than nothing": ({"minReadySeconds": -1}, [f"spec.minReadySeconds: {NEGATIVE}"]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", EVERY_KIND)
async def test_rules_of_every_kind(refused: Refused, kind: str, case: str) -> None:
    spec, expected = EVERY_KIND[case]
    assert await refused(f"{kind}.apps/v1", workload(**spec)) == expected


@pytest.mark.parametrize(
    ("kind", "owner"),
    [
        ("deployments", "ReplicaSet"),
        ("replicasets", "ReplicaSet"),
        ("statefulsets", "StatefulSet"),
        ("daemonsets", "DaemonSet"),
    ],
)
async def test_pods_of_a_workload_have_no_deadline(refused: Refused, kind: str, owner: str) -> None:
    assert await refused(f"{kind}.apps/v1", workload(template=template(activeDeadlineSeconds=5))) == [
        f"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {owner} is not Supported"
    ]


OWN_RULES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a deployment of all pods": (
        "deployments",
        {"selector": {}},
        ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
    ),
    "a set without selector": (
        "statefulsets",
        {"selector": None},
        ["spec.selector: Required value", f"spec.template.metadata.labels: Invalid value: {{}}: {MISMATCH}"],
    ),
    "a selector that means nothing": (
        "deployments",
        {"selector": {"matchExpressions": [{"key": "a", "operator": "X"}]}},
        [
            'spec.selector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator',
            "spec.selector: Invalid value: {}: invalid label selector",
        ],
    ),
    "a new start that rolls": (
        "deployments",
        {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
    ),
    "a deployment that cannot roll": (
        "deployments",
        {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
        ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
    ),
    "more than all pods": (
        "deployments",
        {"strategy": {"rollingUpdate": {"maxUnavailable": "110%"}}},
        ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "110%": must not be greater than 100%'],
    ),
    "too little time": (
        "deployments",
        {"progressDeadlineSeconds": 5, "minReadySeconds": 5},
        ["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
    ),
    "daemons that cannot roll": (
        "daemonsets",
        {"updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
        ["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
    ),
    "daemons that roll in two ways": (
        "daemonsets",
        {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}},
        [
            (
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: "
                "may not be set when maxUnavailable is non-zero"
            )
        ],
    ),
    "a set of its own ideas": (
        "statefulsets",
        {
            "podManagementPolicy": "X",
            "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
            "ordinals": {"start": -1},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "X", "whenScaled": "Retain"},
            "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {}}],
        },
        [
            f"spec.ordinals.start: {NEGATIVE}",
            (
                "spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "
                '"X": supported values: "Retain", "Delete"'
            ),
            "spec.podManagementPolicy: Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'",
            "spec.updateStrategy.rollingUpdate: Invalid value: {}: only allowed for updateStrategy 'RollingUpdate'",
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
            "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
        ],
    ),
}


@pytest.mark.parametrize("case", OWN_RULES)
async def test_rules_of_one_kind(refused: Refused, case: str) -> None:
    kind, spec, expected = OWN_RULES[case]
    assert await refused(f"{kind}.apps/v1", workload(**spec)) == sorted(expected)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["spec.selector: Required value", "spec.template: Required value"]),
        (
            {"replicas": -1, "template": template(restartPolicy="Never")},
            [
                f"spec.replicas: {NEGATIVE}",
                'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
            ],
        ),
        (
            {"selector": {"q": "r"}, "template": template()},
            [f"spec.template.metadata.labels: Invalid value: {{}}: {MISMATCH}"],
        ),
    ],
)
async def test_replication_controllers(refused: Refused, spec: dict[str, Any], expected: list[str]) -> None:
    assert await refused("replicationcontrollers.v1", {"spec": spec}) == expected


async def test_a_replication_controller_is_found_by_the_labels_of_its_pods(api: RawApi, namespace: str) -> None:
    body = {"metadata": {"name": "r"}, "spec": {"template": template(labels={"x": "y"})}}
    made = (await api.post(inside(namespace, "replicationcontrollers.v1"), body, dryRun="All")).expect(201)
    assert (made["metadata"]["labels"], made["spec"]["selector"]) == ({"x": "y"}, {"x": "y"})


async def test_little_of_a_stateful_set_changes(api: RawApi, namespace: str, refused: Refused) -> None:
    path = inside(namespace, "statefulsets.apps/v1")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    pods = template()
    pods["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    spec = {"serviceName": "s", "template": pods, "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": claim}]}
    made = (await api.post(path, {"metadata": {"name": "w"}, **workload(**spec)})).expect(201)
    assert made["spec"]["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "v"},
            "spec": {**claim, "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        }
    ]
    assert await refused("statefulsets.apps/v1", {"spec": {"serviceName": "t"}}, patch="w") == [
        (
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' "
            "are forbidden"
        )
    ]
    assert (await api.patch(f"{path}/w", {"spec": {"replicas": 3}})).expect(200)["metadata"]["generation"] == 2
    (await api.delete(f"{path}/w")).expect(200)


async def test_daemon_sets_count_their_templates(api: RawApi, namespace: str) -> None:
    path, count = inside(namespace, "daemonsets.apps/v1"), "deprecated.daemonset.template.generation"
    made = (await api.post(path, {"metadata": {"name": "w"}, **workload()})).expect(201)
    assert made["metadata"]["annotations"] == {count: "1"}
    rolled = await api.patch(f"{path}/w", {"spec": {"template": {"spec": {"hostPID": True}}}})
    assert rolled.expect(200)["metadata"]["annotations"] == {count: "2"}
    same = await api.patch(f"{path}/w", {"spec": {"minReadySeconds": 3}, "metadata": {"annotations": {count: "9"}}})
    assert same.expect(200)["metadata"]["annotations"] == {count: "2"}
    (await api.delete(f"{path}/w")).expect(200)
