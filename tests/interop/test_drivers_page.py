"""docs/drivers.md: `Trying it` and the metrics are run as they stand there, with the driver from the top."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead.driverapi.errors import DriverError
from kube_fairlead.driverapi.grpc_channel import GrpcDriverChannel, GrpcRegistrationChannel
from kube_fairlead.driverapi.messages import Work
from kube_fairlead_lab.testing import ControlPlane, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.ports import ReservedPort
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready
from kube_fairlead_lab.testing.rawhttp import RawApi

PAGE = (Path(__file__).parents[2] / "docs" / "drivers.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"<!-- run: (\w+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL))
SECONDS = 90
CLOCK = RealClock()
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: sockets are made below it."""
    made = Path(tempfile.mkdtemp(prefix="drivers-page-"))
    yield made
    shutil.rmtree(made)


@pytest.mark.kube  # which is where kubectl comes from; the server is ours
async def test_trying_it(folder: Path) -> None:
    binaries = KubeBinaries.find()
    require_real("kubectl", present=not binaries.missing("kubectl"), remedy="run: make kube")
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "bin").mkdir()
    (folder / "bin" / "kubectl").symlink_to(binaries.component("kubectl"))
    (folder / "reboot.py").write_text(PROGRAMS["driver"], encoding="utf-8")
    with (folder / "errors").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-euc",
            PROGRAMS["shell"],
            cwd=folder,
            env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder)},
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert process.stdout is not None
    said = b""
    try:
        async with asyncio.timeout(SECONDS):
            while not said.endswith(b"Rebooted"):
                more = await process.stdout.read(4096)
                assert more, (folder / "errors").read_text(encoding="utf-8")
                said += more
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # what it started in the background, and nothing else
        await process.communicate()


async def test_testing_it(folder: Path) -> None:
    """In a folder of its own, with pytest and nothing configured."""
    for name, program in (("reboot.py", "driver"), ("test_reboot.py", "test")):
        (folder / name).write_text(PROGRAMS[program], encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert "1 passed" in said.decode()


async def ask(port: int, path: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}{path}", headers=headers, ssl=False) as got,
    ):
        return got.status, await got.text()


async def scraper(api: RawApi, namespace: str) -> str:
    """The token of an account that may get metrics."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    (await api.post(account, {"metadata": {"name": "scraper"}})).expect(201)
    role = {"metadata": {"name": namespace}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}
    (await api.post(f"{RBAC}/clusterroles", role)).expect(201)
    binding = {
        "metadata": {"name": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": namespace}],
    }
    (await api.post(f"{RBAC}/clusterrolebindings", binding)).expect(201)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token: str = (await api.post(f"{account}/scraper/token", asked)).expect(201)["status"]["token"]
    return token


async def test_probes_and_metrics(control_plane: ControlPlane, api: RawApi, namespace: str, folder: Path) -> None:
    token = await scraper(api, namespace)
    program = folder / "reboot.py"
    program.write_text(PROGRAMS["driver"].partition("if __name__")[0] + PROGRAMS["metrics"], encoding="utf-8")
    port = ReservedPort()
    kubeconfig = write_kubeconfig(folder / "kubeconfig", control_plane.access())
    flags = [f"--registry-dir={folder / 'registry'}", f"--secure-port={port.number}", f"--kubeconfig={kubeconfig}"]
    process = ManagedProcess("driver", [sys.executable, str(program), *flags], folder=folder)
    registry = GrpcRegistrationChannel(str(folder / "registry" / "reboot.example.com-reg.sock"))

    async def registers() -> bool:
        try:
            return bool((await registry.get_info()).name)
        except DriverError:
            return False

    port.release()
    process.start()
    try:
        await wait_until_ready(registers, [process], what="driver", timeout_seconds=SECONDS)
        assert await ask(port.number, "/readyz") == (200, "ok")
        assert "[+]registration ok: no agent has called yet" in (await ask(port.number, "/readyz?verbose"))[1]
        await registry.notify(registered=False, error="it offers nothing")
        assert [(await ask(port.number, page))[0] for page in ("/healthz", "/livez", "/readyz")] == [200, 200, 500]
        assert "rejected the registration: it offers nothing" in (await ask(port.number, "/readyz"))[1]
        await registry.notify(registered=True)
        assert (await ask(port.number, "/readyz"))[0] == 200
        work = Work(
            event_uid="u",
            event_name="try",
            node_name="here",
            node_uid="n",
            transition_name="reboot",
            start="Rebooting",
            end="Rebooted",
        )
        await GrpcDriverChannel((await registry.get_info()).endpoint).start(work)
        assert (await ask(port.number, "/metrics"))[0] == 401
        async with asyncio.timeout(SECONDS):  # nothing announces that rights have taken hold
            while (answer := await ask(port.number, "/metrics", token))[0] != 200:
                await CLOCK.sleep(0.1)
        assert "example_reboots_total 1.0" in answer[1]
        assert 'fairlead_driver_calls_total{driver="example.com/reboot",result="done",step="start"} 1.0' in answer[1]
        assert 'fairlead_driver_calls_total{driver="example.com/reboot",result="failed",step="end"} 0.0' in answer[1]
    finally:
        await process.stop()
        for kind in ("clusterrolebindings", "clusterroles"):
            (await api.delete(f"{RBAC}/{kind}/{namespace}")).expect(200)
