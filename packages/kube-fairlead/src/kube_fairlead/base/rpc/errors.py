"""What can go wrong with a call.

RpcError
├── Unreachable      there is no connection, or it ended before the call did
├── StatusError      the server ended the call with a status other than OK
└── ProtocolError    what the peer sent is not gRPC
"""

from __future__ import annotations

from kube_fairlead.base.rpc.status import Code

__all__ = ["ProtocolError", "RpcError", "StatusError", "Unreachable"]


class RpcError(Exception):
    """Anything about a call that its caller may want to handle. Its text is for people."""


class Unreachable(RpcError):
    """Raised when no server listens, or the connection ended before the call."""


class StatusError(RpcError):
    """Raised when a call ended with this status; a handler raises it to end its call so."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


class ProtocolError(RpcError):
    """Raised when what came is not gRPC. A server ends the call with `code`."""

    def __init__(self, text: str, *, code: Code = Code.INTERNAL) -> None:
        super().__init__(text)
        self.code = code
