"""DefaultStorageClass: a claim that names no class gets the default one.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/admission/storage/storageclass/setdefault/admission.go,
    k8s.io/kubernetes@v1.36.4/pkg/volume/util/storageclass.go
"""

from __future__ import annotations

from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation
from kube_fairlead_apiserver.admission.object_reader import ObjectReader

__all__ = ["DefaultStorageClass"]

_CLASSES = ("storage.k8s.io", "v1", "storageclasses")
_DEFAULT_MARKS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class DefaultStorageClass(AdmissionPlugin):
    """Fills in spec.storageClassName of new claims."""

    def __init__(self, objects: ObjectReader) -> None:
        self._default = objects.derive([_CLASSES], lambda: _default_class(objects))

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """New claims."""
        return (operation, group, plural, subresource) == ("CREATE", "", "persistentvolumeclaims", "")

    async def admit(self, operation: Operation) -> None:
        """Set an absent class name; an empty name means no class."""
        if operation.obj is None:
            return
        annotations = operation.obj["metadata"].get("annotations") or {}
        spec = operation.obj.setdefault("spec", {})
        if "volume.beta.kubernetes.io/storage-class" in annotations or spec.get("storageClassName") is not None:
            return
        name = self._default.get()
        if name:
            spec["storageClassName"] = name


def _default_class(objects: ObjectReader) -> str:
    """The newest class that is marked as default; of equally new ones the first by name."""
    resource = objects.catalog.get(*_CLASSES)
    marked = [
        one["metadata"]
        for one in ([] if resource is None else objects.list(resource))
        if any((one["metadata"].get("annotations") or {}).get(mark) == "true" for mark in _DEFAULT_MARKS)
    ]
    if not marked:
        return ""
    newest = max(metadata["creationTimestamp"] for metadata in marked)
    return str(min(metadata["name"] for metadata in marked if metadata["creationTimestamp"] == newest))
