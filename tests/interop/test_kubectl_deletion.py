"""kubectl delete with every way of grace, wait, and get --watch."""

from __future__ import annotations

import asyncio

import pytest

from kube_fairlead_lab.testing.manifests import config_map, pod
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.interop.conftest import Kubectl

pytestmark = pytest.mark.kube


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


async def test_delete_and_wait(kubectl: Kubectl, api: RawApi, pods: str, pod_keeper: None) -> None:
    (await api.post(pods, pod("p", node_name="n"))).expect(201)
    assert (await kubectl("delete", "pod", "p")).out.startswith('pod "p" deleted')
    (await api.get(f"{pods}/p")).expect(404)


@pytest.mark.parametrize(
    ("flags", "grace"),
    [
        ((), 30),
        (("--grace-period=7",), 7),
        (("--now",), 1),
        (("--grace-period=0",), 1),
        (("--grace-period=-1",), 30),
    ],
)
async def test_graces(kubectl: Kubectl, api: RawApi, pods: str, flags: tuple[str, ...], grace: int) -> None:
    (await api.post(pods, pod("p", node_name="n"))).expect(201)
    await kubectl("delete", "pod", "p", "--wait=false", *flags)
    marked = (await api.get(f"{pods}/p")).expect(200)
    assert marked["metadata"]["deletionGracePeriodSeconds"] == grace
    (await api.delete(f"{pods}/p", gracePeriodSeconds=0)).expect(200)


async def test_by_force(kubectl: Kubectl, api: RawApi, pods: str) -> None:
    (await api.post(pods, pod("p", node_name="n"))).expect(201)
    said = await kubectl("delete", "pod", "p", "--grace-period=0", "--force")
    assert "Immediate deletion does not wait for confirmation" in said.err
    (await api.get(f"{pods}/p")).expect(404)


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
async def test_cascades(kubectl: Kubectl, api: RawApi, namespace: str, cascade: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = (await api.post(path, config_map("owner"))).expect(201)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = (
        await api.post(path, config_map("child", ownerReferences=[{**reference, "blockOwnerDeletion": True}]))
    ).expect(201)
    async with api.watch(path, resourceVersion=child["metadata"]["resourceVersion"]) as watch:
        await kubectl("delete", "configmap", "owner", f"--cascade={cascade}")
        (await api.get(f"{path}/owner")).expect(404)
        if cascade == "background":
            await watch.until(
                lambda event: (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "child")
            )
    assert (await api.get(f"{path}/child")).code == (200 if cascade == "orphan" else 404)


async def test_by_selector_and_all(kubectl: Kubectl) -> None:
    for name in ("a", "b", "c"):
        await kubectl("create", "secret", "generic", name)
    await kubectl("label", "secret", "a", "b", "x=y")
    said = await kubectl("delete", "secrets", "-l", "x=y", "-o", "name")
    assert sorted(said.lines) == ["secret/a", "secret/b"]
    await kubectl("delete", "secrets", "--all")
    assert (await kubectl("get", "secrets")).out == ""
    await kubectl("delete", "secret", "none", "--ignore-not-found")
    said = await kubectl("delete", "secret", "none", code=1)
    assert 'secrets "none" not found' in said.err


async def test_wait_for(kubectl: Kubectl, api: RawApi, pods: str) -> None:
    (await api.post(pods, pod("p", node_name="n"))).expect(201)
    waiting = asyncio.create_task(kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=50s"), name="wait")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    (await api.patch(f"{pods}/p/status", {"status": status})).expect(200)
    assert (await waiting).out == "pod/p condition met\n"
    said = await kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=10s")
    assert said.out == "pod/p condition met\n"
    gone = asyncio.create_task(kubectl("wait", "--for=delete", "pod/p", "--timeout=50s"), name="wait")
    (await api.delete(f"{pods}/p", gracePeriodSeconds=0)).expect(200)
    await gone
    said = await kubectl("wait", "--for=condition=Ready", "pod/none", "--timeout=1s", code=1)
    assert 'pods "none" not found' in said.err


async def test_watch(kubectl: Kubectl, api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    (await api.post(path, {"metadata": {"name": "first"}})).expect(201)
    async with kubectl.following("get", "secrets", "--watch", "--output-watch-events", "--no-headers") as lines:
        assert (await lines.readline()).split()[:2] == [b"ADDED", b"first"]
        (await api.post(path, {"metadata": {"name": "second"}})).expect(201)
        assert (await lines.readline()).split()[:2] == [b"ADDED", b"second"]
        (await api.patch(f"{path}/second", {"stringData": {"k": "v"}})).expect(200)
        assert (await lines.readline()).split()[:4] == [b"MODIFIED", b"second", b"Opaque", b"1"]
        (await api.delete(f"{path}/first")).expect(200)
        assert (await lines.readline()).split()[:2] == [b"DELETED", b"first"]


async def test_watch_one_in_json(kubectl: Kubectl, api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    (await api.post(path, config_map("a"))).expect(201)
    async with kubectl.following(
        "get", "configmap", "a", "--watch", "-o", "jsonpath={.metadata.name}:{.data.k}{'\\n'}"
    ) as lines:
        assert await lines.readline() == b"a:\n"
        # kubectl begins its watch after that and drops the first event of it, which shows the object as it then is. A
        # change that comes before is in that event, so others follow until one is shown.
        shown = asyncio.ensure_future(lines.readline())
        written: list[bytes] = []
        while not shown.done():
            written.append(f"a:{len(written)}\n".encode())
            (await api.patch(f"{path}/a", {"data": {"k": str(len(written) - 1)}})).expect(200)
            await asyncio.wait([shown], timeout=1)
        assert shown.result() in written


async def test_delete_a_namespace(kubectl: Kubectl, unique_name: object) -> None:
    assert callable(unique_name)
    name = unique_name("space")
    await kubectl("create", "namespace", name)
    await kubectl("create", "configmap", "a", f"--namespace={name}")
    said = await kubectl("delete", "namespace", name)
    assert said.out.startswith(f'namespace "{name}" deleted')
    assert (await kubectl("get", "namespace", name, code=1)).err.startswith("Error from server (NotFound)")
