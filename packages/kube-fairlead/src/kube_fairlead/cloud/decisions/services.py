"""What the service controller does: which Services get a load balancer here, and to which nodes it leads. Pure.

Upstream: k8s.io/cloud-provider@v0.36.4/controllers/service/controller.go,
    k8s.io/cloud-provider@v0.36.4/service/helpers/helper.go
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, Service
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.ownership import owned_by_id

__all__ = [
    "ServiceStep",
    "balanced_nodes",
    "changes_targets",
    "is_looked_after_by_another",
    "needs_cleanup",
    "needs_update",
    "same_targets",
    "service_step",
    "wants_load_balancer",
]

_NOTE = wellknown.ANNOTATION_LOAD_BALANCER_PROVIDER
# What Go's strconv.ParseBool reads as false.
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class ServiceStep(enum.Enum):
    """What to do about a Service."""

    LEAVE_ALONE = "leave alone"  # it has nothing to do with this cloud
    ENSURE = "ensure"  # it wants a load balancer of this cloud
    REMOVE = "remove"  # it has one that it no longer wants, or is being deleted
    ASK_CLOUD = "ask cloud"  # to be removed if the cloud has a load balancer of it, else left alone


def service_step(service: Service, *, manager: str, platforms: Collection[str]) -> ServiceStep:
    """What to do about a Service.

    With platforms there may be other managers, which hold a Service by the same finalizer, and not all of them note
    themselves on it. So only one with this manager's annotation is released; one without may have a load balancer in
    another cloud, and which cloud it is only the cloud can say.
    """
    if platforms and is_looked_after_by_another(service, manager):
        return ServiceStep.LEAVE_ALONE
    if needs_cleanup(service):
        is_ours = not platforms or service.metadata.annotations.get(_NOTE) == manager
        return ServiceStep.REMOVE if is_ours else ServiceStep.ASK_CLOUD
    return ServiceStep.ENSURE if wants_load_balancer(service) else ServiceStep.LEAVE_ALONE


def wants_load_balancer(service: Service) -> bool:
    """A loadBalancerClass means that another controller handles it."""
    return service.spec.type == "LoadBalancer" and service.spec.load_balancer_class is None


def is_looked_after_by_another(service: Service, manager: str) -> bool:
    """Whether another manager noted itself on it."""
    return service.metadata.annotations.get(_NOTE, manager) != manager


def needs_cleanup(service: Service) -> bool:
    """Whether it holds our finalizer and should not, or no longer."""
    if wellknown.FINALIZER_LOAD_BALANCER not in service.metadata.finalizers:
        return False
    return service.deleting or service.spec.type != "LoadBalancer"


def needs_update(old: Service, new: Service) -> bool:
    """Whether a change of a Service concerns its load balancer."""
    if not wants_load_balancer(old) and not wants_load_balancer(new):
        return False
    return wants_load_balancer(old) != wants_load_balancer(new) or _aspects(old) != _aspects(new)


def balanced_nodes(
    nodes: Iterable[Node], platforms: Collection[str], is_confirmed: Callable[[Node], bool]
) -> list[Node]:
    """The nodes that load balancers of this cloud lead to: Owned, confirmed by the cloud, and not excluded.

    Cordoned, NotReady and uninitialised nodes stay in, as upstream has it: the cloud's own health checks decide.
    """
    return [
        node
        for node in nodes
        if owned_by_id(node, platforms)
        and (not platforms or is_confirmed(node))
        and not node.deleting
        and _is_included(node)
        and not wellknown.has_taint(node, wellknown.TAINT_TO_BE_DELETED)
    ]


def changes_targets(old: Node, new: Node, platforms: Collection[str]) -> bool:
    """Whether a change of a node is a reason to look at all load balancers."""
    return (
        _is_included(old) != _is_included(new)
        or old.spec.provider_id != new.spec.provider_id
        or owned_by_id(old, platforms) is not owned_by_id(new, platforms)
    )


def same_targets(before: Iterable[Node], after: Iterable[Node]) -> bool:
    """Whether a load balancer would notice no difference."""
    return {node.name: node.spec.provider_id for node in before} == {node.name: node.spec.provider_id for node in after}


def _is_included(node: Node) -> bool:
    value = node.metadata.labels.get(wellknown.LABEL_EXCLUDE_FROM_LOAD_BALANCERS)
    # A value that is no boolean excludes too.
    return value is None or value in _FALSE


def _aspects(service: Service) -> tuple[object, ...]:
    spec = service.spec
    # The typed kind does not name this one; the object that the informer keeps does.
    affinity = wire.to_dict(service).get("spec", {}).get("sessionAffinityConfig")
    # Our own note on it is no wish of a user's.
    annotations = {key: value for key, value in service.metadata.annotations.items() if key != _NOTE}
    return (
        service.uid,
        annotations,
        spec.ports,
        spec.session_affinity,
        affinity,
        spec.load_balancer_ip,
        spec.load_balancer_source_ranges,
        spec.external_ips,
        spec.external_traffic_policy,
        spec.health_check_node_port,
        len(spec.ip_families),
    )
