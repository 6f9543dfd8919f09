"""The namespace of the nodes' Leases."""

from __future__ import annotations

from typing import Final

from fairlead.api import errors as api_errors
from fairlead.api.core_v1 import Namespace
from fairlead.api.meta import ObjectMeta
from fairlead.api.reserved import NAMESPACE_NODE_LEASE
from fairlead.base.backoff import Backoff
from fairlead.client import errors as client_errors
from fairlead.client import follow
from fairlead.client.client import Client

__all__ = ["ensure_namespace"]

_RETRY: Final = Backoff(initial_seconds=0.5, factor=2.0, cap_seconds=10.0, jitter=0.3)


async def ensure_namespace(client: Client) -> None:
    """Make it where nobody has; on a cluster that was set up by manifests it is there."""
    namespaces = client.of(Namespace)
    wanted = Namespace(metadata=ObjectMeta(name=NAMESPACE_NODE_LEASE))
    delays = _RETRY.delays(client.randomness)
    while True:
        try:
            await namespaces.create(wanted)
        except (api_errors.ApiError, client_errors.ClientError) as error:
            # There already, or not for us to make: then somebody else has, or the Lease will tell of it.
            if not follow.is_transient(error):
                return
            await client.clock.sleep(next(delays))
        else:
            return
