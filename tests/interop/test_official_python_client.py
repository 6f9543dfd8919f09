"""What operators build on the official Python client: elections, informers, pages, apply, its asyncio half.

`test_python_client` has the plain verbs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import aio, client, config, informer, utils
from kubernetes.client.exceptions import ApiException

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.rawhttp import RawApi

# The client's own code warns on current Python and libraries; that is not ours to fail on.
pytestmark = pytest.mark.filterwarnings("default")

# Half of the client has no types, the other half has everything optional: here it is used as its users do.
untyped: Any = config
informers: Any = informer
files: Any = utils
asynchronous: Any = aio
typed: Any = client

CANDIDATE = Path(__file__).with_name("election_candidate.py")
WAIT_SECONDS = 25


@pytest.fixture
def official(control_plane: ControlPlane) -> Iterator[Any]:
    made = untyped.new_client_from_config(config_file=str(control_plane.kubeconfig))
    yield made
    made.close()


@contextlib.asynccontextmanager
async def candidate(plane: ControlPlane, namespace: str, identity: str) -> AsyncIterator[asyncio.StreamReader]:
    """A candidate for the Lease `crown`: its lines; it ends without a word, as a machine without power."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(CANDIDATE),
        "crown",
        namespace,
        identity,
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            yield process.stdout
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def test_an_election(control_plane: ControlPlane, api: RawApi, namespace: str) -> None:
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/crown"
    async with contextlib.AsyncExitStack() as second_term:
        async with candidate(control_plane, namespace, "first") as first:
            assert await first.readline() == b"leading\n"
            second = await second_term.enter_async_context(candidate(control_plane, namespace, "second"))
            assert (await api.get(lease)).expect(200)["spec"]["holderIdentity"] == "first"
        assert await second.readline() == b"leading\n"
        assert (await api.get(lease)).expect(200)["spec"]["holderIdentity"] == "second"


async def test_an_informer(official: Any, namespace: str) -> None:
    core = typed.CoreV1Api(official)

    def work() -> None:
        seen: queue.Queue[tuple[str, str]] = queue.Queue()
        core.create_namespaced_secret(namespace, {"metadata": {"name": "before"}})
        following = informers.SharedInformer(core.list_namespaced_secret, namespace=namespace)
        for event in ("ADDED", "MODIFIED", "DELETED"):
            following.add_event_handler(event, lambda made, event=event: seen.put((event, made.metadata.name)))
        following.start()
        assert seen.get(timeout=WAIT_SECONDS) == ("ADDED", "before")
        core.create_namespaced_secret(namespace, {"metadata": {"name": "s"}})
        core.patch_namespaced_secret("s", namespace, {"stringData": {"k": "v"}})
        assert [seen.get(timeout=WAIT_SECONDS) for _ in range(2)] == [("ADDED", "s"), ("MODIFIED", "s")]
        assert following.cache.get_by_key(f"{namespace}/s").data == {"k": "dg=="}
        core.delete_namespaced_secret("s", namespace)
        assert seen.get(timeout=WAIT_SECONDS) == ("DELETED", "s")
        # It notices that it was stopped only when its watch has something to say.
        core.delete_namespaced_secret("before", namespace)
        following.stop()

    await asyncio.to_thread(work)


async def test_pages(official: Any, namespace: str) -> None:
    core = typed.CoreV1Api(official)

    def work() -> None:
        for number in range(5):
            core.create_namespaced_secret(namespace, {"metadata": {"name": f"s{number}"}})
        names: list[str] = []
        remaining: list[int | None] = []
        more: dict[str, str] = {}
        while len(remaining) == len(names) // 2:  # every page but the last is full
            page = core.list_namespaced_secret(namespace, limit=2, **more)
            names += [item.metadata.name for item in page.items]
            remaining.append(page.metadata.remaining_item_count)
            more = {"_continue": page.metadata._continue}
        assert names == ["s0", "s1", "s2", "s3", "s4"]
        assert remaining == [3, 1, None]

    await asyncio.to_thread(work)


