"""The cloud in Go, built and run as a process of its own, with our manager on both control planes."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kube_fairlead.base import files
from kube_fairlead.base.clock import RealClock
from kube_fairlead.cloud.enforcement import Manager, ccm_manifests
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.examples.conftest import EXAMPLES
from tests.goprograms import go_program
from tests.spec.kep5778.cluster import NODES, account_access, apply, create_node, set_ready
from tests.spec.kep5778.conftest import audited_plane

__all__ = ["audited_plane"]  # a fixture

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("go-cloud"), pytest.mark.timeout(600)]

Json = dict[str, Any]

_SERVICES = "/api/v1/namespaces/default/services"
_PERIODS = ("--node-monitor-period=300ms", "--node-status-update-frequency=1s", "--route-reconciliation-period=500ms")


class Nimbus:
    """The cloud's process, its file, and the manager."""

    def __init__(self, api: RawApi, folder: pathlib.Path) -> None:
        self.api = api
        self.folder = folder
        self.manager = Manager(provider="external-grpc", platforms=frozenset({"nimbus"}), routes=True, services=True)
        self._authority = CertificateAuthority.create(folder / "pki")
        self._cloud: ManagedProcess | None = None
        self._ccm: ManagedProcess | None = None
        self._port = "0"
        self._starts = 0

    @property
    def path(self) -> pathlib.Path:
        return self.folder / "cloud.json"

    def read(self) -> Json:
        found: Json = json.loads(self.path.read_text(encoding="utf-8"))
        return found

    def write(self, **changes: Any) -> None:
        state = self.read() if self.path.exists() else {}
        files.write_atomically(self.path, json.dumps({**state, **changes}).encode())

    async def start_cloud(self, binary: pathlib.Path) -> None:
        """Where it served before, if it did."""
        certificate, key = self._authority.serving("nimbus")
        command = [
            *(str(binary), f"-listen=127.0.0.1:{self._port}", f"-state={self.path}"),
            *(f"-cert={certificate}", f"-key={key}", f"-client-ca={self._authority.certificate_file}"),
        ]
        self._starts += 1
        self._cloud = cloud = ManagedProcess(f"nimbus-{self._starts}", command, folder=self.folder)
        cloud.start()
        # It says where it serves, once it does.
        await self.until(lambda: "127.0.0.1:" in cloud.log.read_text(encoding="utf-8"))
        self._port = cloud.log.read_text(encoding="utf-8").strip().rpartition(":")[2]

    async def kill_cloud(self) -> None:
        """And wait until the manager has noticed."""
        assert self._cloud is not None
        assert self._ccm is not None
        self._cloud.kill()
        ccm = self._ccm
        await self.until(lambda: "cannot connect to 127.0.0.1" in ccm.log.read_text(encoding="utf-8"))

    async def start_manager(self) -> None:
        await apply(self.api, ccm_manifests(self.manager))
        kubeconfig = write_kubeconfig(self.folder / "kubeconfig", await account_access(self.api, self.manager))
        certificate, key = self._authority.client("manager", [])
        config = {
            "address": f"127.0.0.1:{self._port}",
            "platforms": ["nimbus"],
            "parts": ["instances", "routes", "loadBalancers"],
            "tls": {
                "caFile": str(self._authority.certificate_file),
                "certFile": str(certificate),
                "keyFile": str(key),
            },
        }
        (self.folder / "nimbus.yaml").write_text(json.dumps(config), encoding="utf-8")
        command = [
            *(sys.executable, "-m", "kube_fairlead.cli", "cloud-controller-manager", f"--kubeconfig={kubeconfig}"),
            *("--cloud-provider=external-grpc", f"--cloud-config={self.folder / 'nimbus.yaml'}", "--secure-port=0"),
            *("--controllers=*,route,service", "--cluster-cidr=10.244.0.0/16", *_PERIODS),
            "--node-vanishing-share=0.5",  # of four machines two are missing
        ]
        self._ccm = ManagedProcess("ccm", command, folder=self.folder)
        self._ccm.start()

    async def stop(self) -> None:
        for process in (self._ccm, self._cloud):
            if process is not None:
                await process.stop()

    async def until(self, condition: Callable[[], bool]) -> None:
        clock = RealClock()
        try:
            async with clock.timeout(120):
                while not condition():
                    await clock.sleep(0.05)
        except TimeoutError:
            words = [one.last_words() for one in (self._cloud, self._ccm) if one is not None]
            raise AssertionError("\n".join(words)) from None


