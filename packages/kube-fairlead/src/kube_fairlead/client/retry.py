"""Whether and when a request is sent again, as a value.

A request is repeated only where that is safe: when it certainly had no effect (it never reached the server, or the
server said to come back later), or when it only reads. The server's own word (Retry-After) always comes first.

Upstream: k8s.io/client-go@v0.36.4/rest/with_retry.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from kube_fairlead.base import backoff
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.client import errors
from kube_fairlead.client.transport import Request, Response

__all__ = ["DEFAULT", "NEVER", "PATIENT", "RetryPolicy", "retry_after_seconds"]

_READS = frozenset({"GET", "HEAD"})
# Said by proxies and load balancers in front of a server that is starting, stopping or full.
_TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, how long, and never more than."""

    retries: int = 5  # after the first attempt; the server's invitations have a limit of their own
    invited_retries: int = 10  # 429 or 5xx with Retry-After
    invitation_cap_seconds: float = 60.0  # a longer Retry-After is not waited for
    backoff: backoff.Backoff = dataclasses.field(
        default_factory=lambda: backoff.Backoff(initial_seconds=0.1, factor=2.0, cap_seconds=2.0, jitter=0.5)
    )

    def after_error(
        self, request: Request, error: errors.ClientError, attempt: int, randomness: Randomness
    ) -> float | None:
        """Seconds to wait before attempt number `attempt + 1`, or None to give up."""
        if not error.is_retryable or attempt >= self.retries:
            return None
        harmless = isinstance(error, errors.ServerUnreachable) or request.method in _READS
        # A read that took its whole time once will not be quicker the second time.
        if not harmless or isinstance(error, errors.RequestTimedOut):
            return None
        return self.backoff.delay(attempt, randomness)

    def after_response(
        self, request: Request, response: Response, attempt: int, randomness: Randomness
    ) -> float | None:
        """The same, for an answer that came."""
        if response.status < 429:
            return None
        invited = retry_after_seconds(response.headers)
        if invited is not None and (response.status == 429 or response.status >= 500):
            if attempt >= self.invited_retries or invited > self.invitation_cap_seconds:
                return None
            # Everyone turned away at the same moment got the same number; jitter keeps them apart.
            return invited + self.backoff.delay(0, randomness)
        if response.status in _TRANSIENT_STATUSES and request.method in _READS and attempt < self.retries:
            return self.backoff.delay(attempt, randomness)
        return None


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """What Retry-After says, in seconds. Kubernetes never sends the date form, which is ignored."""
    value = headers.get("retry-after", "").strip()
    return float(value) if value.isascii() and value.isdigit() else None


DEFAULT = RetryPolicy()
NEVER = RetryPolicy(retries=0, invited_retries=0)
# For a command that a user started: a server that is being restarted is back within half a minute.
PATIENT = RetryPolicy(retries=20)
