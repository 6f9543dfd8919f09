"""Credentials from a program: the `exec` entry of a kubeconfig (client.authentication.k8s.io).

Upstream: k8s.io/client-go@v0.36.4/plugin/pkg/client/auth/exec/exec.go
"""

from __future__ import annotations

import asyncio
import datetime as dt
import pathlib
import sys
from typing import Any

import msgspec

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.environment import Environment
from kube_fairlead.client import credentials, errors
from kube_fairlead.client.credentials import Credential
from kube_fairlead.client.kubeconfigfile import Cluster, ExecConfig, Sourced

__all__ = ["ExecCredentials", "from_config"]

_GROUP = "client.authentication.k8s.io"
_API_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
# The cluster extension whose content a plugin gets as spec.cluster.config.
_CLUSTER_EXTENSION = f"{_GROUP}/exec"


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    expiration_timestamp: dt.datetime | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


def from_config(
    config: ExecConfig,
    cluster: Sourced[Cluster],
    *,
    field: str,
    path: pathlib.Path,
    environment: Environment,
    clock: Clock,
) -> ExecCredentials:
    """Check an `exec` entry and make credentials of it.

    Raises:
        KubeconfigError: the entry is incomplete or wrong.
    """

    def error(name: str, problem: str) -> errors.KubeconfigError:
        return errors.KubeconfigError(problem, field=f"{field}.{name}", path=path)

    if not config.command:
        raise error("command", "must not be empty")
    if config.api_version not in _API_VERSIONS:
        raise error("apiVersion", f"must be one of {', '.join(_API_VERSIONS)}, not {config.api_version!r}")
    for index, variable in enumerate(config.env or ()):
        if not variable.name:
            raise error(f"env[{index}].name", "must not be empty")
    mode = config.interactive_mode
    if not mode and config.api_version.endswith("/v1beta1"):
        mode = "IfAvailable"
    if mode not in _INTERACTIVE_MODES:
        raise error("interactiveMode", f"must be one of {', '.join(_INTERACTIVE_MODES)}, not {mode!r}")
    command = config.command
    if "/" in command or "\\" in command:
        command = str(path.parent / command)
    return ExecCredentials(
        clock,
        command=(command, *(config.args or ())),
        api_version=config.api_version,
        interactive_mode=mode,
        install_hint=config.install_hint,
        environment=environment.as_dict() | {variable.name: variable.value for variable in config.env or ()},
        cluster_info=_cluster_info(cluster) if config.provide_cluster_info else None,
    )


class ExecCredentials:
    """Runs the program when there is no valid credential; one run serves all waiting requests.

    Guarantees:
    1. The program runs at most once at a time, and not at all while a credential is cached and has not expired.
    2. A refused credential is renewed once, however many requests it was refused to.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        command: tuple[str, ...],
        api_version: str,
        interactive_mode: str,
        environment: dict[str, str],
        install_hint: str = "",
        cluster_info: dict[str, Any] | None = None,
    ) -> None:
        self._clock = clock
        self._command = command
        self._api_version = api_version
        self._interactive_mode = interactive_mode
        self._environment = environment
        self._install_hint = install_hint
        self._cluster_info = cluster_info
        self._cached: Credential | None = None
        self._expires: dt.datetime | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        """The cached credential, or a new one."""
        async with self._lock:
            expired = self._expires is not None and self._clock.now() >= self._expires
            if self._cached is None or expired:
                await self._renew()
            assert self._cached is not None  # noqa: S101 - what a successful renewal means; for the type checker
            return self._cached

    async def refused(self, credential: Credential) -> bool:
        """Run the program again, unless another request did so already."""
        async with self._lock:
            if self._cached == credential:
                await self._renew()
            return self._cached != credential

    async def _renew(self) -> None:
        interactive = self._interactive()
        output = await self._run(interactive=interactive)
        status = self._decode(output)
        certificate = None
        if status.client_certificate_data:
            certificate = credentials.Certificate(
                status.client_certificate_data.encode(), status.client_key_data.encode()
            )
        authorization = credentials.bearer(status.token) if status.token else ""
        self._cached = Credential(authorization, certificate)
        expires = status.expiration_timestamp
        if expires is not None and expires.tzinfo is None:
            expires = expires.replace(tzinfo=dt.UTC)
        self._expires = expires

    def _interactive(self) -> bool:
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if self._interactive_mode == "Always" and not terminal:
            raise self._error("needs to ask the user, but standard input is not a terminal")
        return terminal and self._interactive_mode != "Never"

    async def _run(self, *, interactive: bool) -> bytes:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._cluster_info is not None:
            spec["cluster"] = self._cluster_info
        info = {"kind": "ExecCredential", "apiVersion": self._api_version, "spec": spec}
        environment = self._environment | {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
                env=environment,
            )
        except (FileNotFoundError, PermissionError) as error:
            hint = f"; {self._install_hint.strip()}" if self._install_hint else ""
            reason = "was not found" if isinstance(error, FileNotFoundError) else "may not be executed"
            raise self._error(f"{reason}{hint}") from error
        except OSError as error:
            raise self._error(f"cannot be started: {error.strerror or error}") from error
        try:
            output, complaint = await process.communicate()
        except BaseException:
            # Cancelled while it runs: its output is not read.
            if process.returncode is None:
                process.kill()
                await process.wait()
            raise
        if process.returncode != 0:
            said = (complaint or b"").decode(errors="replace").strip().splitlines()
            raise self._error(f"failed with exit code {process.returncode}" + (f": {said[-1]}" if said else ""))
        return output

    def _decode(self, output: bytes) -> _Status:
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError as error:
            raise self._error(f"did not print an ExecCredential: {error}") from error
        if answer.api_version != self._api_version:
            raise self._error(f"printed apiVersion {answer.api_version!r}, expected {self._api_version!r}")
        status = answer.status
        if status is None:
            raise self._error("did not return a status field")
        if not (status.token or status.client_certificate_data or status.client_key_data):
            raise self._error("did not return a token or a certificate and key")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._error("returned only a certificate or only a key, not both")
        return status

    def _error(self, problem: str) -> errors.CredentialError:
        return errors.CredentialError(f"exec plugin {self._command[0]} {problem}")


def _cluster_info(cluster: Sourced[Cluster]) -> dict[str, Any]:
    entry = cluster.value
    authority = entry.certificate_authority_data
    if entry.certificate_authority and not authority:
        import base64

        file = cluster.path.parent / entry.certificate_authority
        authority = base64.b64encode(file.read_bytes()).decode()
    info: dict[str, Any] = {
        "server": entry.server,
        "tls-server-name": entry.tls_server_name,
        "insecure-skip-tls-verify": entry.insecure_skip_tls_verify,
        "certificate-authority-data": authority,
        "proxy-url": entry.proxy_url,
        "disable-compression": entry.disable_compression,
    }
    for extension in entry.extensions or ():
        if extension.name == _CLUSTER_EXTENSION:
            info["config"] = extension.extension
    return {key: value for key, value in info.items() if value}
