"""Ending the pods that run on this machine. Two implementations: a container runtime (`cri`) and a hollow one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kube_fairlead.lifecycle.shutdown_status import ContainerEnd

__all__ = ["KubeletControl", "NoKubelet", "OnExit", "PodRuntime", "RunningPod", "RuntimeFailed"]

OnExit = Callable[[str, ContainerEnd], None]
"""Called with the name of a container and how it ended."""


class RuntimeFailed(Exception):
    """Raised when the container runtime does not do what it is asked to."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A pod that has containers running here."""

    uid: str  # as the runtime knows it
    namespace: str
    name: str
    grace_seconds: int | None = None  # where the runtime was told of it


class PodRuntime(Protocol):
    """What runs the containers of a node."""

    async def running(self) -> Sequence[RunningPod]:
        """Every pod with a container that runs.

        Raises:
            RuntimeFailed: it does not say.
        """
        ...

    async def end(
        self,
        pod: RunningPod,
        *,
        grace_seconds: float,
        hooks: Mapping[str, Mapping[str, Any]],
        on_exit: OnExit,
    ) -> Mapping[str, ContainerEnd]:
        """End a pod: preStop hooks (by container), SIGTERM, SIGKILL when the grace is over. How each container ended.

        `on_exit` hears of every container as soon as its exit is known: one that hangs does not hide how the others
        ended. May be called again for a pod that is ending already; then only the shorter time counts.

        Raises:
            RuntimeFailed: it could not be ended.
        """
        ...

    async def tear_down(self, pod: RunningPod) -> None:
        """Remove what held the containers of a pod together, once they have ended: its network.

        Raises:
            RuntimeFailed: it is left behind.
        """
        ...

    async def ended(self, pod: RunningPod) -> Mapping[str, ContainerEnd]:
        """How the containers of a pod ended that does not run any more; empty when there is nothing left of it.

        Raises:
            RuntimeFailed: it does not say.
        """
        ...


class KubeletControl(Protocol):
    """What an agent can do about the kubelet of its node."""

    async def ends_pods(self) -> bool:
        """Whether the kubelet holds up a shutdown itself, to end pods."""
        ...

    async def stop(self) -> None:
        """Stop it: it would start again what is ended, and say that the node is ready."""
        ...

    async def start(self) -> None:
        """Start it again. Returns when it runs, or when there is none.

        Raises:
            RuntimeFailed: it does not run.
        """
        ...


class NoKubelet:
    """There is none, or it is not for us to stop."""

    async def ends_pods(self) -> bool:
        """Nobody does."""
        return False

    async def stop(self) -> None:
        """There is nothing to stop."""

    async def start(self) -> None:
        """There is nothing to start."""
