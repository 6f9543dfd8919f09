"""The file behind `--cloud-config`.

    address: cloud.example:8443      # or unix:///run/nimbus/cloud.sock
    platforms: [nimbus]              # the schemes of the providerIDs that this manager answers for
    parts: [instances, routes, loadBalancers]   # what the cloud can do [default: instances]
    tls:                             # needed unless the address is a unix socket
      caFile: ca.crt                 # who signed the server's certificate
      certFile: client.crt           # what this manager shows
      keyFile: client.key
      serverName: cloud.example      # in the server's certificate [default: the host of the address]

File names are relative to this file. Certificates are read again when they change.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Final

import msgspec

from kube_fairlead.api.yamltext import parser
from kube_fairlead.cloud.errors import ProviderError
from kube_fairlead.cloud.ownership import PlatformError, parse_platforms
from kube_fairlead.cloud.provider import ProviderSettings

__all__ = ["PARTS", "ExternalConfig", "TlsFiles", "read_config"]

PARTS: Final = ("instances", "routes", "loadBalancers")
_UNIX: Final = "unix://"


class _Tls(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    ca_file: str
    cert_file: str
    key_file: str
    server_name: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    address: str
    platforms: list[str]
    parts: tuple[str, ...] = ("instances",)
    tls: _Tls | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class TlsFiles:
    """Whom to trust, and what to show."""

    authority: pathlib.Path
    certificate: pathlib.Path
    key: pathlib.Path
    server_name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExternalConfig:
    """The address of the cloud's server, and which parts of it this manager uses."""

    socket: str = ""  # the path of a unix socket; else:
    host: str = ""
    port: int = 0
    tls: TlsFiles | None = None
    platforms: frozenset[str]
    parts: frozenset[str]

    @property
    def address(self) -> str:
        """For people."""
        return self.socket or f"{self.host}:{self.port}"


def read_config(settings: ProviderSettings) -> ExternalConfig:
    """Read the file.

    Raises:
        ProviderError: it cannot be read, or a field does not do.
    """
    path = settings.cloud_config
    if path is None:
        raise ProviderError("cloud provider external-grpc needs --cloud-config: where the cloud's server is")
    try:
        file = msgspec.convert(parser.read(path.read_text(encoding="utf-8")), _File)
        return _config(file, path.parent)
    except (OSError, UnicodeDecodeError, ValueError, PlatformError) as error:
        raise ProviderError(f"--cloud-config {path}: {error}") from error


def _config(file: _File, folder: pathlib.Path) -> ExternalConfig:
    platforms = parse_platforms(file.platforms)
    if not platforms:
        raise ValueError("platforms: must name at least one")
    if unknown := sorted(set(file.parts) - set(PARTS)):
        raise ValueError(f"parts: {unknown[0]!r} is not known; known are {', '.join(PARTS)}")
    parts = frozenset(file.parts)
    if file.address.startswith(_UNIX):
        socket = file.address.removeprefix(_UNIX)
        if not socket.startswith("/"):
            raise ValueError(f"address: {file.address!r} must be an absolute path, such as unix:///run/cloud.sock")
        if file.tls is not None:
            raise ValueError("tls: a unix socket has none")
        return ExternalConfig(socket=socket, platforms=platforms, parts=parts)
    host, _, port = file.address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"address: must be HOST:PORT or unix:///PATH, got {file.address!r}")
    if file.tls is None:
        raise ValueError("tls: is needed for an address that is no unix socket; who answers decides what is deleted")
    host = host.removeprefix("[").removesuffix("]")
    return ExternalConfig(host=host, port=int(port), tls=_tls(file.tls, folder, host), platforms=platforms, parts=parts)


def _tls(tls: _Tls, folder: pathlib.Path, host: str) -> TlsFiles:
    named = {"caFile": tls.ca_file, "certFile": tls.cert_file, "keyFile": tls.key_file}
    for field, name in named.items():
        if not (folder / name).is_file():
            raise ValueError(f"tls.{field}: there is no file {folder / name}")
    authority, certificate, key = (folder / name for name in named.values())
    return TlsFiles(authority, certificate, key, tls.server_name or host)
