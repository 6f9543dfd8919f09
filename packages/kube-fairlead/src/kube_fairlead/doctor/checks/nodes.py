"""Does every node have an agent that may claim for it?"""

from __future__ import annotations

from collections.abc import Iterator

from kube_fairlead.api import time as api_time
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.doctor.facts import Facts, Finding, Severity
from kube_fairlead.lifecycle.node_overview import claimant_of

__all__ = ["agents", "lease_namespace"]


def lease_namespace(facts: Facts) -> Iterator[Finding]:
    """Without the namespace of the node Leases no event is claimed."""
    if facts.groups and not facts.lease_namespace.value:
        yield Finding(
            object=f"Namespace/{NAMESPACE_NODE_LEASE}",
            severity=Severity.ERROR,
            problem="missing: no agent holds the Lease of its node, and no event is claimed",
            fix=f"kubectl create namespace {NAMESPACE_NODE_LEASE}, or start an agent that may create namespaces",
        )


def agents(facts: Facts) -> Iterator[Finding]:
    """Nodes that have had an agent, or that the agents' DaemonSet selects, have one that is alive."""
    if not facts.groups or not facts.lease_namespace.value:
        return
    nodes, leases = facts.nodes.value, facts.leases.value
    if nodes and not leases and not facts.agents.value:
        yield Finding(
            object="Nodes",
            severity=Severity.WARNING,
            problem="no node has an agent: no event is ever claimed",
            fix="fairlead install | kubectl apply --server-side -f -, or start fairlead agent on each node",
        )
        return
    for name, node in sorted(nodes.items(), key=lambda one: (one[0] not in leases, one[0])):
        claimant = claimant_of(leases.get(name), facts.now)
        if claimant is not None and claimant.is_alive:
            continue
        # Nodes without a Lease come last: the right to read DaemonSets, where it is missing, hides no other node.
        if name in leases or _is_selected(node, facts):
            yield _silent(node, facts)


def _is_selected(node: Node, facts: Facts) -> bool:
    wanted = [one.spec.template.spec.node_selector for one in facts.agents.value]
    return any(selector.items() <= node.metadata.labels.items() for selector in wanted)


def _silent(node: Node, facts: Facts) -> Finding:
    lease = facts.leases.value.get(node.name)
    holder = claimant_of(lease, facts.now)
    if lease is None:
        said = "no agent has ever held its Lease"
    elif holder is None or holder.renewed is None:
        said = "its agent has given up its Lease, and no other holds it"
    else:
        said = f"its Lease has expired: {holder.holder} last renewed it at {api_time.format_time(holder.renewed)}"
    condition = node.condition("Ready")
    if condition is None or condition.status != "True":
        return Finding(
            object=f"Node/{node.name}",
            severity=Severity.INFO,
            problem=f"{said}; the node is not Ready",
            fix="once the node is Ready again its agent holds the Lease; event-gc collects the events of deleted nodes",
        )
    return Finding(
        object=f"Node/{node.name}",
        severity=Severity.ERROR,
        problem=f"{said}: events of this node are not claimed",
        fix="start fairlead agent on the node; kubectl get pods -A -l app.kubernetes.io/name=fairlead-agent "
        f"--field-selector spec.nodeName={node.name} shows why it does not run",
    )
