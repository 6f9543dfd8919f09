"""Calls one webhook: sends an AdmissionReview and returns its response, or why the call failed.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/mutating/dispatcher.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/validating/dispatcher.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/errors/statuserror.go,
    k8s.io/apiserver@v0.36.4/pkg/util/webhook/error.go
"""

from __future__ import annotations

import msgspec

from kube_fairlead.api import errors, golang
from kube_fairlead.api.json_object import Json
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.identity import Ids
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.admission.webhooks import review
from kube_fairlead_apiserver.admission.webhooks.configuration import Webhook
from kube_fairlead_apiserver.admission.webhooks.review import AdmissionResponse
from kube_fairlead_apiserver.admission.webhooks.sender import Endpoint, Reply, Sender, SendFailed, ServiceResolver
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["CallFailed", "WebhookCaller", "denial"]


_REVIEW_VERSIONS = ("v1", "v1beta1")


class CallFailed(Exception):
    """The call returned no valid response; the failure policy decides. The code is 0 without a response."""

    def __init__(self, webhook: str, reason: object, *, code: int = 0) -> None:
        super().__init__(f"failed calling webhook {golang.quote(webhook)}: {reason}")
        self.code = code


class WebhookCaller:
    """Calls webhooks."""

    def __init__(self, sender: Sender, resolver: ServiceResolver, clock: Clock, ids: Ids) -> None:
        self._sender = sender
        self._resolver = resolver
        self._clock = clock
        self._ids = ids

    async def ask(self, hook: Webhook, operation: Operation, target: Resource, *, mutating: bool) -> AdmissionResponse:
        """The webhook's verdict; its warnings and audit annotations are added to the operation.

        Raises:
            BadRequest: a dry run, and the webhook has effects besides.
            CallFailed: it could not be called, or its response is invalid.
        """
        if operation.dry_run and not hook.allows_dry_run:
            raise errors.BadRequest(f"admission webhook {golang.quote(hook.name)} does not support dry run")
        version = next((one for one in hook.review_versions if one in _REVIEW_VERSIONS), None)
        if version is None:
            reason = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallFailed(hook.name, f"could not create admission objects: {reason}")
        uid = self._ids.uuid()
        body = review.write_review(operation, target, uid=uid, version=version, mutating=mutating)
        reply = await self._send(hook, body)
        verdict = _read(hook, reply, uid=uid, version=version, mutating=mutating)
        for key, value in verdict.audit_annotations.items():
            operation.annotate(f"{hook.name}/{key}", value)
        operation.warnings += verdict.warnings
        return verdict

    async def _send(self, hook: Webhook, body: bytes) -> Reply:
        """Call in a separate task: a request's steps wait for its user's turns, and the webhook's timeout must not."""
        async with TaskScope("webhook") as scope:
            asked = scope.start(self._post(hook, body), name=hook.name)
        answered = asked.result()
        if isinstance(answered, CallFailed):
            raise answered
        return answered

    async def _post(self, hook: Webhook, body: bytes) -> Reply | CallFailed:
        url = hook.url if hook.service is None else _service_url(hook.service)
        try:
            endpoint = self._endpoint(hook, url)
            async with self._clock.timeout(hook.timeout_seconds):
                return await self._sender.post(endpoint, body, timeout_seconds=hook.timeout_seconds)
        except (SendFailed, TimeoutError) as error:
            reason = str(error) if isinstance(error, SendFailed) else "context deadline exceeded"
            shown = golang.quote(f"{url}?timeout={hook.timeout_seconds}s")
            failed = CallFailed(hook.name, f"failed to call webhook: Post {shown}: {reason}")
            failed.__cause__ = error
            return failed

    def _endpoint(self, hook: Webhook, url: str) -> Endpoint:
        service = hook.service
        if service is None:
            return Endpoint(url, hook.ca_bundle)
        namespace, name, port = service.get("namespace", ""), service.get("name", ""), service.get("port") or 443
        return Endpoint(url, hook.ca_bundle, self._resolver.resolve(namespace, name, port))


def _service_url(service: Json) -> str:
    path = "/" + (service.get("path") or "").lstrip("/")
    return f"https://{service.get('name')}.{service.get('namespace')}.svc:{service.get('port') or 443}{path}"


def _read(hook: Webhook, reply: Reply, *, uid: str, version: str, mutating: bool) -> AdmissionResponse:
    if not 200 <= reply.status < 300:
        raise CallFailed(hook.name, f"failed to call webhook: {_refusal(reply)}", code=reply.status)
    if not reply.body:
        reason = f"0-length response with status code: {reply.status} and content type: {reply.content_type}"
        raise CallFailed(hook.name, f"failed to call webhook: {reason}")
    try:
        return review.read_review(reply.body, uid=uid, version=version, mutating=mutating)
    except review.UndecodableReview as error:
        raise CallFailed(hook.name, f"failed to call webhook: {error}") from error
    except review.InvalidReview as error:
        raise CallFailed(hook.name, f"received invalid webhook response: {error}") from error


def _refusal(reply: Reply) -> errors.ApiError:
    """Return the error of an unsuccessful response: its Status, or the text of a page without one."""
    try:
        status = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return errors.from_status(status)
    text = reply.body[:2048].decode("utf-8", "replace").strip()
    return errors.from_response(reply.status, verb="POST", body=text)


def denial(webhook: str, status: Json | None) -> errors.ApiError:
    """Return the error of a client when a webhook denies the request."""
    denial = dict(status or {})
    denied = f"admission webhook {golang.quote(webhook)} denied the request"
    if denial.get("message"):
        denial["message"] = f"{denied}: {denial['message']}"
    elif denial.get("reason"):
        denial["message"] = f"{denied}: {denial['reason']}"
    else:
        denial["message"] = f"{denied} without explanation"
    if not isinstance(denial.get("code"), int) or denial["code"] < 400:
        denial["code"] = 400
    return errors.from_status(denial)
