"""The network interface: one POST to a webhook."""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ["Endpoint", "Reply", "SendFailed", "Sender", "ServiceResolver"]


class Endpoint(msgspec.Struct, frozen=True):
    """The address of a webhook. Its certificate must be valid for the host of the URL."""

    url: str
    ca_bundle: str = ""  # PEM; empty: the system's trust store
    address: tuple[str, int] | None = None  # where to connect, when the URL's host is a service's name


class Reply(msgspec.Struct, frozen=True):
    """The response of a webhook."""

    status: int
    body: bytes
    content_type: str = "application/json"


class SendFailed(Exception):
    """There is no reply. The message says why, with the text of Go's HTTP client as far as it is known."""


class Sender(Protocol):
    """Posts JSON. The caller limits its time by cancellation."""

    async def post(self, endpoint: Endpoint, body: bytes, *, timeout_seconds: int) -> Reply:
        """Send one request with its time limit; raises SendFailed when there is no reply."""
        ...


class ServiceResolver(Protocol):
    """Resolves the address of a service."""

    def resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        """Return a host and port to connect to; raises SendFailed when there is none."""
        ...
