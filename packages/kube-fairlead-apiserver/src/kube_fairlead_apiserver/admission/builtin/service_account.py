"""ServiceAccount: every pod runs as an existing service account and gets a token of it.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/admission/serviceaccount/admission.go
"""

from __future__ import annotations

from kube_fairlead.api import errors
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.api.json_object import Json
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.identity import Ids
from kube_fairlead_apiserver.admission.builtin import pod_references
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation
from kube_fairlead_apiserver.admission.object_reader import ObjectReader

__all__ = ["MIRROR_POD", "ServiceAccount", "token_volume"]

MIRROR_POD = "kubernetes.io/config.mirror"
_DEFAULT_ACCOUNT = "default"
# The default account is created just after its namespace; a pod may be created in between.
_PATIENCE_SECONDS = 1.5
_VOLUME_PREFIX = "kube-api-access-"
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
# As Kubernetes: an hour and seven seconds, so that such tokens can be distinguished from others.
_TOKEN_SECONDS = 3607
# Messages have the resource in the singular here, as in Kubernetes.
_ACCOUNT = GroupResource("", "serviceaccount")


class ServiceAccount(AdmissionPlugin):
    """Sets the service account, the token volume and the pull secrets of new pods."""

    def __init__(self, objects: ObjectReader, clock: Clock, ids: Ids) -> None:
        self._objects = objects
        self._clock = clock
        self._ids = ids

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """New pods."""
        return (operation, group, plural, subresource) == ("CREATE", "", "pods", "")

    async def admit(self, operation: Operation) -> None:
        """Set the account, its token volume and its pull secrets."""
        pod = operation.obj
        if pod is None:
            return
        if _is_mirror(pod):
            # A mirror pod describes a pod that a kubelet already runs, so it must not be changed.
            _check_mirror(operation, pod)
            return
        spec = pod.setdefault("spec", {})
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or _DEFAULT_ACCOUNT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._account(operation, name)
        if _wants_token(account, spec):
            _mount_token(spec, self._ids)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": one.get("name", "")} for one in account["imagePullSecrets"]]

    async def validate(self, operation: Operation) -> None:
        """Webhooks may have changed the account since."""
        pod = operation.obj
        if pod is None:
            return
        if _is_mirror(pod):
            _check_mirror(operation, pod)
            return
        name = (pod.get("spec") or {}).get("serviceAccountName")
        if not name:
            raise operation.forbidden(f"no service account specified for pod {operation.namespace}/{operation.name}")
        await self._account(operation, name)

    async def _account(self, operation: Operation, name: str) -> Json:
        resource = self._objects.catalog.get("", "v1", "serviceaccounts")
        namespace = operation.namespace
        account = None
        if resource is not None:
            account = await self._objects.wait_for(
                resource,
                namespace,
                name,
                clock=self._clock,
                seconds=_PATIENCE_SECONDS if name == _DEFAULT_ACCOUNT else 0,
            )
        if account is None:
            missing = errors.not_found(_ACCOUNT, name)
            raise operation.forbidden(f"error looking up service account {namespace}/{name}: {missing}")
        return account


def _is_mirror(pod: Json) -> bool:
    return MIRROR_POD in (pod["metadata"].get("annotations") or {})


def _check_mirror(operation: Operation, pod: Json) -> None:
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName"):
        raise operation.forbidden("a mirror pod may not reference service accounts")
    if any(pod_references.secret_names(spec)):
        raise operation.forbidden("a mirror pod may not reference secrets")
    sources = [
        one for volume in spec.get("volumes") or () for one in (volume.get("projected") or {}).get("sources") or ()
    ]
    if any(source.get("serviceAccountToken") for source in sources):
        raise operation.forbidden("a mirror pod may not use ServiceAccountToken volume projections")


def _wants_token(account: Json, spec: Json) -> bool:
    """Return whether to mount a token: the pod's setting first, then the account's."""
    for wish in (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken")):
        if wish is not None:
            return bool(wish)
    return True


def _mount_token(spec: Json, ids: Ids) -> None:
    """Mount the token volume into every container without a mount at that path."""
    volumes = spec.get("volumes") or []
    existing = next((one["name"] for one in volumes if one.get("name", "").startswith(_VOLUME_PREFIX)), None)
    name = existing or _VOLUME_PREFIX + ids.name_suffix()
    needed = False
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        mounts = container.get("volumeMounts") or []
        if not any(mount.get("mountPath") == _MOUNT_PATH for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _MOUNT_PATH}]
            needed = True
    if needed and existing is None:
        spec["volumes"] = [*volumes, token_volume(name)]


def token_volume(name: str) -> Json:
    """Return the volume with a pod's token, the server's CA, and the namespace."""
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {
                    "downwardAPI": {
                        "items": [
                            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                        ]
                    }
                },
            ],
            "defaultMode": 420,
        },
    }
