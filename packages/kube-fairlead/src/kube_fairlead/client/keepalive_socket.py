"""Sockets that notice a dead peer. A watch may be silent for minutes, and silence must not look like a partition.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/util/net/http.go
"""

from __future__ import annotations

import socket
from typing import Any

__all__ = ["open_socket"]

# As client-go's HTTP/2 pings: sent after 30 s of silence, given up 15 s later.
_OPTIONS = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 45_000))


def open_socket(address: tuple[Any, ...]) -> socket.socket:
    """Make a socket for one entry of getaddrinfo."""
    family, kind, protocol, *_ = address
    opened = socket.socket(family=family, type=kind, proto=protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, value in _OPTIONS:
            # Not every platform has every option; what is missing keeps the system's default.
            if (option := getattr(socket, name, None)) is not None:
                opened.setsockopt(socket.IPPROTO_TCP, option, value)
    except BaseException:
        opened.close()
        raise
    return opened
