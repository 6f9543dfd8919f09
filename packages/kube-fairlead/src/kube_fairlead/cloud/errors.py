"""What can go wrong between us and a cloud.

    CloudError
    |-- CloudUnavailable      no answer that counts: an outage, a timeout, a throttled or empty answer; retry later
    |   `-- ProviderFault     the provider itself failed: an exception of another kind, or an answer of the wrong type
    |-- CloudRefused          an answer that will not change by asking again soon: credentials, rights, a bad request
    |-- ForeignId             the id is not one that this provider could have given; nothing follows from it
    |-- ImplementedElsewhere  another controller does this part for the cloud
    |-- NotReadyYet           it is being created; retry after so many seconds
    `-- ProviderError         the provider cannot be used as it is configured; found at the start

Whatever is raised, nothing is deleted because of it.
"""

from __future__ import annotations

__all__ = [
    "CloudError",
    "CloudRefused",
    "CloudUnavailable",
    "ForeignId",
    "ImplementedElsewhere",
    "NotReadyYet",
    "ProviderError",
    "ProviderFault",
]


class CloudError(Exception):
    """Raised when a call to the cloud failed."""


class CloudUnavailable(CloudError):
    """Raised when the cloud gave no answer that counts."""


class ProviderFault(CloudUnavailable):
    """Raised when a provider breaks its protocol: that is an outage of the call, and says nothing about the cloud."""


class CloudRefused(CloudError):
    """Raised when the cloud understood and would not."""


class ForeignId(CloudError):
    """Raised when a query has an id that is not of the provider's form."""

    def __init__(self, provider_id: str, why: str) -> None:
        super().__init__(f"providerID {provider_id[:200]!r} is not of this cloud: {why}")


class ImplementedElsewhere(CloudError):
    """Raised when another controller handles this part of the cloud."""


class NotReadyYet(CloudError):
    """Raised when the cloud is still at it, and polling beats a growing backoff."""

    def __init__(self, what: str, *, retry_after_seconds: float) -> None:
        super().__init__(what)
        self.retry_after_seconds = retry_after_seconds


class ProviderError(CloudError):
    """Raised when a provider cannot be used: unknown, not installed, or not configured as it needs to be."""