async def test_what_was_read_can_be_written_back(official: Any, namespace: str) -> None:
    """The client spells times as Python does (`+00:00`): the server must know them again, and change nothing."""
    core, coordination = typed.CoreV1Api(official), typed.CoordinationV1Api(official)

    def work() -> None:
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "a:1"}]}}
        core.create_namespaced_pod(namespace, pod)
        since = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z"}
        core.patch_namespaced_pod_status("p", namespace, {"status": {"conditions": [since]}})
        read = core.read_namespaced_pod("p", namespace)
        assert core.replace_namespaced_pod("p", namespace, read).metadata == read.metadata
        written = core.replace_namespaced_pod_status("p", namespace, read)
        assert written.metadata.resource_version == read.metadata.resource_version
        lease = {"metadata": {"name": "l"}, "spec": {"renewTime": "2026-01-02T03:04:05.678901+01:00"}}
        coordination.create_namespaced_lease(namespace, lease)
        held = coordination.read_namespaced_lease("l", namespace)
        assert held.spec.renew_time.isoformat() == "2026-01-02T02:04:05.678901+00:00"
        assert coordination.replace_namespaced_lease("l", namespace, held).metadata == held.metadata

    await asyncio.to_thread(work)


async def test_every_kind_of_patch(official: Any, namespace: str) -> None:
    apps = typed.AppsV1Api(official)
    container = {"name": "main", "image": "a:1"}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}

    def images(patch: Any, content_type: str) -> dict[str, str]:
        made = apps.patch_namespaced_deployment("d", namespace, patch, _content_type=content_type)
        return {entry.name: entry.image for entry in made.spec.template.spec.containers}

    def work() -> None:
        apps.create_namespaced_deployment(namespace, {"metadata": {"name": "d"}, "spec": spec})
        side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "b:1"}]}}}}
        merged = images(side, "application/strategic-merge-patch+json")
        assert merged == {"main": "a:1", "side": "b:1"}
        assert images(side, "application/merge-patch+json") == {"side": "b:1"}
        step = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "b:2"}]
        assert images(step, "application/json-patch+json") == {"side": "b:2"}
        wrong = [{"op": "test", "path": "/spec/replicas", "value": 7}]
        with pytest.raises(ApiException) as refused:
            images(wrong, "application/json-patch+json")
        assert refused.value.status == 422

    await asyncio.to_thread(work)


async def test_objects_of_a_file(official: Any, namespace: str, tmp_path: Path) -> None:
    manifest = tmp_path / "two.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  k: v\n---\n"
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: two\nspec:\n  ports:\n  - port: 80\n",
        encoding="utf-8",
    )

    def work() -> None:
        files.create_from_yaml(official, str(manifest), namespace=namespace)
        with pytest.raises(utils.FailToCreateError) as twice:
            files.create_from_yaml(official, str(manifest), namespace=namespace)
        assert {error.status for error in twice.value.api_exceptions} == {409}
        files.create_from_yaml(official, str(manifest), namespace=namespace, apply=True)
        core = typed.CoreV1Api(official)
        assert core.read_namespaced_service("two", namespace).spec.ports[0].target_port == 80
        managers = core.read_namespaced_config_map("one", namespace).metadata.managed_fields
        assert {entry.operation for entry in managers} == {"Apply", "Update"}

    await asyncio.to_thread(work)


async def test_its_asyncio_half(control_plane: ControlPlane, namespace: str) -> None:
    made = await asynchronous.config.new_client_from_config(config_file=str(control_plane.kubeconfig))
    async with made, asyncio.timeout(WAIT_SECONDS):
        core = asynchronous.client.CoreV1Api(made)
        version = (await core.list_namespaced_secret(namespace)).metadata.resource_version
        await core.create_namespaced_secret(namespace, {"metadata": {"name": "s"}})
        await core.delete_namespaced_secret("s", namespace)
        told = []
        watcher = asynchronous.watch.Watch()
        async for event in watcher.stream(core.list_namespaced_secret, namespace, resource_version=version):
            told.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                break
        await watcher.close()
    assert told == [("ADDED", "s"), ("DELETED", "s")]
