"""A container runtime on a real socket, whose containers end as the test says."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpclib.const
from grpclib import GRPCError, Status

from kube_fairlead.agent.shutdown.cri.calls import _message

RUNNING, EXITED = 1, 2


class FakeRuntime:
    """A container runtime on a real socket, whose containers end as the test says."""

    def __init__(self) -> None:
        self.containers: dict[str, Any] = {}
        self.needs: dict[str, float] = {}
        self.codes: dict[str, int] = {}
        self.log: list[str] = []
        self.asked: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.exec_code = 0
        self.refusal = ""
        self.unstoppable: set[str] = set()
        self.path = ""

    def add(
        self, name: str, uid: str, annotations: dict[str, str] | None = None, *, needs: float = 0.0, pod: str = ""
    ) -> None:
        labels = {"io.kubernetes.pod.uid": uid, "io.kubernetes.pod.name": pod or f"pod-{uid}"}
        labels["io.kubernetes.pod.namespace"] = "default"
        self.containers[name] = _message("Container")(
            id=name,
            pod_sandbox_id=f"sandbox-{uid}",
            metadata=_message("ContainerMetadata")(name=name),
            state=RUNNING,
            labels=labels if uid else {},
            annotations=annotations or {},
        )
        self.needs[name] = needs

    def __mapping__(self) -> dict[str, grpclib.const.Handler]:
        methods = {
            "ListContainers": (self._list, "ListContainersRequest", "ListContainersResponse"),
            "ContainerStatus": (self._status, "ContainerStatusRequest", "ContainerStatusResponse"),
            "StopContainer": (self._stop, "StopContainerRequest", "StopContainerResponse"),
            "ExecSync": (self._exec, "ExecSyncRequest", "ExecSyncResponse"),
            "StopPodSandbox": (self._stop_sandbox, "StopPodSandboxRequest", "StopPodSandboxResponse"),
            "PodSandboxStatus": (self._sandbox, "PodSandboxStatusRequest", "PodSandboxStatusResponse"),
        }
        return {
            f"/runtime.v1.RuntimeService/{name}": grpclib.const.Handler(
                handler, grpclib.const.Cardinality.UNARY_UNARY, _message(request), _message(answer)
            )
            for name, (handler, request, answer) in methods.items()
        }

    async def _list(self, stream: Any) -> None:
        request = await stream.recv_message()
        found = list(self.containers.values())
        if request.filter.HasField("state"):
            found = [one for one in found if one.state == request.filter.state.state]
        for key, value in request.filter.label_selector.items():
            found = [one for one in found if one.labels.get(key) == value]
        if self.refusal:
            raise GRPCError(Status.INTERNAL, self.refusal)
        await stream.send_message(_message("ListContainersResponse")(containers=found))

    async def _status(self, stream: Any) -> None:
        request = await stream.recv_message()
        status = _message("ContainerStatus")(
            id=request.container_id,
            state=self.containers[request.container_id].state,
            exit_code=self.codes.get(request.container_id, 0),
            finished_at=1_772_366_400_000_000_000,
        )
        await stream.send_message(_message("ContainerStatusResponse")(status=status))

    async def _stop(self, stream: Any) -> None:
        request = await stream.recv_message()
        name = request.container_id
        self.log.append(f"stop {name} {request.timeout}")
        if name in self.unstoppable:
            raise GRPCError(Status.UNKNOWN, "no shim")
        if request.timeout == 0:
            self._end(name, 137)
        else:
            asked = self.asked.setdefault(name, time.monotonic())
            await asyncio.sleep(max(0.0, asked + self.needs[name] - time.monotonic()))
            self._end(name, 0)
        await stream.send_message(_message("StopContainerResponse")())

    def _end(self, name: str, code: int) -> None:
        if self.containers[name].state == RUNNING:
            self.containers[name].state = EXITED
            self.codes[name] = code
            self.ended[name] = time.monotonic()

    async def _exec(self, stream: Any) -> None:
        request = await stream.recv_message()
        self.asked.setdefault(request.container_id, time.monotonic())
        self.log.append(f"exec {request.container_id} {' '.join(request.cmd)}")
        await stream.send_message(_message("ExecSyncResponse")(exit_code=self.exec_code))

    async def _stop_sandbox(self, stream: Any) -> None:
        request = await stream.recv_message()
        self.log.append(f"sandbox {request.pod_sandbox_id}")
        await stream.send_message(_message("StopPodSandboxResponse")())

    async def _sandbox(self, stream: Any) -> None:
        await stream.recv_message()
        network = _message("PodSandboxNetworkStatus")(ip="127.0.0.1")
        status = _message("PodSandboxStatus")(network=network)
        await stream.send_message(_message("PodSandboxStatusResponse")(status=status))
