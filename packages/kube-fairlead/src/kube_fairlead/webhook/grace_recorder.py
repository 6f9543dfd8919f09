"""Carries decisions out: for each delete it writes the note, and it always allows the delete."""

from __future__ import annotations

import datetime as dt

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.admission_v1 import AdmissionRequest, AdmissionResponse
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.reserved import (
    ANNOTATION_GRACE_DEADLINE,
    ANNOTATION_GRACE_REQUEST_TIME,
    ANNOTATION_GRACE_REQUEST_UID,
    ANNOTATION_GRACE_REQUESTED,
)
from kube_fairlead.api.time import format_micro_time, format_time
from kube_fairlead.base import logs
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.requests import WriteOptions
from kube_fairlead.grace import notes
from kube_fairlead.webhook import decisions, reviews

__all__ = ["PATIENCE_SECONDS", "GraceRecorder"]


_log = logs.get_logger(__name__)

# Less than the timeout of two seconds in the manifests: an answer without a note is better than none, and a user who
# deletes does not wait for advice.
PATIENCE_SECONDS = 1.5


class GraceRecorder:
    """Answers AdmissionRequests. A grace period is advice: that it cannot be recorded never stops a delete."""

    def __init__(self, client: Client, metrics: Metrics) -> None:
        self._client = client
        self._results = metrics.counter(
            "fairlead_webhook_deletes_total", "Deletes by the result of recording their grace period.", ("result",)
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
        """The result, the deadline that was written, and the warning for the user."""
        if request.operation != "DELETE" or request.sub_resource or request.old_object is None:
            return "unneeded", "", ""
        shown = reviews.deletion_of(request)
        asked, obj = request.resource, shown.obj
        api = self._client.of(GroupVersionResource(asked.group, asked.version, asked.resource))
        uid, name, namespace = shown.uid, shown.name, shown.namespace
        # Each attempt may lose to another writer of the object in the few milliseconds between reading and writing.
        # How often does not matter, only how long: a busy object is the last one whose grace period should get lost.
        while True:
            now = self._client.clock.now()
            decision = decisions.decide(obj, shown.options, now)
            if isinstance(decision, decisions.Leave):
                return ("impossible" if decision.warning else "unneeded"), "", decision.warning
            if request.dry_run:
                return "dry_run", "", ""
            try:
                await api.patch(
                    name,
                    _patch(obj, decision, request.uid, now),
                    namespace=namespace or None,
                    options=WriteOptions(field_manager=notes.FIELD_MANAGER),
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


def _patch(obj: Json, decision: decisions.Note | decisions.Erase, request_uid: str, now: dt.datetime) -> MergePatch:
    """The whole note at once, on exactly the object that was decided about."""
    written: dict[str, str | None] = dict.fromkeys(notes.ANNOTATIONS)
    if isinstance(decision, decisions.Note):
        written[ANNOTATION_GRACE_DEADLINE] = format_time(decision.deadline)
        written[ANNOTATION_GRACE_REQUESTED] = str(decision.requested)
        written[ANNOTATION_GRACE_REQUEST_TIME] = format_micro_time(now)
        written[ANNOTATION_GRACE_REQUEST_UID] = request_uid
    same = {field: obj["metadata"][field] for field in ("uid", "resourceVersion")}
    return MergePatch({"metadata": {**same, "annotations": written}})
