"""What is said when a server cannot listen: where, by which flags, and what may help."""

from __future__ import annotations

import errno
import os
import socket

__all__ = ["cannot_listen"]


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
