"""Requests over one socket, with exactly the target that a test wrote.

HTTP client libraries normalize paths (dot segments, empty segments, escapes). Some tests check how the server handles
such a path.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kube_fairlead_lab.testing.control_plane import Access

__all__ = ["WireAnswer", "WireApi"]


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """One response. The body of a stream is not read."""

    code: int
    raw: bytes

    @property
    def status(self) -> dict[str, Any]:
        """The body as a Status; empty if it is no JSON object."""
        try:
            decoded = json.loads(self.raw)
        except ValueError:
            return {}
        return decoded if isinstance(decoded, dict) else {}

    @property
    def message(self) -> str:
        """The message of a Status."""
        found = self.status.get("message")
        return found if isinstance(found, str) else ""


class WireApi:
    """Requests as one user, one after another over one connection. A context manager."""

    def __init__(self, access: Access, *, timeout_seconds: float = 30) -> None:
        place = urllib.parse.urlsplit(access.url)
        context = ssl.create_default_context(cafile=str(access.ca_file))
        if access.certificate_file is not None:
            context.load_cert_chain(access.certificate_file, access.key_file)
        self._headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
        self._connection = http.client.HTTPSConnection(
            place.hostname or "", place.port, context=context, timeout=timeout_seconds
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()

    def send(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> WireAnswer:
        """Send one request."""
        self._connection.request(method, target, body, {**self._headers, **(headers or {})})
        response = self._connection.getresponse()
        # A stream may never end; such a stream is a watch.
        streams = response.status == 200 and response.chunked and "watch" in target
        raw = b"" if streams else response.read()
        if streams or response.will_close:
            self._connection.close()
        return WireAnswer(response.status, raw)
