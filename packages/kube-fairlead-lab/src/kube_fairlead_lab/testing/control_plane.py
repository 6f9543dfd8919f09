"""What every control plane offers, whichever kind it is."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from kube_fairlead.client import Client

__all__ = ["ADMIN", "Access", "ControlPlane", "ControlPlaneFailed", "write_kubeconfig"]

ADMIN = "fairlead-admin"
"""The user, in group system:masters, that `ControlPlane.kubeconfig` speaks as."""


class ControlPlaneFailed(Exception):
    """A process of the control plane ended, or did not become ready in time; the message holds its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where an API server is and who speaks: a bearer token or a client certificate."""

    url: str
    ca_file: Path
    user: str
    token: str | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None


class ControlPlane(Protocol):
    """A running API server on loopback, with RBAC on, in a folder of its own.

    `start`, `stop` and `restart` belong to no event loop: a plane started under one may be stopped under another.
    """

    @property
    def kind(self) -> Literal["embedded", "kube"]:
        """Which of the two it is."""
        ...

    @property
    def audit_log(self) -> Path | None:
        """Where audit events go, one JSON object per line; None when auditing is off."""
        ...

    @property
    def url(self) -> str:
        """`https://127.0.0.1:<port>`; stays the same across restarts."""
        ...

    @property
    def ca_file(self) -> Path:
        """The certificate that signs the server's."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        ...

    def access(self, user: str = ADMIN, groups: Sequence[str] = ()) -> Access:
        """Credentials of any user; without arguments the administrator's."""
        ...

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig that speaks as this user in these groups (system:authenticated is always one)."""
        ...

    def client(self, user: str = ADMIN, groups: Sequence[str] = ()) -> Client:
        """Fairlead's own client as any user: `async with plane.client() as client`."""
        ...

    async def start(self) -> None:
        """Start everything and return when the API server answers ready."""
        ...

    async def stop(self) -> None:
        """End everything, in order, by force where asking does not help. Safe to call at any time, twice too."""
        ...

    async def stop_server(self, *, hard: bool = False) -> None:
        """Take only the API server down (`hard`: kill it); its data and port stay."""
        ...

    async def start_server(self) -> None:
        """Bring the API server back on the same data and port; returns when it is ready."""
        ...

    async def restart(self, *, hard: bool = False) -> None:
        """`stop_server`, then `start_server`."""
        ...

    def last_words(self) -> str:
        """The end of every process's log, for the report of a failed test."""
        ...


def write_kubeconfig(path: Path, access: Access) -> Path:
    """Write a kubeconfig with everything inline, readable by its owner only."""
    user: dict[str, str] = {}
    if access.token is not None:
        user["token"] = access.token
    if access.certificate_file is not None and access.key_file is not None:
        user["client-certificate-data"] = _inline(access.certificate_file)
        user["client-key-data"] = _inline(access.key_file)
    cluster = {"server": access.url, "certificate-authority-data": _inline(access.ca_file)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": access.user, "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": access.user}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")  # JSON is YAML
    return path


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
