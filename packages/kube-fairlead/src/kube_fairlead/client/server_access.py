"""How to reach one API server and as whom: what every kind of configuration comes down to."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

from kube_fairlead.client import credentials

__all__ = ["Access", "Impersonation"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """Act as another user; the server checks whether the caller may."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One server, one identity."""

    server: str  # https://host:port, perhaps with a path in front of /api
    namespace: str = "default"
    certificate_authority: bytes | None = None  # PEM; with no file either, the system's own authorities
    certificate_authority_file: pathlib.Path | None = None  # read again when verification fails, for rotation
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: str = ""  # empty: as HTTPS_PROXY, HTTP_PROXY and NO_PROXY say
    credentials: credentials.Credentials = credentials.ANONYMOUS
    impersonation: Impersonation | None = None
