"""Ports that no other process can take between choosing and listening."""

from __future__ import annotations

import socket

__all__ = ["ReservedPort"]


class ReservedPort:
    """A loopback port held by a socket that is bound but never listens.

    The server listens on it with SO_REUSEPORT (`--permit-port-sharing` in Kubernetes' components). Connections go to
    listening sockets only, so all of them reach the server; and because the port stays held while the server
    restarts, no other process gets it meanwhile.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind((host, 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Release the port."""
        self._socket.close()
