"""What goes wrong with a connection, in the client's own words."""

from __future__ import annotations

import os
import socket
import ssl
import urllib.parse

from kube_fairlead.client import errors
from kube_fairlead.client.transport import Request

__all__ = ["broken", "proxy_refused", "proxy_unreachable", "silent", "timed_out", "unreachable"]


def unreachable(server: str, error: Exception) -> errors.TransportError:
    """No connection to the server could be made, or TLS could not be set up on it."""
    match error:
        case ssl.SSLCertVerificationError():
            reason = error.verify_message or _reason(error)
            return errors.CertificateRejected(f"the certificate of {server} is not trusted: {reason}")
        case ssl.SSLError():
            return _handshake(error, server)
        case socket.gaierror() | UnicodeError():
            return errors.ServerUnreachable(f"cannot connect to {server}: its host name is not known")
        case _:
            return errors.ServerUnreachable(f"cannot connect to {server}: {_reason(error)}")


def silent(server: str) -> errors.ServerUnreachable:
    """No connection within the time for one."""
    return errors.ServerUnreachable(f"cannot connect to {server}: it does not answer")


def proxy_unreachable(proxy: str, error: Exception) -> errors.ServerUnreachable:
    """No connection to the proxy, or no answer of it."""
    return errors.ServerUnreachable(f"cannot connect to the proxy {_plain(proxy)}: {_reason(error)}")


def proxy_refused(proxy: str, server: str, status: int, reason: str) -> errors.ServerUnreachable:
    """The proxy's answer to CONNECT was not 200."""
    return errors.ServerUnreachable(f"the proxy {_plain(proxy)} refused to connect to {server}: {status} {reason}")


def timed_out(request: Request) -> errors.RequestTimedOut:
    """No answer within the request's own time."""
    return errors.RequestTimedOut(f"{request} was not answered within {request.timeout_seconds:g} s")


def broken(request: Request, server: str, error: Exception, *, answered: bool) -> errors.TransportError:
    """The connection failed after it was made. `answered`: the head of the answer has arrived."""
    if isinstance(error, ssl.SSLError):
        return _handshake(error, server)
    if isinstance(error, EOFError):
        detail = "the answer was cut off" if answered else "the server closed it"
    else:
        detail = "the answer was cut off" if answered and isinstance(error, OSError) else _reason(error)
    return errors.ConnectionBroken(f"the connection to {server} broke during {request}: {detail}")


def _handshake(error: ssl.SSLError, server: str) -> errors.CertificateRejected:
    reason = str(error.reason or _reason(error))
    if reason == "WRONG_VERSION_NUMBER":
        return errors.CertificateRejected(f"{server} does not speak TLS; is it http://?")
    words = reason.replace("_", " ").lower()
    return errors.CertificateRejected(f"the TLS handshake with {server} failed: {words}")


def _reason(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "it closed the connection"
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        # asyncio puts "Connect call failed (address)" where the system's own words were.
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _plain(proxy: str) -> str:
    url = urllib.parse.urlsplit(proxy)
    return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
