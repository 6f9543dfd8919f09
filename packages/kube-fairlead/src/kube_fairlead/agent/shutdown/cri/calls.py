"""Call a container runtime. The message types come from the compiled `proto/runtime/v1/api.proto`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from kube_fairlead.agent.shutdown.pod_runtime import RuntimeFailed
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.rpc import client, pipes
from kube_fairlead.base.rpc.client import Target
from kube_fairlead.base.rpc.contract import Contract
from kube_fairlead.base.rpc.errors import RpcError

__all__ = ["CriCalls", "Dial", "named_pipe", "unix_socket"]

_PACKAGE: Final = "runtime.v1"
_SERVICE: Final = f"{_PACKAGE}.RuntimeService"
# How long the runtime may take to respond; the grace period of a container is added to it.
_ANSWER_SECONDS: Final = 5.0
# The list of containers of a full node exceeds the default of 1 MiB. The kubelet accepts as much.
_MESSAGE_BYTES_MAX: Final = 16 << 20
_METHODS: Final = (
    "ListContainers",
    "ContainerStatus",
    "StopContainer",
    "ExecSync",
    "StopPodSandbox",
    "PodSandboxStatus",
)

_CONTRACT: Final = Contract(__package__ or "", "contract.binpb")


Dial = Callable[[str, bytes, float | None], Awaitable[bytes]]
"""Sends one call: method path, request, timeout in seconds; returns the response."""


def unix_socket(path: str) -> Dial:
    """Return a `Dial` over a unix socket, for Linux."""
    return _dial(Target(path, message_bytes_max=_MESSAGE_BYTES_MAX))


def named_pipe(path: str) -> Dial:
    """Return a `Dial` over a named pipe, for Windows."""
    return _dial(Target(path, connect=pipes.open_pipe, message_bytes_max=_MESSAGE_BYTES_MAX))


def _dial(target: Target) -> Dial:
    def dial(method: str, request: bytes, timeout_seconds: float | None) -> Awaitable[bytes]:
        return client.unary(target, method, request, timeout_seconds=timeout_seconds)

    return dial


class CriCalls:
    """The methods of a runtime. Each raises RuntimeFailed when the call fails or times out."""

    def __init__(self, dial: Dial, clock: Clock) -> None:
        self._dial = dial
        self._clock = clock

    def make_ready(self) -> None:
        """Load the message types in advance, because a shutdown leaves no time for it."""
        for method in _METHODS:
            _message(f"{method}Request")
            _message(f"{method}Response")

    async def running_containers(self) -> list[Any]:
        """List the running containers."""
        running = _message("ContainerStateValue")(state=1)
        request = _message("ListContainersRequest")(filter=_message("ContainerFilter")(state=running))
        answer = await self._call("ListContainers", request, "ListContainersResponse")
        return list(answer.containers)

    async def containers_of(self, pod_uid: str) -> list[Any]:
        """List all containers of a pod, including exited ones."""
        request = _message("ListContainersRequest")()
        request.filter.label_selector["io.kubernetes.pod.uid"] = pod_uid
        answer = await self._call("ListContainers", request, "ListContainersResponse")
        return list(answer.containers)

    async def status(self, container_id: str) -> Any:
        """Return the status of a container."""
        request = _message("ContainerStatusRequest")(container_id=container_id)
        return (await self._call("ContainerStatus", request, "ContainerStatusResponse")).status

    async def stop(self, container_id: str, timeout_seconds: int) -> None:
        """Send SIGTERM, and SIGKILL after the timeout. Returns when the container has exited."""
        request = _message("StopContainerRequest")(container_id=container_id, timeout=timeout_seconds)
        await self._call("StopContainer", request, "StopContainerResponse", waits_seconds=timeout_seconds)

    async def execute(self, container_id: str, command: list[str], timeout_seconds: int) -> int:
        """Run a command in a container and return its exit code."""
        request = _message("ExecSyncRequest")(container_id=container_id, cmd=command, timeout=timeout_seconds)
        answer = await self._call("ExecSync", request, "ExecSyncResponse", waits_seconds=timeout_seconds)
        return int(answer.exit_code)

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a pod's sandbox, which removes its network."""
        request = _message("StopPodSandboxRequest")(pod_sandbox_id=sandbox_id)
        await self._call("StopPodSandbox", request, "StopPodSandboxResponse")

    async def sandbox_address(self, sandbox_id: str) -> str:
        """Return the pod's IP address; empty for a pod in the host network."""
        request = _message("PodSandboxStatusRequest")(pod_sandbox_id=sandbox_id)
        answer = await self._call("PodSandboxStatus", request, "PodSandboxStatusResponse")
        return str(answer.status.network.ip)

    async def _call(self, method: str, request: Any, answer: str, *, waits_seconds: float = 0.0) -> Any:
        from kube_fairlead.base.rpc.protobuf import DecodeError

        allowed = waits_seconds + _ANSWER_SECONDS
        path = f"/{_SERVICE}/{method}"
        try:
            async with self._clock.timeout(allowed):
                data = await self._dial(path, request.SerializeToString(), allowed)
            return _message(answer).FromString(data)
        except TimeoutError as error:
            raise RuntimeFailed(f"{method}: no answer for {allowed:g} s") from error
        except RpcError as error:
            raise RuntimeFailed(f"{method}: {error}") from error
        except DecodeError as error:
            raise RuntimeFailed(f"{method}: the runtime sent an invalid response") from error


def _message(name: str) -> Any:
    return _CONTRACT.message(f"{_PACKAGE}.{name}")
