"""authentication.k8s.io/v1: token requests and token reviews.

Upstream: k8s.io/api@v0.36.4/authentication/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import Part, Time, always, mapping

__all__ = [
    "BoundObjectReference",
    "TokenRequest",
    "TokenRequestSpec",
    "TokenRequestStatus",
    "TokenReview",
    "TokenReviewSpec",
    "TokenReviewStatus",
    "UserInfo",
]


class BoundObjectReference(Part):
    """The object a token dies with."""

    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestSpec(Part):
    """What kind of token is wanted."""

    audiences: tuple[str, ...] = always(())
    expiration_seconds: int | None = None
    bound_object_ref: BoundObjectReference | None = None


class TokenRequestStatus(Part):
    """The token."""

    token: str = always("")
    expiration_timestamp: Time | None = None


class TokenRequest(KubeObject):
    """Requests a token of a service account."""

    api_version: str = always("authentication.k8s.io/v1")
    kind: str = always("TokenRequest")
    spec: TokenRequestSpec = always(TokenRequestSpec())
    status: TokenRequestStatus = TokenRequestStatus()


class UserInfo(Part):
    """Who someone is."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = mapping()


class TokenReviewSpec(Part):
    """The token in question."""

    token: str = ""
    audiences: tuple[str, ...] = ()


class TokenReviewStatus(Part):
    """The user of the token, if it is valid."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenReview(KubeObject):
    """Requests the user of a token."""

    api_version: str = always("authentication.k8s.io/v1")
    kind: str = always("TokenReview")
    spec: TokenReviewSpec = always(TokenReviewSpec())
    status: TokenReviewStatus = TokenReviewStatus()
