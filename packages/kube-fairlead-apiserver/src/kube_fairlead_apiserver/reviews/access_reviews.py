"""The access reviews of authorization.k8s.io/v1, decided by the server's authorizer.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/authorization/util/helpers.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/authorization/subjectaccessreview/rest.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/authorization/selfsubjectaccessreview/rest.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/authorization/localsubjectaccessreview/rest.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/authorization/selfsubjectrulesreview/rest.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/authorization/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.gvk import GroupKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.http.messages import Response, json_response
from kube_fairlead_apiserver.security.authorization import Authorization
from kube_fairlead_apiserver.security.rbac import Rbac
from kube_fairlead_apiserver.verbs.body import read_object
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["AccessReviews"]

_GROUP = "authorization.k8s.io"


class AccessReviews:
    """Handles access reviews."""

    def __init__(self, authorizer: Authorization, rbac: Rbac) -> None:
        self._authorizer = authorizer
        self._rbac = rbac

    def handlers(self) -> Mapping[str, Callable[[Call], Awaitable[Response]]]:
        """Return the handlers of reviews, by table."""
        return {
            f"subjectaccessreviews.{_GROUP}": self._subject,
            f"localsubjectaccessreviews.{_GROUP}": self._subject,
            f"selfsubjectaccessreviews.{_GROUP}": self._myself,
            f"selfsubjectrulesreviews.{_GROUP}": self._my_rules,
        }

    async def _subject(self, call: Call) -> Response:
        review = await read_object(call)
        spec = review.get("spec") or {}
        _check_question(call, review, spec)
        if not spec.get("user") and not spec.get("groups"):
            problem = FieldError.invalid(
                FieldPath("spec").child("user"), "", "at least one of user or group must be specified"
            )
            raise errors.invalid(GroupKind(_GROUP, call.resource.kind), "", [problem])
        asked_namespace = (spec.get("resourceAttributes") or {}).get("namespace", "")
        if call.resource.namespaced and asked_namespace != call.info.namespace:
            problem = FieldError.invalid(
                FieldPath("spec").child("resourceAttributes").child("namespace"),
                asked_namespace,
                "must match metadata.namespace",
            )
            raise errors.invalid(GroupKind(_GROUP, call.resource.kind), "", [problem])
        user = UserInfo(
            name=spec.get("user") or "",
            uid=spec.get("uid") or "",
            groups=tuple(spec.get("groups") or ()),
            extra={key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()},
        )
        return self._answer(review, spec, user)

    async def _myself(self, call: Call) -> Response:
        review = await read_object(call)
        spec = review.get("spec") or {}
        _check_question(call, review, spec)
        return self._answer(review, spec, call.user)

    def _answer(self, review: Json, spec: Json, user: UserInfo) -> Response:
        decision = self._authorizer.decide(_attributes(spec, user))
        status: Json = {"allowed": decision.allowed}
        reason = decision.reason or (self._rbac.explain(_attributes(spec, user)) if decision.allowed else "")
        if reason:
            status["reason"] = reason
        review["status"] = status
        review.setdefault("metadata", {})
        return json_response(review, 201)

    async def _my_rules(self, call: Call) -> Response:
        review = await read_object(call)
        namespace = (review.get("spec") or {}).get("namespace") or ""
        if not namespace:
            raise errors.BadRequest("no namespace on request")
        resolved = self._rbac.rules_for(call.user, namespace)
        review["status"] = {
            "resourceRules": [rule for rule in resolved.rules if not rule.get("nonResourceURLs")],
            "nonResourceRules": [
                {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
                for rule in resolved.rules
                if rule.get("nonResourceURLs")
            ],
            "incomplete": bool(resolved.problems),
        }
        return json_response(review, 201)


def _check_question(call: Call, review: Json, spec: Json) -> None:
    """Validate a review: exactly one kind of attributes, and no name."""
    both = spec.get("resourceAttributes") is not None, spec.get("nonResourceAttributes") is not None
    kind = GroupKind(_GROUP, call.resource.kind)
    path = FieldPath("spec")
    if all(both):
        problem = FieldError.invalid(
            path.child("nonResourceAttributes"),
            spec["nonResourceAttributes"],
            "cannot be specified in combination with resourceAttributes",
        )
        raise errors.invalid(kind, "", [problem])
    if not any(both):
        problem = FieldError.invalid(
            path.child("resourceAttributes"),
            None,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )
        raise errors.invalid(kind, "", [problem])
    if (review.get("metadata") or {}).get("name"):
        problem = FieldError.invalid(FieldPath("metadata"), review["metadata"], "must be empty")
        raise errors.invalid(kind, "", [problem])


def _attributes(spec: Json, user: UserInfo) -> Attributes:
    about: Mapping[str, Any] | None = spec.get("nonResourceAttributes")
    if about is not None:
        return Attributes(user, about.get("verb") or "", about.get("path") or "", is_resource=False)
    about = spec.get("resourceAttributes") or {}
    return Attributes(
        user=user,
        verb=about.get("verb") or "",
        path="",
        resource=about.get("resource") or "",
        group=about.get("group") or "",
        version=about.get("version") or "",
        subresource=about.get("subresource") or "",
        namespace=about.get("namespace") or "",
        name=about.get("name") or "",
    )
