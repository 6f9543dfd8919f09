"""Serving an ASGI application over TLS: uvicorn, with the client's certificate passed on to the application."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairlead.apiserver.http.asgi import AsgiApp

__all__ = ["HttpServer", "listen", "tls_context"]


class _Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which knows who is at the other end of a TLS connection."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self._peer: dict[object, object] | None = {"peer_certificate": certificate} if certificate else None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._peer is not None:
            self.scope["extensions"] = {"fairlead": self._peer}


class _Server(uvicorn.Server):
    """uvicorn without signal handlers of its own: whoever runs the server decides when it stops."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves one application on one listening socket until it is told to stop."""

    def __init__(self, app: AsgiApp, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            timeout_keep_alive=120,
            timeout_graceful_shutdown=30,
            backlog=4096,
        )
        config.load()
        config.ssl = context
        self._server = _Server(config)
        self._listener = listener

    async def run(self) -> None:
        """Serve until `stop`; then let requests in flight finish."""
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Take no new connections; idle ones are closed."""
        self._server.should_exit = True


def listen(address: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(4096)
    except BaseException:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def tls_context(certificate_file: str, key_file: str, client_ca_file: str) -> ssl.SSLContext:
    """TLS 1.2 or newer; a client may show a certificate of our CA, and need not show any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate_file, key_file)
    context.load_verify_locations(client_ca_file)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context
