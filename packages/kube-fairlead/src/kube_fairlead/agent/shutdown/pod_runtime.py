"""What terminates the pods of this node. Implementations: a container runtime (`cri`) and simulated ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kube_fairlead.lifecycle.shutdown_status import ContainerEnd

__all__ = ["KubeletControl", "NoKubelet", "OnExit", "PodRuntime", "RunningPod", "RuntimeFailed"]

OnExit = Callable[[str, ContainerEnd], None]
"""Called with the name of a container and how it exited."""


class RuntimeFailed(Exception):
    """Raised when a call of the container runtime or the service manager fails."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A pod with running containers."""

    uid: str  # in the container runtime
    namespace: str
    name: str
    grace_seconds: int | None = None  # if the runtime has it


class PodRuntime(Protocol):
    """Lists and terminates the pods of a node."""

    async def running(self) -> Sequence[RunningPod]:
        """List the pods with a running container.

        Raises:
            RuntimeFailed: the call failed.
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
        """Terminate a pod and return how each container exited: preStop hooks, SIGTERM, SIGKILL when the grace is over.

        `on_exit` is called as soon as a container exits, so that one that hangs does not hide the others. May be
        called again for a terminating pod; then the shorter grace counts.

        Raises:
            RuntimeFailed: a container could not be stopped.
        """
        ...

    async def tear_down(self, pod: RunningPod) -> None:
        """Stop the sandbox of a pod whose containers have exited, which removes its network.

        Raises:
            RuntimeFailed: the call failed.
        """
        ...

    async def ended(self, pod: RunningPod) -> Mapping[str, ContainerEnd]:
        """Return how the containers of an ended pod exited; empty when the runtime has removed them.

        Raises:
            RuntimeFailed: the call failed.
        """
        ...


class KubeletControl(Protocol):
    """Controls the kubelet of the node."""

    async def ends_pods(self) -> bool:
        """Whether the kubelet delays the shutdown itself, to terminate pods."""
        ...

    async def stop(self) -> None:
        """Stop the kubelet, which would restart pods and set the node Ready."""
        ...

    async def start(self) -> None:
        """Start the kubelet. Returns when it runs, or when there is none.

        Raises:
            RuntimeFailed: it does not run.
        """
        ...


class NoKubelet:
    """The node has no kubelet, or the agent must not stop it."""

    async def ends_pods(self) -> bool:
        """Return False."""
        return False

    async def stop(self) -> None:
        """Do nothing."""

    async def start(self) -> None:
        """Do nothing."""
