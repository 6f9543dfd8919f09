"""Every admission plugin, in order.

Kubernetes 1.36 has more of them on by default. Left out here, and why:

- LimitRanger, ResourceQuota: limits and quotas are stored as data; nothing here runs workloads to be limited.
- StorageObjectInUseProtection: its finalizers are taken away by kube-controller-manager only, so that without it no
  volume or claim could ever be deleted.
- PodSecurity: no namespace enforces a level unless it is labelled so; the labels are kept, not enforced.
- RuntimeClass, DefaultIngressClass, PersistentVolumeClaimResize: such kinds are only data here.
- OwnerReferencesPermissionEnforcement, PodNodeSelector and other plugins that are off by default there too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.apiserver.admission.builtin.certificate_requester import CertificateRequester
from fairlead.apiserver.admission.builtin.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from fairlead.apiserver.admission.builtin.default_storage_class import DefaultStorageClass
from fairlead.apiserver.admission.builtin.default_toleration_seconds import DefaultTolerationSeconds
from fairlead.apiserver.admission.builtin.lifecycle_requester import LifecycleRequester
from fairlead.apiserver.admission.builtin.namespace_lifecycle import NamespaceLifecycle
from fairlead.apiserver.admission.builtin.node_restriction import NodeRestriction
from fairlead.apiserver.admission.builtin.priority import Priority
from fairlead.apiserver.admission.builtin.service_account import ServiceAccount
from fairlead.apiserver.admission.builtin.service_addresses import ServiceAddresses
from fairlead.apiserver.admission.builtin.taint_nodes import TaintNodesByCondition
from fairlead.apiserver.admission.chain import Chain
from fairlead.apiserver.admission.objects import Objects
from fairlead.apiserver.admission.policies.plugin import ValidatingPolicies
from fairlead.apiserver.admission.webhooks.calling import Caller
from fairlead.apiserver.admission.webhooks.mutating import MutatingWebhooks
from fairlead.apiserver.admission.webhooks.sender import Sender, ServiceResolver
from fairlead.apiserver.admission.webhooks.services import StoredServices
from fairlead.apiserver.admission.webhooks.validating import ValidatingWebhooks
from fairlead.apiserver.observing.admission import AdmissionMetrics
from fairlead.apiserver.registry.catalog import Catalog
from fairlead.apiserver.storage.store import Store
from fairlead.base.clock import Clock
from fairlead.base.identity import Ids

if TYPE_CHECKING:
    from fairlead.apiserver.admission.expressions.evaluation import Authorize

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
    objects = Objects(store, catalog)
    metrics = metrics or AdmissionMetrics(clock)
    caller = Caller(sender, resolver or StoredServices(objects), clock, ids)
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
