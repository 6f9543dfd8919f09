"""A program on client-go: informers, controllers, the dynamic client, elections, server-side apply, eviction."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import config_map, custom_resource_definition, pod, secret
from kube_fairlead_lab.testing.rawhttp import RawApi, RawWatch
from tests.goprograms import go_program

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("go-controller")]

SOURCES = Path(__file__).with_name("gocontroller")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LINE_SECONDS = 25

Json = dict[str, Any]


class Told:
    """What a running program tells, line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def next(self) -> Json:
        assert self._process.stdout is not None
        async with asyncio.timeout(LINE_SECONDS):
            line = await self._process.stdout.readline()
        assert line, "the program ended"
        told: Json = json.loads(line)
        return told

    async def until(self, **wanted: Any) -> Json:
        """The first line that has all of these."""
        while True:
            told = await self.next()
            if wanted.items() <= told.items():
                return told

    async def finish(self) -> list[Json]:
        """Ask it to end by closing its input; what it still had to tell."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        async with asyncio.timeout(LINE_SECONDS):
            left = await self._process.stdout.read()
            assert await self._process.wait() == 0
        return [json.loads(line) for line in left.splitlines()]


class ClientGo:
    """The program, in one namespace of one server."""

    def __init__(self, binary: Path, kubeconfig: Path, namespace: str) -> None:
        self._prefix = [str(binary), f"-kubeconfig={kubeconfig}", f"-namespace={namespace}"]

    async def __call__(self, job: str, *arguments: str) -> list[Json]:
        """Run a job that ends by itself."""
        process = await asyncio.create_subprocess_exec(
            *self._prefix,
            job,
            *arguments,
            stdin=asyncio.subprocess.PIPE,  # held open: the end of its input would end the job
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(LINE_SECONDS):
                out, err = await process.stdout.read(), await process.stderr.read()
                code = await process.wait()
        finally:
            await _end(process)
        assert code == 0, f"{job} exited {code}: {out.decode()}{err.decode()}"
        return [json.loads(line) for line in out.splitlines()]

    @contextlib.asynccontextmanager
    async def following(self, job: str, *arguments: str) -> AsyncIterator[Told]:
        """Run a job that goes on by itself, and end it by force at the latest here."""
        process = await asyncio.create_subprocess_exec(
            *self._prefix, job, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        try:
            yield Told(process)
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.communicate()


@pytest.fixture(scope="session")
def binary() -> Path:
    return go_program(SOURCES)


@pytest.fixture
def client_go(binary: Path, control_plane: ControlPlane, namespace: str) -> ClientGo:
    return ClientGo(binary, control_plane.kubeconfig, namespace)


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


async def test_a_typed_informer(client_go: ClientGo, api: RawApi, pods: str) -> None:
    (await api.post(pods, pod("before"))).expect(201)
    async with client_go.following("inform") as told:
        assert (await told.until(event="added"))["name"] == "before"
        assert await told.until(event="synced") == {"event": "synced", "names": ["before"]}
        (await api.post(pods, pod("p", labels={"app": "x"}))).expect(201)
        seen = await told.next()
        assert seen == {
            "event": "added",
            "name": "p",
            "labels": {"app": "x"},
            "type": "*v1.Pod",
            "phase": "Pending",
            "image": "registry.k8s.io/pause:3.10",
        }
        (await api.patch(f"{pods}/p/status", {"status": {"phase": "Running"}})).expect(200)
        assert await told.next() == {**seen, "event": "updated", "phase": "Running"}
        (await api.delete(f"{pods}/p", gracePeriodSeconds=0)).expect(200)
        assert (await told.until(event="deleted"))["name"] == "p"
        assert await told.finish() == []


async def test_an_informer_outlives_the_server(
    binary: Path, isolated_control_plane: ControlPlane, unique_name: Callable[[str], str]
) -> None:
    namespace = unique_name("space")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    async with RawApi(isolated_control_plane.access()) as api:
        (await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})).expect(201)
        (await api.post(path, config_map("kept"))).expect(201)
        (await api.post(path, config_map("lost"))).expect(201)
    async with ClientGo(binary, isolated_control_plane.kubeconfig, namespace).following("metadata") as told:
        assert {await _come_or_gone(told), await _come_or_gone(told)} == {("added", "kept"), ("added", "lost")}
        await isolated_control_plane.restart(hard=True)
        async with RawApi(isolated_control_plane.access()) as api:
            (await api.delete(f"{path}/lost")).expect(200)
            (await api.post(path, config_map("new"))).expect(201)
        assert {await _come_or_gone(told), await _come_or_gone(told)} == {("deleted", "lost"), ("added", "new")}


async def _come_or_gone(told: Told) -> tuple[str, str]:
    """The next object that came or went.

    An informer that lists anew also tells of updates that changed nothing, and certificates are published at any time.
    """
    while True:
        line = await told.next()
        if line["event"] in {"added", "deleted"} and line["name"] != "kube-root-ca.crt":
            return line["event"], line["name"]


async def test_metadata_alone(client_go: ClientGo, api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    async with client_go.following("metadata") as told:
        await told.until(event="synced")
        (await api.post(path, config_map("a", {"k": "v"}, labels={"l": "m"}))).expect(201)
        seen = await told.until(event="added", name="a")
        assert (seen["type"], seen["labels"]) == ("*v1.PartialObjectMetadata", {"l": "m"})
        (await api.delete(f"{path}/a")).expect(200)
        await told.until(event="deleted", name="a")


async def test_a_controller(client_go: ClientGo, api: RawApi, namespace: str, pods: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    async with client_go.following("controller") as told:
        (await api.post(pods, pod("p", labels={"copy": "me"}))).expect(201)
        assert await told.next() == {"event": "copied", "name": "p"}
        made = (await api.get(f"{maps}/p")).expect(200)
        assert made["data"] == {"copy": "me"}
        version = made["metadata"]["resourceVersion"]
        async with api.watch(maps, fieldSelector="metadata.name=p", resourceVersion=version) as watch:
            (await api.delete(f"{pods}/p", gracePeriodSeconds=0)).expect(200)
            await watch.until(lambda event: event["type"] == "DELETED")
        assert await told.finish() == []


async def test_the_dynamic_client(client_go: ClientGo, api: RawApi, namespace: str) -> None:
    group = f"{namespace}.example.com"
    sized = {"type": "object", "properties": {"size": {"type": "integer"}}}
    manifest = custom_resource_definition(
        "widgets", group, kind="Widget", spec_schema=sized, version={"subresources": {"status": {}}}
    )
    (await api.post(CRDS, manifest)).expect(201)
    await api.poll(f"/apis/{group}/v1/widgets", lambda answer: answer.code == 200)
    told = await client_go("dynamic", group)
    assert told == [
        {"step": "mapped", "resource": f"{group}/v1, Resource=widgets", "scope": "namespace"},
        {"step": "made", "spec": {"size": 1}, "generation": 1},
        {"step": "status", "status": {"mood": "Good"}, "generation": 1},
        {"step": "stale", "refusal": {"code": 409, "reason": "Conflict", "causes": []}},
        {"step": "patched", "spec": {"size": 2}, "generation": 2},
        {"step": "invalid", "refusal": {"code": 422, "reason": "Invalid", "causes": ["FieldValueTypeInvalid"]}},
        {"step": "gone"},
    ]
    (await api.delete(f"{CRDS}/widgets.{group}")).expect(200)


async def test_discovery(client_go: ClientGo, control_plane: ControlPlane) -> None:
    (told,) = await client_go("discover")
    assert told["major"] == "1"
    assert {"pods", "deployments.apps", "leases.coordination.k8s.io"} <= set(told["collectable"])
    assert told["documents"] > 10


async def test_leader_election(client_go: ClientGo, api: RawApi, namespace: str) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    async with api.watch(leases) as watch, client_go.following("elect", "crown", "first") as first:
        await first.until(event="leading")
        assert await renewed(watch, "first") == 0
        async with client_go.following("elect", "crown", "second") as second:
            assert await second.next() == {"event": "leader", "identity": "first"}
            left = await first.finish()
            assert left[-1] == {"event": "stopped", "identity": "first"}
            # Released, not run out: that would take the 15 seconds of the lease.
            await second.until(event="leading")
            assert await renewed(watch, "second") == 1
            await second.finish()
    # As client-go releases: an empty holder, for one second.
    released = (await api.get(f"{leases}/crown")).expect(200)["spec"]
    assert (released.get("holderIdentity", ""), released["leaseDurationSeconds"]) == ("", 1)


async def renewed(watch: RawWatch, holder: str) -> int:
    """How often the lease has changed hands, once its holder has renewed it.

    A candidate renews as soon as it leads. Stopped in the middle of that, client-go knows an old version of the Lease
    and cannot release it, whatever the server; from then on there is a second's time.
    """

    def wanted(event: Json) -> bool:
        spec = event["object"]["spec"]
        return bool(spec.get("holderIdentity") == holder and spec["renewTime"] != spec["acquireTime"])

    return int((await watch.until(wanted))["object"]["spec"]["leaseTransitions"])


async def test_server_side_apply(client_go: ClientGo) -> None:
    *steps, deployment = await client_go("apply")
    assert steps == [
        {"step": "made", "data": {"a": "1", "b": "1"}},
        {"step": "conflict", "refusal": {"code": 409, "reason": "Conflict", "causes": ["FieldManagerConflict"]}},
        {"step": "forced", "data": {"a": "2", "b": "1"}},
        {"step": "given up", "data": {"a": "2"}},
    ]
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "main", "image": "a:1"}]}}
    assert deployment == {
        "step": "deployment",
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": template},
        "strategy": "RollingUpdate",
    }


async def test_eviction(client_go: ClientGo, api: RawApi, namespace: str, pods: str) -> None:
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    for name in ("free", "guarded"):
        (await api.post(pods, pod(name, labels={"app": name}))).expect(201)
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        (await api.patch(f"{pods}/{name}/status", {"status": running})).expect(200)
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}}
    async with api.watch(budgets) as watch:
        (await api.post(budgets, budget)).expect(201)
        await watch.until(lambda event: event["object"].get("status", {}).get("currentHealthy") == 1)
    told = await client_go("evict", "free", "guarded", "missing")
    blocked = {"code": 429, "reason": "TooManyRequests", "causes": ["DisruptionBudget"]}
    assert told == [
        {"name": "free", "evicted": True},
        {"name": "guarded", "evicted": False, "refusal": blocked},
        {
            "name": "missing",
            "evicted": False,
            "refusal": {"code": 404, "reason": "NotFound", "causes": []},
        },
    ]


async def test_pages(client_go: ClientGo, api: RawApi, namespace: str) -> None:
    for number in range(5):
        (await api.post(f"/api/v1/namespaces/{namespace}/secrets", secret(f"s{number}"))).expect(201)
    assert await client_go("page") == [{"pages": 3, "names": ["s0", "s1", "s2", "s3", "s4"]}]


async def test_events_are_counted(client_go: ClientGo, api: RawApi, namespace: str) -> None:
    (await api.post(f"/api/v1/namespaces/{namespace}/configmaps", config_map("subject"))).expect(201)
    event = {"reason": "Tried", "about": "subject"}
    assert await client_go("record", "subject") == [
        {"change": "ADDED", "count": 1, **event},
        {"change": "MODIFIED", "count": 2, **event},
    ]


async def test_typed_objects_arrive_as_they_were_sent(client_go: ClientGo) -> None:
    told = await client_go("typed")
    node = {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}
    app = {"matchLabels": {"app": "typed"}}
    assert told == [
        {"kind": "Secret", "bytes": "AH//", "annotations": {"who": "Zoë"}, "type": "Opaque"},
        {"kind": "Deployment", "replicas": 0, "rolling": {"maxSurge": 2, "maxUnavailable": "10%"}},
        {
            "kind": "Container",
            "requests": {"cpu": "250m", "memory": "1536Mi"},
            "port": "web",
            "env": [{"name": "NODE", "valueFrom": node}],
        },
        {"kind": "PodDisruptionBudget", "spec": {"selector": app, "maxUnavailable": "50%"}},
        {"kind": "Lease", "spec": {"holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.678901Z"}},
        {"kind": "Scale", "replicas": 3},
        {"step": "stale", "refusal": {"code": 409, "reason": "Conflict", "causes": []}},
        {"step": "not that one", "refusal": {"code": 409, "reason": "Conflict", "causes": []}},
    ]
