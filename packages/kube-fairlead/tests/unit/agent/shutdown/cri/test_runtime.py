from __future__ import annotations

import asyncio
import json
import pathlib
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import grpclib.server
import pytest

from kube_fairlead.agent.shutdown.cri.calls import CriCalls, unix_socket
from kube_fairlead.agent.shutdown.cri.runtime import CriRuntime
from kube_fairlead.agent.shutdown.pod_runtime import RunningPod, RuntimeFailed
from kube_fairlead.base.clock import RealClock, VirtualClock
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from tests.unit.agent.shutdown.cri.fakeruntime import FakeRuntime


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
    return CriRuntime(CriCalls(unix_socket(fake.path), RealClock()), RealClock())


def ignore(name: str, end: ContainerEnd) -> None:
    del name, end


def a_pod(uid: str) -> RunningPod:
    return RunningPod(uid=uid, namespace="default", name=f"pod-{uid}")


async def test_pods_are_found_by_what_the_kubelet_wrote_on_their_containers(
    fake: FakeRuntime, runtime: CriRuntime
) -> None:
    fake.add("a", "1", {"io.kubernetes.pod.terminationGracePeriod": "7"})
    fake.add("b", "1")
    fake.add("c", "2")
    fake.add("foreign", "")
    assert list(await runtime.running()) == [
        RunningPod(uid="1", namespace="default", name="pod-1", grace_seconds=7),
        RunningPod(uid="2", namespace="default", name="pod-2"),
    ]


async def test_a_pod_ends_with_all_its_containers_and_its_sandbox_afterwards(
    fake: FakeRuntime, runtime: CriRuntime
) -> None:
    fake.add("a", "1")
    fake.add("b", "1")
    fake.add("other", "2")
    ends = await runtime.end(a_pod("1"), grace_seconds=30, hooks={}, on_exit=ignore)
    assert {name: (end.exit_code, end.words) for name, end in ends.items()} == {
        "a": (0, "Completed"),
        "b": (0, "Completed"),
    }
    assert sorted(fake.log) == ["stop a 30", "stop b 30"]
    await runtime.tear_down(a_pod("1"))
    assert fake.log[2:] == ["sandbox sandbox-1"]
    assert [pod.uid for pod in await runtime.running()] == ["2"]


async def test_a_container_that_does_not_end_in_its_time_is_killed(fake: FakeRuntime, runtime: CriRuntime) -> None:
    fake.add("a", "1", needs=60)
    ends = await runtime.end(a_pod("1"), grace_seconds=0.3, hooks={}, on_exit=ignore)
    assert ends["a"].exit_code == 137
    assert fake.log[:2] == ["stop a 1", "stop a 0"]


async def test_without_any_time_it_is_killed_at_once(fake: FakeRuntime, runtime: CriRuntime) -> None:
    fake.add("a", "1", needs=60)
    ends = await runtime.end(a_pod("1"), grace_seconds=0, hooks={"a": {"exec": {"command": ["x"]}}}, on_exit=ignore)
    assert ends["a"].exit_code == 137
    assert fake.log[0] == "stop a 0"


@pytest.mark.parametrize("code", [0, 1])
async def test_a_hook_runs_before_the_signal_and_its_failure_is_ignored(
    fake: FakeRuntime, runtime: CriRuntime, code: int
) -> None:
    fake.exec_code = code
    fake.add("a", "1")
    await runtime.end(
        a_pod("1"), grace_seconds=30, hooks={"a": {"exec": {"command": ["sh", "-c", "bye"]}}}, on_exit=ignore
    )
    assert fake.log[:2] == ["exec a sh -c bye", "stop a 30"]


async def test_the_kubelets_annotated_hook_runs_for_an_unknown_pod(fake: FakeRuntime, runtime: CriRuntime) -> None:
    noted = json.dumps({"exec": {"command": ["bye"]}})
    fake.add("a", "1", {"io.kubernetes.container.preStopHandler": noted})
    fake.add("b", "1", {"io.kubernetes.container.preStopHandler": "{"})
    await runtime.end(a_pod("1"), grace_seconds=30, hooks={}, on_exit=ignore)
    assert "exec a bye" in fake.log


async def test_a_hook_that_takes_too_long_takes_the_time_of_its_container_only(
    fake: FakeRuntime, runtime: CriRuntime
) -> None:
    fake.add("a", "1")
    ends = await runtime.end(a_pod("1"), grace_seconds=0.3, hooks={"a": {"sleep": {"seconds": 60}}}, on_exit=ignore)
    assert ends["a"].exit_code == 137


