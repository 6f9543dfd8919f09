"""Calling a container runtime. The messages are made from the compiled `proto/runtime/v1/api.proto`."""

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
# A runtime that does not answer is asked again; it holds nobody up. What it was told to wait for comes on top.
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
"""How to send one call: method path, request, timeout in seconds; the answer."""


def unix_socket(path: str) -> Dial:
    """Over a socket, as on Linux."""
    return _dial(Target(path, message_bytes_max=_MESSAGE_BYTES_MAX))


def named_pipe(path: str) -> Dial:
    """Over a pipe, as on Windows."""
    return _dial(Target(path, connect=pipes.open_pipe, message_bytes_max=_MESSAGE_BYTES_MAX))


def _dial(target: Target) -> Dial:
    def dial(method: str, request: bytes, timeout_seconds: float | None) -> Awaitable[bytes]:
        return client.unary(target, method, request, timeout_seconds=timeout_seconds)

    return dial


class CriCalls:
    """The methods of a runtime, each raising RuntimeFailed when it fails or takes longer than it may."""

    def __init__(self, dial: Dial, clock: Clock) -> None:
        self._dial = dial
        self._clock = clock

    def make_ready(self) -> None:
        """Load what calls are made of: when the machine goes down, no moment is left for that."""
        for method in _METHODS:
            _message(f"{method}Request")
            _message(f"{method}Response")

    async def running_containers(self) -> list[Any]:
        """Every container that runs."""
        running = _message("ContainerStateValue")(state=1)
        request = _message("ListContainersRequest")(filter=_message("ContainerFilter")(state=running))
        answer = await self._call("ListContainers", request, "ListContainersResponse")
        return list(answer.containers)

    async def containers_of(self, pod_uid: str) -> list[Any]:
        """Every container of a pod, those that have ended too."""
        request = _message("ListContainersRequest")()
        request.filter.label_selector["io.kubernetes.pod.uid"] = pod_uid
        answer = await self._call("ListContainers", request, "ListContainersResponse")
        return list(answer.containers)

    async def status(self, container_id: str) -> Any:
        """How a container is, or was."""
        request = _message("ContainerStatusRequest")(container_id=container_id)
        return (await self._call("ContainerStatus", request, "ContainerStatusResponse")).status

    async def stop(self, container_id: str, timeout_seconds: int) -> None:
        """SIGTERM, and SIGKILL after so many seconds. Returns when it has ended."""
        request = _message("StopContainerRequest")(container_id=container_id, timeout=timeout_seconds)
        await self._call("StopContainer", request, "StopContainerResponse", waits_seconds=timeout_seconds)

    async def execute(self, container_id: str, command: list[str], timeout_seconds: int) -> int:
        """Run a command in a container; its exit code."""
        request = _message("ExecSyncRequest")(container_id=container_id, cmd=command, timeout=timeout_seconds)
        answer = await self._call("ExecSync", request, "ExecSyncResponse", waits_seconds=timeout_seconds)
        return int(answer.exit_code)

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Take down what holds a pod's containers together: its network."""
        request = _message("StopPodSandboxRequest")(pod_sandbox_id=sandbox_id)
        await self._call("StopPodSandbox", request, "StopPodSandboxResponse")

    async def sandbox_address(self, sandbox_id: str) -> str:
        """The pod's address; empty when it is its node's."""
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
            raise RuntimeFailed(f"{method}: the runtime's answer makes no sense") from error


def _message(name: str) -> Any:
    return _CONTRACT.message(f"{_PACKAGE}.{name}")
