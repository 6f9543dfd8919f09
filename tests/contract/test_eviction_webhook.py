"""The webhook that `fairlead install` sets up: one account's evictions of another node's pods are refused, no others.

It runs here as the installed Deployment would run it, with the certificates that it makes itself. No Service leads to
it, because nothing routes to Services on a bare control plane; its registration names its address instead.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.election.fence import FenceMode
from kube_fairlead.install import bundle
from kube_fairlead.install.installation import AGENT, DRAIN, NAMESPACE, Installation
from kube_fairlead_lab.testing import Access, ControlPlane
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.manifests import pod as pod_manifest
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.ports import ReservedPort
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready
from kube_fairlead_lab.testing.rawhttp import Answer, RawApi
from tests.contract.installed import CLOCK, HERE, THERE, access_of, install, until_policed
from tests.planes import BOTH, make_plane

Json = dict[str, Any]

PLAN = Installation(fence=FenceMode.OFF)
WEBHOOK = "fairlead-webhook"
WEB = "/api/v1/namespaces/default/pods"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/fairlead-webhook-certificates"
HOOK = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fairlead-webhook-evictions"


class Site:
    """An installed control plane, and where its webhook is called."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.port = ReservedPort()

    async def prepare(self) -> None:
        await install(self.plane, PLAN)
        async with RawApi(self.plane.access(), timeout_seconds=120) as admin:
            for node in (HERE, THERE):
                (await admin.post(WEB, pod_manifest(f"web-{node}", node_name=node))).expect(201)
            [hook] = (await admin.get(HOOK)).expect(200)["webhooks"]
            called = {"url": f"https://127.0.0.1:{self.port.number}{hook['clientConfig']['service']['path']}"}
            (await admin.patch(HOOK, {"webhooks": [{**hook, "clientConfig": called}]})).expect(200)
        self.port.release()

    @contextlib.asynccontextmanager
    async def webhook(self, admin: RawApi, *flags: str) -> AsyncIterator[ManagedProcess]:
        """What the installed Deployment runs, with the token of its account."""
        [deployment] = [
            one for one in bundle.manifests(PLAN) if one["kind"] == "Deployment" and one["metadata"]["name"] == WEBHOOK
        ]
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        arguments = [one for one in container["args"] if not one.startswith(("--secure-port", "--cert-dir"))]
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{WEBHOOK}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        token = (await admin.post(path, asked)).expect(201)["status"]["token"]
        access = Access(url=admin.access.url, ca_file=admin.access.ca_file, user=WEBHOOK, token=token)
        words = ["webhook", f"--kubeconfig={write_kubeconfig(self.folder / 'kc', access)}", *arguments]
        words += ["--bind-address=127.0.0.1", f"--secure-port={self.port.number}", "--tls-name=127.0.0.1", *flags]
        webhook = ManagedProcess("webhook", [sys.executable, "-m", "kube_fairlead.cli", *words], folder=self.folder)
        webhook.start()

        async def listening() -> bool:
            return b"listens" in webhook.log.read_bytes()

        try:
            await wait_until_ready(listening, [webhook], what="the webhook", timeout_seconds=60)
            yield webhook
        finally:
            await webhook.stop()


@pytest.fixture(scope="module", params=BOTH)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    for plane in watch_over(request.config, make_plane(request.param, tmp_path_factory.mktemp(request.param))):
        made = Site(plane, tmp_path_factory.mktemp("webhook"))
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(made.prepare())
        yield made


@pytest.fixture
async def admin(site: Site) -> AsyncIterator[RawApi]:
    async with RawApi(site.plane.access(), timeout_seconds=120) as session:
        yield session


@pytest.fixture
async def driver(admin: RawApi) -> AsyncIterator[RawApi]:
    async with RawApi(await access_of(admin, DRAIN)) as account:
        await until_policed(account)
        yield account


async def evict(account: RawApi, node: str) -> Answer:
    options = {"dryRun": ["All"]}
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": f"web-{node}"},
        "deleteOptions": options,
    }
    return await account.post(f"{WEB}/web-{node}/eviction", body)


