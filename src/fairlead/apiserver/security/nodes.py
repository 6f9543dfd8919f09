"""What a kubelet may do: report on its own node, and read only what its own pods need.

Secrets, config maps, volumes and tokens are tied to the pods that are bound to the node; its lease and CSINode to its
name. For the rest the fixed rules of `system:node` apply. Changes of other nodes' objects are for admission to stop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fairlead.apiserver.attributes import Attributes
from fairlead.apiserver.security import identities
from fairlead.apiserver.security.authorization import Decision
from fairlead.apiserver.security.rules import Rule, RuleSet
from fairlead.apiserver.security.tokens import Lookup

__all__ = ["NodeAuthorizer"]

Json = dict[str, Any]
PodsOnNode = Callable[[str], Iterable[Json]]

_NOT_RELATED = "no relationship found between node '{node}' and this object"
_ONLY_OWN = {
    ("coordination.k8s.io", "leases"): "node lease",
    ("storage.k8s.io", "csinodes"): "CSINode",
}


# What a kubelet may list and watch only as far as it concerns its own node, and by which field that is selected.
_SELECTED = {("", "pods"): "spec.nodeName", ("", "nodes"): "metadata.name"}


class NodeAuthorizer:
    """Asks the pods of a node what it needs. `pods_on_node` gives those bound to a node by name.

    `rules` are the fixed ones, read when a kubelet first asks.
    """

    def __init__(self, rules: Callable[[], Sequence[Rule]], pods_on_node: PodsOnNode, lookup: Lookup) -> None:
        self._read_rules = rules
        self._pods_on_node = pods_on_node
        self._lookup = lookup

    @functools.cached_property
    def _rules(self) -> RuleSet:
        return RuleSet(self._read_rules())

    def decide(self, attributes: Attributes) -> Decision:
        """Whether a kubelet needs it for its own node; no opinion about anybody else."""
        node = identities.node_name_of(attributes.user)
        if node is None:
            return Decision(allowed=False)
        if not node:
            return Decision(allowed=False, reason=f'unknown node for user "{attributes.user.name}"')
        kind = (attributes.group, attributes.resource)
        wanted = _SELECTED.get(kind)
        if wanted is not None and attributes.verb in {"list", "watch"}:
            selected = attributes.fields.exact(wanted) if attributes.fields is not None else None
            if selected != node:
                what = f"can only list/watch {attributes.resource} with {wanted} field selector"
                return Decision(allowed=False, reason=what)
        if kind in _ONLY_OWN:
            return self._own(node, attributes, _ONLY_OWN[kind])
        match kind:
            case ("", "secrets" | "configmaps"):
                return self._read(node, attributes)
            case ("", "serviceaccounts"):
                return self._service_account(node, attributes)
            case ("", "persistentvolumeclaims") if attributes.subresource == "status":
                if attributes.verb not in {"update", "patch"}:
                    return Decision(allowed=False, reason="can only get/update/patch this type")
                return self._related(node, attributes)
            case ("", "persistentvolumeclaims" | "persistentvolumes"):
                if attributes.verb != "get":
                    return Decision(allowed=False, reason="can only get individual resources of this type")
                if attributes.subresource:
                    return Decision(allowed=False, reason="cannot get subresource")
                return self._related(node, attributes)
        return Decision(allowed=self._rules.allows(attributes))

    @staticmethod
    def _own(node: str, attributes: Attributes, title: str) -> Decision:
        if attributes.verb not in {"get", "create", "update", "patch", "delete"}:
            return Decision(allowed=False, reason=f"can only get, create, update, patch, or delete a {title}")
        if attributes.resource == "leases" and attributes.namespace != "kube-node-lease":
            return Decision(allowed=False, reason='can only access leases in the "kube-node-lease" system namespace')
        # At a create the name is in the body, which only admission sees.
        if attributes.verb != "create" and attributes.name != node:
            return Decision(allowed=False, reason=f"can only access {title} with the same name as the requesting node")
        return Decision(allowed=True)

    def _read(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb not in {"get", "list", "watch"}:
            return Decision(allowed=False, reason="can only read resources of this type")
        if attributes.subresource:
            return Decision(allowed=False, reason="cannot read subresource")
        if not attributes.namespace:
            return Decision(allowed=False, reason="can only read namespaced object of this type")
        return self._related(node, attributes)

    def _service_account(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb == "get" and not attributes.subresource:
            return self._read(node, attributes)
        if attributes.verb != "create" or not attributes.name:
            return Decision(allowed=False, reason="can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return Decision(allowed=False, reason="can only create token subresource of serviceaccount")
        return self._related(node, attributes)

    def _related(self, node: str, attributes: Attributes) -> Decision:
        if not attributes.name:
            return Decision(allowed=False, reason="No Object name found")
        wanted = (attributes.resource, attributes.name)
        for pod in self._pods_on_node(node):
            namespace = pod["metadata"].get("namespace", "")
            if attributes.namespace and namespace != attributes.namespace:
                continue
            if wanted in self._needs(pod, namespace):
                return Decision(allowed=True)
        return Decision(allowed=False, reason=_NOT_RELATED.format(node=node))

    def _needs(self, pod: Json, namespace: str) -> Iterator[tuple[str, str]]:
        """What a pod refers to, as resource and name."""
        spec = pod.get("spec") or {}
        yield "serviceaccounts", spec.get("serviceAccountName") or "default"
        for reference in spec.get("imagePullSecrets") or ():
            yield "secrets", reference.get("name", "")
        for kind in ("initContainers", "containers", "ephemeralContainers"):
            for container in spec.get(kind) or ():
                yield from _container_needs(container)
        for volume in spec.get("volumes") or ():
            yield from _volume_needs(volume)
            claim = _claim_of(pod, volume)
            if claim:
                yield "persistentvolumeclaims", claim
                found = self._lookup("persistentvolumeclaims", namespace, claim)
                if found is not None and (name := (found.get("spec") or {}).get("volumeName")):
                    yield "persistentvolumes", name


def _container_needs(container: Json) -> Iterator[tuple[str, str]]:
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        for field, resource in (("secretKeyRef", "secrets"), ("configMapKeyRef", "configmaps")):
            if field in source:
                yield resource, source[field].get("name", "")
    for source in container.get("envFrom") or ():
        for field, resource in (("secretRef", "secrets"), ("configMapRef", "configmaps")):
            if field in source:
                yield resource, source[field].get("name", "")


def _volume_needs(volume: Json) -> Iterator[tuple[str, str]]:
    if "secret" in volume:
        yield "secrets", volume["secret"].get("secretName", "")
    if "configMap" in volume:
        yield "configmaps", volume["configMap"].get("name", "")
    if "csi" in volume and volume["csi"].get("nodePublishSecretRef"):
        yield "secrets", volume["csi"]["nodePublishSecretRef"].get("name", "")
    for source in (volume.get("projected") or {}).get("sources") or ():
        for field, resource in (("secret", "secrets"), ("configMap", "configmaps")):
            if field in source:
                yield resource, source[field].get("name", "")


def _claim_of(pod: Json, volume: Json) -> str:
    if "persistentVolumeClaim" in volume:
        name: str = volume["persistentVolumeClaim"].get("claimName", "")
        return name
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume['name']}"
    return ""
