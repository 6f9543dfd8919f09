"""The result of an eviction request, and when to retry it.

Upstream: k8s.io/kubectl@v0.36.4/pkg/drain/drain.go
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.base.backoff import Backoff

__all__ = ["BUDGET_BACKOFF", "ERROR_BACKOFF", "Cause", "EvictionAttempt", "cause_of", "explain"]

# The status of a budget shows when to retry; this backoff applies when the driver cannot read it.
BUDGET_BACKOFF: Final = Backoff(initial_seconds=5.0, factor=2.0, cap_seconds=30.0, jitter=0.2)
# For webhooks that deny, and servers that are overloaded or fail.
ERROR_BACKOFF: Final = Backoff(initial_seconds=0.5, factor=2.0, cap_seconds=30.0, jitter=0.5)


class Cause(enum.Enum):
    """Why a pod with an eviction request is still on the node."""

    SENT = "sent"  # no response yet
    ACCEPTED = "accepted"  # it is terminating, or is expected to
    REQUESTED = "requested"  # an EvictionRequest exists, and its responder has not finished
    BUDGET = "budget"  # its disruption budget does not allow it now
    NAMESPACE = "namespace"  # its namespace is being deleted, which will delete the pod too
    TROUBLE = "trouble"  # a webhook denied it for now, or the server could not answer
    DENIED = "denied"  # final: a retry is pointless


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvictionAttempt:
    """The state of one pod's eviction, or of a pod that its budget holds back."""

    cause: Cause
    since: dt.datetime  # when this cause first applied
    number: int = 1  # requests in a row for the pod or its budget; 0: none yet
    message: str = ""
    retry_at: dt.datetime | None = None  # None: retry only after a change
    token: frozenset[tuple[str, str]] = frozenset()  # the budgets that covered the pod, and their versions
    before: Cause | None = None  # with SENT: the cause of the previous attempt


def cause_of(error: Exception) -> Cause:
    """Return the cause of a failed eviction request.

    As in kubectl, with two differences: a 5xx response of the server or a webhook, and a broken connection, do not end
    the eviction of the pod.
    """
    if not isinstance(error, api_errors.ApiError):
        return Cause.TROUBLE
    if error.has_cause("DisruptionBudget"):
        return Cause.BUDGET
    if error.code == 403 and error.has_cause("NamespaceTerminating"):
        return Cause.NAMESPACE
    # 401: a token expired before the next one was read. 404 and 409: another pod has the name now, or the pod changed.
    # The watch shows which.
    if error.code in {401, 404, 408, 409, 429} or error.code >= 500:
        return Cause.TROUBLE
    return Cause.DENIED


def explain(error: Exception) -> str:
    """Describe an error in one line; the cause of a budget's rejection says more than its message."""
    if isinstance(error, api_errors.ApiError):
        for cause in error.causes:
            if cause.get("reason") == "DisruptionBudget" and cause.get("message"):
                return str(cause["message"])
    return " ".join(str(error).split()) or type(error).__name__
