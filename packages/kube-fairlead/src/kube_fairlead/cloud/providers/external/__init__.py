"""A cloud in any language: a server of `proto/fairlead/cloud/v1alpha1`, called over gRPC.

Here belong the file behind `--cloud-config` (`config`), how the server is reached (`channel`), what is said (`codec`)
and the provider that is made of it. The server proves who it is, and so does the manager, by certificates; a server on
the same machine may serve a unix socket instead.
"""

from __future__ import annotations

from kube_fairlead.cloud.provider import ProviderSettings
from kube_fairlead.cloud.providers.external.channel import ExternalChannel
from kube_fairlead.cloud.providers.external.config import read_config
from kube_fairlead.cloud.providers.external.provider import ExternalProvider

__all__ = ["provider"]


def provider(settings: ProviderSettings) -> ExternalProvider:
    """What the entry point names."""
    config = read_config(settings)
    return ExternalProvider(ExternalChannel(config, settings.clock), config, settings.cluster_name)
