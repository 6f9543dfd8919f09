"""What a request proves itself with, and how it is renewed.

Upstream: k8s.io/client-go@v0.36.4/transport/token_source.go
"""

from __future__ import annotations

import base64
import dataclasses
import pathlib
from typing import Protocol

from kube_fairlead.base.clock import Clock
from kube_fairlead.client import errors

__all__ = [
    "ANONYMOUS",
    "Certificate",
    "Credential",
    "Credentials",
    "FileCredentials",
    "StaticCredentials",
    "basic",
    "bearer",
]

# The kubelet replaces a projected token when 80 % of its life is over, so a minute of delay is harmless.
_REREAD_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its key, PEM."""

    chain: bytes
    key: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Credential:
    """One proof of identity: an Authorization header, a client certificate, both or neither."""

    authorization: str = dataclasses.field(default="", repr=False)
    certificate: Certificate | None = None


class Credentials(Protocol):
    """Where credentials come from."""

    async def current(self) -> Credential:
        """The credential to use now. Cheap when nothing changed."""
        ...

    async def refused(self, credential: Credential) -> bool:
        """The server answered 401 to this one. True: there is another one by now, so try again."""
        ...


class StaticCredentials:
    """A credential that never changes."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        """Always the same."""
        return self._credential

    async def refused(self, credential: Credential) -> bool:  # noqa: ARG002 - there is nothing to compare it with
        """There is no other."""
        return False


ANONYMOUS = StaticCredentials(Credential())


class FileCredentials:
    """A token file, or a certificate and key file, that another program rotates.

    Read again at most once a minute, and at once when the server refuses what was read before.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        token_file: pathlib.Path | None = None,
        certificate_file: pathlib.Path | None = None,
        key_file: pathlib.Path | None = None,
        fallback: Credential | None = None,
    ) -> None:
        self._clock = clock
        self._token_file = token_file
        self._certificate_file = certificate_file
        self._key_file = key_file
        self._credential = fallback or Credential()
        self._read_at: float | None = None

    async def current(self) -> Credential:
        """What the files said when they were last looked at."""
        if self._read_at is None or self._clock.monotonic() - self._read_at >= _REREAD_SECONDS:
            self._reread(must_succeed=self._read_at is None)
        return self._credential

    async def refused(self, credential: Credential) -> bool:
        """Look at the files now."""
        if self._credential == credential:
            self._reread(must_succeed=False)
        return self._credential != credential

    def _reread(self, *, must_succeed: bool) -> None:
        try:
            self._credential = self._read()
        except errors.CredentialError:
            # The rotation may be halfway through; what was valid a minute ago most likely still is.
            if must_succeed and self._credential == Credential():
                raise
        self._read_at = self._clock.monotonic()

    def _read(self) -> Credential:
        authorization = self._credential.authorization
        if self._token_file is not None:
            authorization = bearer(_read_file(self._token_file).decode(errors="replace").strip())
            if authorization == bearer(""):
                raise errors.CredentialError(f"token file {self._token_file} is empty")
        certificate = self._credential.certificate
        if self._certificate_file is not None and self._key_file is not None:
            certificate = Certificate(_read_file(self._certificate_file), _read_file(self._key_file))
        return Credential(authorization, certificate)


def bearer(token: str) -> str:
    """An Authorization value for a token."""
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """An Authorization value for a user name and password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def _read_file(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise errors.CredentialError(f"cannot read {path}: {error.strerror or error}") from error
