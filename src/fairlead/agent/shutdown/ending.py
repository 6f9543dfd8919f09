"""Ending the pods that run on this machine. Two implementations: a container runtime (`cri`) and a hollow one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fairlead.lifecycle.shutdown_status import ContainerEnd

__all__ = ["KubeletControl", "NoKubelet", "PodRuntime", "RunningPod", "RuntimeFailed"]


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
        self, pod: RunningPod, *, grace_seconds: float, hooks: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, ContainerEnd]:
        """End a pod: preStop hooks (by container), SIGTERM, SIGKILL when the grace is over. How each container ended.

        May be called again for a pod that is ending already; then only the shorter time counts.

        Raises:
            RuntimeFailed: it could not be ended.
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
