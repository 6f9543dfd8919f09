"""The embedded API server, as a real process on loopback."""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from kube_fairlead.base.randomness import Randomness, SystemRandomness
from kube_fairlead.client import Client, connect
from kube_fairlead_lab.testing import components
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.control_plane import ADMIN, Access, write_kubeconfig
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from kube_fairlead_lab.testing.ports import ReservedPort
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready

__all__ = ["EmbeddedControlPlane", "EmbeddedOptions"]

_START_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedOptions:
    """Options of the embedded control plane.

    `kube_controllers`, `kube_scheduler`: run the real kube-controller-manager (its --controllers) and kube-scheduler
    beside it, which `make kube` must have built.
    """

    audit: bool = False
    flags: Sequence[str] = ()
    kube_controllers: Sequence[str] = ()
    kube_controller_manager_flags: Sequence[str] = ()
    kube_scheduler: bool = False


class EmbeddedControlPlane:
    """A `ControlPlane` of `fairlead apiserver`. It cannot start again after `stop`."""

    kind: Literal["embedded"] = "embedded"

    def __init__(
        self, folder: Path, options: EmbeddedOptions | None = None, *, randomness: Randomness | None = None
    ) -> None:
        self.folder = folder
        self.options = options or EmbeddedOptions()
        self.authority = CertificateAuthority.create(folder / "pki")
        self.audit_log = folder / "audit.log" if self.options.audit else None
        self._admin_token = (randomness or SystemRandomness()).token_bytes(24).hex()
        self._port = ReservedPort()
        self._written_kubeconfig = folder / "admin.kubeconfig"
        self.apiserver = ManagedProcess("fairlead-apiserver", self._command(), folder=folder)
        self._beside = components.RealComponents(KubeBinaries.find(), authority=self.authority, folder=folder)

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self._port.number}"

    @property
    def ca_file(self) -> Path:
        """The CA certificate, from the kubeconfig that the server wrote."""
        path = self.folder / "server-ca.crt"
        if not path.exists():
            document: dict[str, Any] = yaml.safe_load(self._written_kubeconfig.read_text(encoding="utf-8"))
            encoded: str = document["clusters"][0]["cluster"]["certificate-authority-data"]
            path.write_bytes(base64.b64decode(encoded))
        return path

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, as the server wrote it."""
        return self._written_kubeconfig

    def access(self, user: str = ADMIN, groups: Sequence[str] = ()) -> Access:
        """Return a token for the administrator, a client certificate for everyone else."""
        if user == ADMIN:
            return Access(url=self.url, ca_file=self.ca_file, user=user, token=self._admin_token)
        certificate, key = self.authority.client(user, groups)
        return Access(url=self.url, ca_file=self.ca_file, user=user, certificate_file=certificate, key_file=key)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig with a client certificate of this user."""
        access = self.access(user, groups)
        stem = access.certificate_file.stem if access.certificate_file else "admin-token"
        return write_kubeconfig(self.folder / f"{stem}.kubeconfig", access)

    def client(self, user: str = ADMIN, groups: Sequence[str] = ()) -> Client:
        """Return a client as this user."""
        return connect(kubeconfig_path=self.kubeconfig_for(user, groups))

    async def start(self) -> None:
        """Start the server and wait until it is ready."""
        try:
            await self.start_server()
            await self._start_beside()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop everything, clients first."""
        await self._beside.stop()
        await self.apiserver.stop(grace_seconds=5)
        self._port.release()

    async def stop_server(self, *, hard: bool = False) -> None:
        """Stop the server; its data stays."""
        if hard:
            self.apiserver.kill()
        else:
            await self.apiserver.stop(grace_seconds=30)

    async def start_server(self) -> None:
        """Start the server and wait until it is ready."""
        self.apiserver.start()
        await wait_until_ready(self._ready, [self.apiserver], what="fairlead apiserver", timeout_seconds=_START_SECONDS)

    async def restart(self, *, hard: bool = False) -> None:
        """Restart the server on the same data and port."""
        await self.stop_server(hard=hard)
        await self.start_server()

    def last_words(self) -> str:
        """The end of every log."""
        return "\n".join(process.last_words() for process in (self.apiserver, *self._beside.processes))

    async def _start_beside(self) -> None:
        options = self.options
        if options.kube_controllers:
            kubeconfig = self.kubeconfig_for("system:kube-controller-manager")
            flags = options.kube_controller_manager_flags
            await self._beside.start_controller_manager(
                kubeconfig, self.ca_file, controllers=options.kube_controllers, flags=flags
            )
        if options.kube_scheduler:
            await self._beside.start_scheduler(self.kubeconfig_for("system:kube-scheduler"))

    async def _ready(self) -> bool:
        if not self._written_kubeconfig.exists():
            return False
        return await components.answers_ok(f"{self.url}/readyz", self.ca_file, self._admin_token)

    def _command(self) -> list[str]:
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self._admin_token},{ADMIN},{ADMIN},"system:masters"\n', encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "kube_fairlead.cli",
            "apiserver",
            f"--data-dir={self.folder / 'data'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port.number}",
            "--permit-port-sharing",
            f"--client-ca-file={self.authority.certificate_file}",
            f"--token-auth-file={tokens}",
            f"--kubeconfig-out={self._written_kubeconfig}",
        ]
        if self.audit_log is not None:
            command.append(f"--audit-log-path={self.audit_log}")
        return [*command, *self.options.flags]
