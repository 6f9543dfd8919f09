"""Kubeconfig files: how kubectl and every other client finds the server and proves who it is."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import msgspec

from fairlead.apiserver.security.files import read_private, write_private
from fairlead.apiserver.security.pki.credentials import Credentials

__all__ = ["Kubeconfig"]

# Text goes in as JSON, which is YAML.
_TEMPLATE = """\
apiVersion: v1
kind: Config
clusters:
- name: {cluster}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {context}
  context:
    cluster: {cluster}
    user: {user}
current-context: {context}
"""


class Kubeconfig(msgspec.Struct, frozen=True):
    """One cluster, one user, one context."""

    server: str
    authority: bytes  # PEM of the CA
    credentials: Credentials
    user: str = "admin"
    cluster: str = "fairlead"

    def to_yaml(self) -> str:
        """The file's content. Written out here: a library for YAML takes longer to load than the server to start."""
        return _TEMPLATE.format(
            cluster=json.dumps(self.cluster),
            server=json.dumps(self.server),
            authority=_encoded(self.authority),
            user=json.dumps(self.user),
            certificate=_encoded(self.credentials.certificate),
            key=_encoded(self.credentials.key),
            context=json.dumps(f"{self.user}@{self.cluster}"),
        )

    def write(self, path: Path) -> None:
        """Write it where only its owner can read it, unless it is there: a full disk does not stop a restart."""
        content = self.to_yaml().encode()
        if _read(path) != content:
            write_private(path, content, durable=False)


def _read(path: Path) -> bytes | None:
    """What is there; None when there is nothing, or nothing that this process may read."""
    try:
        return read_private(path)
    except OSError:
        return None


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
