"""Authentication by client certificate, static token or service account token; without credentials, anonymous.

The first valid credential decides. An invalid one is an error even if none was needed, so a client never continues as
another user than it expects.

Upstream: k8s.io/apiserver@v0.36.4/pkg/authentication/request/union/union.go,
    k8s.io/apiserver@v0.36.4/pkg/authentication/request/bearertoken/bearertoken.go,
    k8s.io/apiserver@v0.36.4/pkg/authentication/request/x509/x509.go,
    k8s.io/apiserver@v0.36.4/pkg/authentication/request/anonymous/anonymous.go,
    k8s.io/apiserver@v0.36.4/pkg/authentication/token/tokenfile/tokenfile.go,
    k8s.io/kubernetes@v1.36.4/pkg/kubeapiserver/authenticator/config.go
"""

from __future__ import annotations

import csv
import hmac
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kube_fairlead.api import errors
from kube_fairlead.base import logs
from kube_fairlead_apiserver.attributes import ANONYMOUS, UserInfo
from kube_fairlead_apiserver.http.messages import Request
from kube_fairlead_apiserver.security import identities
from kube_fairlead_apiserver.security.pki.subjects import certificate_subject
from kube_fairlead_apiserver.security.tokens import InvalidToken, ServiceAccountTokens, VerifiedToken

__all__ = ["Authentication", "TokenAuthenticator", "TokenFileError", "bearer_token", "read_token_file"]


_log = logs.get_logger(__name__)


class TokenFileError(ValueError):
    """Raised for an invalid tokens file; the message has the line and the reason."""


class TokenAuthenticator(Protocol):
    """One kind of bearer token."""

    def verify(self, token: str, audiences: Sequence[str] | None = None) -> VerifiedToken | None:
        """Return the user of a token; None if it is not of this kind; InvalidToken if it is invalid."""
        ...


class _StaticTokens:
    def __init__(self, users: Mapping[str, UserInfo], audiences: Sequence[str]) -> None:
        self._users = [(token.encode(), identities.with_authenticated_group(user)) for token, user in users.items()]
        self._audiences = audiences  # the only audience of these tokens: the API server

    def verify(self, token: str, audiences: Sequence[str] | None = None) -> VerifiedToken | None:
        found: UserInfo | None = None
        shown = token.encode()
        for known, user in self._users:
            # All tokens are compared, each in constant time, so that the duration discloses nothing.
            if hmac.compare_digest(known, shown):
                found = user
        if found is None:
            return None
        common = tuple(audience for audience in audiences or () if audience in self._audiences)
        return None if audiences and not common else VerifiedToken(found, common)


def read_token_file(path: Path) -> dict[str, UserInfo]:
    """Users by token, from lines of `token,user name,user uid[,"group1,group2"]`.

    Raises:
        TokenFileError: the file is malformed.
    """
    users: dict[str, UserInfo] = {}
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenFileError(f"--token-auth-file: {path} is no text in UTF-8") from error
    _check_mode(path)
    for number, row in enumerate(csv.reader(io.StringIO(text, newline=""), skipinitialspace=True), start=1):
        if not row:
            continue
        if len(row) < 3:
            raise TokenFileError(
                f"--token-auth-file: {path}:{number}: must have at least 3 columns (token, user name, user uid),"
                f" found {len(row)}"
            )
        token, name, uid, *rest = row
        if not token:
            raise TokenFileError(f"--token-auth-file: {path}:{number}: the token is empty")
        if token in users:
            raise TokenFileError(f"--token-auth-file: {path}:{number}: the token occurs twice")
        groups = tuple(group for group in rest[0].split(",") if group) if rest else ()
        users[token] = UserInfo(name=name, uid=uid, groups=groups)
    return users


def _check_mode(path: Path) -> None:
    """Check the file's mode: it holds credentials. The group may read it, because a service may need that."""
    if os.name != "posix":
        return
    mode = path.stat().st_mode & 0o777
    if mode & 0o026:
        able = "be written by other users" if mode & 0o022 else "be read by every user"
        raise TokenFileError(f"--token-auth-file: {path} can {able} (mode {mode:04o}); run: chmod 600 {path}")


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """Return the token of an Authorization header; None if there is no bearer token at all."""
    parts = headers.get("authorization", "").strip().split(" ")
    if len(parts) < 2 or parts[0].lower() != "bearer" or not parts[1]:
        return None
    return parts[1]


class Authentication:
    """The chain of authenticators. It keeps no state about callers."""

    def __init__(
        self,
        *,
        service_accounts: ServiceAccountTokens | None = None,
        static_tokens: Mapping[str, UserInfo] | None = None,
        more: Iterable[TokenAuthenticator] = (),
        anonymous: bool = True,
    ) -> None:
        self._tokens: list[TokenAuthenticator] = []
        if static_tokens:
            own = service_accounts.audiences if service_accounts is not None else ()
            self._tokens.append(_StaticTokens(static_tokens, own))
        if service_accounts is not None:
            self._tokens.append(service_accounts)
        self._tokens.extend(more)
        self._anonymous = anonymous

    def authenticate(self, request: Request) -> UserInfo:
        """Return the caller. Unauthorized for an invalid credential, or without any when anonymous access is off."""
        if request.trusted_user is not None:
            trusted: UserInfo = request.trusted_user
            return trusted
        if request.peer_certificate is not None:
            user = _certificate_user(request.peer_certificate)
            if user is not None:
                return user
        token = bearer_token(request.headers)
        if token is not None:
            return self._bearer(token)
        if not self._anonymous:
            raise errors.Unauthorized("Unauthorized")
        return ANONYMOUS

    def _bearer(self, token: str) -> UserInfo:
        """Return the user of a token. The reason of a rejection is only logged, because the caller may be guessing."""
        try:
            verified = self.authenticate_token(token)
        except errors.Unauthorized as error:
            _log.info("credentials rejected", reason=str(error))
            raise errors.Unauthorized("Unauthorized") from None
        if verified is None:
            raise errors.Unauthorized("Unauthorized")
        return verified.user

    def authenticate_token(self, token: str, audiences: Sequence[str] | None = None) -> VerifiedToken | None:
        """Return the user of a bearer token.

        None if the token is unknown, Unauthorized with the reason if it is invalid.
        """
        for kind in self._tokens:
            try:
                verified = kind.verify(token, audiences)
            except InvalidToken as error:
                raise errors.Unauthorized(str(error)) from None
            if verified is not None:
                return VerifiedToken(identities.with_authenticated_group(verified.user), verified.audiences)
        return None


def _certificate_user(certificate: bytes) -> UserInfo | None:
    name, organizations, fingerprint = certificate_subject(certificate)
    if not name:
        return None
    extra = {identities.CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
    return identities.with_authenticated_group(UserInfo(name=name, groups=organizations, extra=extra))
