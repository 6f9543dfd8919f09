"""The two writes of a shutdown for each pod, and the wait until traffic has left it."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Collection, Iterable
from typing import Any, Final

from kube_fairlead.agent.shutdown.pod_cache import CachedPod, cached
from kube_fairlead.agent.shutdown.state_file import EndedPod
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Pod, PodStatus
from kube_fairlead.api.discovery_v1 import EndpointSlice
from kube_fairlead.base import tasks
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.patches import StrategicMergePatch
from kube_fairlead.lifecycle import shutdown_status

__all__ = ["PodWriter"]

_POLL_SECONDS: Final = 0.1
_WRITTEN: Final = ("phase", "conditions", "containerStatuses", "reason", "message")


class PodWriter:
    """Writes pods, each guarded by its uid. A pod that was deleted or replaced is ignored.

    Raises (every method): the errors of the client when the server is unreachable or rejects the request.
    """

    def __init__(self, client: Client) -> None:
        once = client.with_retry(retry.NEVER)
        self._clock = client.clock
        self._pods = once.of(Pod)
        self._slices = once.of(EndpointSlice, keep=False)

    async def announce(self, pods: Iterable[tuple[CachedPod, float]]) -> None:
        """Before termination, set pods not ready and DisruptionTarget. Each comes with its grace in seconds."""
        async with tasks.TaskScope("announce") as scope:
            for pod, grace_seconds in pods:
                scope.start(self._announce(pod, grace_seconds), name=pod.name)

    async def wait_unlisted(self, pods: Collection[CachedPod]) -> None:
        """Wait until no EndpointSlice lists any of them as ready."""
        uids = {pod.uid for pod in pods}
        for namespace in sorted({pod.namespace for pod in pods}):
            while await self._is_listed(namespace, uids):
                await self._clock.sleep(_POLL_SECONDS)

    async def finish(self, ended: EndedPod, *, moves: bool, restarted_after: dt.datetime | None = None) -> None:
        """After termination, write the final status; `moves`: delete the pod, because another node replaces it.

        A pod with a container that started after `restarted_after` was restarted, and keeps its status.

        Raises:
            Conflict: nothing is written; the next attempt reads whether it is still the same pod.
        """
        pod = await self._get(ended.namespace, ended.name)
        if pod is None or not _is_same(pod, ended.uid):
            return
        if restarted_after is not None and not pod.deleting and shutdown_status.runs_since(pod, restarted_after):
            return
        if not pod.finished:
            last = shutdown_status.ended(
                pod, ended.containers, self._clock.now(), asked=ended.asked_time, problem=ended.problem
            )
            await self._write(pod, last)
        elif not pod.deleting:
            return  # it had finished before the shutdown, and users may read it
        if moves:
            await self._delete(pod, 0)

    async def reject(self, pod: Pod) -> None:
        """Reject a pod that was bound to a node that shuts down, and never started."""
        with contextlib.suppress(api_errors.Conflict):  # the next pass reads it again
            await self._write(pod, shutdown_status.rejected(pod))

    async def _announce(self, known: CachedPod, grace_seconds: float) -> None:
        while True:
            pod = await self._get(known.namespace, known.name)
            if pod is None or pod.uid != known.uid or pod.finished:
                return
            try:
                if not shutdown_status.is_announced(pod):
                    await self._write(pod, shutdown_status.announced(pod, self._clock.now()))
                if known.moves and not pod.deleting:
                    await self._delete(pod, max(1, round(grace_seconds)))
            except api_errors.Conflict:  # replaced by a pod of the same name, or written by another client
                await self._clock.sleep(_POLL_SECONDS)
            else:
                return

    async def _get(self, namespace: str, name: str) -> Pod | None:
        try:
            return await self._pods.get(name, namespace=namespace)
        except api_errors.NotFound:
            return None

    async def _write(self, pod: Pod, status: PodStatus) -> None:
        # Only changed fields are sent, because the others may be newer on the server. Lists of containers are replaced
        # as a whole, so they are taken from the whole object, which keeps fields that the typed kinds do not model.
        before = wire.to_dict(pod).get("status", {})
        after = wire.to_dict(wire.replace(pod, status=status))["status"]
        changed: dict[str, Any] = {
            key: after[key] for key in _WRITTEN if key in after and after[key] != before.get(key)
        }
        if "conditions" in changed:
            known = before.get("conditions", ())
            changed["conditions"] = [one for one in changed["conditions"] if one not in known]
        if not changed:
            return
        body = {"metadata": {"uid": pod.uid}, "status": changed}
        with contextlib.suppress(api_errors.NotFound):
            await self._pods.patch(
                pod.name, StrategicMergePatch(body), namespace=pod.metadata.namespace, subresource="status"
            )

    async def _delete(self, pod: Pod, grace_seconds: int) -> None:
        with contextlib.suppress(api_errors.NotFound):
            await self._pods.delete(
                pod.name, namespace=pod.metadata.namespace, grace_period_seconds=grace_seconds, uid=pod.uid
            )

    async def _is_listed(self, namespace: str, uids: Collection[str]) -> bool:
        page = await self._slices.list(namespace=namespace)
        return any(
            endpoint.target_ref is not None
            and endpoint.target_ref.uid in uids
            and endpoint.conditions.ready is not False
            for piece in page.items
            for endpoint in piece.endpoints
        )


def _is_same(pod: Pod, uid: str) -> bool:
    """Whether the pod has this uid, in the API server or in the runtime."""
    return uid in {pod.uid, cached(pod).runtime_uid}