@pytest.mark.parametrize("scheme", ["HTTP", "HTTPS"])
async def test_a_hook_can_be_a_request(
    fake: FakeRuntime, runtime: CriRuntime, scheme: str, tmp_path: pathlib.Path
) -> None:
    tls = None
    if scheme == "HTTPS":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*CertificateAuthority.create(tmp_path / "unknown").serving("server"))
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 500 no\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    fake.add("a", "1")
    request = {"path": "bye", "port": port, "scheme": scheme}
    await runtime.end(a_pod("1"), grace_seconds=30, hooks={"a": {"httpGet": request}}, on_exit=ignore)
    assert asked == [b"GET /bye HTTP/1.1\r\n"]
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("request_", [{"port": "web"}, {"port": 1}, {"port": 80, "path": "/\r\nX: y"}])
async def test_a_request_that_cannot_be_sent_is_ignored(
    fake: FakeRuntime, runtime: CriRuntime, request_: dict[str, Any]
) -> None:
    fake.add("a", "1")
    ends = await runtime.end(a_pod("1"), grace_seconds=30, hooks={"a": {"httpGet": request_}}, on_exit=ignore)
    assert ends["a"].exit_code == 0


async def test_a_failing_runtime_raises_its_error(fake: FakeRuntime, runtime: CriRuntime) -> None:
    fake.refusal = "no disk"
    with pytest.raises(RuntimeFailed, match="ListContainers: no disk"):
        await runtime.running()
    nobody = CriRuntime(CriCalls(unix_socket("/nowhere/cri.sock"), RealClock()), RealClock())
    with pytest.raises(RuntimeFailed, match="cannot connect"):
        await nobody.running()


async def test_a_container_that_cannot_be_stopped_is_no_reason_to_leave_the_others(
    fake: FakeRuntime, runtime: CriRuntime
) -> None:
    fake.add("a", "1")
    fake.add("b", "1")
    fake.unstoppable = {"a"}
    known: list[tuple[str, int]] = []
    with pytest.raises(RuntimeFailed, match="StopContainer: no shim"):
        await runtime.end(
            a_pod("1"), grace_seconds=30, hooks={}, on_exit=lambda name, end: known.append((name, end.exit_code))
        )
    assert fake.codes == {"b": 0}
    assert known == [("b", 0)]


async def test_the_runtime_returns_how_an_unobserved_pod_ended(fake: FakeRuntime, runtime: CriRuntime) -> None:
    fake.add("a", "1")
    fake.add("other", "2")
    assert await runtime.ended(a_pod("1")) == {}
    await runtime.end(a_pod("1"), grace_seconds=0, hooks={}, on_exit=ignore)
    assert {name: end.exit_code for name, end in (await runtime.ended(a_pod("1"))).items()} == {"a": 137}
    assert await runtime.ended(a_pod("3")) == {}


async def test_a_pod_that_ends_by_itself_a_moment_before_keeps_its_exit_code(
    fake: FakeRuntime, runtime: CriRuntime
) -> None:
    fake.add("a", "1")
    fake.containers["a"].state, fake.codes["a"] = 2, 7
    ends = await runtime.end(a_pod("1"), grace_seconds=30, hooks={}, on_exit=ignore)
    assert {name: end.exit_code for name, end in ends.items()} == {"a": 7}


@pytest.mark.parametrize(
    ("call", "seconds"),
    [
        (lambda calls: calls.running_containers(), 5),
        (lambda calls: calls.status("a"), 5),
        (lambda calls: calls.stop_sandbox("a"), 5),
        (lambda calls: calls.stop("a", 30), 35),
        (lambda calls: calls.execute("a", ["true"], 7), 12),
    ],
)
async def test_every_call_has_a_time_of_its_own(
    call: Callable[[CriCalls], Coroutine[Any, Any, object]], seconds: float
) -> None:
    """A runtime that takes calls and never answers."""
    clock = VirtualClock()

    async def hang(_method: str, _request: bytes, _timeout_seconds: float | None) -> bytes:
        await asyncio.Event().wait()
        return b""

    waiting = asyncio.ensure_future(call(CriCalls(hang, clock)))
    await clock.advance(seconds - 0.1)
    assert not waiting.done()
    await clock.advance(0.2)
    with pytest.raises(RuntimeFailed, match=f"no answer for {seconds:g} s"):
        await waiting
