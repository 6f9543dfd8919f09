"""aiohttp's errors in the client's own words, translated once."""

from __future__ import annotations

import os
import socket
import ssl
import urllib.parse

import aiohttp

from kube_fairlead.client import errors
from kube_fairlead.client.transport import Request

__all__ = ["timed_out", "translate"]


def translate(error: Exception, request: Request, server: str, proxy: str) -> errors.ClientError:
    """What happened, as one sentence."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return errors.ServerUnreachable(f"cannot connect to {server}: it does not answer")
        case aiohttp.ClientConnectorCertificateError():
            return _untrusted(error.certificate_error, server)
        case aiohttp.ClientConnectorSSLError():
            return _handshake(error.os_error, server)
        case aiohttp.ClientConnectorDNSError():
            return errors.ServerUnreachable(f"cannot connect to {server}: its host name is not known")
        case aiohttp.ClientProxyConnectionError():
            return errors.ServerUnreachable(f"cannot connect to the proxy {_plain(proxy)}: {_reason(error.os_error)}")
        case aiohttp.ClientConnectorError():
            return errors.ServerUnreachable(f"cannot connect to {server}: {_reason(error.os_error)}")
        case aiohttp.ClientHttpProxyError():
            return errors.ServerUnreachable(
                f"the proxy {_plain(proxy)} refused to connect to {server}: {error.status} {error.message}"
            )
        case aiohttp.InvalidURL():
            return errors.ConfigError(f"{server} is not a URL that can be connected to")
        case TimeoutError() if not isinstance(error, aiohttp.ClientError):
            return timed_out(request)
        case ssl.SSLError():
            return _handshake(error, server)
        case aiohttp.ServerDisconnectedError():
            return _broken(request, server, "the server closed it")
        case aiohttp.ClientPayloadError():
            return _broken(request, server, "the answer was cut off")
        case _:
            return _broken(request, server, _reason(error))


def timed_out(request: Request) -> errors.RequestTimedOut:
    """No answer within the request's own time."""
    return errors.RequestTimedOut(f"{request} was not answered within {request.timeout_seconds:g} s")


def _broken(request: Request, server: str, detail: str) -> errors.ConnectionBroken:
    return errors.ConnectionBroken(f"the connection to {server} broke during {request}: {detail}")


def _untrusted(error: Exception, server: str) -> errors.CertificateRejected:
    reason = getattr(error, "verify_message", "") or _reason(error)
    return errors.CertificateRejected(f"the certificate of {server} is not trusted: {reason}")


def _handshake(error: BaseException, server: str) -> errors.CertificateRejected:
    reason = str(getattr(error, "reason", None) or _reason(error))
    if reason == "WRONG_VERSION_NUMBER":
        return errors.CertificateRejected(f"{server} does not speak TLS; is it http://?")
    words = reason.replace("_", " ").lower()
    return errors.CertificateRejected(f"the TLS handshake with {server} failed: {words}")


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        # asyncio puts "Connect call failed (address)" where the system's own words were.
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _plain(proxy: str) -> str:
    url = urllib.parse.urlsplit(proxy)
    return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