@pytest.fixture
async def nimbus(audited_plane: ControlPlane, tmp_path: pathlib.Path) -> AsyncIterator[Nimbus]:
    folder = tmp_path / "nimbus"
    folder.mkdir()
    async with RawApi(audited_plane.access(), timeout_seconds=60) as api:
        made = Nimbus(api, folder)
        try:
            yield made
        finally:
            await made.stop()


@pytest.fixture(scope="session")
def binary() -> pathlib.Path:
    return go_program(EXAMPLES / "06-go-cloud")


def balanced(nimbus: Nimbus) -> list[list[str]]:
    """The nodes that each load balancer leads to."""
    return [sorted(one["nodes"]) for one in (nimbus.read().get("loadBalancers") or {}).values()]


async def test_a_cloud_in_go(nimbus: Nimbus, binary: pathlib.Path) -> None:
    machines = {f"n{one}": {"id": f"nimbus://{one}", "address": f"10.0.0.{one}", "zone": "z1"} for one in range(1, 5)}
    nimbus.write(machines=machines)
    await nimbus.start_cloud(binary)
    await nimbus.start_manager()
    await create_node(nimbus.api, "n1", waiting=True, pod_cidr="10.244.1.0/24")
    for name in ("n2", "n3", "n4"):
        await create_node(nimbus.api, name, f"nimbus://{name[1]}")
    await create_node(nimbus.api, "other", "aws:///z/i-0123456789abcdef0", ready="Unknown")
    port = {"port": 80, "protocol": "TCP"}
    web = {"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer", "ports": [port]}}
    (await nimbus.api.post(_SERVICES, web)).expect(201)
    # A new node is initialised, gets its route and becomes a target.
    made = (await nimbus.api.poll(f"{NODES}/n1", lambda answer: "providerID" in answer.json["spec"])).json
    assert made["spec"]["providerID"] == "nimbus://1"
    assert made["metadata"]["labels"]["topology.kubernetes.io/zone"] == "z1"
    await nimbus.until(lambda: nimbus.read().get("routes") == {"10.244.1.0/24": "n1"})
    ingress = await nimbus.api.poll(
        f"{_SERVICES}/web", lambda answer: bool(answer.json["status"]["loadBalancer"].get("ingress"))
    )
    assert ingress.json["status"]["loadBalancer"]["ingress"][0]["hostname"].endswith(".nimbus.example")
    await nimbus.until(lambda: balanced(nimbus) == [sorted(machines)])
    # A machine that is unknown keeps its node; so does one that is gone while the cloud cannot be asked.
    await nimbus.kill_cloud()  # it writes to its file as well
    del machines["n2"], machines["n3"]
    nimbus.write(machines=machines, gone=["nimbus://3"])
    for name in ("n2", "n3"):
        await set_ready(nimbus.api, name, "Unknown")
    for name in ("n2", "n3"):
        (await nimbus.api.get(f"{NODES}/{name}")).expect(200)
    await nimbus.start_cloud(binary)
    await nimbus.api.poll(f"{NODES}/n3", lambda answer: answer.code == 404)
    for name in ("n1", "n2", "n4", "other"):
        (await nimbus.api.get(f"{NODES}/{name}")).expect(200)
    # The Service goes when its load balancer has.
    (await nimbus.api.delete(f"{_SERVICES}/web")).expect(200)
    await nimbus.api.poll(f"{_SERVICES}/web", lambda answer: answer.code == 404)
    assert nimbus.read()["loadBalancers"] == {}
    # What the cloud refuses is an Event on the Service, in its words.
    port = {"port": 53, "protocol": "UDP"}
    dns = {"metadata": {"name": "dns"}, "spec": {"type": "LoadBalancer", "ports": [port]}}
    (await nimbus.api.post(_SERVICES, dns)).expect(201)
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    await nimbus.api.poll(events, lambda answer: "protocol UDP is not supported" in answer.text)
