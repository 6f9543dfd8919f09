"""Amazon EC2: instances, route tables and network load balancers, through Amazon's own library.

Here belongs what is Amazon's: the form of its ids, which calls answer which question, what its error codes mean. Its
library is loaded with the first client. Calls are made in threads, once each: how fast and how often is decided above.
"""

from __future__ import annotations

from kube_fairlead.cloud.provider import ProviderSettings
from kube_fairlead.cloud.providers.aws.config import read_config
from kube_fairlead.cloud.providers.aws.provider import AwsProvider

__all__ = ["provider"]


def provider(settings: ProviderSettings) -> AwsProvider:
    """What the entry point names."""
    return AwsProvider(read_config(settings))
