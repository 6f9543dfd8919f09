"""Who may read more than a component's health: the API server decides, as for kube-controller-manager.

The API server authenticates a bearer token (TokenReview) and authorizes its user to `get` the path
(SubjectAccessReview), so that rights are given by RBAC: a ClusterRole with `nonResourceURLs: [/metrics]`.

Upstream: k8s.io/apiserver@v0.36.4/pkg/authentication/authenticatorfactory/delegating.go,
    k8s.io/apiserver@v0.36.4/pkg/authorization/authorizerfactory/delegating.go
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from typing import Any, Final, Self

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.authentication_v1 import TokenReview, TokenReviewSpec, UserInfo
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base import logs
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client

__all__ = ["ALWAYS_ALLOWED", "DelegatedAuthorizer", "Refusal", "is_always_allowed"]

ALWAYS_ALLOWED: Final = ("/healthz", "/readyz", "/livez")
"""Paths for probes that need no token, as in kube-controller-manager."""

_ACCESS_REVIEWS: Final = GroupVersionResource("authorization.k8s.io", "v1", "subjectaccessreviews")
# As upstream caches both answers. A token is remembered by its digest.
_REMEMBERED_SECONDS: Final = 10.0
_REMEMBERED_MAX: Final = 256
_ASK_SECONDS: Final = 5.0
# Callers with made-up tokens must not become a flood at the API server.
_AT_ONCE: Final = 4

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is rejected."""

    status: HTTPStatus
    text: str


def is_always_allowed(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path needs no token. A pattern is a path, or the beginning of one and a star."""
    return any(path.startswith(one[:-1]) if one.endswith("*") else path == one for one in patterns)


class DelegatedAuthorizer:
    """Authenticates and authorizes callers by the API server. Without its answer the request is rejected."""

    def __init__(self, connect: Callable[[], Client], *, always_allow: Sequence[str] = ALWAYS_ALLOWED) -> None:
        self._connect = connect
        self._always_allow = tuple(always_allow)
        self._client: Client | None = None
        self._asking = asyncio.Semaphore(_AT_ONCE)
        self._remembered: dict[tuple[str, str], tuple[float, Refusal | None]] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Connect to the API server while the block lasts."""
        async with self._connect() as client:
            self._client = client
            try:
                yield self
            finally:
                self._client = None

    async def check(self, path: str, authorization: str) -> Refusal | None:
        """Why a GET of a path is rejected; None when it is allowed.

        Args:
            path: without its query.
            authorization: the header of the request; empty when there is none.
        """
        if is_always_allowed(path, self._always_allow):
            return None
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return Refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized: send a bearer token of the cluster\n")
        if self._client is None:
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "not ready to authenticate requests\n")
        key = (hashlib.sha256(token.encode()).hexdigest(), path)
        now = self._client.clock.monotonic()
        known = self._remembered.get(key)
        if known is not None and now < known[0]:
            return known[1]
        try:
            async with self._client.clock.timeout(_ASK_SECONDS), self._asking:
                refusal = await _ask(self._client, token, path)
        except (api_errors.ApiError, errors.ClientError, TimeoutError) as error:
            _log.warning("cannot authenticate a request", path=path, error=str(error) or "no answer in time")
            return Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE, "cannot authenticate the request: no answer of the API server\n"
            )
        self._remember(key, now + _REMEMBERED_SECONDS, refusal)
        return refusal

    def _remember(self, key: tuple[str, str], until: float, refusal: Refusal | None) -> None:
        self._remembered.pop(key, None)
        while len(self._remembered) >= _REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[key] = (until, refusal)


async def _ask(client: Client, token: str, path: str) -> Refusal | None:
    reviewed = await client.of(TokenReview).create(TokenReview(spec=TokenReviewSpec(token=token)))
    if not reviewed.status.authenticated:
        return Refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized: the API server does not know this token\n")
    user = reviewed.status.user
    answer: dict[str, Any] = await client.of(_ACCESS_REVIEWS).create(_access_review(user, path))
    if (answer.get("status") or {}).get("allowed") is True:
        return None
    return Refusal(HTTPStatus.FORBIDDEN, f'forbidden: User "{user.username}" cannot get path "{path}"\n')


def _access_review(user: UserInfo, path: str) -> dict[str, Any]:
    said = wire.to_dict(user)
    spec: dict[str, Any] = {"user": user.username, "nonResourceAttributes": {"path": path, "verb": "get"}}
    spec |= {name: said[name] for name in ("groups", "uid", "extra") if said.get(name)}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": spec}
