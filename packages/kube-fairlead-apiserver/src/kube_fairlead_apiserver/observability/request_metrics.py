"""Request metrics, with the names and labels of the Kubernetes API server, and the metric of KEP-5673.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/metrics/metrics.go
"""

from __future__ import annotations

import msgspec

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.metrics import Gauge, Metrics
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.routing import RequestInfo

__all__ = ["GracefulDeletions", "RequestMetrics"]

_BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
# The scope label distinguishes deletecollection from delete.
_VERBS = {
    "get": "GET",
    "list": "LIST",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


_LABELS = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component")
_READING = frozenset({"GET", "HEAD"})


class _Begun(msgspec.Struct):
    at: float
    info: RequestInfo
    verb: str
    dry_run: str
    gauge: Gauge


class RequestMetrics:
    """`apiserver_request_total`, `apiserver_request_duration_seconds` and the gauges beside them."""

    def __init__(self, clock: Clock, catalog: Catalog, metrics: Metrics) -> None:
        self._clock = clock
        self._catalog = catalog
        self._total = metrics.counter(
            "apiserver_request_total", "Requests, by verb, resource and status code.", (*_LABELS, "code")
        )
        self._seconds = metrics.histogram(
            "apiserver_request_duration_seconds",
            "Duration of requests, without watches.",
            _LABELS,
            buckets=_BUCKETS,
        )
        in_flight = metrics.gauge("apiserver_current_inflight_requests", "Requests in flight.", ("request_kind",))
        watches = metrics.gauge("apiserver_longrunning_requests", "Open watches.", ("verb",))
        self._reading = in_flight.labels("readOnly")
        self._mutating = in_flight.labels("mutating")
        self._watching = watches.labels("WATCH")

    def begin(self, request: Request, info: RequestInfo) -> object:
        """Note a new request."""
        verb = "WATCH" if info.verb == "watch" else _VERBS.get(info.verb, info.verb.upper())
        if request.header("content-type").startswith("application/apply-patch"):
            verb = "APPLY"
        gauge = self._reading if request.method in _READING else self._mutating
        gauge.inc()
        return _Begun(self._clock.monotonic(), info, verb, "All" if request.query.get("dryRun") else "", gauge)

    def identified(self, token: object, caller: UserInfo, user: UserInfo) -> None:
        """Do nothing: callers are no label, because their number is unbounded."""

    def end(self, token: object, response: Response) -> Response:
        """Count a request whose response is ready."""
        assert isinstance(token, _Begun)  # noqa: S101 - it is what `begin` returned
        token.gauge.dec()
        place = self._place(token)
        self._total.labels(*place, str(response.status)).inc()
        if token.verb == "WATCH":
            if response.status == 200 and not isinstance(response.body, bytes | list):
                self._watching.inc()
                response.body.when_closed(self._watch_ended)
            return response
        self._seconds.labels(*place).observe(self._clock.monotonic() - token.at)
        return response

    def _watch_ended(self) -> None:
        self._watching.dec()

    def _place(self, token: _Begun) -> tuple[str, ...]:
        info = token.info
        resource = self._catalog.get(info.group, info.version, info.resource) if info.is_resource else None
        if resource is None:
            # Unknown resources share one series: clients could invent names without end.
            return token.verb, token.dry_run, "", "", "", "", "", "apiserver"
        subresource = info.subresource if info.subresource in resource.subresources else ""
        by_name = info.name or info.verb == "create"
        scope = "resource" if by_name else "namespace" if info.namespace else "cluster"
        named = info.group, info.version, info.resource
        return token.verb, token.dry_run, *named, subresource, scope, "apiserver"


class GracefulDeletions:
    """`apiserver_crd_graceful_deletion_total`: deletes that recorded a grace period, the first and shorter ones after.

    A delete that changes nothing, has no grace period or is a dry run is not counted.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._total = metrics.counter(
            "apiserver_crd_graceful_deletion_total",
            "Deletes of custom resources that recorded a grace period.",
            ("group", "resource"),
        )

    def count(self, resource: Resource) -> None:
        """Count one delete."""
        self._total.labels(resource.group, resource.plural).inc()
