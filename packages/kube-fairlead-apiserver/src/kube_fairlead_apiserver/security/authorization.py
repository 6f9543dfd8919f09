"""Authorization: authorizers are called in order, the first that allows decides; none denies.

Upstream: k8s.io/apiserver@v0.36.4/pkg/authorization/union/union.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/responsewriters/errors.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kube_fairlead.api import errors, golang
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead_apiserver.attributes import Attributes
from kube_fairlead_apiserver.security import identities

__all__ = ["Authorization", "Authorizer", "Decision", "forbidden"]


class Decision(NamedTuple):
    """Allowed, with the rule that allowed it; or not, with a reason for the caller."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """One authorizer."""

    def decide(self, attributes: Attributes) -> Decision:
        """Whether this authorizer allows the request."""
        ...


class Authorization:
    """The chain of authorizers. Members of `system:masters` may do everything, even without any role."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = tuple(authorizers)

    def decide(self, attributes: Attributes) -> Decision:
        """Whether any authorizer allows it."""
        if identities.MASTERS in attributes.user.groups:
            return Decision(allowed=True)
        reasons: list[str] = []
        for authorizer in self._authorizers:
            decision = authorizer.decide(attributes)
            if decision.allowed:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return Decision(allowed=False, reason="\n".join(reasons))

    def authorize(self, attributes: Attributes) -> str | None:
        """None when allowed, else the message of the Forbidden error."""
        decision = self.decide(attributes)
        return None if decision.allowed else forbidden(attributes, decision.reason).message

    def require(self, attributes: Attributes) -> None:
        """Raise Forbidden unless the request is allowed."""
        decision = self.decide(attributes)
        if not decision.allowed:
            raise forbidden(attributes, decision.reason)


def forbidden(attributes: Attributes, reason: str = "") -> errors.Forbidden:
    """Return the Forbidden error, with Kubernetes' text."""
    message = _sentence(attributes)
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        message = message.replace(char, entity)
    if reason:
        message = f"{message}: {reason}"
    return errors.forbidden(GroupResource(attributes.group, attributes.resource), attributes.name, message)


def _sentence(attributes: Attributes) -> str:
    who = f"User {golang.quote(attributes.user.name)} cannot {attributes.verb}"
    if not attributes.is_resource:
        return f"{who} path {golang.quote(attributes.path)}"
    resource = attributes.resource + (f"/{attributes.subresource}" if attributes.subresource else "")
    what = f"resource {golang.quote(resource)} in API group {golang.quote(attributes.group)}"
    if attributes.namespace:
        return f"{who} {what} in the namespace {golang.quote(attributes.namespace)}"
    return f"{who} {what} at the cluster scope"
