"""Who am I, and is this token good: the reviews of authentication.k8s.io/v1."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from fairlead.api import errors
from fairlead.apiserver.attributes import UserInfo
from fairlead.apiserver.http.messages import Json, Response, json_response
from fairlead.apiserver.verbs.body import read_object
from fairlead.apiserver.verbs.call import Call

__all__ = ["IdentityReviews", "TokenChecker"]

_GROUP = "authentication.k8s.io"


class TokenChecker(Protocol):
    """Tells whose token it is."""

    def check_token(self, token: str, audiences: tuple[str, ...]) -> tuple[UserInfo, tuple[str, ...]]:
        """The user and the audiences it is good for; raises Unauthorized when it is no good."""
        ...


class IdentityReviews:
    """Answers reviews; `handlers` is by table."""

    def __init__(self, tokens: TokenChecker) -> None:
        self._tokens = tokens

    def handlers(self) -> Mapping[str, Callable[[Call], Awaitable[Response]]]:
        """Which review is answered by what."""
        return {f"tokenreviews.{_GROUP}": self._token, f"selfsubjectreviews.{_GROUP}": self._myself}

    async def _token(self, call: Call) -> Response:
        review = await read_object(call)
        spec = review.get("spec") or {}
        if not spec.get("token"):
            raise errors.BadRequest("token is required for TokenReview in authentication")
        try:
            user, audiences = self._tokens.check_token(spec["token"], tuple(spec.get("audiences") or ()))
        except errors.Unauthorized as error:
            review["status"] = {"authenticated": False, "user": {}, "error": str(error)}
        else:
            status: Json = {"authenticated": True, "user": _shown(user)}
            if audiences:
                status["audiences"] = list(audiences)
            review["status"] = status
        return json_response(review, 201)

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
