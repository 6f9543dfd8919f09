"""Evictions as requests (Kubernetes 1.37, alpha): a pod's own responders get their say before it is evicted.

Where the API server serves EvictionRequest, a pod is asked to go by one, so that whoever feels responsible for it can
move a virtual machine or a shard first. Kubernetes 1.37 has the kind behind a gate, but nobody in it acts on one. So a
request that nobody has looked at after a while is worth nothing, and the pod is evicted as ever; so is one whose
responders failed.

Upstream: k8s.io/api@v0.37.1/lifecycle/v1alpha1/types.go
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from typing import Any, Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import time as api_time
from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.reserved import DRIVER_DRAIN, LIFECYCLE_GROUP, LIFECYCLE_VERSION
from kube_fairlead.base import logs
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client import lifecyclegroup
from kube_fairlead.client.client import Client

__all__ = ["EvictionRequests", "RequestState"]

_GVR: Final = GroupVersionResource(LIFECYCLE_GROUP, LIFECYCLE_VERSION, "evictionrequests")
# How long a controller may take to look at a request before it counts as absent.
_LOOK: Final = dt.timedelta(seconds=10)
# How often a request that somebody acts on is looked at.
_UNDER_WAY: Final = dt.timedelta(seconds=30)

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class RequestState:
    """Since when there is a request for a pod, and when to see what became of it."""

    since: dt.datetime
    look_at: dt.datetime


class EvictionRequests:
    """The requests of one drain. Each is named after its pod's uid and goes with its pod, so a later life finds them.

    What is kept here is only which of them came to nothing; a later life sees that too.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._clock = client.clock
        self._api = client.of(_GVR)
        self._served = False
        self._unanswered = False  # nobody here acts on requests: what is true of one is true of all
        self._failed: set[str] = set()  # by pod uid: those that cannot be made, or whose responders failed

    async def discover(self) -> None:
        """See whether the server has them."""
        with contextlib.suppress(api_errors.ApiError, client_errors.AnswerInvalid):
            self._served = _GVR.resource in await lifecyclegroup.served_kinds(self._client, _GVR.group)

    def applies_to(self, pod: Pod) -> bool:
        """Whether this pod is asked to go by request, and not, or not any more, by an eviction."""
        return self._served and not self._unanswered and pod.uid not in self._failed

    async def request(self, pod: Pod) -> RequestState:
        """Make the request for a pod, or see what became of it. If it came to nothing, it does not `concern` it now."""
        now = self._clock.now()
        try:
            await self._api.create(_body(pod), namespace=pod.namespace)
        except api_errors.AlreadyExists:
            return await self._look(pod)
        except (api_errors.Forbidden, api_errors.NotFound, api_errors.Invalid, api_errors.BadRequest) as error:
            # No right to, switched off meanwhile, or a pod that cannot be asked this way.
            _log.info("no eviction request, so the pod is evicted", pod=pod.key, error=str(error))
            self._failed.add(pod.uid)
            return RequestState(now, now)
        return RequestState(now, now + _LOOK)

    async def withdraw(self, pod: Pod) -> None:
        """The pod may stay after all; whether an earlier life asked, or this one, and whatever came of it."""
        if not self._served:
            return
        try:
            await self._api.delete(_name(pod), namespace=pod.namespace)
        except api_errors.NotFound:
            pass
        except (api_errors.ApiError, client_errors.ClientError) as error:
            _log.info("eviction request not withdrawn", pod=pod.key, error=str(error))

    async def _look(self, pod: Pod) -> RequestState:
        now = self._clock.now()
        try:
            request = await self._api.get(_name(pod), namespace=pod.namespace)
        except api_errors.NotFound:
            return RequestState(now, now + _UNDER_WAY)  # it goes with its pod
        status: dict[str, Any] = request.get("status") or {}
        made = api_time.parse_time(request["metadata"]["creationTimestamp"])
        if not status.get("observedGeneration"):
            # An earlier life may have made it a moment ago; whoever answers has as much time as ever.
            self._unanswered = now >= made + _LOOK
            return RequestState(made, max(now, made + _LOOK))
        if any(one["type"] == "Failed" and one["status"] == "True" for one in status.get("conditions") or ()):
            self._failed.add(pod.uid)
            return RequestState(made, now)
        return RequestState(made, now + _UNDER_WAY)


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
