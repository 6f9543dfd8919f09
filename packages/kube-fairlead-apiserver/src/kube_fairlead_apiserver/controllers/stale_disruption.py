"""The DisruptionTarget condition of pods that were not deleted: False after two minutes, as in Kubernetes.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/disruption/disruption.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time, parse_time
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.registry.resource import split_key
from kube_fairlead_apiserver.storage.entries import Change

__all__ = ["StaleDisruptionController", "seconds_until_stale"]

_STALE_SECONDS = 120
_TYPE = "DisruptionTarget"
_SOUGHT = b'"DisruptionTarget"'
# The kubelet sets this reason before it terminates a pod, which has no time limit.
_KUBELETS_REASON = "TerminationByKubelet"


def seconds_until_stale(pod: Json, now: dt.datetime) -> float | None:
    """Return the seconds until a pod's condition is stale; None when it has none, or is being deleted."""
    status = pod.get("status") or {}
    mark = _mark(pod)
    if mark is None or pod["metadata"].get("deletionTimestamp") or status.get("phase") in {"Succeeded", "Failed"}:
        return None
    if mark.get("status") != "True" or mark.get("reason") == _KUBELETS_REASON:
        return None
    since = mark.get("lastTransitionTime")
    age = (now - parse_time(since)).total_seconds() if since else _STALE_SECONDS
    return max(0.0, _STALE_SECONDS - age)


def _mark(pod: Json) -> Json | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == _TYPE), None)


class StaleDisruptionController:
    """Reconciles stale DisruptionTarget conditions. Its keys are those of pods."""

    name = "disruption-controller"  # in Kubernetes this is a part of the disruption controller

    def __init__(self, core: Core) -> None:
        self._core = core
        self._client = InternalClient(core, "disruption-controller")

    def initial(self) -> Iterable[str]:
        """Yield every pod that may have the condition."""
        entries = self._core.store.table("pods").entries.values()
        return [entry.key for entry in entries if _SOUGHT in entry.tail]

    def affected(self, table: str, change: Change) -> Iterable[str]:
        """Yield a pod that may have the condition."""
        if table != "pods" or change.after is None or _SOUGHT not in change.after.tail:
            return ()
        return (change.after.key,)

    async def reconcile(self, key: str) -> float | None:
        """Set a stale condition to False."""
        namespace, name = split_key(key)
        pods = self._client.resource("", "v1", "pods")
        pod = self._client.newest(pods, namespace, name)
        now = self._core.clock.now()
        left = None if pod is None else seconds_until_stale(pod, now)
        if left is None or left > 0:
            return left

        def take_back(current: Json) -> None:
            mark = _mark(current)
            if mark is not None and seconds_until_stale(current, now) == 0:
                mark.update(status="False", lastTransitionTime=format_time(now))
                mark.pop("reason", None)
                mark.pop("message", None)

        try:
            await self._client.change(pods, namespace, name, take_back, subresource="status")
        except errors.NotFound:
            return None
        return None
