"""The interface of a control plane for tests."""

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
"""The user of `ControlPlane.kubeconfig`, in group system:masters."""


class ControlPlaneFailed(Exception):
    """A process of the control plane has ended, or is not ready in time; the message has the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The address of an API server and a user's credentials: a bearer token or a client certificate."""

    url: str
    ca_file: Path
    user: str
    token: str | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None


class ControlPlane(Protocol):
    """An API server on loopback, with RBAC, in its own folder.

    `start`, `stop` and `restart` can run in different event loops.
    """

    @property
    def kind(self) -> Literal["embedded", "kube"]:
        """The kind of control plane."""
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
        """Credentials of a user; by default the administrator's."""
        ...

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig of this user in these groups and system:authenticated."""
        ...

    def client(self, user: str = ADMIN, groups: Sequence[str] = ()) -> Client:
        """Fairlead's own client as any user: `async with plane.client() as client`."""
        ...

    async def start(self) -> None:
        """Start everything and return when the API server is ready."""
        ...

    async def stop(self) -> None:
        """Stop everything in order, with SIGKILL if SIGTERM does not help. Can be called at any time and repeatedly."""
        ...

    async def stop_server(self, *, hard: bool = False) -> None:
        """Stop only the API server (`hard`: with SIGKILL); its data and port stay."""
        ...

    async def start_server(self) -> None:
        """Start the API server on the same data and port, and wait until it is ready."""
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
