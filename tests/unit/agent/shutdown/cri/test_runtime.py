from __future__ import annotations

import asyncio
import json
import pathlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import grpclib.const
import grpclib.server
import pytest
from grpclib import GRPCError, Status

from fairlead.agent.shutdown.cri.calls import CriCalls, _message, unix_socket
from fairlead.agent.shutdown.cri.runtime import CriRuntime
from fairlead.agent.shutdown.ending import RunningPod, RuntimeFailed
from fairlead.base.clock import RealClock

RUNNING, EXITED = 1, 2


class FakeRuntime:
    """A container runtime on a real socket, whose containers end as they are told to."""

    def __init__(self) -> None:
        self.containers: dict[str, Any] = {}
        self.needs: dict[str, float] = {}
        self.codes: dict[str, int] = {}
        self.log: list[str] = []
        self.exec_code = 0
        self.refusal = ""
        self.path = ""

    def add(self, name: str, uid: str, annotations: dict[str, str] | None = None, *, needs: float = 0.0) -> None:
        labels = {"io.kubernetes.pod.uid": uid, "io.kubernetes.pod.name": f"pod-{uid}"}
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
        found = [one for one in self.containers.values() if one.state == request.filter.state.state]
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
        if request.timeout == 0:
            self._end(name, 137)
        else:
            await asyncio.sleep(self.needs[name])
            self._end(name, 0)
        await stream.send_message(_message("StopContainerResponse")())

    def _end(self, name: str, code: int) -> None:
        if self.containers[name].state == RUNNING:
            self.containers[name].state = EXITED
            self.codes[name] = code

    async def _exec(self, stream: Any) -> None:
        request = await stream.recv_message()
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


@pytest.fixture
async def fake() -> AsyncIterator[FakeRuntime]:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fl-"))
    made = FakeRuntime()
    made.path = str(folder / "cri.sock")
    server = grpclib.server.Server([made])
    await server.start(path=made.path)
    yield made
    server.close()
    await server.wait_closed()
    shutil.rmtree(folder)


@pytest.fixture
def runtime(fake: FakeRuntime) -> CriRuntime:
    return CriRuntime(CriCalls(unix_socket(fake.path)), RealClock())


def a_pod(uid: str) -> RunningPod:
    return RunningPod(uid=uid, namespace="default", name=f"pod-{uid}")


async def test_pods_are_found_by_what_the_kubelet_wrote_on_their_containers(
    fake: FakeRuntime, runtime: CriRuntime
) -> None:
    fake.add("a", "1", {"io.kubernetes.pod.terminationGracePeriod": "7"})
    fake.add("b", "1")
    fake.add("c", "2")
    fake.add("somebody's", "")
    assert list(await runtime.running()) == [
        RunningPod(uid="1", namespace="default", name="pod-1", grace_seconds=7),
        RunningPod(uid="2", namespace="default", name="pod-2"),
    ]


async def test_a_pod_ends_with_all_its_containers_and_then_its_sandbox(fake: FakeRuntime, runtime: CriRuntime) -> None:
    fake.add("a", "1")
    fake.add("b", "1")
    fake.add("other", "2")
    ends = await runtime.end(a_pod("1"), grace_seconds=30, hooks={})
    assert {name: (end.exit_code, end.words) for name, end in ends.items()} == {
        "a": (0, "Completed"),
        "b": (0, "Completed"),
    }
    assert sorted(fake.log) == ["sandbox sandbox-1", "stop a 30", "stop b 30"]
    assert fake.log[-1] == "sandbox sandbox-1"
    assert [pod.uid for pod in await runtime.running()] == ["2"]


async def test_a_container_that_does_not_end_in_its_time_is_killed(fake: FakeRuntime, runtime: CriRuntime) -> None:
    fake.add("a", "1", needs=60)
    ends = await runtime.end(a_pod("1"), grace_seconds=0.3, hooks={})
    assert ends["a"].exit_code == 137
    assert fake.log[:2] == ["stop a 1", "stop a 0"]


async def test_without_any_time_it_is_killed_at_once(fake: FakeRuntime, runtime: CriRuntime) -> None:
    fake.add("a", "1", needs=60)
    ends = await runtime.end(a_pod("1"), grace_seconds=0, hooks={"a": {"exec": {"command": ["x"]}}})
    assert ends["a"].exit_code == 137
    assert fake.log[0] == "stop a 0"


@pytest.mark.parametrize("code", [0, 1])
async def test_a_hook_runs_before_the_signal_and_its_failure_stops_nobody(
    fake: FakeRuntime, runtime: CriRuntime, code: int
) -> None:
    fake.exec_code = code
    fake.add("a", "1")
    await runtime.end(a_pod("1"), grace_seconds=30, hooks={"a": {"exec": {"command": ["sh", "-c", "bye"]}}})
    assert fake.log[:2] == ["exec a sh -c bye", "stop a 30"]


async def test_the_hook_that_the_kubelet_noted_runs_for_a_pod_that_nobody_knows(
    fake: FakeRuntime, runtime: CriRuntime
) -> None:
    noted = json.dumps({"exec": {"command": ["bye"]}})
    fake.add("a", "1", {"io.kubernetes.container.preStopHandler": noted})
    fake.add("b", "1", {"io.kubernetes.container.preStopHandler": "{"})
    await runtime.end(a_pod("1"), grace_seconds=30, hooks={})
    assert "exec a bye" in fake.log


async def test_a_hook_that_takes_too_long_takes_the_time_of_its_container_only(
    fake: FakeRuntime, runtime: CriRuntime
) -> None:
    fake.add("a", "1")
    ends = await runtime.end(a_pod("1"), grace_seconds=0.3, hooks={"a": {"sleep": {"seconds": 60}}})
    assert ends["a"].exit_code == 137


async def test_a_hook_can_be_a_request(fake: FakeRuntime, runtime: CriRuntime) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 500 no\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    fake.add("a", "1")
    await runtime.end(a_pod("1"), grace_seconds=30, hooks={"a": {"httpGet": {"path": "bye", "port": port}}})
    assert asked == [b"GET /bye HTTP/1.1\r\n"]
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("request_", [{"port": "web"}, {"port": 1}, {"port": 80, "path": "/\r\nX: y"}])
async def test_a_request_that_cannot_be_sent_stops_nobody(
    fake: FakeRuntime, runtime: CriRuntime, request_: dict[str, Any]
) -> None:
    fake.add("a", "1")
    ends = await runtime.end(a_pod("1"), grace_seconds=30, hooks={"a": {"httpGet": request_}})
    assert ends["a"].exit_code == 0


async def test_a_runtime_that_fails_is_said_to(fake: FakeRuntime, runtime: CriRuntime) -> None:
    fake.refusal = "no disk"
    with pytest.raises(RuntimeFailed, match="ListContainers: no disk"):
        await runtime.running()
    nobody = CriRuntime(CriCalls(unix_socket("/nowhere/cri.sock")), RealClock())
    with pytest.raises(RuntimeFailed, match="cannot connect"):
        await nobody.running()
