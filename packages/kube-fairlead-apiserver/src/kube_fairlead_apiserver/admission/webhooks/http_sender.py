"""Webhooks over HTTPS, with aiohttp.

Upstream: k8s.io/apiserver@v0.36.4/pkg/util/webhook/client.go
"""

from __future__ import annotations

import ssl
import urllib.parse
from collections import OrderedDict
from typing import TYPE_CHECKING

from kube_fairlead_apiserver.admission.webhooks.sender import Endpoint, Reply, SendFailed

if TYPE_CHECKING:
    import aiohttp

__all__ = ["HttpSender"]

_CONTEXTS_KEPT = 200
# An AdmissionReview holds at most a patch of an object, which itself is at most 3 MiB.
_MAX_REPLY_BYTES = 16 << 20


class HttpSender:
    """One session for all webhooks; its creator closes it."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()

    async def close(self) -> None:
        """Close every connection. A later call would open new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def post(self, endpoint: Endpoint, body: bytes, *, timeout_seconds: int) -> Reply:
        """Send one request."""
        import aiohttp

        url, host, headers = _address(endpoint)
        try:
            context = self._context(endpoint.ca_bundle)
            async with self._open().post(
                url,
                data=body,
                headers=headers,
                params={"timeout": f"{timeout_seconds}s"},
                ssl=context,
                server_hostname=host,
                allow_redirects=False,
            ) as response:
                content_type = response.headers.get("Content-Type", "")
                return Reply(response.status, await _read(response.content), content_type)
        except aiohttp.ClientError as error:
            raise SendFailed(_explain(error)) from error
        except (OSError, TypeError, ValueError) as error:  # an invalid bundle, or a response without an end
            raise SendFailed(str(error)) from error

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            # Time is bounded by the caller, and the number of connections by the number of writes under way.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
                headers={"User-Agent": "kube-apiserver-admission"},
                skip_auto_headers=("Accept-Encoding",),
            )
        return self._session

    def _context(self, ca_bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(ca_bundle)
        if context is None:
            context = _make_context(ca_bundle)
            self._contexts[ca_bundle] = context
            if len(self._contexts) > _CONTEXTS_KEPT:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(ca_bundle)
        return context


def _make_context(ca_bundle: str) -> ssl.SSLContext:
    """Trust the same certificates as Go: also a self-signed one that is in the bundle; names in the SAN only."""
    context = ssl.create_default_context(cadata=ca_bundle or None)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    return context


def _address(endpoint: Endpoint) -> tuple[str, str, dict[str, str]]:
    """Return the URL to connect to, the name on the certificate, and headers."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
    parts = urllib.parse.urlsplit(endpoint.url)
    if endpoint.address is not None:
        host, port = endpoint.address
        headers["Host"] = parts.netloc
        shown = f"[{host}]" if ":" in host else host
        url = urllib.parse.urlunsplit((parts.scheme, f"{shown}:{port}", parts.path, "", ""))
        return url, parts.hostname or "", headers
    return endpoint.url, parts.hostname or "", headers


async def _read(content: aiohttp.StreamReader) -> bytes:
    pieces = bytearray()
    async for piece in content.iter_any():
        pieces += piece
        if len(pieces) > _MAX_REPLY_BYTES:
            raise ValueError(f"the response is larger than {_MAX_REPLY_BYTES} bytes")
    return bytes(pieces)


def _explain(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {_certificate_problem(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientSSLError):
        return f"tls: {error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        problem = error.os_error
        refused = "connection refused" if isinstance(problem, ConnectionRefusedError) else problem.strerror or problem
        return f"dial tcp {error.host}:{error.port}: connect: {refused}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _certificate_problem(error: Exception) -> str:
    message = getattr(error, "verify_message", "") or str(error)
    if any(part in message for part in ("self-signed", "unable to get", "signature failure")):
        return "x509: certificate signed by unknown authority"
    return f"x509: {message}"