async def until_evicts(account: RawApi, code: int) -> None:
    """Nothing announces that the API server has seen a registration, or a bundle."""
    async with CLOCK.timeout(60):
        while (await evict(account, HERE)).code != code:
            await CLOCK.sleep(0.05)


async def test_only_pods_of_the_own_node_are_evicted_and_an_outage_touches_that_account_only(
    site: Site, admin: RawApi, driver: RawApi
) -> None:
    await until_evicts(driver, 500)
    assert "failed calling webhook" in (await evict(driver, HERE)).text
    (await evict(admin, HERE)).expect(201)
    async with site.webhook(admin) as webhook:
        await until_evicts(driver, 201)
        refused = (await evict(driver, THERE)).expect(403)
        assert f"a token of node {HERE} evicts pods of that node only" in refused["message"]
        (await evict(admin, THERE)).expect(201)
        assert "forbidden" not in webhook.last_words()
    await until_evicts(driver, 500)
    (await evict(admin, HERE)).expect(201)
    (await evict(admin, THERE)).expect(201)
    async with site.webhook(admin):  # a replica that comes later serves with what is there
        await until_evicts(driver, 201)


async def shown(admin: RawApi) -> tuple[str, str]:
    data = (await admin.get(SECRET)).expect(200)["data"]
    return data["ca.crt"], data["tls.crt"]


async def test_a_new_certificate_refuses_nothing(site: Site, admin: RawApi, driver: RawApi) -> None:
    """A replica is told to make a new one by taking the old one away; evictions go on all the while."""
    async with site.webhook(admin, "--certificate-lifetime=20m", "--authority-lifetime=1h"):
        await until_evicts(driver, 201)
        before = await shown(admin)
        (await admin.patch(SECRET, {"data": {"tls.crt": base64.b64encode(b"none").decode()}})).expect(200)
        answers = []
        async with CLOCK.timeout(60):
            while before[1] == (now := await shown(admin))[1] or len(now[1]) < 100:
                answers.append((await evict(driver, HERE)).code)
        answers += [(await evict(driver, HERE)).code for _ in range(20)]
        assert set(answers) == {201}
        assert (await shown(admin))[0] == before[0]


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_authorities_follow_each_other_without_a_refusal(site: Site, admin: RawApi, driver: RawApi) -> None:
    flags = ("--certificate-lifetime=30s", "--authority-lifetime=72s", f"--tls-name=run-{site.port.number}.example.com")
    (await admin.delete(SECRET)).expect(200, 404)
    pairs: set[tuple[str, str]] = set()
    codes: set[int] = set()

    async def evict_all_along() -> None:
        while True:
            # A connection each, so that each begins with the certificate of that moment.
            async with RawApi(driver.access) as account:
                codes.add((await evict(account, HERE)).code)
            await CLOCK.sleep(0.05)

    async with site.webhook(admin, *flags):
        await until_evicts(driver, 201)
        async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(evict_all_along(), name="driver")
            async with CLOCK.timeout(200):
                while len({authority for authority, _leaf in pairs}) < 3:
                    pairs.add(await shown(admin))
                    await CLOCK.sleep(0.5)
    assert codes == {201}
    assert len(pairs) >= 4


async def test_the_account_of_the_webhook_can_do_no_more(admin: RawApi) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{WEBHOOK}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = (await admin.post(path, asked)).expect(201)["status"]["token"]
    access = Access(url=admin.access.url, ca_file=admin.access.ca_file, user=WEBHOOK, token=token)
    async with RawApi(access) as account:
        await account.poll(f"{WEB}/web-{HERE}", lambda answer: answer.code == 200)
        (await account.get(HOOK)).expect(200)
        for path in (
            f"/api/v1/namespaces/{NAMESPACE}/secrets",
            f"/api/v1/namespaces/{NAMESPACE}/secrets/other",
            "/api/v1/namespaces/default/secrets/fairlead-webhook-certificates",
            HOOK.rpartition("/")[0],
            f"{HOOK}-other",
            WEB,
        ):
            assert (await account.get(path)).code == 403, path
        (await account.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{AGENT}-{HERE}", dryRun="All")).expect(403)
