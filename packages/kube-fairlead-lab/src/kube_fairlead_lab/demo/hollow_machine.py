"""A hollow node that can shut down: the shutdown listener, runtime and kubelet that its agent uses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from kube_fairlead.agent.shutdown.pod_runtime import OnExit, RunningPod
from kube_fairlead.agent.shutdown.state_file import Boot
from kube_fairlead.base.clock import Clock
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd
from kube_fairlead_lab.hollow import Kubelet

__all__ = ["HollowMachine"]


class HollowMachine:
    """The shutdown listener, the container runtime and the kubelet of a hollow node, for its agent.

    Like a real machine it outlives the agent: the next agent finds it as it is.
    """

    def __init__(self, kubelet: Kubelet, clock: Clock) -> None:
        self.kubelet = kubelet
        self.listener = _ShutdownListener()
        self.runtime = _Runtime(kubelet, clock)
        self.identity = Boot(kubelet.boot_id, clock.now())

    def go_down(self) -> None:
        """Announce a shutdown, as `systemctl poweroff` does."""
        self.listener.preparing = True
        self.listener.words.put_nowait(True)

    async def ends_pods(self) -> bool:
        """A hollow kubelet does not handle shutdowns."""
        return False

    async def stop(self) -> None:
        """Stop the kubelet; its containers keep running."""
        self.kubelet.stop()

    async def start(self) -> None:
        """Start the kubelet again."""
        self.kubelet.start()


class _ShutdownListener:
    """Passes on the announcements that `go_down` makes."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[bool] = asyncio.Queue()
        self.preparing: bool | None = False
        self.problem = ""
        self.released = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self, needed_seconds: float) -> AsyncIterator[None]:
        del needed_seconds  # a hollow machine waits without a limit
        yield

    async def next_announcement(self) -> bool:
        return await self.words.get()

    async def release(self) -> None:
        self.released.set()


class _Runtime:
    """Terminates hollow pods, and records the order and the exit codes."""

    def __init__(self, kubelet: Kubelet, clock: Clock) -> None:
        self._kubelet = kubelet
        self._clock = clock
        self.asked: list[str] = []
        self.exit_codes: dict[str, int] = {}

    async def running(self) -> Sequence[RunningPod]:
        now = self._clock.now()
        return [
            RunningPod(uid=box.pod.uid, namespace=box.pod.metadata.namespace, name=box.pod.name)
            for box in self._kubelet.runtime
            if not box.has_ended(now)
        ]

    async def end(
        self, pod: RunningPod, *, grace_seconds: float, hooks: Mapping[str, Mapping[str, Any]], on_exit: OnExit
    ) -> Mapping[str, ContainerEnd]:
        del hooks, on_exit  # a hollow pod's termination time includes its hooks
        if pod.name not in self.asked:
            self.asked.append(pod.name)
        box = self._kubelet.runtime.stop(pod.uid, grace_seconds, self._clock.now())
        while box is not None and not box.has_ended(now := self._clock.now()):
            # A pod that never ends: the caller cancels this wait at its deadline.
            await self._clock.sleep(1.0 if box.ends_at is None else (box.ends_at - now).total_seconds())
            box = self._kubelet.runtime.get(pod.uid)
        return self._ends(pod)

    async def tear_down(self, pod: RunningPod) -> None:
        del pod  # a hollow pod has no network

    async def ended(self, pod: RunningPod) -> Mapping[str, ContainerEnd]:
        box = self._kubelet.runtime.get(pod.uid)
        return self._ends(pod) if box is not None and box.has_ended(self._clock.now()) else {}

    def _ends(self, pod: RunningPod) -> dict[str, ContainerEnd]:
        box = self._kubelet.runtime.get(pod.uid)
        if box is None:
            return {}
        self.exit_codes[pod.name] = box.exit_code
        end = ContainerEnd(box.exit_code, box.ends_at or self._clock.now())
        return {container.name: end for container in box.pod.spec.containers}
