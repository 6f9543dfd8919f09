"""Evictions as requests (Kubernetes 1.37, alpha): a pod's own responders get their say before it is evicted.

Where the API server serves EvictionRequest, a pod is asked to go by one, so that whoever feels responsible for it can
move a virtual machine or a shard first. Kubernetes 1.37 has the kind behind a gate, but nobody in it acts on one. So a
request that nobody has looked at after a while is worth nothing, and the pod is evicted as ever; so is one whose
responders failed.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import msgspec

from fairlead.api import errors as api_errors
from fairlead.api.core_v1 import Pod
from fairlead.api.gvk import GroupVersionResource
from fairlead.api.reserved import DRIVER_DRAIN
from fairlead.base import logs
from fairlead.client.client import Client

__all__ = ["LOOK_SECONDS", "EvictionRequests", "Standing"]

_GVR: Final = GroupVersionResource("lifecycle.k8s.io", "v1alpha1", "evictionrequests")
# How long a controller may take to look at a request before it counts as absent.
LOOK_SECONDS: Final = 10.0

_log = logs.get_logger(__name__)


class Standing(enum.Enum):
    """How it stands with the request for a pod."""

    NEW = "new"  # just made
    UNDER_WAY = "under way"  # somebody acts on it
    USELESS = "useless"  # nobody looked at it, or those who did failed: evict the pod


class EvictionRequests:
    """The requests of one drain. Each is named after its pod's uid and goes with its pod, so nothing is remembered."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._api = client.of(_GVR)
        self.usable = False

    async def find_out(self) -> None:
        """See whether the server has them."""
        try:
            answer = await self._client.request("GET", f"/apis/{_GVR.group}/{_GVR.version}")
        except api_errors.ApiError:
            self.usable = False
            return
        served = msgspec.json.decode(answer.body).get("resources") or ()
        self.usable = any(one.get("name") == _GVR.resource for one in served)

    async def ask(self, pod: Pod) -> Standing:
        """Make the request for a pod, or see what became of it."""
        try:
            await self._api.create(_body(pod), namespace=pod.namespace)
        except api_errors.AlreadyExists:
            return await self._look(pod)
        except (api_errors.Forbidden, api_errors.NotFound, api_errors.Invalid, api_errors.BadRequest) as error:
            # No right to, switched off meanwhile, or a pod that cannot be asked this way.
            _log.info("no eviction request, so the pod is evicted", pod=pod.key, error=str(error))
            return Standing.USELESS
        return Standing.NEW

    async def withdraw(self, pod: Pod) -> None:
        """The pod may stay after all."""
        try:
            await self._api.delete(_name(pod), namespace=pod.namespace)
        except api_errors.ApiError as error:
            _log.info("eviction request not withdrawn", pod=pod.key, error=str(error))

    async def _look(self, pod: Pod) -> Standing:
        try:
            request = await self._api.get(_name(pod), namespace=pod.namespace)
        except api_errors.NotFound:
            return Standing.UNDER_WAY  # it goes with its pod
        status: dict[str, Any] = request.get("status") or {}
        if not status.get("observedGeneration"):
            # Nobody who acts on requests is there; what is true of one is true of all.
            self.usable = False
            return Standing.USELESS
        failed = any(one["type"] == "Failed" and one["status"] == "True" for one in status.get("conditions") or ())
        return Standing.USELESS if failed else Standing.UNDER_WAY


def _name(pod: Pod) -> str:
    return f"fairlead-{pod.uid}"


def _body(pod: Pod) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    target = {"pod": {"name": pod.name, "uid": pod.uid}}
    return {
        "apiVersion": f"{_GVR.group}/{_GVR.version}",
        "kind": "EvictionRequest",
        "metadata": {"name": _name(pod), "ownerReferences": [owner]},
        "spec": {"target": target, "requester": DRIVER_DRAIN, "intent": "Eviction"},
    }
