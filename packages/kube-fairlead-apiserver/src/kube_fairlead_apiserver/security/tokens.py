"""Service account tokens: signed claims about a service account and the object that the token is bound to.

A token is valid while its signature, time and audience are valid, and while the service account and the pod, node or
secret that it is bound to exist with the same UID. Nothing about a token is stored.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/serviceaccount/claims.go,
    k8s.io/kubernetes@v1.36.4/pkg/serviceaccount/jwt.go,
    k8s.io/apiserver@v0.36.4/pkg/authentication/serviceaccount/util.go
"""

from __future__ import annotations

import collections
import datetime as dt
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kube_fairlead.api import golang
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import parse_time
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.identity import Ids
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.security import identities
from kube_fairlead_apiserver.security.pki.jose import TokenKey, base64url, from_base64url

__all__ = ["InvalidToken", "IssuedToken", "Lookup", "ServiceAccountTokens", "TokenBinding", "VerifiedToken"]

# One object of the cluster by resource, namespace and name, or None.
Lookup = Callable[[str, str, str], Json | None]

_LEEWAY = dt.timedelta(minutes=1)
_REMEMBERED = 4096


class InvalidToken(Exception):
    """Raised for an invalid or expired token. The message may be shown in a TokenReview."""


class TokenBinding(NamedTuple):
    """The object that a token is bound to: a secret, a node, or a pod (with its node)."""

    pod: Json | None = None
    node: Json | None = None
    secret: Json | None = None


class IssuedToken(NamedTuple):
    """A new token and the id that its uses carry in the audit log."""

    token: str
    credential_id: str


class VerifiedToken(NamedTuple):
    """The user of a token, and the requested audiences that it is valid for."""

    user: UserInfo
    audiences: tuple[str, ...]


