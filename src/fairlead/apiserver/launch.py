"""Starting a server on this machine: its data folder, its certificates, its socket."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from fairlead.api import reserved
from fairlead.apiserver.guard import make_guard
from fairlead.apiserver.http.server import HttpServer, listen, tls_context
from fairlead.apiserver.observing.audit import AuditLog
from fairlead.apiserver.security.authentication import read_token_file
from fairlead.apiserver.security.kubeconfig import Kubeconfig
from fairlead.apiserver.security.pki.keyring import open_keyring
from fairlead.apiserver.server import COMPACTION_SECONDS, CONTROLLERS, ApiServer, World
from fairlead.apiserver.storage.interface import Log
from fairlead.apiserver.storage.memory import MemoryLog
from fairlead.apiserver.storage.sqlite import SqliteLog
from fairlead.base import logs
from fairlead.base.gates import SPECIALIZED_LIFECYCLE_MANAGEMENT, FeatureGates
from fairlead.base.tasks import OnExit, TaskScope

__all__ = ["DATABASE", "PKI", "Running", "Settings", "SettingsError", "serve"]

DATABASE = "fairlead.db"
PKI = "pki"
_log = logs.get_logger(__name__)


class Settings(msgspec.Struct, frozen=True):
    """What an operator can choose."""

    data_folder: Path
    bind_address: str = "127.0.0.1"
    port: int = 6443
    kubeconfig_out: Path | None = None
    client_ca_file: Path | None = None
    token_auth_file: Path | None = None
    audit_log_path: str = ""
    share_port: bool = False
    in_memory: bool = False
    extra_names: Sequence[str] = ()
    gates: FeatureGates | None = None
    controllers: Sequence[str] = ("*",)  # as kube-controller-manager's flag: names, -names, * for all
    compaction_seconds: float = COMPACTION_SECONDS

    lifecycle_group: str = reserved.LIFECYCLE_GROUP

    def served_lifecycle_group(self) -> str:
        """Where the lifecycle kinds are served; empty when their gate is off. Stored objects stay either way."""
        on = self.gates is None or self.gates.enabled(SPECIALIZED_LIFECYCLE_MANAGEMENT)
        return self.lifecycle_group if on else ""

    def check(self) -> None:
        """Refuse what would be ignored in silence."""
        known = ("*", "none", *CONTROLLERS)
        for name in self.controllers:
            if name.removeprefix("-") not in known:
                raise SettingsError(f"--controllers: {name!r} is not one of {', '.join(known)}")
        groups = (reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE)
        if self.lifecycle_group not in groups:
            raise SettingsError(f"--lifecycle-api-group: {self.lifecycle_group!r} is not one of {', '.join(groups)}")
        if self.data_folder.exists() and not self.data_folder.is_dir():
            raise SettingsError(f"--data-dir: {self.data_folder} is a file; name a folder")
        if self.kubeconfig_out is not None and self.kubeconfig_out.is_dir():
            raise SettingsError(f"--kubeconfig-out: {self.kubeconfig_out} is a folder; name a file")

    def runs_controller(self, name: str) -> bool:
        """Whether a controller is on: named, or not named and everything is."""
        if f"-{name}" in self.controllers:
            return False
        return name in self.controllers or "*" in self.controllers


class SettingsError(ValueError):
    """A setting that makes no sense; the message names its flag."""


class Running(msgspec.Struct, frozen=True):
    """A server that answers."""

    url: str
    kubeconfig: Path
    server: ApiServer


async def serve(settings: Settings, world: World, on_ready: Callable[[Running], None]) -> None:
    """Serve until cancelled. ``on_ready`` is called once the first request can be answered."""
    settings.check()
    settings.data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    keys = open_keyring(settings.data_folder / PKI, _names(settings), world.clock, world.randomness)
    tokens = {} if settings.token_auth_file is None else read_token_file(settings.token_auth_file)
    listener = listen(settings.bind_address, settings.port, share=settings.share_port)
    audit = AuditLog(settings.audit_log_path, world.clock) if settings.audit_log_path else None
    try:
        url = f"https://{_host(settings.bind_address)}:{listener.getsockname()[1]}"
        disk: Log = MemoryLog() if settings.in_memory else SqliteLog(settings.data_folder / DATABASE)
        server = ApiServer(
            disk,
            world,
            lambda core: make_guard(core, world.clock, world.ids, keys, keys.signing_key, tokens, url),
            address=url.removeprefix("https://"),
            observers=() if audit is None else (audit,),
            controllers=settings.runs_controller,
            compaction_seconds=settings.compaction_seconds,
            lifecycle_group=settings.served_lifecycle_group(),
        )
        server.open()
        client_ca = settings.client_ca_file or keys.authority
        context = tls_context(keys.certificate, keys.key, [keys.authority, client_ca])
        http = HttpServer(server.handle, listener, context, world.clock)
        path = settings.kubeconfig_out or settings.data_folder / "admin.kubeconfig"
        Kubeconfig(url, keys.certificate_pem, keys.administrator).write(path)
        try:
            await _run(server, http, lambda: on_ready(Running(url, path, server)))
        finally:
            _log.info("stopped")
    finally:
        listener.close()
        if audit is not None:
            audit.close()


async def _run(server: ApiServer, http: HttpServer, on_ready: Callable[[], None]) -> None:
    """What is behind starts first and stops last: watches end, requests in flight finish, then the disk is let go."""

    def stop() -> None:
        _log.info("stopping: watches end, requests in flight are answered")
        server.end_watches()

    async with TaskScope("apiserver", on_exit=OnExit.CANCEL) as behind:
        behind.start(server.run(), name="server")
        await server.wait_ready()
        async with TaskScope("apiserver") as face:
            face.start(http.run(stop), name="http")
            await http.wait_started()
            on_ready()


def _host(address: str) -> str:
    host = "127.0.0.1" if address in {"0.0.0.0", ""} else "::1" if address == "::" else address  # noqa: S104 - compared, not bound
    return f"[{host}]" if ":" in host else host


def _names(settings: Settings) -> list[str]:
    """The names that the server answers to: its address, this machine's name, and its service in the cluster."""
    names = ["127.0.0.1", "::1", "localhost", socket.gethostname()]
    if settings.bind_address not in {"0.0.0.0", "::", ""}:  # noqa: S104 - compared, not bound
        names.append(settings.bind_address)
    names += ["10.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    return [*dict.fromkeys([*names, "kubernetes.default.svc.cluster.local", *settings.extra_names])]
