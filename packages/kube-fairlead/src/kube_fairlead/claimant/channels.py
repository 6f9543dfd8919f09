"""How the sockets of drivers are called."""

from __future__ import annotations

from kube_fairlead.driverapi.channels import DriverChannel, RegistrationChannel
from kube_fairlead.driverapi.grpc_channel import GrpcDriverChannel, GrpcRegistrationChannel

__all__ = ["GrpcChannels"]


class GrpcChannels:
    """Sockets are called by gRPC."""

    def registration(self, path: str) -> RegistrationChannel:
        """To a plugin that registers."""
        return GrpcRegistrationChannel(path)

    def driver(self, path: str) -> DriverChannel:
        """To a driver."""
        return GrpcDriverChannel(path)
