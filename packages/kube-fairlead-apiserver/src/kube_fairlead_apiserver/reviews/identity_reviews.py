"""SelfSubjectReview and TokenReview of authentication.k8s.io/v1.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/authentication/selfsubjectreview/rest.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/authentication/tokenreview/storage.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Response, json_response
from kube_fairlead_apiserver.security.authentication import Authentication
from kube_fairlead_apiserver.security.token_requests import review_token
from kube_fairlead_apiserver.verbs.body import read_object
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["IdentityReviews"]

_GROUP = "authentication.k8s.io"


class IdentityReviews:
    """Handles identity reviews."""

    def __init__(self, authentication: Authentication, audiences: Sequence[str]) -> None:
        self._authentication = authentication
        self._audiences = audiences

    def handlers(self) -> Mapping[str, Callable[[Call], Awaitable[Response]]]:
        """Return the handlers of reviews, by table."""
        return {f"tokenreviews.{_GROUP}": self._token, f"selfsubjectreviews.{_GROUP}": self._myself}

    async def _token(self, call: Call) -> Response:
        review = await read_object(call)
        return json_response(review_token(review, self._authentication.authenticate_token, self._audiences), 201)

    async def _myself(self, call: Call) -> Response:
        review = await read_object(call)
        review["status"] = {"userInfo": _shown(call.user)}
        return json_response(review, 201)


def _shown(user: UserInfo) -> Json:
    shown: Json = {"username": user.name}
    if user.uid:
        shown["uid"] = user.uid
    if user.groups:
        shown["groups"] = list(user.groups)
    if user.extra:
        shown["extra"] = {key: list(values) for key, values in user.extra.items()}
    return shown
