"""The small HTTP server of every long-running component: /healthz, /livez, /readyz and /metrics, nothing else.

It answers one request per connection and closes it, so that probes leave no connections open. Without a certificate
it creates one, or serves plain HTTP if configured. An authorizer decides who may read more than health.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Self

from kube_fairlead.base import logs, selfsigned, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.listener import Listener
from kube_fairlead.base.metrics import CONTENT_TYPE, Metrics
from kube_fairlead.manager.delegated_authorization import DelegatedAuthorizer
from kube_fairlead.manager.health import HealthChecks, Report

__all__ = ["HealthServer", "ServingOptions"]

_TEXT = "text/plain; charset=utf-8"
_HEAD_LIMIT = 16 * 1024
_REQUEST_SECONDS = 10.0
_CONNECTIONS = 64
_STEM = "fairlead"

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """Where to listen. Port 0 takes a free one; None serves nothing at all."""

    bind_address: str = "127.0.0.1"
    port: int | None = 0
    certificate_file: pathlib.Path | None = None
    key_file: pathlib.Path | None = None
    self_signed: bool = False  # without files: make a certificate, else speak plain HTTP
    folder: pathlib.Path | None = None  # where a certificate that was made is kept; None: in memory
    names: tuple[str, ...] = ()  # by which it is called, beside its address
    authorizer: DelegatedAuthorizer | None = None  # None: every page is open
    share_port: bool = False  # let others listen on it too, e.g. the next process while this one ends


@dataclasses.dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    content_type: str = _TEXT


class HealthServer:
    """Serves health and metrics while `controller_runner`."""

    name = "serving"

    def __init__(
        self, options: ServingOptions, *, live: HealthChecks, ready: HealthChecks, metrics: Metrics, clock: Clock
    ) -> None:
        self._options = options
        self._live = live
        self._ready = ready
        self._metrics = metrics
        self._clock = clock
        self._connections = tasks.TaskSet("serving", on_failure=self._failed)
        self._pages: Mapping[str, HealthChecks] = {"healthz": live, "livez": live, "readyz": ready}
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        scheme = "https" if self._options.certificate_file or self._options.self_signed else "http"
        host = self._options.bind_address
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Serve as long as the block lasts."""
        options = self._options
        if options.port is None:
            yield self
            return
        authorizer = options.authorizer
        async with contextlib.nullcontext() if authorizer is None else authorizer.running():
            listener = Listener(self._protocol, tls=await self._tls())
            await listener.listen(options.bind_address, options.port, share_port=options.share_port)
            self.port = listener.port
            _log.info("serving health and metrics", url=self.url)
            try:
                yield self
            finally:
                listener.stop_accepting()
                await self._connections.close()
                await listener.close()

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=_HEAD_LIMIT), self._connected)

    async def _tls(self) -> ssl.SSLContext | None:
        options = self._options
        if options.certificate_file is None and not options.self_signed:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if options.certificate_file is not None:
            context.load_cert_chain(options.certificate_file, options.key_file)
            return context
        names = tuple(dict.fromkeys((*options.names, "localhost", options.bind_address)))
        if options.folder is None:
            pair = await selfsigned.make(names)
        else:
            pair = await selfsigned.in_folder(options.folder, _STEM, names)
        selfsigned.load(context, pair)
        return context

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A plain function, so that the task of each connection is ours to name and to end.
        if len(self._connections) >= _CONNECTIONS:
            writer.close()
            return
        self._connections.start(self._serve(reader, writer), name="connection")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._clock.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                answer = await self._answer_to(head)
                writer.write(_encode(answer, with_body=not head.startswith(b"HEAD ")))
                await writer.drain()
        except asyncio.LimitOverrunError:
            writer.write(_encode(_Answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"")))
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ssl.SSLError):
            pass  # the client disconnected
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, TimeoutError, ssl.SSLError):
                async with self._clock.timeout(1):
                    await writer.wait_closed()

    async def _answer_to(self, head: bytes) -> _Answer:
        parts = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return _Answer(HTTPStatus.BAD_REQUEST, b"this is not HTTP/1\n")
        method, target, _ = parts
        if method not in {"GET", "HEAD"}:
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
        url = urllib.parse.urlsplit(target)
        if self._options.authorizer is not None:
            refusal = await self._options.authorizer.check(url.path, _authorization(head))
            if refusal is not None:
                return _Answer(refusal.status, refusal.text.encode())
        if url.path == "/metrics":
            return _Answer(HTTPStatus.OK, self._metrics.exposition(), CONTENT_TYPE)
        page, _, one = url.path.removeprefix("/").partition("/")
        checks = self._pages.get(page)
        if checks is None:
            return _Answer(HTTPStatus.NOT_FOUND, b"there are /healthz, /livez, /readyz and /metrics\n")
        query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
        report = checks.report_one(one) if one else _report(checks, page, query)
        return _Answer(report.status, report.text.encode())

    @staticmethod
    def _failed(failure: BaseException) -> None:
        _log.error("request failed", error=f"{type(failure).__name__}: {failure}")


def _authorization(head: bytes) -> str:
    """The header of that name; the first, as everywhere."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"authorization":
            return value.strip().decode("latin-1")
    return ""


def _report(checks: HealthChecks, page: str, query: Mapping[str, list[str]]) -> Report:
    return checks.report(page, verbose="verbose" in query, exclude=query.get("exclude", []))


def _encode(answer: _Answer, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {int(answer.status)} {HTTPStatus(answer.status).phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-cache, no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (answer.body if with_body else b"")
