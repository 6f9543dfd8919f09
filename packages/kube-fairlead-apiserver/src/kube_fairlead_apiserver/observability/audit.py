"""The audit log: one JSON line per request, at the Metadata level of Kubernetes' audit.k8s.io/v1 Event.

Upstream: k8s.io/apiserver@v0.36.4/pkg/audit/request.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/filters/audit.go,
    k8s.io/apiserver@v0.36.4/pkg/apis/audit/v1/types.go
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import msgspec

from kube_fairlead.api.time import format_micro_time
from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.routing import RequestInfo

__all__ = ["AuditLog"]


_log = logs.get_logger(__name__)


class _Begun(msgspec.Struct):
    event: dict[str, Any]
    annotations: dict[str, str]  # filled while the request is handled


class AuditLog:
    """Appends to a file, or to standard output for "-". No bodies and no credentials, so no secrets."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._clock = clock
        self._cut_short = False
        self._failing = False
        self._lost = 0
        if path == "-":
            self._descriptor = os.dup(1)
        else:
            pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def begin(self, request: Request, info: RequestInfo) -> object:
        """Note a new request."""
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": request.audit_id,
            "stage": "ResponseComplete",
            "requestURI": request.target or request.path,
            "verb": info.verb,
            "userAgent": request.header("user-agent"),
            "sourceIPs": [request.client_address] if request.client_address else [],
            "requestReceivedTimestamp": format_micro_time(self._clock.now()),
        }
        if info.is_resource:
            reference = {
                "resource": info.resource,
                "namespace": info.namespace,
                "name": info.name,
                "apiGroup": info.group,
                "apiVersion": info.version,
                "subresource": info.subresource,
            }
            event["objectRef"] = {key: value for key, value in reference.items() if value}
        return _Begun(event, request.audit_annotations)

    def identified(self, token: object, caller: UserInfo, user: UserInfo) -> None:
        """Note the authenticated caller, and the impersonated user beside it."""
        assert isinstance(token, _Begun)  # noqa: S101 - it is what `begin` returned
        token.event["user"] = _user_fields(caller)
        if user is not caller:
            token.event["impersonatedUser"] = _user_fields(user)

    def end(self, token: object, response: Response) -> Response:
        """Write the line of a request whose response is ready, in one piece, so that lines never mix."""
        assert isinstance(token, _Begun)  # noqa: S101 - it is what `begin` returned
        event = token.event
        if token.annotations:
            event["annotations"] = token.annotations
        event["responseStatus"] = {"metadata": {}, "code": response.status}
        event["stageTimestamp"] = format_micro_time(self._clock.now())
        self._write(msgspec.json.encode(event) + b"\n")
        return response

    def _write(self, line: bytes) -> None:
        if self._cut_short:
            line = b"\n" + line  # ends an incomplete line, so that this one can be parsed
        try:
            written = os.write(self._descriptor, line)
            problem = "" if written == len(line) else "a line was cut short: is its disk full?"
        except OSError as error:
            written, problem = 0, str(error)
        if written:
            self._cut_short = written < len(line)
        self._lost += bool(problem)
        # Logged once: on a full disk every line fails, and the server's log may be on the same disk.
        if problem and not self._failing:
            _log.error("writing the audit log failed", error=problem)
        elif self._failing and not problem:
            _log.error("audit log is written again", lines_lost=self._lost)
            self._lost = 0
        self._failing = bool(problem)


def _user_fields(user: UserInfo) -> dict[str, Any]:
    fields: dict[str, Any] = {"username": user.name}
    if user.uid:
        fields["uid"] = user.uid
    if user.groups:
        fields["groups"] = list(user.groups)
    if user.extra:
        fields["extra"] = {key: list(values) for key, values in user.extra.items()}
    return fields
