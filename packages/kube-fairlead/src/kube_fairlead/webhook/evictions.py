"""Whether an eviction comes from the node that the pod is on.

A policy in the API server can compare the node in a token with the node of what is written, and does so for deletes and
patches. An eviction carries no pod, only its name, and an EvictionRequest no more than that, so it is read here. A
token of a drain driver that was stolen from one node is then worth nothing on the others.
"""

from __future__ import annotations

from typing import NamedTuple

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.admission_v1 import AdmissionRequest, AdmissionResponse
from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.api.meta import Status
from kube_fairlead.base import logs
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.webhook.reviews import Malformed

__all__ = ["NODE_CLAIM", "EvictionValidator", "problem"]

NODE_CLAIM = "authentication.kubernetes.io/node-name"
"""The claim with the node of the pod that a token was issued for."""

# Less than the webhook's timeout in the manifests: the reason for a rejection should reach the user.
_PATIENCE_SECONDS = 8.0

_log = logs.get_logger(__name__)


def problem(token_node: str, pod: Pod) -> str:
    """Why a token of this node may not evict a pod; empty when it may."""
    if not token_node:
        return "the token names no node, so it may not evict pods"
    if pod.spec.node_name != token_node:
        where = f"node {pod.spec.node_name}" if pod.spec.node_name else "no node"
        return f"pod {pod.key} is on {where}; a token of node {token_node} evicts pods of that node only"
    return ""


class EvictionValidator:
    """Answers AdmissionRequests about evictions. It rejects what it cannot check: a wrong approval does the harm."""

    def __init__(self, client: Client, metrics: Metrics) -> None:
        self._client = client
        self._results = metrics.counter(
            "fairlead_webhook_evictions_total", "Evictions by whether they came from the pod's own node.", ("result",)
        )

    async def answer(self, request: AdmissionRequest) -> AdmissionResponse:
        """Read the pod and compare."""
        try:
            async with self._client.clock.timeout(_PATIENCE_SECONDS):
                why, code = await self._judge(request)
        except (api_errors.ApiError, errors.ClientError, TimeoutError) as error:
            why = f"cannot read the pod: {str(error) or 'no answer in time'}"
            code = 503  # temporary: the client retries
        self._results.labels(result="refused" if why else "allowed").inc()
        if not why:
            return AdmissionResponse(uid=request.uid, allowed=True)
        _log.warning("eviction rejected", pod=f"{request.namespace}/{request.name}", user=request.user_info.username)
        return AdmissionResponse(
            uid=request.uid, allowed=False, status=Status(status="Failure", message=why, code=code)
        )

    async def _judge(self, request: AdmissionRequest) -> tuple[str, int]:
        """Why not, if not, and with which status: 403 is final, 409 is not."""
        target = _target(request)
        if target is None:
            return "this webhook validates evictions only", 403
        if not target.name or not request.namespace:
            raise Malformed("request.name and request.namespace: an eviction names a pod and its namespace")
        claims = request.user_info.extra.get(NODE_CLAIM, ())
        try:
            pod = await self._client.of(Pod).get(target.name, namespace=request.namespace)
        except api_errors.NotFound:
            return "", 404  # as the API server will say itself
        why = problem(claims[0] if claims else "", pod)
        if why and target.uid not in {"", pod.uid}:
            # The pod is gone, and another has its name: the API server would answer the same. It is not called, because
            # it may charge the eviction to that other pod's budget first.
            return f"{why}; the pod that was meant has gone", 409
        return why, 403


class _Target(NamedTuple):
    """The pod that is to go; the uid is empty where any of the name will do."""

    name: str
    uid: str


def _target(request: AdmissionRequest) -> _Target | None:
    kind = (request.resource.resource, request.sub_resource)
    body = request.old_object if request.operation == "DELETE" else request.object
    match kind, body:
        case ("pods", "eviction"), {"deleteOptions": {"preconditions": {"uid": str(uid)}}}:
            return _Target(request.name, uid)
        case ("pods", "eviction"), _:
            return _Target(request.name, "")
        case ("evictionrequests", ""), {"spec": {"target": {"pod": {"name": str(name), "uid": str(uid)}}}}:
            return _Target(name, uid)
    return None
