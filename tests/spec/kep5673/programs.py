"""Real programs beside an API server: kubectl, and our webhook as operators run it."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from kube_fairlead_lab.testing.control_plane import Access, ControlPlane, write_kubeconfig
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5673.objects import Kind

__all__ = ["Webhook", "run"]

Json = dict[str, Any]
NAMESPACE = "fairlead-system"
PATHS = {
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}


async def run(*command: str | Path, code: int = 0) -> str:
    """Run a program to its end; what it printed."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == code, f"{command} exited {process.returncode}: {out.decode()}{err.decode()}"
    return out.decode()


class Webhook:
    """`fairlead webhook` in front of a control plane, registered and allowed by the manifests that it prints itself."""

    def __init__(self, plane: ControlPlane, api: RawApi, kinds: Sequence[Kind], folder: Path) -> None:
        self._plane = plane
        self._api = api
        self._kinds = kinds
        self._folder = folder
        self._kubeconfig = folder / "webhook.kubeconfig"
        self._authority = CertificateAuthority.create(folder / "pki")
        self._process: ManagedProcess | None = None
        self._port = 0

    async def start(self) -> None:
        """Grant it its rights, start it as its own service account, and wait until the API server calls it."""
        documents = await self._manifests("https://127.0.0.1:1/delete")
        (await self._api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})).expect(201, 409)
        for document in documents[:-1]:
            (await self._api.post(PATHS[document["kind"]], document)).expect(201)
        await self._write_kubeconfig()
        await self.start_process()
        registered = (await self._manifests(f"https://127.0.0.1:{self._port}/delete"))[-1]
        (await self._api.post(PATHS[registered["kind"]], registered)).expect(201)
        # kube-apiserver learns of a new webhook in its own time; it shows when it asks.
        probe = self._kinds[0]
        await probe.create("probe", "example.com/probe")
        while not await self.counted("dry_run"):
            (await probe.delete("probe", 30, dryRun=["All"])).expect(200)
        await probe.set_finalizers("probe")
        (await probe.delete("probe")).expect(200)

    async def start_process(self) -> None:
        """Start only the process, on the port it had."""
        certificate, key = self._authority.serving("fairlead-webhook")
        flags = [
            f"--kubeconfig={self._kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            "--authorization-always-allow-paths=/metrics",
        ]
        command = [sys.executable, "-m", "kube_fairlead.cli", "webhook", *flags]
        process = ManagedProcess("fairlead-webhook", command, folder=self._folder)
        process.log.unlink(missing_ok=True)
        process.start()
        self._process = process
        await wait_until_ready(self._is_ready, [process], what="fairlead webhook", timeout_seconds=60)

    async def stop_process(self) -> None:
        """End only the process."""
        if self._process is not None:
            await self._process.stop()

    async def get(self, path: str) -> str:
        """Ask the webhook itself; empty when it does not answer 200."""
        access = Access(url=self.url, ca_file=self._authority.certificate_file, user="")
        async with RawApi(access) as api:
            answer = await api.get(path)
            return answer.text if answer.code == 200 else ""

    async def counted(self, result: str) -> float:
        """How many deletes came out like this."""
        found = re.search(
            rf'^fairlead_webhook_deletes_total{{result="{result}"}} (\S+)$', await self.get("/metrics"), re.MULTILINE
        )
        return float(found[1]) if found else 0.0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def last_words(self) -> str:
        return "" if self._process is None else self._process.last_words()

    async def _is_ready(self) -> bool:
        assert self._process is not None
        listens = re.search(r"listens on port (\d+)", self._process.log.read_text(encoding="utf-8"))
        if listens is None:
            return False
        self._port = int(listens[1])
        return bool(await self.get("/readyz"))

    async def _manifests(self, url: str) -> list[Json]:
        printed = await run(
            sys.executable,
            "-m",
            "kube_fairlead.cli",
            "webhook",
            "manifests",
            *(f"--resource={kind.plural}.{kind.group}" for kind in self._kinds),
            f"--namespace={NAMESPACE}",
            f"--url={url}",
            f"--ca-file={self._authority.certificate_file}",
        )
        return list(yaml.safe_load_all(printed))

    async def _write_kubeconfig(self) -> None:
        path = f"{PATHS['ServiceAccount']}/fairlead-deletion-webhook/token"
        token = (await self._api.post(path, {"spec": {"expirationSeconds": 3600}})).expect(201)["status"]["token"]
        access = Access(url=self._plane.url, ca_file=self._plane.ca_file, user="fairlead-deletion-webhook", token=token)
        write_kubeconfig(self._kubeconfig, access)
