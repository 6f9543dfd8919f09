"""Finds the other API objects that a pod's spec names. Pure.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/api/pod/util.go,
    k8s.io/kubernetes@v1.36.4/plugin/pkg/admission/noderestriction/admission.go
"""

from __future__ import annotations

from collections.abc import Iterator

from kube_fairlead.api.json_object import Json

__all__ = ["api_object_reference", "config_map_names", "secret_names"]

# The fields in which a volume names a secret: its source, then the field with the name or the reference.
_VOLUME_SECRETS = {
    "azureFile": ("secretName",),
    "cephfs": ("secretRef", "name"),
    "cinder": ("secretRef", "name"),
    "csi": ("nodePublishSecretRef", "name"),
    "flexVolume": ("secretRef", "name"),
    "iscsi": ("secretRef", "name"),
    "rbd": ("secretRef", "name"),
    "scaleIO": ("secretRef", "name"),
    "secret": ("secretName",),
    "storageos": ("secretRef", "name"),
}
# The kind that a volume or projection makes a pod depend on; others depend on no API object.
_VOLUME_OBJECTS = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED_OBJECTS = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def secret_names(spec: Json) -> Iterator[str]:
    """Return every secret that the pod names."""
    for reference in spec.get("imagePullSecrets") or ():
        yield reference.get("name", "")
    yield from _environment_names(spec, "secretRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield (source.get("secret") or {}).get("name", "")
        for kind, path in _VOLUME_SECRETS.items():
            value = volume.get(kind)
            for field in path:
                value = (value or {}).get(field)
            yield value or ""


def config_map_names(spec: Json) -> Iterator[str]:
    """Return every config map that the pod names."""
    yield from _environment_names(spec, "configMapRef", "configMapKeyRef")
    for volume in spec.get("volumes") or ():
        yield (volume.get("configMap") or {}).get("name", "")
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield (source.get("configMap") or {}).get("name", "")


def _environment_names(spec: Json, whole: str, single: str) -> Iterator[str]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            for one in container.get("envFrom") or ():
                yield (one.get(whole) or {}).get("name", "")
            for one in container.get("env") or ():
                yield ((one.get("valueFrom") or {}).get(single) or {}).get("name", "")


def api_object_reference(spec: Json) -> str | None:
    """Return the kind of API object that the pod depends on, as Kubernetes' messages name it.

    None when there is none.
    """
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    if any(secret_names(spec)):
        return "secrets"
    if any(config_map_names(spec)):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        for kind, what in _VOLUME_OBJECTS.items():
            if volume.get(kind) is not None:
                return what
        for source in (volume.get("projected") or {}).get("sources") or ():
            for kind, what in _PROJECTED_OBJECTS.items():
                if source.get(kind) is not None:
                    return what
    return None
