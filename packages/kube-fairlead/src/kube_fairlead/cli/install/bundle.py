"""Everything in the order in which it is applied: what others need comes first. Pure."""

from __future__ import annotations

import itertools

from kube_fairlead.api import crds
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.cli.install import access, fields, policies, requesters, workloads
from kube_fairlead.cli.install.plan import CLAIMER, DRAIN, MANAGER, Plan
from kube_fairlead.cloud.enforcement import ccm_manifests, fence_account_manifests
from kube_fairlead.election import Lock
from kube_fairlead.election.fence import FenceMode, anchor_manifests, fence_manifests
from kube_fairlead.webhook import manifests as webhook

__all__ = ["anchors", "manifests"]


def manifests(plan: Plan) -> list[Json]:
    """All manifests, with a label by which they are known."""
    found = [_namespace(plan.namespace, privileged=plan.lifecycle)] if plan.lifecycle or plan.clouds else []
    if plan.lifecycle or plan.clouds:
        found += anchors(plan)
    if plan.lifecycle:
        found += _lifecycle(plan)
    for manager in plan.clouds:
        lock = Lock(manager.namespace, manager.lease or manager.name)
        found += ccm_manifests(manager, mode=plan.cloud_policy)
        found += fence_manifests(lock, service_accounts=[(manager.namespace, manager.name)], mode=plan.fence)
        found += workloads.cloud_manager(plan, manager)
    for other in plan.fenced_clouds:
        found += fence_account_manifests(other, mode=plan.cloud_policy)
    return [_labelled(manifest) for manifest in found]


def anchors(plan: Plan) -> list[Json]:
    """What stays when the rest is removed, so that fences put back later do their duty."""
    return [] if plan.fence is FenceMode.OFF else [_labelled(manifest) for manifest in anchor_manifests()]


def _lifecycle(plan: Plan) -> list[Json]:
    elected = [MANAGER, CLAIMER] if plan.claimer else [MANAGER]
    fences = [
        fence_manifests(Lock(plan.namespace, name), service_accounts=[(plan.namespace, name)], mode=plan.fence)
        for name in elected
    ]
    return [
        _namespace(NAMESPACE_NODE_LEASE),
        *crds.crds(plan.lifecycle_group),
        *access.access_manifests(plan),
        *access.user_roles(plan),
        *policies.own_node_manifests(plan),
        *fields.own_fields_manifests(plan),
        *requesters.requester_manifests(plan),
        *itertools.chain.from_iterable(fences),
        *workloads.node_daemon_sets(plan),
        *workloads.manager_deployment(plan),
        *(workloads.claimer_deployment(plan) if plan.claimer else ()),
        *(_eviction_webhook(plan) if plan.eviction_webhook else ()),
    ]


def _eviction_webhook(plan: Plan) -> list[Json]:
    """Last of all its registration: until the webhook runs, it refuses the drain drivers' evictions, no others."""
    return [
        *webhook.access_manifests([], namespace=plan.namespace),
        *webhook.certificate_access(plan.namespace, registrations=[webhook.EVICTION_REGISTRATION]),
        webhook.service(plan.namespace),
        *webhook.workload_manifests(
            plan.image,
            namespace=plan.namespace,
            own_certificates=True,
            registrations=[webhook.EVICTION_REGISTRATION],
        ),
        *webhook.eviction_manifests(
            [(plan.namespace, DRAIN)], namespace=plan.namespace, requests=plan.eviction_requests
        ),
    ]


def _namespace(name: str, *, privileged: bool = False) -> Json:
    # The agent has a folder on its node, which the stricter standards forbid.
    labels = {"pod-security.kubernetes.io/enforce": "privileged"} if privileged else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _labelled(manifest: Json) -> Json:
    metadata = manifest["metadata"]
    labels = {**metadata.get("labels", {}), "app.kubernetes.io/part-of": "fairlead"}
    return {**manifest, "metadata": {**metadata, "labels": labels}}
