"""Real Kubernetes components that run beside any API server."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from kube_fairlead_lab.testing.ports import ReservedPort
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready

__all__ = ["EMBEDDED_CONTROLLERS", "KubeComponent", "RealComponents", "answers_ok", "controller_manager", "scheduler"]

EMBEDDED_CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "validatingadmissionpolicy-status-controller",
)
"""The controllers of kube-controller-manager that the embedded API server replaces.

The embedded server is compared to a kube-apiserver with exactly these."""


class KubeComponent:
    """kube-controller-manager or kube-scheduler: a process that is ready when its /healthz says ok."""

    def __init__(self, binary: Path, flags: Sequence[str], *, authority: CertificateAuthority, folder: Path) -> None:
        self._port = ReservedPort()
        self._authority = authority
        certificate, key = authority.serving(binary.name)
        serving = [
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port.number}",
            "--permit-port-sharing=true",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            "--authentication-skip-lookup=true",  # only the health probe connects to it
        ]
        self.process = ManagedProcess(binary.name, [str(binary), *serving, *flags], folder=folder)

    async def start(self, *, timeout_seconds: float = 60) -> None:
        """Start the process and wait for its /healthz."""
        self.process.start()
        await wait_until_ready(
            lambda: answers_ok(f"https://127.0.0.1:{self._port.number}/healthz", self._authority.certificate_file),
            [self.process],
            what=self.process.name,
            timeout_seconds=timeout_seconds,
        )

    async def stop(self) -> None:
        """Stop the process, if it runs."""
        await self.process.stop(grace_seconds=3)
        self._port.release()


def controller_manager(
    binaries: KubeBinaries,
    kubeconfig: Path,
    *,
    authority: CertificateAuthority,
    folder: Path,
    root_ca_file: Path,
    controllers: Sequence[str] = ("*",),
    flags: Sequence[str] = (),
) -> KubeComponent:
    """Return the real kube-controller-manager. Its user must be system:kube-controller-manager or an administrator."""
    own = [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--controllers={','.join(controllers)}",
        f"--root-ca-file={root_ca_file}",
    ]
    binary = binaries.component("kube-controller-manager")
    return KubeComponent(binary, [*own, *flags], authority=authority, folder=folder)


def scheduler(
    binaries: KubeBinaries,
    kubeconfig: Path,
    *,
    authority: CertificateAuthority,
    folder: Path,
    flags: Sequence[str] = (),
) -> KubeComponent:
    """Return the real kube-scheduler. Its user must be system:kube-scheduler or an administrator."""
    own = [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
    ]
    return KubeComponent(binaries.component("kube-scheduler"), [*own, *flags], authority=authority, folder=folder)


class RealComponents:
    """The real controllers and scheduler beside one API server."""

    def __init__(self, binaries: KubeBinaries, *, authority: CertificateAuthority, folder: Path) -> None:
        self._binaries = binaries
        self._authority = authority
        self._folder = folder
        self._running: list[KubeComponent] = []

    @property
    def processes(self) -> list[ManagedProcess]:
        """The started processes."""
        return [component.process for component in self._running]

    async def start_controller_manager(
        self, kubeconfig: Path, root_ca_file: Path, *, controllers: Sequence[str], flags: Sequence[str] = ()
    ) -> None:
        """Start kube-controller-manager and wait until it is healthy."""
        component = controller_manager(
            self._binaries,
            kubeconfig,
            authority=self._authority,
            folder=self._folder,
            root_ca_file=root_ca_file,
            controllers=controllers,
            flags=flags,
        )
        self._running.append(component)
        await component.start()

    async def start_scheduler(self, kubeconfig: Path, *, flags: Sequence[str] = ()) -> None:
        """Start kube-scheduler and wait until it is healthy."""
        component = scheduler(self._binaries, kubeconfig, authority=self._authority, folder=self._folder, flags=flags)
        self._running.append(component)
        await component.start()

    async def stop(self) -> None:
        """Stop them in reverse order."""
        while self._running:
            await self._running.pop().stop()


async def answers_ok(url: str, ca_file: Path, token: str | None = None) -> bool:
    """Return whether a health endpoint answers 200; False if the connection fails."""
    context = ssl.create_default_context(cafile=str(ca_file))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = aiohttp.ClientTimeout(total=5)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, ssl=context, headers=headers) as got,
        ):
            return got.status == 200
    except (aiohttp.ClientError, TimeoutError, ConnectionError):
        return False
