"""Sockets of servers: what is said when one cannot listen, and how much of what it sent has arrived."""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from typing import Any

__all__ = ["acknowledged_bytes", "cannot_listen", "peer_has_closed"]

# tcpi_bytes_acked in Linux's struct tcp_info.
_ACKNOWLEDGED = struct.Struct("=Q")
_ACKNOWLEDGED_OFFSET = 120
# Its first byte is the state: TCP_CLOSE and TCP_CLOSE_WAIT.
_CLOSED_STATES = frozenset({7, 8})


def acknowledged_bytes(connection: Any) -> int | None:
    """How much of what was sent the other side has taken, ever; None where the system does not say."""
    if sys.platform != "linux" or connection is None:
        return None
    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKNOWLEDGED_OFFSET + _ACKNOWLEDGED.size)
        return int(_ACKNOWLEDGED.unpack_from(told, _ACKNOWLEDGED_OFFSET)[0])
    except (OSError, struct.error):
        return None


def peer_has_closed(connection: Any) -> bool:
    """Whether the other side has said that it sends nothing more; False where the system does not say.

    It is known before what was sent until then is read.
    """
    if sys.platform != "linux" or connection is None:
        return False
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _CLOSED_STATES
    except (OSError, IndexError):
        return False


def cannot_listen(error: OSError, address: str, port: int) -> OSError:
    """The failure of a server to listen, as an operator should read it. All servers have these two flags."""
    where = f"{address or '*'}:{port}"
    if isinstance(error, socket.gaierror):
        return OSError(
            f"cannot listen on {where}: --bind-address {address!r} is no address, and no host of that name is known"
        )
    if error.errno == errno.EADDRINUSE:
        return OSError(error.errno, f"cannot listen on {where}: another process does; give another --secure-port")
    if error.errno == errno.EADDRNOTAVAIL:
        return OSError(
            error.errno, f"cannot listen on {where}: --bind-address {address} is not an address of this machine"
        )
    if error.errno == errno.EACCES:
        return OSError(error.errno, f"cannot listen on {where}: only root may; give a --secure-port above 1023")
    # asyncio wraps what the system said in words of its own.
    reason = os.strerror(error.errno) if error.errno else str(error)
    return OSError(error.errno or 0, f"cannot listen on {where} (--bind-address, --secure-port): {reason}")
