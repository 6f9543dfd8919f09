"""Volume sources of pods and PersistentVolumes, and StorageClasses.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/persistentvolume/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/storage/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/storage/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/storage/storageclass/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/storage/v1/zz_generated.validations.go
"""

from __future__ import annotations

from typing import Final

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.strategies import field_checks
from kube_fairlead_apiserver.registry.strategies.persistent_volume_claims import (
    VOLUME_MODES,
    positive_quantity,
    validate_access_modes,
    validate_claim_spec,
)
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = ["PersistentVolumeStrategy", "StorageClassStrategy", "validate_volume_source"]

_SPEC: Final = FieldPath("spec")
# In the order in which Kubernetes looks for them: the first one counts, all others are one too many. The value is
# what each cannot be without.
_POD_SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "emptyDir": (),
    "hostPath": ("path",),
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "secret": ("secretName",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "flocker": (),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "quobyte": ("registry", "volume"),
    "downwardAPI": (),
    "fc": (),
    "flexVolume": ("driver",),
    "configMap": ("name",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "storageos": ("volumeName",),
    "projected": (),
    "scaleIO": ("gateway", "system", "volumeName"),
    "csi": ("driver",),
    "ephemeral": ("volumeClaimTemplate",),
    "image": (),
}
_PERSISTENT_SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "hostPath": ("path",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "glusterfs": ("endpoints", "path"),
    "flocker": (),
    "nfs": ("server", "path"),
    "rbd": ("monitors", "image"),
    "quobyte": ("registry", "volume"),
    "cephfs": ("monitors",),
    "iscsi": ("targetPortal", "iqn"),
    "cinder": ("volumeID",),
    "fc": (),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "local": ("path",),
    "storageos": ("volumeName",),
    "csi": ("driver", "volumeHandle"),
}
# Sources with more rules than required fields.
_LOOKED_INTO: Final = frozenset({"ephemeral", "hostPath", "nfs"})
_NAME_AND_SOURCE: Final = 2
# The names that Kubernetes uses in these errors, where they are not the fields' own.
_CALLED: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")


def validate_volume_source(volume: Json, path: FieldPath) -> list[FieldError]:
    """Validate that a pod's volume has exactly one source."""
    if len(volume) == _NAME_AND_SOURCE and not volume.keys() & _LOOKED_INTO:
        # Almost every volume of a pod is valid, so nothing is prepared for an error.
        kind, source = next(((key, value) for key, value in volume.items() if key != "name"), ("", None))
        if isinstance(source, dict) and all(source.get(field) for field in _POD_SOURCES.get(kind, ())):
            return []
    problems = _validate_sources(volume, path, _POD_SOURCES)
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template:
        problems += validate_claim_spec(
            template.get("spec") or {}, path.child("ephemeral", "volumeClaimTemplate", "spec")
        )
    return problems


def _validate_sources(holder: Json, path: FieldPath, sources: dict[str, tuple[str, ...]]) -> list[FieldError]:
    found = [name for name in sources if holder.get(name) is not None]
    if not found:
        return [FieldError.required(path, "must specify a volume type")]
    first, *others = found
    source, at = holder[first], path.child(first)
    problems = [FieldError.required(at.child(field), "") for field in sources[first] if not source.get(field)]
    if first in {"hostPath", "local"} and ".." in (source.get("path") or "").split("/"):
        problems.append(FieldError.invalid(at.child("path"), source["path"], "must not contain '..'"))
    if first == "nfs" and not (source.get("path") or "").startswith("/"):
        problems.append(FieldError.invalid(at.child("path"), source.get("path") or "", "must be an absolute path"))
    return problems + [
        FieldError.forbidden(path.child(_CALLED.get(name, name)), "may not specify more than 1 volume type")
        for name in others
    ]


class PersistentVolumeStrategy(Strategy):
    """PersistentVolumes, with the defaults that clients read."""

    has_status: bool = True
    returns_deleted_object: bool = True

    def default(self, obj: Json) -> None:
        """Default the reclaim policy: Retain."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if spec.get("hostPath") is not None:
            spec["hostPath"].setdefault("type", "")

    def prepare_create(self, obj: Json) -> None:
        """Set the phase of a new volume: Pending."""
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate the capacity, the access modes and the source."""
        spec = obj.get("spec") or {}
        modes, capacity = spec.get("accessModes") or [], spec.get("capacity") or {}
        problems = [
            FieldError.required(_SPEC.child(field), "") for field in ("accessModes", "capacity") if not spec.get(field)
        ]
        problems += validate_access_modes(modes, _SPEC.child("accessModes"))
        at = _SPEC.child("capacity")
        if set(capacity) != {"storage"}:
            problems.append(FieldError.not_supported(at, capacity or None, ("storage",)))
        for name, amount in capacity.items():
            problems += positive_quantity(amount, at.key(name))
        problems += field_checks.one_of(spec, _SPEC, "persistentVolumeReclaimPolicy", _RECLAIM_POLICIES)
        problems += _validate_sources(spec, _SPEC, _PERSISTENT_SOURCES)
        if spec.get("local") is not None and not (spec.get("nodeAffinity") or {}).get("required"):
            problems.append(FieldError.required(_SPEC.child("nodeAffinity"), "Local volume requires node affinity"))
        name = spec.get("storageClassName")
        if name:
            problems += field_checks.complaints(_SPEC.child("storageClassName"), name, names.dns1123_subdomain(name))
        return problems + field_checks.one_of(spec, _SPEC, "volumeMode", VOLUME_MODES)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate a change: the source is immutable."""
        problems = self.validate(obj)
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        if any(_lasting(spec, before, name) != before.get(name) for name in _PERSISTENT_SOURCES):
            at = _SPEC.child("persistentvolumesource")
            problems.append(FieldError.forbidden(at, "spec.persistentvolumesource is immutable after creation"))
        return problems + field_checks.changed(spec, before, FieldPath(), "volumeMode")


def _lasting(spec: Json, before: Json, source: str) -> Json | None:
    """Return a source without its one mutable field."""
    now: Json | None = spec.get(source)
    if source == "csi" and now and "controllerExpandSecretRef" not in (before.get("csi") or {}):
        return {field: value for field, value in now.items() if field != "controllerExpandSecretRef"}
    return now


class StorageClassStrategy(Strategy):
    """storage.k8s.io/v1 StorageClass."""

    returns_deleted_object: bool = True

    def default(self, obj: Json) -> None:
        """Default: reclaimPolicy Delete, volumeBindingMode Immediate."""
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: Json) -> list[FieldError]:
        """A provisioner is required."""
        provisioner, path = obj.get("provisioner") or "", FieldPath("provisioner")
        if not provisioner:
            problems = [FieldError.required(path, "")]
        else:
            problems = field_checks.complaints(path, provisioner.lower(), names.qualified_name(provisioner.lower()))
        problems += field_checks.one_of(obj, FieldPath(), "reclaimPolicy", ("Delete", "Retain"))
        return problems + field_checks.one_of(
            obj, FieldPath(), "volumeBindingMode", ("Immediate", "WaitForFirstConsumer")
        )

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate a change: parameters, provisioner and policies are immutable."""
        fixed = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        return field_checks.changed(obj, old, FieldPath(), *fixed)
