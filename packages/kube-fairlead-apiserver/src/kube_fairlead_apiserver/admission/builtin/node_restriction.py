"""NodeRestriction: a kubelet writes its own node and its own pods, and cannot extend its permissions.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/admission/noderestriction/admission.go,
    k8s.io/kubernetes@v1.36.4/pkg/auth/nodeidentifier/default.go,
    k8s.io/kubelet@v0.36.4/pkg/apis/well_known_labels.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kube_fairlead.api import errors, golang
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.builtin import pod_references
from kube_fairlead_apiserver.admission.builtin.service_account import MIRROR_POD
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation
from kube_fairlead_apiserver.admission.object_reader import ObjectReader
from kube_fairlead_apiserver.attributes import UserInfo

__all__ = ["NodeRestriction", "forbidden_labels", "node_of"]

_USER_PREFIX = "system:node:"
_GROUP = "system:nodes"
_LEASE_NAMESPACE = "kube-node-lease"
# Labels that a kubelet may set on its own node.
_ALLOWED_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
_ALLOWED_LABEL_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED_LABEL_DOMAINS = ("kubernetes.io", "k8s.io")
_RESTRICTED_LABEL_DOMAIN = "node-restriction.kubernetes.io"


def node_of(user: UserInfo) -> str | None:
    """Return the name of the node whose kubelet the user is; None for any other user."""
    if user.name.startswith(_USER_PREFIX) and _GROUP in user.groups:
        return user.name.removeprefix(_USER_PREFIX)
    return None


class NodeRestriction(AdmissionPlugin):
    """Restricts users of the group system:nodes; other users pass."""

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        self._rules: Mapping[tuple[str, str], Callable[[Operation, str], None]] = {
            ("", "pods"): self._pods,
            ("", "nodes"): _nodes,
            ("", "persistentvolumeclaims"): _claims,
            ("", "serviceaccounts"): self._tokens,
            ("coordination.k8s.io", "leases"): _leases,
            ("storage.k8s.io", "csinodes"): _csi_nodes,
            ("resource.k8s.io", "resourceslices"): _slices,
        }

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """The resources that have rules."""
        del subresource
        return operation in {"CREATE", "UPDATE", "DELETE"} and (group, plural) in self._rules

    async def admit(self, operation: Operation) -> None:
        """Reject writes to objects of other nodes."""
        if not operation.user.name.startswith(_USER_PREFIX):
            return
        node = node_of(operation.user)
        if node is None:
            return
        if not node:
            raise operation.forbidden(f"could not determine node from user {golang.quote(operation.user.name)}")
        self._rules[operation.resource.group, operation.resource.plural](operation, node)

    def _pods(self, operation: Operation, node: str) -> None:
        match operation.subresource:
            case "":
                self._pod(operation, node)
            case "status":
                _pod_status(operation, node)
            case "eviction":
                pod = self._pod_named(operation, operation.name)
                if _node_name(pod) != node:
                    raise operation.forbidden(f"node {node} can only evict pods with spec.nodeName set to itself")
            case other:
                raise operation.forbidden(
                    f"unexpected pod subresource {golang.quote(other)}, only 'status' and 'eviction' are allowed"
                )

    def _pod(self, operation: Operation, node: str) -> None:
        if operation.operation == "CREATE":
            self._mirror_pod(operation, operation.obj or {}, node)
        elif operation.operation == "DELETE":
            if _node_name(operation.old or {}) != node:
                raise operation.forbidden(
                    f"node {golang.quote(node)} can only delete pods with spec.nodeName set to itself"
                )
        else:
            raise operation.forbidden(
                f"unexpected operation {golang.quote(operation.operation)}, "
                f"node {golang.quote(node)} can only create and delete mirror pods"
            )

    def _mirror_pod(self, operation: Operation, pod: Json, node: str) -> None:
        shown = golang.quote(node)
        if MIRROR_POD not in (pod["metadata"].get("annotations") or {}):
            raise operation.forbidden(
                f"pod does not have {golang.quote(MIRROR_POD)} annotation, node {shown} can only create mirror pods"
            )
        if _node_name(pod) != node:
            raise operation.forbidden(f"node {shown} can only create pods with spec.nodeName set to itself")
        self._owner(operation, pod["metadata"].get("ownerReferences") or [], node)
        named = pod_references.api_object_reference(pod.get("spec") or {})
        if named is not None:
            raise operation.forbidden(f"node {shown} can not create pods that reference {named}")

    def _owner(self, operation: Operation, owners: list[Json], node: str) -> None:
        shown = golang.quote(node)
        if len(owners) > 1:
            raise operation.forbidden(f"node {shown} can only create pods with a single owner reference set to itself")
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            raise operation.forbidden(f"node {shown} can only create pods with an owner reference set to itself")
        if not owner.get("controller"):
            raise operation.forbidden(
                f"node {shown} can only create pods with a controller owner reference set to itself"
            )
        if owner.get("blockOwnerDeletion"):
            raise operation.forbidden(f"node {shown} must not set blockOwnerDeletion on an owner reference")
        stored = self._objects.find("", "v1", "nodes", "", node)
        if stored is None:
            raise errors.not_found(GroupResource("", "nodes"), node)
        uid = stored["metadata"]["uid"]
        if owner.get("uid") != uid:
            raise operation.forbidden(f"node {node} UID mismatch: expected {owner.get('uid')} got {uid}")

    def _pod_named(self, operation: Operation, name: str) -> Json:
        pod = self._objects.find("", "v1", "pods", operation.namespace, name)
        if pod is None:
            raise errors.not_found(GroupResource("", "pods"), name)
        return pod

    def _tokens(self, operation: Operation, node: str) -> None:
        """A kubelet may request tokens only for pods that run on it."""
        if operation.operation != "CREATE" or operation.subresource != "token":
            return
        reference = ((operation.obj or {}).get("spec") or {}).get("boundObjectRef") or {}
        if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
            raise operation.forbidden("node requested token not bound to a pod")
        if not reference.get("uid"):
            raise operation.forbidden("node requested token with a pod binding without a uid")
        pod = self._pod_named(operation, reference["name"])
        if pod["metadata"]["uid"] != reference["uid"]:
            raise operation.forbidden(
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        if _node_name(pod) != node:
            raise operation.forbidden("node requested token bound to a pod scheduled on a different node")


def _node_name(pod: Json) -> str:
    return (pod.get("spec") or {}).get("nodeName") or ""


def _pod_status(operation: Operation, node: str) -> None:
    if operation.operation != "UPDATE":
        raise operation.forbidden(f"unexpected operation {golang.quote(operation.operation)}")
    pod, before = operation.obj or {}, operation.old or {}
    shown = golang.quote(node)
    if _node_name(before) != node:
        why = "can only update pod status for pods with spec.nodeName set to itself"
        raise operation.forbidden(f"node {shown} {why}")
    if (pod["metadata"].get("labels") or {}) != (before["metadata"].get("labels") or {}):
        raise operation.forbidden(f"node {shown} cannot update labels through pod status")
    status, old_status = pod.get("status") or {}, before.get("status") or {}
    if (status.get("resourceClaimStatuses") or []) != (old_status.get("resourceClaimStatuses") or []):
        raise operation.forbidden(f"node {shown} cannot update resource claim statues")
    if status.get("extendedResourceClaimStatus") != old_status.get("extendedResourceClaimStatus"):
        raise operation.forbidden(f"node {shown} cannot update extended resource claim status")


def _nodes(operation: Operation, node: str) -> None:
    shown = golang.quote(node)
    if operation.name != node:
        raise operation.forbidden(f"node {shown} is not allowed to modify node {golang.quote(operation.name)}")
    if operation.obj is None:
        return
    metadata, spec = operation.obj["metadata"], operation.obj.get("spec") or {}
    before = operation.old or {"metadata": {}}
    old_spec = before.get("spec") or {}
    forbidden = forbidden_labels(metadata.get("labels") or {}, before["metadata"].get("labels") or {})
    if operation.operation == "CREATE":
        if spec.get("configSource") is not None:
            raise operation.forbidden(f"node {shown} is not allowed to create pods with a non-nil configSource")
        if forbidden:
            raise operation.forbidden(
                f"node {shown} is not allowed to set the following labels: {', '.join(forbidden)}"
            )
        return
    if spec.get("configSource") is not None and spec["configSource"] != old_spec.get("configSource"):
        raise operation.forbidden(f"node {shown} is not allowed to update configSource to a new non-nil configSource")
    if (spec.get("taints") or []) != (old_spec.get("taints") or []):
        raise operation.forbidden(f"node {shown} is not allowed to modify taints")
    if (metadata.get("ownerReferences") or []) != (before["metadata"].get("ownerReferences") or []):
        raise operation.forbidden(f"node {shown} is not allowed to modify ownerReferences")
    if forbidden:
        raise operation.forbidden(f"is not allowed to modify labels: {', '.join(forbidden)}")


def _claims(operation: Operation, node: str) -> None:
    if operation.subresource != "status":
        raise operation.forbidden("may only update PVC status")
    if operation.operation != "UPDATE":
        raise operation.forbidden(f"unexpected operation {golang.quote(operation.operation)}")
    if _without_progress(operation.obj or {}) != _without_progress(operation.old or {}):
        why = "is not allowed to update fields other than status.quantity and status.conditions"
        raise operation.forbidden(f"node {golang.quote(node)} {why}")


def _without_progress(claim: Json) -> Json:
    """Return a claim without the fields that a kubelet may change while it resizes the volume."""
    ours = {"capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"}
    metadata = {k: v for k, v in claim["metadata"].items() if k not in {"resourceVersion", "managedFields"}}
    status = {k: v for k, v in (claim.get("status") or {}).items() if k not in ours}
    return {**claim, "metadata": metadata, "status": status}


def _leases(operation: Operation, node: str) -> None:
    if operation.namespace != _LEASE_NAMESPACE:
        raise operation.forbidden(f"can only access leases in the {golang.quote(_LEASE_NAMESPACE)} system namespace")
    if operation.name != node:
        raise operation.forbidden("can only access node lease with the same name as the requesting node")


def _csi_nodes(operation: Operation, node: str) -> None:
    if operation.name != node:
        raise operation.forbidden("can only access CSINode with the same name as the requesting node")


def _slices(operation: Operation, node: str) -> None:
    verb = {"CREATE": "create", "DELETE": "delete"}.get(operation.operation)
    subject = operation.obj if verb == "create" else operation.old
    if verb is not None and ((subject or {}).get("spec") or {}).get("nodeName") != node:
        raise operation.forbidden(f"can only {verb} ResourceSlice with the same NodeName as the requesting node")


def forbidden_labels(labels: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Return the labels that were set, changed or removed although a kubelet may not; sorted.

    Workloads select nodes by labels, so a node that could write any label could attract pods with secrets.
    """
    touched = {key for key in labels.keys() | before.keys() if labels.get(key) != before.get(key)}
    return sorted(key for key in touched if _is_forbidden(key))


def _is_forbidden(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if _within(domain, _RESTRICTED_LABEL_DOMAIN):
        return True
    if not any(_within(domain, reserved) for reserved in _RESERVED_LABEL_DOMAINS):
        return False
    return key not in _ALLOWED_LABELS and not any(_within(domain, allowed) for allowed in _ALLOWED_LABEL_DOMAINS)


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")
