"""How the claimant calls the sockets of drivers."""

from __future__ import annotations

from kube_fairlead.driverapi.channels import DriverChannel, RegistrationChannel
from kube_fairlead.driverapi.grpc_channel import GrpcDriverChannel, GrpcRegistrationChannel

__all__ = ["GrpcChannels"]


class GrpcChannels:
    """Calls sockets by gRPC."""

    def registration(self, path: str) -> RegistrationChannel:
        """Return a channel to a plugin that registers."""
        return GrpcRegistrationChannel(path)

    def driver(self, path: str) -> DriverChannel:
        """Return a channel to a driver."""
        return GrpcDriverChannel(path)
