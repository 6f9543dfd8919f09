"""All manifests in the order in which they are applied: each after those that it needs. Pure."""

from __future__ import annotations

import itertools

from kube_fairlead.api import crds
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.cloud.enforcement import ccm_manifests, fence_account_manifests
from kube_fairlead.election import Lock
from kube_fairlead.election.fence import FenceMode, anchor_manifests, fence_manifests
from kube_fairlead.install import accounts, deployments, own_fields_policy, own_node_policy, requester_policy
from kube_fairlead.install.installation import CLAIMER, DRAIN, MANAGER, Installation
from kube_fairlead.webhook import manifests as webhook

__all__ = ["anchors", "manifests"]


def manifests(installation: Installation) -> list[Json]:
    """All manifests, with the label of the installation."""
    found = (
        [_namespace(installation.namespace, privileged=installation.lifecycle)]
        if installation.lifecycle or installation.clouds
        else []
    )
    if installation.lifecycle or installation.clouds:
        found += anchors(installation)
    if installation.lifecycle:
        found += _lifecycle(installation)
    for manager in installation.clouds:
        lock = Lock(manager.namespace, manager.lease or manager.name)
        found += ccm_manifests(manager, mode=installation.cloud_policy)
        found += fence_manifests(lock, service_accounts=[(manager.namespace, manager.name)], mode=installation.fence)
        found += deployments.cloud_manager(installation, manager)
    for other in installation.fenced_clouds:
        found += fence_account_manifests(other, mode=installation.cloud_policy)
    return [_labelled(manifest) for manifest in found]


def anchors(installation: Installation) -> list[Json]:
    """Manifests that a removal keeps, so that fences which are installed later see their Lease."""
    return [] if installation.fence is FenceMode.OFF else [_labelled(manifest) for manifest in anchor_manifests()]


def _lifecycle(installation: Installation) -> list[Json]:
    elected = [MANAGER, CLAIMER] if installation.claimer else [MANAGER]
    fences = [
        fence_manifests(
            Lock(installation.namespace, name),
            service_accounts=[(installation.namespace, name)],
            mode=installation.fence,
        )
        for name in elected
    ]
    return [
        _namespace(NAMESPACE_NODE_LEASE),
        *crds.crds(installation.lifecycle_group),
        *accounts.access_manifests(installation),
        *accounts.user_roles(installation),
        *own_node_policy.own_node_manifests(installation),
        *own_fields_policy.own_fields_manifests(installation),
        *requester_policy.requester_manifests(installation),
        *itertools.chain.from_iterable(fences),
        *deployments.node_daemon_sets(installation),
        *deployments.manager_deployment(installation),
        *(deployments.claimer_deployment(installation) if installation.claimer else ()),
        *(_eviction_webhook(installation) if installation.eviction_webhook else ()),
    ]


def _eviction_webhook(installation: Installation) -> list[Json]:
    """The registration comes last: until the webhook runs, the API server rejects the drain drivers' evictions only."""
    return [
        *webhook.access_manifests([], namespace=installation.namespace),
        *webhook.certificate_access(installation.namespace, registrations=[webhook.EVICTION_REGISTRATION]),
        webhook.service(installation.namespace),
        *webhook.workload_manifests(
            installation.image,
            namespace=installation.namespace,
            own_certificates=True,
            registrations=[webhook.EVICTION_REGISTRATION],
        ),
        *webhook.eviction_manifests(
            [(installation.namespace, DRAIN)], namespace=installation.namespace, requests=installation.eviction_requests
        ),
    ]


def _namespace(name: str, *, privileged: bool = False) -> Json:
    # The agent mounts a folder of its node, which the stricter Pod Security Standards forbid.
    labels = {"pod-security.kubernetes.io/enforce": "privileged"} if privileged else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _labelled(manifest: Json) -> Json:
    metadata = manifest["metadata"]
    labels = {**metadata.get("labels", {}), "app.kubernetes.io/part-of": "fairlead"}
    return {**manifest, "metadata": {**metadata, "labels": labels}}
