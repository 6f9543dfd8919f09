"""The objects that the pods of a node refer to, updated with the pods, claims and volumes.

A kubelet reads each secret, config map and claim of its pods. The graph decides by counted references. It reads a pod
again only after a change of that pod, so a decision costs the same on a node with one pod and with hundreds.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/auth/authorizer/node/graph.go,
    k8s.io/kubernetes@v1.36.4/plugin/pkg/auth/authorizer/node/graph_populator.go
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kube_fairlead_apiserver.security.node_references import Reference, pod_needs, volume_secrets
from kube_fairlead_apiserver.security.tokens import Lookup

__all__ = ["NodeGraph"]

_K = TypeVar("_K")

_CLAIMS = "persistentvolumeclaims"
# Changed pods of a node that wait for its next decision; more of them are read at once, to keep a decision short.
_WAITING_PODS = 64


class NodeGraph:
    """References from nodes to objects. `lookup` gives an object as it is now.

    1. A node without requests of its kubelet holds only the keys of its pods.
    2. After the first request of its kubelet, a node keeps the references of each of its pods, and counts them.
    3. A secret behind a claim counts while the claim and its volume name each other.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._bound: dict[str, dict[str, None]] = {}  # node name -> keys of the pods bound to it
        self._asked: dict[str, _Node] = {}
        self._claimed_on: dict[Reference, dict[str, None]] = {}  # claim -> names of the asking nodes that use it

    def change_pod(self, key: str, before: str, after: str) -> None:
        """A pod was on node `before` and is on node `after` now; "" stands for none."""
        if before and before != after:
            bound = self._bound.get(before, {})
            bound.pop(key, None)
            if not bound:
                self._bound.pop(before, None)
        if after:
            self._bound.setdefault(after, {})[key] = None
        for name in {before, after}:
            node = self._asked.get(name)
            if node is None:
                continue
            node.changed_pods[key] = None
            if len(node.changed_pods) >= _WAITING_PODS or name not in self._bound:
                self._settle(name, node)

    def change_claim(self, namespace: str, name: str) -> None:
        """A claim changed, or the claim that a volume names."""
        claim = Reference(_CLAIMS, namespace, name)
        for node in self._claimed_on.get(claim, ()):
            self._asked[node].changed_claims[claim] = None

    def leads_to(self, name: str, wanted: Reference) -> bool:
        """Return whether a pod of the node refers to the object, or a volume of such a pod does."""
        if name not in self._bound:
            return False
        node = self._asked.get(name)
        if node is None:
            node = self._asked[name] = _Node(self._bound[name])
        self._settle(name, node)
        return wanted in node.counts

    def _settle(self, name: str, node: _Node) -> None:
        """Process the changes since the last decision."""
        bound = self._bound.get(name, {})
        while node.changed_pods:
            key, _ = node.changed_pods.popitem()
            self._replace_pod(name, node, key, self._read_pod(key) if key in bound else ())
        while node.changed_claims:
            claim, _ = node.changed_claims.popitem()
            node.replace(node.behind, claim, self._secrets_behind(claim) if claim in node.counts else ())
        if not bound:
            self._asked.pop(name, None)

    def _read_pod(self, key: str) -> Iterable[Reference]:
        namespace, _, name = key.rpartition("/")
        pod = self._lookup("pods", namespace, name)
        return () if pod is None else dict.fromkeys(pod_needs(pod))

    def _replace_pod(self, name: str, node: _Node, key: str, needs: Iterable[Reference]) -> None:
        before = node.pods.get(key, ())
        node.replace(node.pods, key, needs)
        for claim in {*before, *needs}:
            if claim.resource != _CLAIMS:
                continue
            if claim in node.counts:
                self._claimed_on.setdefault(claim, {})[name] = None
                if claim not in node.behind:
                    node.changed_claims[claim] = None
            else:
                node.changed_claims[claim] = None
                users = self._claimed_on.get(claim, {})
                users.pop(name, None)
                if not users:
                    self._claimed_on.pop(claim, None)

    def _secrets_behind(self, claim: Reference) -> Iterable[Reference]:
        found = self._lookup(_CLAIMS, claim.namespace, claim.name)
        volume = self._lookup("persistentvolumes", "", ((found or {}).get("spec") or {}).get("volumeName") or "")
        reference = ((volume or {}).get("spec") or {}).get("claimRef") or {}
        # Each must name the other: a claim alone could name any volume.
        if (reference.get("namespace"), reference.get("name")) != (claim.namespace, claim.name):
            return ()
        return dict.fromkeys(volume_secrets(volume or {}))


class _Node:
    """What the pods of one node refer to."""

    __slots__ = ("behind", "changed_claims", "changed_pods", "counts", "pods")

    def __init__(self, pods: Iterable[str]) -> None:
        self.counts: dict[Reference, int] = {}  # how many pods and claims refer to an object; never zero
        self.pods: dict[str, tuple[Reference, ...]] = {}
        self.behind: dict[Reference, tuple[Reference, ...]] = {}  # claim -> the secrets of its volume
        self.changed_pods = dict.fromkeys(pods)
        self.changed_claims: dict[Reference, None] = {}

    def replace(self, known: dict[_K, tuple[Reference, ...]], key: _K, now: Iterable[Reference]) -> None:
        """Count the references of a pod or claim in place of those it had."""
        before = known.pop(key, ())
        if now:
            known[key] = tuple(now)
        for reference in now:
            self.counts[reference] = self.counts.get(reference, 0) + 1
        for reference in before:
            if self.counts[reference] == 1:
                del self.counts[reference]
            else:
                self.counts[reference] -= 1
