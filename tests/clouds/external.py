"""A server of the contract for clouds, on loopback or a unix socket: it answers as a test says, and keeps requests."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpclib.const
import grpclib.server

from kube_fairlead.cloud.providers.external.channel import PACKAGE, message

__all__ = ["METHODS", "ExternalCloud"]

METHODS = (
    "GetInfo",
    "DescribeInstances",
    "InstancesExist",
    "ListRoutes",
    "CreateRoute",
    "DeleteRoute",
    "GetLoadBalancer",
    "EnsureLoadBalancer",
    "UpdateLoadBalancer",
    "DeleteLoadBalancer",
)


class ExternalCloud:
    """`answers` says, by method, what is made of a request; without it the answer is empty."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[Any], Any]] = {
            "GetInfo": lambda _request: message("GetInfoResponse")(platforms=["nimbus", "fog"], parts=[1, 2, 3])
        }
        self.requests: list[tuple[str, Any]] = []
        self.port = 0

    def __mapping__(self) -> dict[str, grpclib.const.Handler]:
        return {f"/{PACKAGE}.CloudProvider/{name}": self._handler(name) for name in METHODS}

    def _handler(self, name: str) -> grpclib.const.Handler:
        answer_type = message(f"{name}Response")

        async def serve(stream: Any) -> None:
            request = await stream.recv_message()
            self.requests.append((name, request))
            await stream.send_message(self.answers.get(name, lambda _request: answer_type())(request))

        unary = grpclib.const.Cardinality.UNARY_UNARY
        return grpclib.const.Handler(serve, unary, message(f"{name}Request"), answer_type)

    def last(self, name: str) -> Any:
        """The last request of a method."""
        return [request for called, request in self.requests if called == name][-1]

    @contextlib.asynccontextmanager
    async def serving(
        self, *, path: pathlib.Path | None = None, context: ssl.SSLContext | None = None
    ) -> AsyncIterator[None]:
        """On a socket, or on a free port."""
        server = grpclib.server.Server([self])
        if path is not None:
            await server.start(path=str(path))
        else:
            listening = socket.create_server(("127.0.0.1", 0))
            self.port = listening.getsockname()[1]
            await server.start(sock=listening, ssl=context)
        try:
            yield
        finally:
            server.close()
            await server.wait_closed()
