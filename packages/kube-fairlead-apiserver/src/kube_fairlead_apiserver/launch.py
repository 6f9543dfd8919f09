"""Starts a server on this machine: data folder, certificates, socket."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead_apiserver.access_control import make_access_control
from kube_fairlead_apiserver.flowcontrol.filter import Budgets
from kube_fairlead_apiserver.http.server import HttpServer, listen, tls_context
from kube_fairlead_apiserver.observability.audit import AuditLog
from kube_fairlead_apiserver.security.authentication import read_token_file
from kube_fairlead_apiserver.security.kubeconfig import Kubeconfig, KubeconfigFile
from kube_fairlead_apiserver.security.pki.keyring import PKI, open_keyring, serving_names
from kube_fairlead_apiserver.security.private_files import close_to_others
from kube_fairlead_apiserver.server import ApiServer, Dependencies
from kube_fairlead_apiserver.settings import Settings, SettingsError
from kube_fairlead_apiserver.storage.interface import Log
from kube_fairlead_apiserver.storage.memory_log import MemoryLog
from kube_fairlead_apiserver.storage.sqlite import SqliteLog

__all__ = ["DATABASE", "RunningServer", "serve"]

DATABASE = "fairlead.db"
_LOOK_SECONDS = 1.0
_log = logs.get_logger(__name__)


class RunningServer(msgspec.Struct, frozen=True):
    """A running server."""

    url: str
    kubeconfig: Path
    server: ApiServer


async def serve(settings: Settings, dependencies: Dependencies, on_ready: Callable[[RunningServer], None]) -> None:
    """Serve until cancelled. ``on_ready`` is called once the server accepts requests."""
    settings.check()
    with _flag("--data-dir", settings.data_folder):
        settings.data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in settings.data_folder.glob(f"{DATABASE}*"):  # it holds every Secret
            if path.is_file() and not path.is_symlink():
                close_to_others(path)
    names = serving_names(settings.bind_address, settings.extra_names)
    keys = open_keyring(settings.data_folder / PKI, names, dependencies.clock, dependencies.randomness)
    tokens = {} if settings.token_auth_file is None else read_token_file(settings.token_auth_file)
    listener = listen(settings.bind_address, settings.port, share=settings.share_port)
    audit: AuditLog | None = None
    try:
        with _flag("--audit-log-path", settings.audit_log_path):
            audit = AuditLog(settings.audit_log_path, dependencies.clock) if settings.audit_log_path else None
        url = f"https://{_host(settings.bind_address)}:{listener.getsockname()[1]}"
        path = settings.kubeconfig_out or settings.data_folder / "admin.kubeconfig"
        kubeconfig = KubeconfigFile(Kubeconfig(url, keys.certificate_pem, keys.administrator), path)
        disk: Log = MemoryLog() if settings.in_memory else _open_log(settings)
        server = ApiServer(
            disk,
            dependencies,
            lambda core: make_access_control(
                core, dependencies.clock, dependencies.ids, keys, keys.signing_key, tokens, url
            ),
            address=url.removeprefix("https://"),
            observers=() if audit is None else (audit,),
            controllers=settings.runs_controller,
            compaction_seconds=settings.compaction_seconds,
            budgets=Budgets(
                enforced=settings.share_between_users,
                reading=settings.max_requests_inflight,
                mutating=settings.max_mutating_requests_inflight,
                queue_seconds=settings.request_queue_seconds,
            ),
            lifecycle_group=settings.served_lifecycle_group(),
            ready_checks={"kubeconfig": lambda: kubeconfig.problem},
        )
        server.open()
        client_ca = settings.client_ca_file or keys.authority
        context = tls_context(keys.certificate, keys.key, [keys.authority, client_ca])
        http = HttpServer(server.handle, listener, context, dependencies.clock, server.flow)
        with _flag("--kubeconfig-out", path):
            kubeconfig.write()
        beside = {"files": _watch_files(disk, dependencies.clock), "kubeconfig": kubeconfig.keep(dependencies.clock)}
        try:
            await _run(server, http, beside, lambda: on_ready(RunningServer(url, path, server)))
        finally:
            _log.info("stopped")
    finally:
        listener.close()
        if audit is not None:
            audit.close()


def _open_log(settings: Settings) -> SqliteLog:
    return SqliteLog(settings.data_folder / DATABASE, accept_loss_since=settings.accept_loss_since)


async def _watch_files(disk: Log, clock: Clock) -> None:
    """End the server when its files are removed, before the next write fails."""
    while isinstance(disk, SqliteLog):
        await clock.sleep(_LOOK_SECONDS)
        disk.require_present()


async def _run(
    server: ApiServer, http: HttpServer, beside: Mapping[str, Coroutine[Any, Any, None]], on_ready: Callable[[], None]
) -> None:
    """Start storage first and stop it last: watches end, requests in flight finish, then the storage closes."""

    def stop() -> None:
        _log.info("stopping: ending watches, finishing requests in flight")
        server.end_watches()

    async with TaskScope("apiserver", on_exit=OnExit.CANCEL) as behind:
        behind.start(server.run(), name="server")
        for name, work in beside.items():
            behind.start(work, name=name)
        await server.wait_ready()
        async with TaskScope("apiserver") as face:
            face.start(http.run(stop), name="http")
            await http.wait_started()
            on_ready()


@contextlib.contextmanager
def _flag(flag: str, path: Path | str) -> Iterator[None]:
    """Raise an error that names the flag of an unusable path."""
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{flag}: {path} cannot be created: {error.strerror or error}") from error


def _host(address: str) -> str:
    host = "127.0.0.1" if address in {"0.0.0.0", ""} else "::1" if address == "::" else address  # noqa: S104 - compared, not bound
    return f"[{host}]" if ":" in host else host
