"""Real Kubernetes on loopback: etcd and kube-apiserver, and optional components beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kube_fairlead.base.randomness import Randomness, SystemRandomness
from kube_fairlead.client import Client, connect
from kube_fairlead_lab.testing import components
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.control_plane import ADMIN, Access, ControlPlaneFailed, write_kubeconfig
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from kube_fairlead_lab.testing.ports import ReservedPort
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready

__all__ = ["KubeControlPlane", "KubeOptions"]

# etcd listens on unix sockets in the plane's own folder: no port to choose, and no other process connects. The host and
# number are only the sockets' file names.
_ETCD_CLIENTS = "unix://localhost:1"
_ETCD_PEERS = "unix://localhost:2"
_START_SECONDS = 90
# The Service `kubernetes`, by which pods find the API server: the first address of the range.
_OWN_SERVICE = "10.0.0.1"

_AUDIT_EVERYTHING = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "RequestResponse"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeOptions:
    """Options of a real control plane.

    `controllers`: names as in kube-controller-manager's --controllers; empty means no controller manager at all.
    `audit_policy`: an audit.k8s.io/v1 Policy; None means no audit log, `{}` everything.
    `durable`: etcd with fsync, for measurements; tests are faster without.
    """

    controllers: Sequence[str] = ()
    scheduler: bool = False
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    apiserver_flags: Sequence[str] = ()
    controller_manager_flags: Sequence[str] = ()
    scheduler_flags: Sequence[str] = ()
    audit_policy: Mapping[str, object] | None = None
    durable: bool = False


class KubeControlPlane:
    """A `ControlPlane` of the programs that `make kube` builds. It cannot start again after `stop`."""

    kind: Literal["kube"] = "kube"

    def __init__(
        self,
        folder: Path,
        options: KubeOptions | None = None,
        *,
        binaries: KubeBinaries | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.folder = folder
        self.options = options or KubeOptions()
        self.binaries = binaries or KubeBinaries.find()
        self.authority = CertificateAuthority.create(folder / "pki")
        self.audit_log = None if self.options.audit_policy is None else folder / "audit.log"
        self._admin_token = (randomness or SystemRandomness()).token_bytes(24).hex()
        self._port = ReservedPort()
        self._signing_key = _write_signing_key(folder / "pki" / "service-accounts.key")
        self.etcd = ManagedProcess("etcd", self._etcd_command(), folder=folder)
        self.apiserver = ManagedProcess("kube-apiserver", self._apiserver_command(), folder=folder)
        self._beside = components.RealComponents(self.binaries, authority=self.authority, folder=folder)

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self._port.number}"

    @property
    def ca_file(self) -> Path:
        """The certificate that signs the server's."""
        return self.authority.certificate_file

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return write_kubeconfig(self.folder / "admin.kubeconfig", self.access())

    def access(self, user: str = ADMIN, groups: Sequence[str] = ()) -> Access:
        """Return a token for the administrator, a client certificate for everyone else."""
        if user == ADMIN:
            return Access(url=self.url, ca_file=self.ca_file, user=user, token=self._admin_token)
        certificate, key = self.authority.client(user, groups)
        return Access(url=self.url, ca_file=self.ca_file, user=user, certificate_file=certificate, key_file=key)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig with a client certificate of this user."""
        access = self.access(user, groups)
        stem = access.certificate_file.stem if access.certificate_file else "admin"
        return write_kubeconfig(self.folder / f"{stem}.kubeconfig", access)

    def client(self, user: str = ADMIN, groups: Sequence[str] = ()) -> Client:
        """Return a client as this user."""
        return connect(kubeconfig_path=self.kubeconfig_for(user, groups))

    async def start(self) -> None:
        """Start etcd, the API server, and the components beside them."""
        wanted = ["etcd", "kube-apiserver"]
        wanted += ["kube-controller-manager"] if self.options.controllers else []
        wanted += ["kube-scheduler"] if self.options.scheduler else []
        if missing := self.binaries.missing(*wanted):
            raise ControlPlaneFailed(f"{', '.join(missing)} not built; run: make kube")
        try:
            self.etcd.start()
            await self.start_server()
            await self._start_beside()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop everything, clients first."""
        await self._beside.stop()
        # The data is deleted with the folder, so a graceful stop would save nothing.
        self.apiserver.kill()
        self.etcd.kill()
        self._port.release()

    async def stop_server(self, *, hard: bool = False) -> None:
        """Stop the API server; etcd keeps running."""
        if hard:
            self.apiserver.kill()
        else:
            # It would wait for its clients to disconnect, for half a minute or longer.
            await self.apiserver.stop(grace_seconds=5)

    async def start_server(self) -> None:
        """Start the API server and wait until it is ready."""
        self.apiserver.start()
        await wait_until_ready(
            lambda: components.answers_ok(f"{self.url}/readyz", self.ca_file, self._admin_token),
            [self.etcd, self.apiserver],
            what="kube-apiserver",
            timeout_seconds=_START_SECONDS,
        )

    async def restart(self, *, hard: bool = False) -> None:
        """Restart the API server on the same data and port."""
        await self.stop_server(hard=hard)
        await self.start_server()

    def last_words(self) -> str:
        """The end of every log."""
        return "\n".join(process.last_words() for process in (self.etcd, self.apiserver, *self._beside.processes))

    async def _start_beside(self) -> None:
        options = self.options
        if options.controllers:
            flags = [f"--service-account-private-key-file={self._signing_key}", *options.controller_manager_flags]
            kubeconfig = self.kubeconfig_for("system:kube-controller-manager")
            await self._beside.start_controller_manager(
                kubeconfig, self.ca_file, controllers=options.controllers, flags=flags
            )
        if options.scheduler:
            kubeconfig = self.kubeconfig_for("system:kube-scheduler")
            await self._beside.start_scheduler(kubeconfig, flags=options.scheduler_flags)

    def _etcd_command(self) -> list[str]:
        command = [
            str(self.binaries.etcd),
            "--name=test",
            "--data-dir=etcd",
            f"--listen-client-urls={_ETCD_CLIENTS}",
            f"--advertise-client-urls={_ETCD_CLIENTS}",
            f"--listen-peer-urls={_ETCD_PEERS}",
            f"--initial-advertise-peer-urls={_ETCD_PEERS}",
            f"--initial-cluster=test={_ETCD_PEERS}",
            "--log-level=warn",
        ]
        return command if self.options.durable else [*command, "--unsafe-no-fsync"]

    def _apiserver_command(self) -> list[str]:
        certificate, key = self.authority.serving("kube-apiserver", _OWN_SERVICE)
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self._admin_token},{ADMIN},{ADMIN},"system:masters"\n', encoding="utf-8")
        command = [
            str(self.binaries.component("kube-apiserver")),
            f"--etcd-servers={_ETCD_CLIENTS}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port.number}",
            "--permit-port-sharing=true",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.ca_file}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._signing_key}",
            f"--service-account-signing-key-file={self._signing_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
        ]
        if not self.options.controllers:  # no controller creates the default service accounts that it requires
            command.append("--disable-admission-plugins=ServiceAccount")
        if self.options.feature_gates:
            gates = ",".join(f"{name}={str(on).lower()}" for name, on in self.options.feature_gates.items())
            command.append(f"--feature-gates={gates}")
        if self.options.audit_policy is not None:
            policy = self.folder / "audit-policy.yaml"
            policy.write_text(json.dumps(self.options.audit_policy or _AUDIT_EVERYTHING), encoding="utf-8")
            command += [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]
        return [*command, *self.options.apiserver_flags]


def _write_signing_key(path: Path) -> Path:
    """Return the key that signs service account tokens.

    Kube-apiserver reads its public half only from this older format.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return path