class ServiceAccountTokens:
    """Issues and verifies tokens. The first key signs, all keys verify, so that keys can be rotated."""

    def __init__(
        self,
        keys: Sequence[TokenKey],
        lookup: Lookup,
        clock: Clock,
        ids: Ids,
        *,
        issuer: str,
        audiences: Sequence[str] = (),
    ) -> None:
        self._given = keys
        self._signer = keys[0]
        self._lookup = lookup
        self._clock = clock
        self._ids = ids
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        # Claims whose signature has been verified, by the token's hash; everything else is checked on every use.
        self._remembered: collections.OrderedDict[bytes, Json] = collections.OrderedDict()

    @functools.cached_property
    def _keys(self) -> Mapping[str, TokenKey]:
        # Computed for the first token: the key id needs the library that reads keys.
        return {key.key_id: key for key in self._given}

    def issue(
        self,
        service_account: Json,
        audiences: Sequence[str],
        expiration_seconds: int,
        binding: TokenBinding | None = None,
        *,
        warn_after_seconds: int = 0,
    ) -> IssuedToken:
        """Return a signed token for a service account."""
        binding = binding or TokenBinding()
        metadata = service_account["metadata"]
        private: Json = {"namespace": metadata["namespace"], "serviceaccount": _reference(metadata)}
        now = int(self._clock.now().timestamp())
        for name, bound in (("pod", binding.pod), ("secret", binding.secret), ("node", binding.node)):
            if bound is not None:
                private[name] = _reference(bound["metadata"])
        if warn_after_seconds:
            private["warnafter"] = now + warn_after_seconds
        token_id = self._ids.uuid()
        claims = {
            "aud": list(audiences),
            "exp": now + expiration_seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": token_id,
            "kubernetes.io": private,
            "nbf": now,
            "sub": identities.service_account_user(metadata["namespace"], metadata["name"]),
        }
        header = {"alg": self._signer.algorithm, "kid": self._signer.key_id}
        signed = f"{base64url(msgspec.json.encode(header))}.{base64url(msgspec.json.encode(claims, order='sorted'))}"
        return IssuedToken(f"{signed}.{base64url(self._signer.sign(signed.encode()))}", f"JTI={token_id}")

    def verify(self, token: str, audiences: Sequence[str] | None = None) -> VerifiedToken | None:
        """Return the user of a token. None if this server did not issue it, InvalidToken if it is not valid."""
        claims = self._claims(token)
        if claims is None:
            return None
        wanted = tuple(audiences) if audiences else self.audiences
        given = claims.get("aud") or []
        given = tuple([given] if isinstance(given, str) else given) or self.audiences
        known = frozenset(wanted)
        common = tuple(audience for audience in given if audience in known)
        if not common:
            raise InvalidToken(
                f"token audiences {_quoted(given)} is invalid for the target audiences {_quoted(wanted)}"
            )
        self._check_time(claims)
        return VerifiedToken(self._user(claims), common)

    def _claims(self, token: str) -> Json | None:
        digest = hashlib.sha256(token.encode()).digest()
        remembered = self._remembered.get(digest)
        if remembered is not None:
            self._remembered.move_to_end(digest)
            return remembered
        parts = token.split(".")
        if len(parts) != 3:
            return None
        try:
            header, claims = (msgspec.json.decode(from_base64url(part)) for part in parts[:2])
            signature = from_base64url(parts[2])
        except (ValueError, msgspec.DecodeError, RecursionError):
            return None
        if not isinstance(header, dict) or not isinstance(claims, dict) or claims.get("iss") != self.issuer:
            return None
        kid = header.get("kid")
        if kid is not None and not isinstance(kid, str):
            return None
        keys = list(self._keys.values()) if not kid else [self._keys[kid]] if kid in self._keys else []
        if not keys:
            raise InvalidToken("invalid signature, no keys found")
        message = f"{parts[0]}.{parts[1]}".encode()
        # The algorithm is the key's, never that of the header.
        if not any(header.get("alg") == key.algorithm and key.verifies(signature, message) for key in keys):
            raise InvalidToken("go-jose/go-jose: error in cryptographic primitive")
        self._remembered[digest] = claims
        if len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)
        return claims

    def _check_time(self, claims: Json) -> None:
        now, leeway = self._clock.now().timestamp(), _LEEWAY.total_seconds()
        moments = {name: claims[name] for name in ("nbf", "exp", "iat") if isinstance(claims.get(name), (int, float))}
        if moments.get("nbf", now) > now + leeway:
            raise InvalidToken("service account token is not valid yet")
        if moments.get("exp", now) < now - leeway:
            raise InvalidToken("service account token has expired")
        if moments.get("iat", now) > now + leeway:
            raise InvalidToken("service account token is issued in the future")

    def _user(self, claims: Json) -> UserInfo:
        private = claims.get("kubernetes.io")
        if not isinstance(private, dict) or not isinstance(private.get("serviceaccount"), dict):
            raise InvalidToken("service account token claims could not be validated due to unexpected validation error")
        namespace, account = private.get("namespace", ""), private["serviceaccount"]
        self._check_account(namespace, account)
        extra: dict[str, tuple[str, ...]] = {}
        secret, pod, node = (private.get(name) for name in ("secret", "pod", "node"))
        if secret:
            self._check_bound("secret", "secrets", namespace, secret)
        if pod:
            self._check_bound("pod", "pods", namespace, pod)
            extra[identities.POD_NAME] = (pod["name"],)
            extra[identities.POD_UID] = (pod["uid"],)
        if claims.get("jti"):
            extra[identities.CREDENTIAL_ID] = (f"JTI={claims['jti']}",)
        if node:
            if not pod:  # beside a pod it is informative only: the pod's lifetime decides
                self._check_bound("node", "nodes", "", node)
            extra[identities.NODE_NAME] = (node["name"],)
            if node.get("uid"):
                extra[identities.NODE_UID] = (node["uid"],)
        return UserInfo(
            name=identities.service_account_user(namespace, account["name"]),
            uid=account.get("uid", ""),
            groups=identities.service_account_groups(namespace),
            extra=extra,
        )

    def _check_account(self, namespace: str, account: Json) -> None:
        found = self._lookup("serviceaccounts", namespace, account.get("name", ""))
        if found is None:
            raise InvalidToken(f"serviceaccounts {golang.quote(account.get('name', ''))} not found")
        uid = found["metadata"]["uid"]
        if uid != account.get("uid"):
            raise InvalidToken(f"service account UID ({uid}) does not match claim ({account.get('uid', '')})")
        if self._deleted(found):
            raise InvalidToken(f"service account {namespace}/{account['name']} has been deleted")

    def _check_bound(self, kind: str, resource: str, namespace: str, reference: Json) -> None:
        found = self._lookup(resource, namespace, reference.get("name", ""))
        if found is None or self._deleted(found):
            raise InvalidToken("service account token has been invalidated")
        uid = found["metadata"]["uid"]
        if uid != reference.get("uid"):
            claim = f"service account {kind} ref claim ({reference.get('uid', '')})"
            raise InvalidToken(f"{kind} UID ({uid}) does not match {claim}")

    def _deleted(self, found: Json) -> bool:
        """Return whether the object is deleted; the leeway allows it to use its token while it terminates."""
        moment = found["metadata"].get("deletionTimestamp")
        return moment is not None and parse_time(moment) < self._clock.now() - _LEEWAY

    def jwks(self) -> Json:
        """Return the public keys, for clients that verify tokens themselves: `/openid/v1/jwks`."""
        return {"keys": [key.jwk() for key in self._keys.values()]}

    def discovery(self, jwks_uri: str) -> Json:
        """Return the location of the keys: `/.well-known/openid-configuration`."""
        return {
            "issuer": self.issuer,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key.algorithm for key in self._keys.values()}),
        }


def _reference(metadata: Json) -> Json:
    return {name: metadata[name] for name in ("name", "uid") if metadata.get(name)}


def _quoted(items: Sequence[str]) -> str:
    return "[" + " ".join(golang.quote(str(item)) for item in items) + "]"
