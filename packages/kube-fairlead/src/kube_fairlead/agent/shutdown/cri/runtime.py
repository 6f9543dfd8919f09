"""A `PodRuntime` over CRI: terminates a pod as the kubelet does, without the kubelet.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/kuberuntime/kuberuntime_container.go,
    k8s.io/kubernetes@v1.36.4/pkg/kubelet/kuberuntime/kuberuntime_termination_order.go
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kube_fairlead.agent.shutdown.cri.calls import CriCalls
from kube_fairlead.agent.shutdown.cri.hooks import run_hook
from kube_fairlead.agent.shutdown.pod_runtime import OnExit, RunningPod, RuntimeFailed
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd

__all__ = ["CriRuntime"]

# Labels and annotations that the kubelet sets on every container.
_POD_UID: Final = "io.kubernetes.pod.uid"
_POD_NAME: Final = "io.kubernetes.pod.name"
_POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
_POD_GRACE: Final = "io.kubernetes.pod.terminationGracePeriod"
_PRE_STOP: Final = "io.kubernetes.container.preStopHandler"
_RUNNING: Final = 1  # CONTAINER_RUNNING
_EXITED: Final = 2  # CONTAINER_EXITED
_KILL_ATTEMPTS: Final = 3

_log = logs.get_logger(__name__)


class CriRuntime:
    """The containers of this node, as its runtime lists them. Containers without the kubelet's labels are ignored."""

    def __init__(self, calls: CriCalls, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock

    async def running(self) -> Sequence[RunningPod]:
        """List the pods with a running container."""
        pods: dict[str, RunningPod] = {}
        for container in await self._calls.running_containers():
            uid = container.labels.get(_POD_UID)
            if uid and uid not in pods:
                pods[uid] = RunningPod(
                    uid=uid,
                    namespace=container.labels.get(_POD_NAMESPACE, ""),
                    name=container.labels.get(_POD_NAME, ""),
                    grace_seconds=_whole(container.annotations.get(_POD_GRACE, "")),
                )
        return list(pods.values())

    async def end(
        self,
        pod: RunningPod,
        *,
        grace_seconds: float,
        hooks: Mapping[str, Mapping[str, Any]],
        on_exit: OnExit,
    ) -> Mapping[str, ContainerEnd]:
        """Terminate the pod's containers in parallel."""
        until = self._clock.monotonic() + grace_seconds
        found = _latest(await self._calls.containers_of(pod.uid))
        ends: dict[str, ContainerEnd] = {}
        failures: list[RuntimeFailed] = []

        async def end(container: Any) -> None:
            # A container that cannot be stopped does not keep the others running.
            name = container.metadata.name
            try:
                if container.state == _RUNNING:
                    ends[name] = await self._end(container, hooks.get(name), until)
                else:  # it exited by itself just before
                    ends[name] = await self._outcome(container)
            except RuntimeFailed as error:
                failures.append(error)
            else:
                on_exit(name, ends[name])

        async with tasks.TaskScope("cri") as scope:
            for container in found:
                if container.state in {_RUNNING, _EXITED}:
                    scope.start(end(container), name=container.metadata.name)
        if failures:
            raise failures[0]
        return ends

    async def tear_down(self, pod: RunningPod) -> None:
        """Stop the sandboxes of the pod."""
        for sandbox in sorted({one.pod_sandbox_id for one in await self._calls.containers_of(pod.uid)}):
            await self._calls.stop_sandbox(sandbox)

    async def ended(self, pod: RunningPod) -> Mapping[str, ContainerEnd]:
        """Return how the pod's containers exited, the last attempt of each."""
        found = [one for one in await self._calls.containers_of(pod.uid) if one.state == _EXITED]
        return {one.metadata.name: await self._outcome(one) for one in _latest(found)}

    async def _end(self, container: Any, hook: Mapping[str, Any] | None, until: float) -> ContainerEnd:
        hook = hook or _own_hook(container)
        left = until - self._clock.monotonic()
        if hook and left > 0:
            address = await self._address(container.pod_sandbox_id)
            await run_hook(hook, container, address, self._calls, clock=self._clock, timeout_seconds=left)
            left = until - self._clock.monotonic()
        if left > 0:
            try:
                # The runtime counts whole seconds; this timeout cuts the last one.
                async with self._clock.timeout(left):
                    await self._calls.stop(container.id, math.ceil(left))
                return await self._outcome(container)
            except TimeoutError:
                pass
        return await self._kill(container)

    async def _kill(self, container: Any) -> ContainerEnd:
        for attempt in range(_KILL_ATTEMPTS):
            try:
                await self._calls.stop(container.id, 0)
                break
            except RuntimeFailed as error:
                if attempt == _KILL_ATTEMPTS - 1:
                    raise
                _log.warning("retrying to kill container", container=container.metadata.name, error=str(error))
        return await self._outcome(container)

    async def _outcome(self, container: Any) -> ContainerEnd:
        status = await self._calls.status(container.id)
        finished = dt.datetime.fromtimestamp(status.finished_at / 1e9, dt.UTC) if status.finished_at else None
        return ContainerEnd(status.exit_code, finished or self._clock.now(), status.reason)

    async def _address(self, sandbox_id: str) -> str:
        try:
            return await self._calls.sandbox_address(sandbox_id)
        except RuntimeFailed:
            return ""


def _latest(containers: Iterable[Any]) -> list[Any]:
    """Return the last attempt of each container."""
    last: dict[str, Any] = {}
    for container in sorted(containers, key=lambda one: one.metadata.attempt):
        last[container.metadata.name] = container
    return list(last.values())


def _own_hook(container: Any) -> Mapping[str, Any] | None:
    """Return the hook that the kubelet stored on the container, for a pod that is not in the pod cache."""
    try:
        found = json.loads(container.annotations.get(_PRE_STOP, "null"))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
