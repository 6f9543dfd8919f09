"""What came of asking a pod to go, and when to ask again.

Upstream: k8s.io/kubectl@v0.36.4/pkg/drain/drain.go
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.base.backoff import Backoff

__all__ = ["BUDGET_FALLBACK", "TROUBLE", "Attempt", "Cause", "cause_of", "explain"]

# A budget's own status says when to ask again; this is for the case that it cannot be seen.
BUDGET_FALLBACK: Final = Backoff(initial_seconds=5.0, factor=2.0, cap_seconds=30.0, jitter=0.2)
# Webhooks that deny, servers that are busy or broken.
TROUBLE: Final = Backoff(initial_seconds=0.5, factor=2.0, cap_seconds=30.0, jitter=0.5)


class Cause(enum.Enum):
    """Why a pod that was asked to go is still there."""

    SENT = "sent"  # no answer yet
    ACCEPTED = "accepted"  # it will go, or is expected to
    REQUESTED = "requested"  # whoever is responsible for it was asked to see it out first
    BUDGET = "budget"  # its disruption budget does not allow it now
    NAMESPACE = "namespace"  # its namespace is being deleted, which will delete the pod too
    TROUBLE = "trouble"  # a webhook denied it for now, or the server could not answer
    DENIED = "denied"  # never: asking again is pointless


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How it stands with one pod that was asked to go, or is held back from being asked."""

    cause: Cause
    since: dt.datetime  # when it first did not go
    number: int = 1  # how often in a row it, or another of its budget, was asked; 0: not yet
    message: str = ""
    retry_at: dt.datetime | None = None  # None: only a change makes another attempt worth it
    token: frozenset[tuple[str, str]] = frozenset()  # the budgets that covered it then, and their versions
    before: Cause | None = None  # while there is no answer yet: what came of the attempt before


def cause_of(error: Exception) -> Cause:
    """What an answer that was not a success means.

    As kubectl reads them, with two differences: what a server or webhook could not do now (5xx) does not end the
    drain of the pod, and neither does a connection that broke.
    """
    if not isinstance(error, api_errors.ApiError):
        return Cause.TROUBLE
    if error.has_cause("DisruptionBudget"):
        return Cause.BUDGET
    if error.code == 403 and error.has_cause("NamespaceTerminating"):
        return Cause.NAMESPACE
    # 401: a token ran out before the next one was read. 404 and 409: another pod has the name now, or it changed
    # meanwhile. The watch will tell which.
    if error.code in {401, 404, 408, 409, 429} or error.code >= 500:
        return Cause.TROUBLE
    return Cause.DENIED


def explain(error: Exception) -> str:
    """The answer in one line; the cause of a budget's refusal says more than its message."""
    if isinstance(error, api_errors.ApiError):
        for cause in error.causes:
            if cause.get("reason") == "DisruptionBudget" and cause.get("message"):
                return str(cause["message"])
    return " ".join(str(error).split()) or type(error).__name__
