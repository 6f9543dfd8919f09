"""Carries decisions out: asked about a delete, it writes the note and always says yes."""

from __future__ import annotations

from typing import Any

from fairlead.api import errors as api_errors
from fairlead.api.admission_v1 import AdmissionRequest, AdmissionResponse
from fairlead.api.gvk import GroupVersionResource
from fairlead.api.reserved import ANNOTATION_GRACE_DEADLINE, ANNOTATION_GRACE_REQUESTED
from fairlead.api.time import format_time
from fairlead.base import logs
from fairlead.base.metrics import Metrics
from fairlead.client import errors
from fairlead.client.client import Client
from fairlead.client.patches import MergePatch
from fairlead.client.requests import WriteOptions
from fairlead.webhook import decisions

__all__ = ["PATIENCE_SECONDS", "Recorder"]

_log = logs.get_logger(__name__)

# Less than the webhook's own timeout in the manifests: an answer without a note is better than none.
PATIENCE_SECONDS = 8.0


class Recorder:
    """Answers AdmissionRequests. A grace period is advice: that it cannot be recorded never stops a delete."""

    def __init__(self, client: Client, metrics: Metrics) -> None:
        self._client = client
        self._results = metrics.counter(
            "fairlead_webhook_deletes_total", "Deletes by what became of their grace period.", ("result",)
        )

    async def answer(self, request: AdmissionRequest) -> AdmissionResponse:
        """Record what the delete asks for, if it asks for anything."""
        try:
            async with self._client.clock.timeout(PATIENCE_SECONDS):
                result, note, warning = await self._record(request)
        except (api_errors.ApiError, errors.ClientError, TimeoutError) as error:
            why = str(error) or f"the API server took no note within {PATIENCE_SECONDS:g} s"
            _log.warning("grace period not recorded", resource=request.resource.resource, error=why)
            result, note, warning = "failed", "", f"the grace period is not recorded: {why}"
        self._results.labels(result=result).inc()
        return AdmissionResponse(
            uid=request.uid,
            allowed=True,
            warnings=(warning,) if warning else (),
            audit_annotations={"deadline": note} if note else {},
        )

    async def _record(self, request: AdmissionRequest) -> tuple[str, str, str]:
        """What became of it, the deadline that was written, and what the user should be told."""
        if request.operation != "DELETE" or request.sub_resource or not isinstance(request.old_object, dict):
            return "unneeded", "", ""
        asked = request.resource
        api = self._client.of(GroupVersionResource(asked.group, asked.version, asked.resource))
        obj: dict[str, Any] = request.old_object
        # A deletecollection names no object; the one that is being deleted is the one that is shown.
        uid, name, namespace = (obj["metadata"].get(field, "") for field in ("uid", "name", "namespace"))
        # Each attempt may lose to another writer of the object in the few milliseconds between reading and writing.
        # How often does not matter, only how long: a busy object is the last one whose grace period should get lost.
        while True:
            decision = decisions.decide(obj, request.options or {}, self._client.clock.now())
            if isinstance(decision, decisions.Leave):
                return ("impossible" if decision.warning else "unneeded"), "", decision.warning
            if request.dry_run:
                return "dry_run", "", ""
            try:
                await api.patch(
                    name,
                    _patch(obj, decision),
                    namespace=namespace or None,
                    options=WriteOptions(field_manager=decisions.FIELD_MANAGER),
                )
            except api_errors.NotFound:
                return "unneeded", "", ""
            except api_errors.Conflict:
                try:
                    obj = await api.get(name, namespace=namespace or None)
                except api_errors.NotFound:
                    return "unneeded", "", ""
                if obj["metadata"].get("uid") != uid:
                    return "unneeded", "", ""  # the one that was meant has gone
            else:
                if isinstance(decision, decisions.Note):
                    return "recorded", format_time(decision.deadline), ""
                return "erased", "", ""


def _patch(obj: dict[str, Any], decision: decisions.Note | decisions.Erase) -> MergePatch:
    """Both notes at once, on exactly the object that was decided about."""
    notes: dict[str, str | None] = {ANNOTATION_GRACE_DEADLINE: None, ANNOTATION_GRACE_REQUESTED: None}
    if isinstance(decision, decisions.Note):
        notes[ANNOTATION_GRACE_DEADLINE] = format_time(decision.deadline)
        notes[ANNOTATION_GRACE_REQUESTED] = str(decision.requested)
    same = {field: obj["metadata"][field] for field in ("uid", "resourceVersion")}
    return MergePatch({"metadata": {**same, "annotations": notes}})
