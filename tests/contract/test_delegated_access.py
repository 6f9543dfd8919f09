"""Every long-running component, run as installed: TLS, probes without a token, metrics for those who may get them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kube_fairlead.cloud.enforcement import Manager
from kube_fairlead.install import bundle
from kube_fairlead.install.installation import AGENT, CLAIMER, DRAIN, MANAGER, NAMESPACE, Installation
from kube_fairlead_lab.testing import Access, ControlPlane
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.ports import ReservedPort
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.installed import CLOCK, HERE, install
from tests.planes import BOTH, make_plane

Json = dict[str, Any]

CLOUD = Manager(provider="static", platforms=frozenset({"on-prem"}), namespace=NAMESPACE)
PLAN = Installation(claimer=True, clouds=(CLOUD,))
COMPONENTS = [MANAGER, CLAIMER, AGENT, DRAIN, "fairlead-webhook", CLOUD.name]
SCRAPER = "scraper"
INSTANCE = "uid"


@pytest.fixture(scope="module", params=BOTH)
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    for made in watch_over(request.config, make_plane(request.param, tmp_path_factory.mktemp(request.param))):
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(prepare(made))
        yield made


async def prepare(plane: ControlPlane, plan: Installation = PLAN) -> None:
    await install(plane, plan)
    async with RawApi(plane.access(), timeout_seconds=120) as admin:
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        (await admin.post(accounts, {"metadata": {"name": SCRAPER}})).expect(201)
        binding = {
            "metadata": {"name": SCRAPER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fairlead-metrics"},
            "subjects": [{"kind": "ServiceAccount", "name": SCRAPER, "namespace": NAMESPACE}],
        }
        (await admin.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)).expect(201)


@pytest.fixture
async def admin(plane: ControlPlane) -> AsyncIterator[RawApi]:
    async with RawApi(plane.access(), timeout_seconds=120) as session:
        yield session


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short path: sockets are made in it."""
    with tempfile.TemporaryDirectory(prefix="fl-") as made:
        yield Path(made)


async def token_of(admin: RawApi, account: str) -> str:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token: str = (await admin.post(path, asked)).expect(201)["status"]["token"]
    return token


def container_of(name: str) -> Json:
    [found] = [
        one
        for one in bundle.manifests(PLAN)
        if one["kind"] in {"Deployment", "DaemonSet"} and one["metadata"]["name"] == name
    ]
    container: Json = found["spec"]["template"]["spec"]["containers"][0]
    return container


async def ask(port: int, path: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}{path}", headers=headers, ssl=False) as got,
    ):
        return got.status, await got.text()


@contextlib.asynccontextmanager
async def running(admin: RawApi, name: str, folder: Path, access: Access | None = None) -> AsyncIterator[int]:
    """The component as its container would run it, on a port of this machine and in folders of this test."""
    container = container_of(name)
    port = ReservedPort()
    token = await token_of(admin, name)
    access = access or Access(url=admin.access.url, ca_file=admin.access.ca_file, user=name, token=token)
    mine = ("--bind-address", "--secure-port", "--cert-dir", "--cloud-config")
    arguments = [one for one in [*container["command"][1:], *container["args"]] if not one.startswith(mine)]
    arguments = [one.replace("$(NODE_NAME)", HERE).replace("$(POD_UID)", INSTANCE) for one in arguments]
    arguments += [f"--kubeconfig={write_kubeconfig(folder / 'kc', access)}"]
    arguments += ["--bind-address=127.0.0.1", f"--secure-port={port.number}"]
    if name in {AGENT, DRAIN}:
        arguments.append(f"--registry-dir={folder / 'registry'}")
    elif name == CLAIMER:
        arguments.append(f"--claimer-registry-dir={folder / 'registry'}")
    elif name == CLOUD.name:
        inventory = folder / "cloud.conf"
        inventory.write_text("platforms: [on-prem]\ninstances: []\n", encoding="utf-8")
        arguments.append(f"--cloud-config={inventory}")
    process = ManagedProcess(name, [sys.executable, "-m", "kube_fairlead.cli", *arguments], folder=folder)
    port.release()
    process.start()

    async def answers() -> bool:
        try:
            return (await ask(port.number, "/livez"))[0] > 0
        except aiohttp.ClientError:
            return False

    try:
        await wait_until_ready(answers, [process], what=name, timeout_seconds=60)
        yield port.number
    finally:
        await process.stop()


@pytest.mark.parametrize("name", COMPONENTS)
async def test_probes_need_no_token_and_metrics_need_one_that_may_get_them(
    admin: RawApi, name: str, folder: Path
) -> None:
    scraper, stranger = await token_of(admin, SCRAPER), await token_of(admin, "default")
    async with running(admin, name, folder) as port:
        for page in ("/healthz", "/livez", "/readyz"):
            assert (await ask(port, page))[0] in {200, 500, 503}, page
        assert (await ask(port, "/livez"))[0] == 200
        assert (await ask(port, "/metrics"))[0] == 401
        assert (await ask(port, "/metrics", "made.up.token"))[0] == 401
        status, said = await ask(port, "/metrics", stranger)
        user = f"system:serviceaccount:{NAMESPACE}:default"
        assert (status, said) == (403, f'forbidden: User "{user}" cannot get path "/metrics"\n')
        async with CLOCK.timeout(60):  # nothing announces that rights have taken hold
            while (answer := await ask(port, "/metrics", scraper))[0] != 200:
                await CLOCK.sleep(0.2)
        assert "fairlead_" in answer[1]
        with pytest.raises(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/livez"):
                pass


@pytest.mark.parametrize("name", COMPONENTS)
def test_probes_of_the_manifests_speak_tls(name: str) -> None:
    container = container_of(name)
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
