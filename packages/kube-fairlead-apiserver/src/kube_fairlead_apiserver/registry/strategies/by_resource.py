"""The strategy of each built-in resource. A resource that is not listed uses the general one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from kube_fairlead_apiserver.registry.strategies import (
    admission,
    autoscaling,
    certificates,
    core,
    definitions,
    devices,
    endpoints,
    events,
    jobs,
    networking,
    persistent_volume_claims,
    pods,
    policy_kinds,
    services,
    templates,
    volumes,
    workloads,
)
from kube_fairlead_apiserver.registry.strategy import ALL_METADATA, Strategy

__all__ = ["strategy_for"]


class _StoredOnlyStrategy(Strategy):
    """A kind that the server only stores; the options say how it is written and what a write returns."""

    def __init__(
        self, *, status: bool = False, counted: bool = False, unconditional: bool = True, shown_last: bool = False
    ) -> None:
        """``counted``: it has a generation. ``shown_last``: a delete returns the deleted object."""
        self.has_status = status
        self.tracks_generation = counted
        self.allow_unconditional_update = unconditional
        self.returns_deleted_object = shown_last


_Makes = Callable[[], Strategy]
_shown_last = functools.partial(_StoredOnlyStrategy, shown_last=True)

_OWN: Mapping[tuple[str, str], _Makes] = {
    ("", "namespaces"): core.NamespaceStrategy,
    ("", "nodes"): core.NodeStrategy,
    ("", "pods"): pods.PodStrategy,
    ("", "configmaps"): core.ConfigMapStrategy,
    ("", "secrets"): core.SecretStrategy,
    ("", "serviceaccounts"): core.ServiceAccountStrategy,
    ("", "events"): events.EventStrategy,
    ("events.k8s.io", "events"): events.GroupEventStrategy,
    ("", "persistentvolumes"): volumes.PersistentVolumeStrategy,
    ("", "persistentvolumeclaims"): persistent_volume_claims.PersistentVolumeClaimStrategy,
    ("", "services"): services.ServiceStrategy,
    ("", "endpoints"): endpoints.EndpointsStrategy,
    ("", "podtemplates"): templates.PodTemplateStrategy,
    ("", "replicationcontrollers"): workloads.ReplicationControllerStrategy,
    ("discovery.k8s.io", "endpointslices"): endpoints.EndpointSliceStrategy,
    ("apps", "deployments"): workloads.DeploymentStrategy,
    ("apps", "replicasets"): workloads.ReplicaSetStrategy,
    ("apps", "statefulsets"): workloads.StatefulSetStrategy,
    ("apps", "daemonsets"): workloads.DaemonSetStrategy,
    ("batch", "jobs"): jobs.JobStrategy,
    ("batch", "cronjobs"): jobs.CronJobStrategy,
    ("policy", "poddisruptionbudgets"): policy_kinds.PodDisruptionBudgetStrategy,
    ("coordination.k8s.io", "leases"): policy_kinds.LeaseStrategy,
    ("rbac.authorization.k8s.io", "roles"): policy_kinds.RoleStrategy,
    ("rbac.authorization.k8s.io", "clusterroles"): policy_kinds.RoleStrategy,
    ("rbac.authorization.k8s.io", "rolebindings"): policy_kinds.BindingStrategy,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): policy_kinds.BindingStrategy,
    ("scheduling.k8s.io", "priorityclasses"): policy_kinds.PriorityClassStrategy,
    ("storage.k8s.io", "storageclasses"): volumes.StorageClassStrategy,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): admission.WebhookConfigurationStrategy,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): admission.MutatingWebhookConfigurationStrategy,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): admission.PolicyStrategy,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): admission.PolicyBindingStrategy,
    ("apiextensions.k8s.io", "customresourcedefinitions"): definitions.DefinitionStrategy,
    ("autoscaling", "horizontalpodautoscalers"): autoscaling.HorizontalPodAutoscalerStrategy,
    ("networking.k8s.io", "ingresses"): networking.IngressStrategy,
    ("networking.k8s.io", "ingressclasses"): networking.IngressClassStrategy,
    ("networking.k8s.io", "networkpolicies"): networking.NetworkPolicyStrategy,
    ("certificates.k8s.io", "certificatesigningrequests"): certificates.CertificateSigningRequestStrategy,
    ("", "limitranges"): policy_kinds.LimitRangeStrategy,
    ("", "resourcequotas"): policy_kinds.ResourceQuotaStrategy,
    ("node.k8s.io", "runtimeclasses"): policy_kinds.RuntimeClassStrategy,
    ("resource.k8s.io", "deviceclasses"): functools.partial(_shown_last, counted=True),
    ("resource.k8s.io", "resourceclaims"): functools.partial(_shown_last, status=True),
    ("resource.k8s.io", "resourceclaimtemplates"): _shown_last,
    ("resource.k8s.io", "resourceslices"): devices.ResourceSliceStrategy,
    ("storage.k8s.io", "csidrivers"): functools.partial(_shown_last, unconditional=False),
    ("storage.k8s.io", "csinodes"): functools.partial(_shown_last, unconditional=False),
    ("storage.k8s.io", "csistoragecapacities"): functools.partial(_StoredOnlyStrategy, unconditional=False),
    ("storage.k8s.io", "volumeattachments"): functools.partial(_shown_last, status=True, unconditional=False),
    ("storage.k8s.io", "volumeattributesclasses"): _shown_last,
}


# Kinds whose status writes change no metadata, as for newer kinds of Kubernetes.
_METADATA_KEPT_BY_STATUS = frozenset(
    {
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("networking.k8s.io", "servicecidrs"),
        ("resource.k8s.io", "resourceclaims"),
        ("storage.k8s.io", "volumeattachments"),
    }
)


def strategy_for(group: str, plural: str, *, has_status: bool) -> Strategy:
    """Return the strategy of one resource."""
    own = _OWN.get((group, plural))
    strategy = _StoredOnlyStrategy(status=has_status) if own is None else own()
    if (group, plural) in _METADATA_KEPT_BY_STATUS:
        strategy.metadata_kept_by_status = ALL_METADATA
    return strategy
