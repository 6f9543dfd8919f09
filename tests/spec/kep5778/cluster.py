"""Nodes and manifests over plain HTTP, on either control plane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kube_fairlead.api.reserved import ANNOTATION_PLATFORM
from kube_fairlead.base.clock import RealClock
from kube_fairlead.cloud.enforcement import Manager
from kube_fairlead.cloud.wellknown import TAINT_UNINITIALIZED
from kube_fairlead_lab.testing import Access
from kube_fairlead_lab.testing.rawhttp import STRATEGIC_PATCH, RawApi

__all__ = ["NODES", "WAITING", "account_access", "apply", "create_node", "set_ready", "until_refused"]

Json = dict[str, Any]

NODES = "/api/v1/nodes"
WAITING = {"key": TAINT_UNINITIALIZED, "value": "true", "effect": "NoSchedule"}

_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}


async def apply(api: RawApi, manifests: Iterable[Mapping[str, Any]]) -> list[str]:
    """As `kubectl apply --server-side`; the paths of what was made."""
    paths = []
    for manifest in manifests:
        metadata = manifest["metadata"]
        path = f"{_PATHS[manifest['kind']].format(**metadata)}/{metadata['name']}"
        (await api.apply(path, manifest, "tests")).expect(200, 201)
        paths.append(path)
    return paths


async def account_access(api: RawApi, manager: Manager) -> Access:
    """The credentials that a manager's pod would have."""
    path = f"/api/v1/namespaces/{manager.namespace}/serviceaccounts/{manager.name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = (await api.post(path, request)).expect(201)["status"]["token"]
    return Access(url=api.access.url, ca_file=api.access.ca_file, user=manager.user, token=token)


async def until_refused(account: RawApi, path: str) -> None:
    """Wait until rights and policy have taken hold, which nothing announces."""
    clock = RealClock()
    async with clock.timeout(30):
        while (
            "denied request" not in (await account.patch(path, {"metadata": {"labels": {"a": "b"}}}, dryRun="All")).text
        ):
            await clock.sleep(0.02)


async def create_node(
    api: RawApi,
    name: str,
    provider_id: str = "",
    *,
    platform: str | None = None,
    waiting: bool = False,
    ready: str = "True",
    pod_cidr: str = "",
) -> Json:
    """A node as a kubelet registers it, with its first status."""
    spec: Json = {"taints": [WAITING]} if waiting else {}
    if provider_id:
        spec["providerID"] = provider_id
    if pod_cidr:
        spec |= {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]}
    annotations = {} if platform is None else {ANNOTATION_PLATFORM: platform}
    made = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    (await api.post(NODES, made)).expect(201)
    # Admission tainted it as not ready, which no controller takes off here.
    (await api.patch(f"{NODES}/{name}", {"spec": {"taints": [WAITING] if waiting else None}})).expect(200)
    return await set_ready(api, name, ready)


async def set_ready(api: RawApi, name: str, status: str) -> Json:
    """What the kubelet, or its silence, makes of the Ready condition."""
    condition = {"type": "Ready", "status": status, "reason": "Test", "message": ""}
    patch = {"status": {"conditions": [condition]}}
    return (await api.patch(f"{NODES}/{name}/status", patch, STRATEGIC_PATCH)).expect(200)
