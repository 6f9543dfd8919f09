"""Request metrics, with the names and labels of the Kubernetes API server."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import Self

from fairlead.apiserver.attributes import UserInfo
from fairlead.apiserver.http.messages import Request, Response
from fairlead.apiserver.registry.catalog import Catalog
from fairlead.apiserver.routing import RequestInfo
from fairlead.base.clock import Clock
from fairlead.base.metrics import Counter, Gauge, Histogram, Metrics

__all__ = ["RequestMetrics"]

_BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
# A deletion of a collection is told from others by its scope.
_VERBS = {
    "get": "GET",
    "list": "LIST",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


@dataclasses.dataclass(slots=True)
class _Begun:
    at: float
    info: RequestInfo
    verb: str
    dry_run: str
    gauge: Gauge


class RequestMetrics:
    """`apiserver_request_total`, `apiserver_request_duration_seconds` and the gauges beside them."""

    def __init__(self, metrics: Metrics, clock: Clock, catalog: Catalog) -> None:
        self._clock = clock
        self._catalog = catalog
        self._total = metrics.counter(
            "apiserver_request_total",
            "Requests by verb, resource and answer.",
            ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"),
        )
        self._seconds = metrics.histogram(
            "apiserver_request_duration_seconds",
            "How long requests took; watches are not counted.",
            ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"),
            buckets=_BUCKETS,
        )
        self._in_flight = metrics.gauge(
            "apiserver_current_inflight_requests", "Requests that are being answered.", ("request_kind",)
        )
        self._watches = metrics.gauge("apiserver_longrunning_requests", "Watches that are open.", ("verb",))
        # Looking a series up by its labels costs more than adding to it, and few combinations occur.
        self._known: dict[tuple[str, ...], tuple[Counter, Histogram]] = {}
        self._reading = self._in_flight.labels(request_kind="readOnly")
        self._mutating = self._in_flight.labels(request_kind="mutating")
        self._watching = self._watches.labels(verb="WATCH")

    def begin(self, request: Request, info: RequestInfo) -> object:
        """A request has arrived."""
        verb = "WATCH" if info.verb == "watch" else _VERBS.get(info.verb, info.verb.upper())
        if request.header("content-type").startswith("application/apply-patch"):
            verb = "APPLY"
        gauge = self._reading if request.method in {"GET", "HEAD"} else self._mutating
        gauge.inc()
        return _Begun(self._clock.monotonic(), info, verb, "All" if request.query.get("dryRun") else "", gauge)

    def identified(self, token: object, caller: UserInfo, user: UserInfo) -> None:
        """Callers are not counted: their number has no bound."""

    def end(self, token: object, response: Response) -> Response:
        """Its answer is ready."""
        assert isinstance(token, _Begun)  # noqa: S101 - it is what `begin` returned
        token.gauge.dec()
        total, seconds = self._series(token, response.status)
        total.inc()
        if token.verb == "WATCH":
            if response.status == 200 and not isinstance(response.body, bytes | list):
                response.body = _CountedWatch(response.body, self._watching)
            return response
        seconds.observe(self._clock.monotonic() - token.at)
        return response

    def _series(self, token: _Begun, status: int) -> tuple[Counter, Histogram]:
        info = token.info
        # What names nothing that is served gets no series of its own: callers could make up names without end.
        resource = self._catalog.get(info.group, info.version, info.resource) if info.is_resource else None
        named = (info.group, info.version, info.resource) if resource is not None else ("", "", "")
        subresource = info.subresource if resource is not None and info.subresource in resource.subresources else ""
        scope = "" if resource is None else "resource" if info.name else "namespace" if info.namespace else "cluster"
        place = (token.verb, token.dry_run, *named, subresource, scope, str(status))
        known = self._known.get(place)
        if known is None:
            group, version, plural = named
            labels = {
                "verb": token.verb,
                "dry_run": token.dry_run,
                "group": group,
                "version": version,
                "resource": plural,
                "subresource": subresource,
                "scope": scope,
                "component": "apiserver",
            }
            known = self._total.labels(**labels, code=str(status)), self._seconds.labels(**labels)
            self._known[place] = known
        return known


class _CountedWatch:
    """A watch's body that is counted for as long as it is open."""

    def __init__(self, body: AsyncIterator[bytes], gauge: Gauge) -> None:
        self._body = body
        self._gauge = gauge
        self._open = True
        gauge.inc()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._body)

    async def aclose(self) -> None:
        """Close the watch itself too."""
        if self._open:
            self._open = False
            self._gauge.dec()
        close = getattr(self._body, "aclose", None)
        if close is not None:
            await close()
