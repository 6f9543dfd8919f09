"""The plugins that only fill something in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.plane import Plane, node, pod

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ([], [NOT_READY, UNREACHABLE]),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}], [UNREACHABLE]),
        ([{"key": UNREACHABLE, "operator": "Exists"}], [NOT_READY]),
        ([{"operator": "Exists"}], []),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
    ],
)
async def test_pods_tolerate_a_sick_node_for_five_minutes(plane: Plane, own: list[Any], added: list[str]) -> None:
    made = await plane.create(pod("a", tolerations=own))
    tolerations = made["spec"].get("tolerations", [])
    assert tolerations[len(own) :] == [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for key in added
    ]


async def test_a_new_node_takes_no_pods_yet(plane: Plane) -> None:
    made = await plane.create(node("a"))
    assert made["spec"]["taints"] == [{"key": NOT_READY, "effect": "NoSchedule"}]
    tainted = node("b")
    tainted["spec"]["taints"] = [{"key": NOT_READY, "effect": "NoSchedule"}]
    assert len((await plane.create(tainted))["spec"]["taints"]) == 1


def storage_class(name: str, **annotations: str) -> dict[str, Any]:
    marks = {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": marks},
        "provisioner": "example.com/disk",
    }


def claim(name: str, **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "work"},
        "spec": {**wanted, **spec},
    }


async def test_a_claim_gets_the_default_storage_class(plane: Plane) -> None:
    default = {"storageclass.kubernetes.io__is_default_class": "true"}
    assert "storageClassName" not in (await plane.create(claim("before")))["spec"]
    await plane.create(storage_class("slow"))
    await plane.create(storage_class("fast", **default))
    assert (await plane.create(claim("after")))["spec"]["storageClassName"] == "fast"
    assert not (await plane.create(claim("none", storageClassName="")))["spec"]["storageClassName"]
    assert (await plane.create(claim("own", storageClassName="slow")))["spec"]["storageClassName"] == "slow"
    await plane.create(storage_class("another", **default))
    assert (await plane.create(claim("two")))["spec"]["storageClassName"] in {"another", "fast"}
