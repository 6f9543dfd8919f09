"""Which rules belong to which built-in resource. What is not named here follows the general ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead.apiserver.registry.strategies import (
    admission,
    autoscaling,
    certificates,
    claims,
    core,
    definitions,
    endpoints,
    jobs,
    limits,
    networking,
    pods,
    rules,
    services,
    volumes,
    workloads,
)
from fairlead.apiserver.registry.strategy import Strategy

__all__ = ["strategy_for"]


class _Stored(Strategy):
    """Kinds that the server only keeps: no status of their own, nothing counted."""


class _WithStatus(Strategy):
    """Kinds with a status that only its subresource writes."""

    has_status: bool = True


class _Counted(_WithStatus):
    """Kinds with a status and a generation."""

    tracks_generation: bool = True


_OWN: Mapping[tuple[str, str], Callable[[], Strategy]] = {
    ("", "namespaces"): core.NamespaceStrategy,
    ("", "nodes"): core.NodeStrategy,
    ("", "pods"): pods.PodStrategy,
    ("", "configmaps"): core.ConfigMapStrategy,
    ("", "secrets"): core.SecretStrategy,
    ("", "serviceaccounts"): core.ServiceAccountStrategy,
    ("", "events"): core.EventStrategy,
    ("events.k8s.io", "events"): core.EventStrategy,
    ("", "persistentvolumes"): volumes.PersistentVolumeStrategy,
    ("", "persistentvolumeclaims"): claims.PersistentVolumeClaimStrategy,
    ("", "services"): services.ServiceStrategy,
    ("", "endpoints"): endpoints.EndpointsStrategy,
    ("", "replicationcontrollers"): workloads.ReplicationControllerStrategy,
    ("discovery.k8s.io", "endpointslices"): endpoints.EndpointSliceStrategy,
    ("apps", "deployments"): workloads.DeploymentStrategy,
    ("apps", "replicasets"): workloads.ReplicaSetStrategy,
    ("apps", "statefulsets"): workloads.StatefulSetStrategy,
    ("apps", "daemonsets"): workloads.DaemonSetStrategy,
    ("batch", "jobs"): jobs.JobStrategy,
    ("batch", "cronjobs"): jobs.CronJobStrategy,
    ("policy", "poddisruptionbudgets"): rules.PodDisruptionBudgetStrategy,
    ("coordination.k8s.io", "leases"): rules.LeaseStrategy,
    ("rbac.authorization.k8s.io", "roles"): rules.RoleStrategy,
    ("rbac.authorization.k8s.io", "clusterroles"): rules.RoleStrategy,
    ("rbac.authorization.k8s.io", "rolebindings"): rules.BindingStrategy,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): rules.BindingStrategy,
    ("scheduling.k8s.io", "priorityclasses"): rules.PriorityClassStrategy,
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
    ("", "limitranges"): limits.LimitRangeStrategy,
    ("", "resourcequotas"): limits.ResourceQuotaStrategy,
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): _Counted,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): _Counted,
}


def strategy_for(group: str, plural: str, *, has_status: bool) -> Strategy:
    """The rules of one resource."""
    own = _OWN.get((group, plural))
    if own is not None:
        return own()
    return _WithStatus() if has_status else _Stored()
