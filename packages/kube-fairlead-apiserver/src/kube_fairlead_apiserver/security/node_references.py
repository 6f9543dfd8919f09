"""The objects that a pod refers to, which its kubelet may read. Pure; objects are plain JSON.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/auth/authorizer/node/graph.go,
    k8s.io/kubernetes@v1.36.4/pkg/api/v1/pod/util.go,
    k8s.io/kubernetes@v1.36.4/pkg/api/v1/persistentvolume/util.go
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kube_fairlead.api.json_object import Json

__all__ = ["Reference", "pod_needs", "volume_secrets"]


_MIRROR_POD = "kubernetes.io/config.mirror"
# Sources of volumes that name a secret of the pod's namespace, and the field that does.
_SECRET_REFERENCES = {
    "cephfs": "secretRef",
    "cinder": "secretRef",
    "flexVolume": "secretRef",
    "rbd": "secretRef",
    "scaleIO": "secretRef",
    "iscsi": "secretRef",
    "storageos": "secretRef",
    "csi": "nodePublishSecretRef",
}
# Secrets that a persistent volume names and a kubelet reads. Those of controllers are not among them.
_CSI_SECRETS = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


class Reference(NamedTuple):
    """An object, by resource, namespace and name."""

    resource: str
    namespace: str
    name: str


def pod_needs(pod: Json) -> Iterator[Reference]:
    """Yield the references of a pod. A mirror pod gives no permissions: its kubelet created it."""
    metadata = pod["metadata"]
    if _MIRROR_POD in (metadata.get("annotations") or {}):
        return
    for resource, name in _named(pod):
        if name:
            yield Reference(resource, metadata.get("namespace", ""), name)


def _named(pod: Json) -> Iterator[tuple[str, str]]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    yield "serviceaccounts", spec.get("serviceAccountName") or ""
    for reference in spec.get("imagePullSecrets") or ():
        yield "secrets", reference.get("name", "")
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            yield from _container_needs(container)
    for volume in spec.get("volumes") or ():
        yield from _volume_needs(pod, volume)
    made = {one.get("name"): one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    for claim in spec.get("resourceClaims") or ():
        yield "resourceclaims", claim.get("resourceClaimName") or made.get(claim.get("name")) or ""
    yield "resourceclaims", (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName") or ""


def _container_needs(container: Json) -> Iterator[tuple[str, str]]:
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        for field, resource in (("secretKeyRef", "secrets"), ("configMapKeyRef", "configmaps")):
            if source.get(field):
                yield resource, source[field].get("name", "")
    for source in container.get("envFrom") or ():
        for field, resource in (("secretRef", "secrets"), ("configMapRef", "configmaps")):
            if source.get(field):
                yield resource, source[field].get("name", "")


def _volume_needs(pod: Json, volume: Json) -> Iterator[tuple[str, str]]:
    if volume.get("secret"):
        yield "secrets", volume["secret"].get("secretName", "")
    if volume.get("azureFile"):
        yield "secrets", volume["azureFile"].get("secretName", "")
    if volume.get("configMap"):
        yield "configmaps", volume["configMap"].get("name", "")
    for source, field in _SECRET_REFERENCES.items():
        reference = (volume.get(source) or {}).get(field)
        if reference:
            yield "secrets", reference.get("name", "")
    for projected in (volume.get("projected") or {}).get("sources") or ():
        for field, resource in (("secret", "secrets"), ("configMap", "configmaps")):
            if projected.get(field):
                yield resource, projected[field].get("name", "")
    if volume.get("persistentVolumeClaim"):
        yield "persistentvolumeclaims", volume["persistentVolumeClaim"].get("claimName", "")
    elif "ephemeral" in volume:
        yield "persistentvolumeclaims", f"{pod['metadata']['name']}-{volume['name']}"


def volume_secrets(volume: Json) -> Iterator[Reference]:
    """Yield the secrets that a kubelet reads to mount a persistent volume."""
    spec = volume.get("spec") or {}
    claimed_in = (spec.get("claimRef") or {}).get("namespace", "")
    azure = spec.get("azureFile")
    if azure and azure.get("secretName"):
        yield Reference("secrets", azure.get("secretNamespace") or claimed_in, azure["secretName"])
    for source, field in _SECRET_REFERENCES.items():
        fields = _CSI_SECRETS if source == "csi" else (field,)
        for one in fields:
            reference = (spec.get(source) or {}).get(one)
            if reference and reference.get("name"):
                # Older sources may leave the namespace out; then it is that of the claim.
                yield Reference("secrets", reference.get("namespace") or claimed_in, reference["name"])
