"""Kubeconfig files: the address of the server and the credentials of a client."""

from __future__ import annotations

import base64
import errno
import json
from pathlib import Path

import msgspec

from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock
from kube_fairlead_apiserver.security.pki.credentials import Credentials
from kube_fairlead_apiserver.security.private_files import read_private, write_private

__all__ = ["Kubeconfig", "KubeconfigFile"]

_NO_ROOM = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_AGAIN_SECONDS = 1.0
_log = logs.get_logger(__name__)

# Values are inserted as JSON, which is YAML.
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
        """Return the file's content.

        From a template, because a YAML library takes longer to load than the server to start.
        """
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
        """Write it for its owner only, unless it exists unchanged: a restart works on a full disk."""
        content = self.to_yaml().encode()
        if _read(path) != content:
            write_private(path, content, durable=False)


class KubeconfigFile:
    """The path of a kubeconfig. On a full disk the server starts, and writes it as soon as there is space."""

    def __init__(self, content: Kubeconfig, path: Path) -> None:
        self._content = content
        self.path = path
        self.problem: str | None = None  # the reason why the file is not up to date

    def write(self) -> bool:
        """Write it; returns whether it was written. Raises errors other than a full disk."""
        try:
            self._content.write(self.path)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self.problem = (
                f"{self.path} could not be written: no room left on the disk; the server is {self._content.server}"
            )
            return False
        self.problem = None
        return True

    async def keep(self, clock: Clock) -> None:
        """Retry until the file is written."""
        if self.problem is None:
            return
        _log.error(
            "kubeconfig could not be written: no room left on the disk",
            path=str(self.path),
            server=self._content.server,
        )
        while not self.write():
            await clock.sleep(_AGAIN_SECONDS)
        _log.info("kubeconfig written", path=str(self.path))


def _read(path: Path) -> bytes | None:
    """Return the current content; None when there is none, or it is not readable."""
    try:
        return read_private(path)
    except OSError:
        return None


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
