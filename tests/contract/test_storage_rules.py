"""What a server refuses in claims, volumes and their classes, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.conftest import Refused, inside

Json = dict[str, Any]

CLAIMS = "persistentvolumeclaims.v1"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIM: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME: dict[str, Any] = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "hostPath": {"path": "/x"},
}
SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
OTHER = {"apiGroup": "a.b", "kind": "Other", "name": "o"}
OTHER_CLAIM = {"kind": "PersistentVolumeClaim", "name": "c"}
FIXED_CLAIM = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims"
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {},
            [
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        ),
        (
            {**CLAIM, "accessModes": ["X", "ReadWriteOncePod", "ReadWriteOnce"]},
            [
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                (
                    'spec.accessModes: Unsupported value: "X": supported values: '
                    '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'
                ),
            ],
        ),
        (
            {**CLAIM, "resources": {"requests": {"storage": "0"}}, "volumeMode": "X"},
            [
                'spec.resources[storage]: Invalid value: "0": must be greater than zero',
                'spec.volumeMode: Unsupported value: "X": supported values: "Block", "Filesystem"',
            ],
        ),
        (
            {**CLAIM, "dataSourceRef": {"kind": "X", "name": ""}},
            [
                f"spec.{field}{problem}"
                for field in ("dataSource", "dataSourceRef")
                for problem in (
                    ".name: Required value",
                    ": Invalid value: \"X\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                )
            ],
        ),
        (
            {**CLAIM, "dataSource": SNAPSHOT, "dataSourceRef": OTHER},
            ["spec: Invalid value: {}: must match dataSourceRef"],
        ),
    ],
)
async def test_a_claim_that_cannot_be(refused: Refused, spec: dict[str, Any], expected: list[str]) -> None:
    assert await refused(CLAIMS, {"spec": spec}) == expected


async def test_claims_stay_as_they_are(api: RawApi, namespace: str, refused: Refused) -> None:
    path = inside(namespace, CLAIMS)
    made = (await api.post(path, {"metadata": {"name": "c"}, "spec": CLAIM})).expect(201)
    assert (made["spec"]["volumeMode"], made["status"]) == ("Filesystem", {"phase": "Pending"})
    assert await refused(CLAIMS, {"spec": {"accessModes": ["ReadWriteMany"]}}, patch="c") == [FIXED_CLAIM]
    bigger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert await refused(CLAIMS, bigger, patch="c") == [FIXED_CLAIM]
    # Whoever binds it says where to, once.
    (await api.patch(f"{path}/c", {"spec": {"volumeName": "v"}})).expect(200)
    assert await refused(CLAIMS, {"spec": {"volumeName": "w"}}, patch="c") == [FIXED_CLAIM]
    (await api.patch(f"{path}/c", {"metadata": {"finalizers": None}})).expect(200)
    (await api.delete(f"{path}/c")).expect(200)


@pytest.mark.parametrize(
    ("given", "settled"),
    [
        ({"dataSource": OTHER_CLAIM}, {**OTHER_CLAIM, "apiGroup": None}),
        ({"dataSource": {**OTHER_CLAIM, "apiGroup": ""}}, {**OTHER_CLAIM, "apiGroup": ""}),
        ({"dataSource": SNAPSHOT}, SNAPSHOT),
        ({"dataSourceRef": SNAPSHOT}, SNAPSHOT),
        ({"dataSourceRef": OTHER}, OTHER),
        # What only the newer form can name, and what is in another namespace.
        ({"dataSource": OTHER}, None),
        ({"dataSourceRef": {**OTHER_CLAIM, "namespace": "elsewhere"}}, None),
    ],
)
async def test_what_a_volume_begins_with(api: RawApi, namespace: str, given: Json, settled: Json | None) -> None:
    body = {"metadata": {"name": "c"}, "spec": {**CLAIM, **given}}
    spec = (await api.post(inside(namespace, CLAIMS), body, dryRun="All")).expect(201)["spec"]
    assert (spec.get("dataSource"), spec.get("dataSourceRef")) == (settled, settled)


async def test_either_form_of_a_source_stands_for_both(api: RawApi, namespace: str, refused: Refused) -> None:
    path = inside(namespace, CLAIMS)
    body: Json = {"metadata": {"name": "c"}, "spec": {**CLAIM, "dataSource": SNAPSHOT}}
    made = (await api.post(path, body)).expect(201)
    for field in ("dataSource", "dataSourceRef"):
        again = (await api.put(f"{path}/c", {**body, "spec": {**CLAIM, field: SNAPSHOT}})).expect(200)
        assert again["spec"] == made["spec"]
    (await api.put(f"{path}/c", {**body, "spec": CLAIM})).expect(422)
    assert await refused(CLAIMS, {"spec": {"dataSource": {"name": "t"}}}, patch="c") == [
        FIXED_CLAIM,
        "spec: Invalid value: {}: must match dataSourceRef",
    ]
    (await api.patch(f"{path}/c", {"metadata": {"finalizers": None}})).expect(200)
    (await api.delete(f"{path}/c")).expect(200)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {},
            [
                "spec.accessModes: Required value",
                "spec.capacity: Required value",
                'spec.capacity: Unsupported value: null: supported values: "storage"',
                "spec: Required value: must specify a volume type",
            ],
        ),
        (
            {**VOLUME, "nfs": {"server": "s", "path": "/"}},
            ["spec.nfs: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            {**VOLUME, "hostPath": {"path": "/a/../b"}, "persistentVolumeReclaimPolicy": "X"},
            [
                "spec.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                (
                    'spec.persistentVolumeReclaimPolicy: Unsupported value: "X": '
                    'supported values: "Delete", "Recycle", "Retain"'
                ),
            ],
        ),
    ],
)
async def test_a_volume_that_cannot_be(refused: Refused, spec: dict[str, Any], expected: list[str]) -> None:
    assert await refused(VOLUMES, {"spec": spec}) == expected


async def test_a_volume_stays_where_it_is(api: RawApi, namespace: str, refused: Refused) -> None:
    made = (await api.post(VOLUMES, {"metadata": {"name": namespace}, "spec": VOLUME})).expect(201)
    assert made["spec"]["hostPath"] == {"path": "/x", "type": ""}
    assert await refused(VOLUMES, {"spec": {"hostPath": {"path": "/y"}}}, patch=namespace) == [
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"
    ]
    (await api.patch(f"{VOLUMES}/{namespace}", {"metadata": {"finalizers": None}})).expect(200)
    (await api.delete(f"{VOLUMES}/{namespace}")).expect(200)


async def test_classes_of_storage(api: RawApi, namespace: str, refused: Refused) -> None:
    assert await refused(CLASSES, {}) == ["provisioner: Required value"]
    assert await refused(CLASSES, {"provisioner": "a.b/c", "reclaimPolicy": "X"}) == [
        'reclaimPolicy: Unsupported value: "X": supported values: "Delete", "Retain"'
    ]
    (await api.post(CLASSES, {"metadata": {"name": namespace}, "provisioner": "a.b/c"})).expect(201)
    changed = {"provisioner": "a.b/d", "reclaimPolicy": "Retain"}
    assert await refused(CLASSES, changed, patch=namespace) == [
        'provisioner: Invalid value: "a.b/d": field is immutable',
        'reclaimPolicy: Invalid value: "Retain": field is immutable',
    ]
    (await api.delete(f"{CLASSES}/{namespace}")).expect(200)


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "a:1", **(container or {})}
    return {"spec": {"automountServiceAccountToken": False, "containers": [main], **spec}}


PODS = {
    "two sources of one volume": (
        pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}, "configMap": {"name": "x"}}]),
        [
            "spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type",
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        ],
    ),
    "sources that say too little": (
        pod(
            volumes=[
                {"name": "a", "hostPath": {"path": ""}},
                {"name": "b", "secret": {}},
                {"name": "c", "persistentVolumeClaim": {"claimName": ""}},
                {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            ]
        ),
        [
            "spec.volumes[0].hostPath.path: Required value",
            "spec.volumes[1].secret.secretName: Required value",
            "spec.volumes[2].persistentVolumeClaim.claimName: Required value",
            (
                "spec.volumes[3].ephemeral.volumeClaimTemplate.spec.accessModes: "
                "Required value: at least 1 access mode is required"
            ),
            "spec.volumes[3].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
        ],
    ),
    "more than it may have": (
        pod({"resources": {"requests": {"cpu": "2", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}}),
        ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
    ),
    "less than nothing": (
        pod({"resources": {"requests": {"cpu": "-2"}}}),
        ['spec.containers[0].resources.requests[cpu]: Invalid value: "-2": must be greater than or equal to 0'],
    ),
    "a port that is not the host's": (
        pod({"ports": [{"containerPort": 80, "hostPort": 81}]}, hostNetwork=True),
        [
            (
                "spec.containers[0].ports[0].hostPort: Invalid value: 81: "
                "must match `containerPort` when `hostNetwork` is true"
            )
        ],
    ),
}


@pytest.mark.parametrize("case", PODS)
async def test_a_pod_that_cannot_be(refused: Refused, case: str) -> None:
    body, expected = PODS[case]
    assert await refused("pods.v1", body) == expected


async def test_volumes_of_pods_are_filled_in(api: RawApi, namespace: str) -> None:
    field = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
    volumes = [
        {"name": "a", "projected": {"sources": [{"downwardAPI": {"items": [field]}}]}},
        {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}},
    ]
    body = {"metadata": {"name": "p"}, **pod(volumes=volumes)}
    made = (await api.post(inside(namespace, "pods.v1"), body, dryRun="All")).expect(201)
    files, claim = made["spec"]["volumes"]
    assert files["projected"]["sources"][0]["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"] == "v1"
    assert claim["ephemeral"]["volumeClaimTemplate"]["spec"] == {**CLAIM, "volumeMode": "Filesystem"}


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("tls", {"tls.crt": ""}, ["data[tls.key]: Required value"]),
        ("dockerconfigjson", {}, ["data[.dockerconfigjson]: Required value"]),
        ("basic-auth", {}, ["data[password]: Required value", "data[username]: Required value"]),
        ("ssh-auth", {"ssh-privatekey": ""}, ["data[ssh-privatekey]: Required value"]),
        (
            "service-account-token",
            {},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
    ],
)
async def test_what_a_type_of_secret_holds(
    refused: Refused, kind: str, data: dict[str, str], expected: list[str]
) -> None:
    assert await refused("secrets.v1", {"type": f"kubernetes.io/{kind}", "data": data}) == expected
