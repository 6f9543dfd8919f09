"""Every admission plugin, in order.

Kubernetes 1.36 has more of them on by default. Left out here, and why:

- LimitRanger, ResourceQuota: limits and quotas are stored as data; this server runs no workloads.
- StorageObjectInUseProtection: only kube-controller-manager removes its finalizers. Without it no volume or claim
  could ever be deleted.
- PodSecurity: its labels on namespaces are stored, not enforced.
- RuntimeClass, DefaultIngressClass, PersistentVolumeClaimResize: such kinds are only data here.
- OwnerReferencesPermissionEnforcement, PodNodeSelector and other plugins that are off by default there too.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubeapiserver/options/plugins.go,
    k8s.io/apiserver@v0.36.4/pkg/server/plugins.go
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.identity import Ids
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead_apiserver.admission.builtin.certificates import (
    CertificateApproval,
    CertificateRequester,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from kube_fairlead_apiserver.admission.builtin.default_storage_class import DefaultStorageClass
from kube_fairlead_apiserver.admission.builtin.default_toleration_seconds import DefaultTolerationSeconds
from kube_fairlead_apiserver.admission.builtin.lifecycle_requester import LifecycleRequester
from kube_fairlead_apiserver.admission.builtin.namespace_lifecycle import NamespaceLifecycle
from kube_fairlead_apiserver.admission.builtin.node_restriction import NodeRestriction
from kube_fairlead_apiserver.admission.builtin.priority import Priority
from kube_fairlead_apiserver.admission.builtin.service_account import ServiceAccount
from kube_fairlead_apiserver.admission.builtin.service_addresses import ServiceAddresses
from kube_fairlead_apiserver.admission.builtin.taint_nodes import TaintNodesByCondition
from kube_fairlead_apiserver.admission.chain import Chain
from kube_fairlead_apiserver.admission.object_reader import ObjectReader
from kube_fairlead_apiserver.admission.policies.plugin import ValidatingPolicies
from kube_fairlead_apiserver.admission.webhooks.caller import WebhookCaller
from kube_fairlead_apiserver.admission.webhooks.mutating import MutatingWebhooks
from kube_fairlead_apiserver.admission.webhooks.sender import Sender, ServiceResolver
from kube_fairlead_apiserver.admission.webhooks.services import StoredServices
from kube_fairlead_apiserver.admission.webhooks.validating import ValidatingWebhooks
from kube_fairlead_apiserver.observability.admission_metrics import AdmissionMetrics
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.storage.store import Store

if TYPE_CHECKING:
    from kube_fairlead_apiserver.admission.expressions.evaluation import Authorize

__all__ = ["default_chain"]


def default_chain(
    store: Store,
    catalog: Catalog,
    *,
    clock: Clock,
    ids: Ids,
    authorize: Authorize,
    sender: Sender,
    resolver: ServiceResolver | None = None,
    service_network: str = "10.0.0.0/16",
    metrics: AdmissionMetrics | None = None,
) -> Chain:
    """The plugins of a server, in the order of Kubernetes.

    ``authorize`` answers what expressions ask of `authorizer`; it is only called when one does.
    """
    objects = ObjectReader(store, catalog)
    metrics = metrics or AdmissionMetrics(clock, DiscardedMetrics())
    caller = WebhookCaller(sender, resolver or StoredServices(objects), clock, ids)
    return Chain(
        [
            NamespaceLifecycle(objects),
            CertificateRequester(),
            LifecycleRequester(),
            ServiceAccount(objects, clock, ids),
            NodeRestriction(objects),
            TaintNodesByCondition(),
            Priority(objects),
            DefaultTolerationSeconds(),
            DefaultStorageClass(objects),
            CertificateApproval(authorize),
            CertificateSigning(authorize),
            CertificateSubjectRestriction(),
            ServiceAddresses(objects, service_network),
            MutatingWebhooks(objects, caller, authorize, metrics),
            ValidatingPolicies(objects, authorize),
            ValidatingWebhooks(objects, caller, authorize, metrics),
        ],
        metrics,
    )
