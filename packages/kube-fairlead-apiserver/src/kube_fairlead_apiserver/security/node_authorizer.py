"""The node authorizer: a kubelet may report on its own node, and read only what its own pods need.

Its Node, lease and CSINode are identified by name, pods by the node they are bound to; secrets, config maps, volumes,
claims and tokens by the pods that are bound to the node; attachments and slices by the node that they name. For the
rest the fixed rules of `system:node` apply. Admission rejects changes of other nodes' objects.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/auth/authorizer/node/node_authorizer.go
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from kube_fairlead_apiserver.attributes import Attributes
from kube_fairlead_apiserver.security import identities
from kube_fairlead_apiserver.security.authorization import Decision
from kube_fairlead_apiserver.security.node_graph import NodeGraph
from kube_fairlead_apiserver.security.node_references import Reference
from kube_fairlead_apiserver.security.rbac_rules import Rule, RuleSet
from kube_fairlead_apiserver.security.tokens import Lookup

__all__ = ["NodeAuthorizer"]

Judge = Callable[[str, Attributes], Decision]

_ALLOWED = Decision(allowed=True)
_NO_OPINION = Decision(allowed=False)
_READING = frozenset({"get", "list", "watch"})
_CHANGING = frozenset({"get", "update", "patch", "delete"})
# The writes of kubelets; admission decides whether they concern the kubelet's own node.
_WRITES = {
    "nodes": {"": frozenset({"create", "update", "patch"}), "status": frozenset({"update", "patch"})},
    "pods": {
        "": frozenset({"create", "delete"}),
        "status": frozenset({"update", "patch"}),
        "eviction": frozenset({"create"}),
    },
}
_SLICE_VERBS = (
    "only the following verbs are allowed for a ResourceSlice: "
    "get, watch, list, create, update, patch, delete, deletecollection"
)


class NodeAuthorizer:
    """Decides by the graph of the objects that the pods of a node need.

    `rules` are the fixed ones, read at the first request of a kubelet.
    """

    def __init__(self, rules: Callable[[], Sequence[Rule]], graph: NodeGraph, lookup: Lookup) -> None:
        self._read_rules = rules
        self._graph = graph
        self._lookup = lookup
        self._judges: dict[tuple[str, str], Judge] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("", "serviceaccounts"): self._service_account,
            ("coordination.k8s.io", "leases"): _lease,
            ("storage.k8s.io", "csinodes"): _csi_node,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("", "nodes"): _node,
            ("", "pods"): self._pod,
            # Not served by default in 1.36, so a kubelet has no permission.
            ("certificates.k8s.io", "podcertificaterequests"): lambda _node, _attributes: _NO_OPINION,
        }

    @functools.cached_property
    def _rules(self) -> RuleSet:
        return RuleSet(self._read_rules())

    def decide(self, attributes: Attributes) -> Decision:
        """Whether a kubelet needs it for its own node; no opinion about any other user."""
        node = identities.node_name_of(attributes.user)
        if node is None:
            return _NO_OPINION
        if not node:
            return _no(f'unknown node for user "{attributes.user.name}"')
        judge = self._judges.get((attributes.group, attributes.resource)) if attributes.is_resource else None
        if judge is not None:
            return judge(node, attributes)
        return Decision(allowed=self._rules.allows(attributes))

    def _read(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb not in _READING:
            return _no("can only read resources of this type")
        if attributes.subresource:
            return _no("cannot read subresource")
        if not attributes.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, attributes)

    def _get(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb != "get":
            return _no("can only get individual resources of this type")
        if attributes.subresource:
            return _no("cannot get subresource")
        return self._related(node, attributes)

    def _claim(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource != "status":
            return self._get(node, attributes)
        if attributes.verb not in {"update", "patch"}:
            return _no("can only get/update/patch this type")
        return self._related(node, attributes)

    def _service_account(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb == "get" and not attributes.subresource:
            return self._read(node, attributes)
        if attributes.verb != "create" or not attributes.name:
            return _no("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._related(node, attributes)

    def _slice(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        if attributes.verb == "create":
            return _ALLOWED  # the body names the node
        if attributes.verb in _CHANGING:
            return self._related(node, attributes)
        if attributes.verb not in {"watch", "list", "deletecollection"}:
            return _no(_SLICE_VERBS)
        if _selects(attributes, "spec.nodeName", node):
            return _ALLOWED
        return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")

    def _pod(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource or attributes.verb not in _READING:
            return _write(attributes)
        if attributes.verb == "get":
            return self._get(node, attributes)
        if _selects(attributes, "spec.nodeName", node):
            return _ALLOWED
        if attributes.name:
            return self._related(node, attributes)
        return _no("can only list/watch pods with spec.nodeName field selector")

    def _related(self, node: str, attributes: Attributes) -> Decision:
        """Whether the graph connects the object with the node."""
        if not attributes.name:
            return _no("No Object name found")
        found = self._leads_to(node, attributes.resource, attributes.namespace, attributes.name)
        return _ALLOWED if found else _no(f"no relationship found between node '{node}' and this object")

    def _leads_to(self, node: str, resource: str, namespace: str, name: str) -> bool:
        if resource in {"pods", "volumeattachments", "resourceslices"}:
            found = self._lookup(resource, namespace if resource == "pods" else "", name)
            return found is not None and (found.get("spec") or {}).get("nodeName") == node
        if resource == "persistentvolumes":
            return self._claimed_on(node, name)
        return self._graph.leads_to(node, Reference(resource, namespace, name))

    def _claimed_on(self, node: str, volume: str) -> bool:
        """Return whether the claim that a volume is bound to is used by a pod of the node."""
        found = self._lookup("persistentvolumes", "", volume)
        claim = ((found or {}).get("spec") or {}).get("claimRef")
        if not claim:
            return False
        wanted = Reference("persistentvolumeclaims", claim.get("namespace", ""), claim.get("name", ""))
        return self._graph.leads_to(node, wanted)


def _no(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason)


def _selects(attributes: Attributes, field: str, value: str) -> bool:
    """Return whether a list is limited to one value of a field."""
    return attributes.fields is not None and attributes.fields.requires(field, value)


def _write(attributes: Attributes) -> Decision:
    verbs = _WRITES[attributes.resource].get(attributes.subresource, frozenset())
    return _ALLOWED if attributes.verb in verbs else _NO_OPINION


def _node(node: str, attributes: Attributes) -> Decision:
    if attributes.subresource or attributes.verb not in _READING:
        return _write(attributes)
    # By name: a kubelet looks for its Node before it exists.
    if attributes.name == node:
        return _ALLOWED
    asked = f"'{attributes.name}'" if attributes.name else "all nodes"
    return _no(f"node '{node}' cannot read {asked}, only its own Node object")


def _lease(node: str, attributes: Attributes) -> Decision:
    if attributes.verb not in _CHANGING | {"create"}:
        return _no("can only get, create, update, patch, or delete a node lease")
    if attributes.namespace != "kube-node-lease":
        return _no('can only access leases in the "kube-node-lease" system namespace')
    # At a create the name is in the body, which only admission sees.
    if attributes.verb != "create" and attributes.name != node:
        return _no("can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _csi_node(node: str, attributes: Attributes) -> Decision:
    if attributes.verb not in _CHANGING | {"create"}:
        return _no("can only get, create, update, patch, or delete a CSINode")
    if attributes.subresource:
        return _no("cannot authorize CSINode subresources")
    if attributes.verb != "create" and attributes.name != node:
        return _no("can only access CSINode with the same name as the requesting node")
    return _ALLOWED
