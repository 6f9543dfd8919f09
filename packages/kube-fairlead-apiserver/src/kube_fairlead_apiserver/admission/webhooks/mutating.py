"""MutatingAdmissionWebhook: webhooks are called in order, each with the result of those before it.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/mutating/dispatcher.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/rest/meta.go
"""

from __future__ import annotations

from typing import Any

import msgspec

from kube_fairlead.api import errors, golang
from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.interface import Operation, Reinvocation
from kube_fairlead_apiserver.admission.version_conversion import convert
from kube_fairlead_apiserver.admission.webhooks.caller import CallFailed
from kube_fairlead_apiserver.admission.webhooks.configuration import Webhook
from kube_fairlead_apiserver.admission.webhooks.plugin import WebhookPlugin
from kube_fairlead_apiserver.admission.webhooks.review import AdmissionResponse
from kube_fairlead_apiserver.patch.json_patch import apply_json_patch
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.schema.defaulting import copy_json
from kube_fairlead_apiserver.schema.typed_decoder import TypeMismatch, conform
from kube_fairlead_apiserver.types import schemas

__all__ = ["MutatingWebhooks"]


# Fields that a webhook sees and cannot change.
_SERVER_OWNED = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_OBJECT_META = GroupVersionKind("meta.k8s.io", "v1", "ObjectMeta")
_MUTATION = "mutation.webhook.admission.k8s.io/"


class MutatingWebhooks(WebhookPlugin):
    """Calls webhooks that may change the object."""

    plural = "mutatingwebhookconfigurations"
    step = "admit"
    mutating = True

    async def admit(self, operation: Operation) -> None:
        """Call webhooks in order; in a second round only those that have not seen the last change."""
        hooks = self._hooks.get()
        if not hooks:
            return
        memory = operation.reinvocation
        if memory is None:
            memory = operation.reinvocation = Reinvocation()
        elif memory.left != operation.obj:
            memory.changed()  # by the other plugins, in their second round
        try:
            for index, hook in enumerate(hooks):
                target = self.target(hook, operation)
                if target is not None and (memory.round == 0 or hook.uid in memory.due):
                    await self._ask(hook, target, operation, memory, index)
        finally:
            memory.left = copy_json(operation.obj)

    async def _ask(
        self, hook: Webhook, target: Resource, operation: Operation, memory: Reinvocation, index: int
    ) -> None:
        place = f"round_{memory.round}_index_{index}"
        changed = False
        try:
            verdict = await self.ask(hook, operation, target)
            changed = bool(verdict.patch) and _patch(hook, operation, target, verdict)
        except CallFailed as error:
            self.ignore(hook, operation, error, f"failed-open.{_MUTATION}{place}")
        finally:
            note = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
            operation.annotate(_MUTATION + place, msgspec.json.encode(note).decode())
        if changed:
            operation.patched = memory.wanted = True
            memory.changed()
        if hook.reinvocable:
            memory.asked.add(hook.uid)


def _patch(hook: Webhook, operation: Operation, target: Resource, verdict: AdmissionResponse) -> bool:
    """Apply a patch to the object, in the webhook's version; returns whether it changed anything."""
    patch = _decode(hook, verdict.patch)
    if not patch:
        return False
    obj = operation.obj
    if obj is None:
        raise errors.internal_error(
            f"admission webhook {golang.quote(hook.name)} attempted to modify the object, "
            "which is not supported for this operation"
        )
    if verdict.patch_type != "JSONPatch":
        raise CallFailed(hook.name, f"unsupported patch type {golang.quote(verdict.patch_type)}")
    own = operation.resource
    converts = operation.kind is None and target is not own
    shown = convert(obj, own, target) if converts else obj
    try:
        patched = apply_json_patch(shown, patch)
    except errors.ApiError as error:
        raise errors.internal_error(error.causes[0]["message"] if error.causes else error) from error
    result: Json = copy_json(patched)
    _conform(result, shown, operation, target)
    if result == shown:
        return False
    if converts:
        result = convert(result, target, own)
    if result["metadata"].get("namespace") != obj["metadata"].get("namespace"):
        raise errors.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    for field in _SERVER_OWNED:
        if field in obj["metadata"]:
            result["metadata"][field] = obj["metadata"][field]
        else:
            result["metadata"].pop(field, None)
    obj.clear()
    obj.update(result)
    return True


def _decode(hook: Webhook, patch: bytes) -> list[Any]:
    try:
        decoded = msgspec.json.decode(patch)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CallFailed(hook.name, f"received undecodable patch in webhook response: {error}") from error
    if not isinstance(decoded, list):
        reason = "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        raise CallFailed(hook.name, f"received undecodable patch in webhook response: {reason}")
    return decoded


def _conform(patched: Any, before: Json, operation: Operation, target: Resource) -> None:
    """Check that the result is still an object of its kind."""
    if not isinstance(patched, dict):
        raise errors.internal_error("the patch of a webhook leaves no object")
    if not isinstance(patched.get("metadata"), dict):
        raise errors.internal_error("the patch of a webhook leaves no metadata")
    for field in ("apiVersion", "kind"):
        if patched.get(field) != before.get(field):
            raise errors.internal_error(f"the patch of a webhook changes {field}")
    metadata = schemas.node(_OBJECT_META)
    root = "ObjectMeta.metadata"
    try:
        if metadata is not None:
            conform(metadata, patched["metadata"])
        root = target.kind
        if operation.kind is None and not target.is_custom:
            conform(target.schema(), patched)
    except TypeMismatch as error:
        error.path = root + error.path
        raise errors.internal_error(error) from error
