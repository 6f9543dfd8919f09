"""Kubeconfig files: how kubectl and every other client finds the server and proves who it is."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from typing import Any

import yaml

from fairlead.apiserver.security.files import write_private
from fairlead.apiserver.security.pki.authority import Credentials

__all__ = ["Kubeconfig"]


@dataclasses.dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One cluster, one user, one context."""

    server: str
    authority: bytes  # PEM of the CA
    credentials: Credentials
    user: str = "admin"
    cluster: str = "fairlead"

    def to_dict(self) -> dict[str, Any]:
        """The file's content."""
        context = f"{self.user}@{self.cluster}"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": self.cluster,
                    "cluster": {"server": self.server, "certificate-authority-data": _encoded(self.authority)},
                }
            ],
            "users": [
                {
                    "name": self.user,
                    "user": {
                        "client-certificate-data": _encoded(self.credentials.certificate),
                        "client-key-data": _encoded(self.credentials.key),
                    },
                }
            ],
            "contexts": [{"name": context, "context": {"cluster": self.cluster, "user": self.user}}],
            "current-context": context,
        }

    def write(self, path: Path) -> None:
        """Write it where only its owner can read it."""
        write_private(path, yaml.safe_dump(self.to_dict(), sort_keys=False).encode())


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
