"""Evictions as requests (Kubernetes 1.37, alpha): a pod's own responders act before it is evicted.

Where the API server serves EvictionRequest, the driver creates one per pod, so that its responders can first move a
virtual machine or a shard. Kubernetes 1.37 has the kind behind a feature gate, but no controller that acts on it. The
driver evicts a pod as usual when no controller observes its request in time, or when the responders fail.

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
# How long a controller may take to observe a request before it counts as absent.
_OBSERVE_TIMEOUT: Final = dt.timedelta(seconds=10)
# How often a request that a responder acts on is read.
_READ_PERIOD: Final = dt.timedelta(seconds=30)

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class RequestState:
    """Since when there is a request for a pod, and when to read its status."""

    since: dt.datetime
    read_at: dt.datetime


class EvictionRequests:
    """The requests of one drain. Each has its pod's uid in its name and is owned by it, so a restarted driver finds it.

    Only the requests without effect are kept here; a restarted driver finds them again.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._clock = client.clock
        self._api = client.of(_GVR)
        self._served = False
        self._unanswered = False  # no controller acts on requests; if one request is not observed, none is
        self._failed: set[str] = set()  # by pod uid: those that cannot be created, or whose responders failed

    async def discover(self) -> None:
        """Discover whether the server serves them."""
        with contextlib.suppress(api_errors.ApiError, client_errors.AnswerInvalid):
            self._served = _GVR.resource in await lifecyclegroup.served_kinds(self._client, _GVR.group)

    def applies_to(self, pod: Pod) -> bool:
        """Whether this pod gets a request instead of an eviction."""
        return self._served and not self._unanswered and pod.uid not in self._failed

    async def request(self, pod: Pod) -> RequestState:
        """Create the request for a pod, or read its status. If it has no effect, `applies_to` is false afterwards."""
        now = self._clock.now()
        try:
            await self._api.create(_body(pod), namespace=pod.namespace)
        except api_errors.AlreadyExists:
            return await self._read(pod)
        except (api_errors.Forbidden, api_errors.NotFound, api_errors.Invalid, api_errors.BadRequest) as error:
            # Forbidden, disabled meanwhile, or a pod that cannot be a target.
            _log.info("eviction request rejected, evicting instead", pod=pod.key, error=str(error))
            self._failed.add(pod.uid)
            return RequestState(now, now)
        return RequestState(now, now + _OBSERVE_TIMEOUT)

    async def withdraw(self, pod: Pod) -> None:
        """Delete the request for a pod, also one that an earlier process created."""
        if not self._served:
            return
        try:
            await self._api.delete(_name(pod), namespace=pod.namespace)
        except api_errors.NotFound:
            pass
        except (api_errors.ApiError, client_errors.ClientError) as error:
            _log.info("eviction request not withdrawn", pod=pod.key, error=str(error))

    async def _read(self, pod: Pod) -> RequestState:
        now = self._clock.now()
        try:
            request = await self._api.get(_name(pod), namespace=pod.namespace)
        except api_errors.NotFound:
            return RequestState(now, now + _READ_PERIOD)  # it is deleted with its pod
        status: dict[str, Any] = request.get("status") or {}
        created = api_time.parse_time(request["metadata"]["creationTimestamp"])
        if not status.get("observedGeneration"):
            # An earlier process may have created it a moment ago; its responders get the full time.
            self._unanswered = now >= created + _OBSERVE_TIMEOUT
            return RequestState(created, max(now, created + _OBSERVE_TIMEOUT))
        if any(one["type"] == "Failed" and one["status"] == "True" for one in status.get("conditions") or ()):
            self._failed.add(pod.uid)
            return RequestState(created, now)
        return RequestState(created, now + _READ_PERIOD)


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
