"""Printers of volumes, claims, storage classes and drivers.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/printers/internalversion/printers.go
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.printers.cluster import simple
from kube_fairlead_apiserver.printers.columns import (
    NONE,
    UNSET,
    Printer,
    age,
    columns,
    dig,
    listed,
    name_of,
    quantity_text,
)

__all__ = ["STORAGE"]

_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _phase(obj: Json) -> str:
    if dig(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(dig(obj, "status", "phase", default=""))


def _access_modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes)


def _storage_class(obj: Json) -> str:
    """Return the storage class; the deprecated annotation takes precedence over the field."""
    annotated = dig(obj, "metadata", "annotations", default={}).get(_CLASS_ANNOTATION)
    return str(annotated if annotated is not None else dig(obj, "spec", "storageClassName", default=""))


def _volume(obj: Json, now: dt.datetime) -> list[Any]:
    claim = dig(obj, "spec", "claimRef")
    return [
        name_of(obj),
        quantity_text(dig(obj, "spec", "capacity", "storage")),
        _access_modes(listed(obj, "spec", "accessModes")),
        dig(obj, "spec", "persistentVolumeReclaimPolicy", default=""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _storage_class(obj),
        dig(obj, "spec", "volumeAttributesClassName", default=UNSET),
        dig(obj, "status", "reason", default=""),
        age(obj, now),
        dig(obj, "spec", "volumeMode", default=UNSET),
    ]


def _claim(obj: Json, now: dt.datetime) -> list[Any]:
    volume = dig(obj, "spec", "volumeName", default="")
    return [
        name_of(obj),
        _phase(obj),
        volume,
        quantity_text(dig(obj, "status", "capacity", "storage")) if volume else "",
        _access_modes(listed(obj, "status", "accessModes")) if volume else "",
        _storage_class(obj),
        dig(obj, "spec", "volumeAttributesClassName", default=UNSET),
        age(obj, now),
        dig(obj, "spec", "volumeMode", default=UNSET),
    ]


def _class(obj: Json, now: dt.datetime) -> list[Any]:
    annotations = dig(obj, "metadata", "annotations", default={})
    is_default = any(annotations.get(name) == "true" for name in _DEFAULT_ANNOTATIONS)
    return [
        name_of(obj) + (" (default)" if is_default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _driver(obj: Json, now: dt.datetime) -> list[Any]:
    requests = dig(obj, "spec", "tokenRequests")
    audiences = UNSET if requests is None else ",".join(request.get("audience", "") for request in requests)
    return [
        name_of(obj),
        bool(dig(obj, "spec", "attachRequired", default=True)),
        bool(dig(obj, "spec", "podInfoOnMount")),
        bool(dig(obj, "spec", "storageCapacity")),
        audiences,
        bool(dig(obj, "spec", "requiresRepublish")),
        ",".join(listed(obj, "spec", "volumeLifecycleModes")) or NONE,
        age(obj, now),
    ]


STORAGE: dict[tuple[str, str], Printer] = {
    ("", "PersistentVolume"): Printer(
        columns(
            "Name",
            "Capacity",
            "Access Modes",
            "Reclaim Policy",
            "Status",
            "Claim",
            "StorageClass",
            "VolumeAttributesClass",
            "Reason",
            "Age",
            "VolumeMode+",
        ),
        _volume,
    ),
    ("", "PersistentVolumeClaim"): Printer(
        columns(
            "Name",
            "Status",
            "Volume",
            "Capacity",
            "Access Modes",
            "StorageClass",
            "VolumeAttributesClass",
            "Age",
            "VolumeMode+",
        ),
        _claim,
    ),
    ("storage.k8s.io", "CSIDriver"): Printer(
        columns(
            "Name",
            "AttachRequired:boolean",
            "PodInfoOnMount:boolean",
            "StorageCapacity:boolean",
            "TokenRequests",
            "RequiresRepublish:boolean",
            "Modes",
            "Age",
        ),
        _driver,
    ),
    ("storage.k8s.io", "CSINode"): Printer(
        columns("Name", "Drivers:integer", "Age"), simple(lambda obj: len(listed(obj, "spec", "drivers")))
    ),
    ("storage.k8s.io", "StorageClass"): Printer(
        columns("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"), _class
    ),
    ("storage.k8s.io", "VolumeAttachment"): Printer(
        columns("Name", "Attacher", "PV", "Node", "Attached:boolean", "Age"),
        simple(
            lambda obj: dig(obj, "spec", "attacher", default=""),
            lambda obj: dig(obj, "spec", "source", "persistentVolumeName", default=""),
            lambda obj: dig(obj, "spec", "nodeName", default=""),
            lambda obj: bool(dig(obj, "status", "attached")),
        ),
    ),
    ("storage.k8s.io", "VolumeAttributesClass"): Printer(
        columns("Name", "DriverName", "Age"), simple(lambda obj: obj.get("driverName", ""))
    ),
}
