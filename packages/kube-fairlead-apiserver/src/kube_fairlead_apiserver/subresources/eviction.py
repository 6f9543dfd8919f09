"""pods/eviction: deletes a pod if its disruption budget allows it.

Three writes belong together: the budget's status is updated, the pod gets a condition, the pod is deleted. All of them
are accepted on a full disk, as a deletion is. When a later one fails, the budget's status is restored. When the process
dies between them, the disruption controller removes the entry at the next start.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/core/pod/storage/eviction.go
"""

from __future__ import annotations

import msgspec

from kube_fairlead.api import errors, selectors
from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time
from kube_fairlead.base import logs
from kube_fairlead_apiserver.http.messages import Response, json_response
from kube_fairlead_apiserver.operations.core import WriteOptions
from kube_fairlead_apiserver.operations.delete import check_preconditions, delete
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.operations.propagation import DeleteRequest, read_delete_options
from kube_fairlead_apiserver.storage.interface import DiskFull
from kube_fairlead_apiserver.storage.selection import Selection
from kube_fairlead_apiserver.storage.store import StoreStopped
from kube_fairlead_apiserver.subresources.posted_admission import admit_posted
from kube_fairlead_apiserver.types import schemas
from kube_fairlead_apiserver.verbs.body import read_object
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["EVICTION", "evict"]

EVICTION = GroupVersionKind("policy", "v1", "Eviction")
_MAX_DISRUPTED = 2000
_REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."
_CONFLICT_ATTEMPTS = 20
_log = logs.get_logger(__name__)


async def evict(call: Call) -> Response:
    """Handle POST: delete the pod if its budget allows it."""
    eviction = await read_object(call, EVICTION, schemas.node(EVICTION), also=("policy/v1beta1",))
    request = read_delete_options(eviction.get("deleteOptions") or {})
    options = call.write_options("CreateOptions")
    if options.dry_run or request.dry_run:
        options.dry_run = True
        request = msgspec.structs.replace(request, dry_run=True)
    await admit_posted(call, EVICTION, eviction, options)
    if (eviction.get("metadata") or {}).get("name") != call.info.name:
        raise errors.BadRequest("name in URL does not match name in Eviction object")
    await _evict(call, request, options)
    return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


async def _evict(call: Call, request: DeleteRequest, options: WriteOptions) -> None:
    """Decide with the current pod; decide again when it changes meanwhile."""
    client = InternalClient(call.core, "eviction")
    if request.uid is not None or request.resource_version is not None:
        # A rejection must not depend on a write that may still fail.
        await call.core.store.settle(call.resource.table, call.resource.key(call.info.namespace, call.info.name))
    for _ in range(_CONFLICT_ATTEMPTS):
        pod = client.newest(call.resource, call.info.namespace, call.info.name)
        if pod is None:
            raise errors.not_found(call.resource.group_resource, call.info.name)
        check_preconditions(call.resource, pod, request)  # before the budget changes for a pod that is not deleted
        charge = await _check_budget(call, client, pod, options)
        guarded = request
        if charge is None and request.resource_version is None:
            # The pod needed no budget because of its state, so it must still be in that state.
            guarded = msgspec.structs.replace(request, resource_version=pod["metadata"]["resourceVersion"])
        try:
            await _mark_and_delete(call, client, pod, request, guarded, options)
        except errors.Conflict:
            await _undo_disruption(call, client, charge)
            if charge is not None or request.resource_version is not None or request.uid is not None:
                raise
            continue
        except Exception:
            await _undo_disruption(call, client, charge)
            raise
        return
    raise errors.too_many_requests(_REFUSAL, 10)


async def _mark_and_delete(
    call: Call, client: InternalClient, pod: Json, request: DeleteRequest, guarded: DeleteRequest, options: WriteOptions
) -> None:
    """Set the condition of the pod and delete it; ``guarded`` is the request with its preconditions for the pod."""
    await _mark_disrupted(call, client, pod, request, options)
    if guarded is not request:
        guarded = _refreshed(call, client, pod, guarded)
    await delete(
        call.core,
        call.resource,
        namespace=call.info.namespace,
        name=call.info.name,
        request=guarded,
        options=options,
    )


def _refreshed(call: Call, client: InternalClient, pod: Json, request: DeleteRequest) -> DeleteRequest:
    """Return the same preconditions after the own status write changed the resource version."""
    now = client.newest(call.resource, call.info.namespace, call.info.name)
    if now is None or now["metadata"]["uid"] != pod["metadata"]["uid"]:
        return request
    return msgspec.structs.replace(request, resource_version=now["metadata"]["resourceVersion"])


class _RecordedDisruption(msgspec.Struct, frozen=True):
    """One disruption that is recorded in a budget's status."""

    budget: str
    pod: str
    time: str


async def _check_budget(
    call: Call, client: InternalClient, pod: Json, options: WriteOptions
) -> _RecordedDisruption | None:
    """Record the eviction in the pod's budget (None: it needs none). Raises when the budget does not allow it."""
    if _needs_no_budget(pod):
        return None
    budgets = client.resource("policy", "v1", "poddisruptionbudgets")
    matching = [
        budget for budget in client.list(budgets, Selection(namespace=call.info.namespace)) if _covers(budget, pod)
    ]
    if not matching:
        return None
    if len(matching) > 1:
        raise errors.InternalError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = matching[0]
    if not _is_ready(pod) and _unready_may_go(budget):
        return None
    now = format_time(call.core.clock.now())

    def spend(current: Json) -> None:
        _record_disruption(current, pod["metadata"]["name"], now)

    await client.change(
        budgets,
        call.info.namespace,
        budget["metadata"]["name"],
        spend,
        subresource="status",
        dry_run=options.dry_run,
        for_deletion=True,
    )
    return None if options.dry_run else _RecordedDisruption(budget["metadata"]["name"], pod["metadata"]["name"], now)


async def _undo_disruption(call: Call, client: InternalClient, charge: _RecordedDisruption | None) -> None:
    """Remove the record of a disruption that did not happen. If that fails, the disruption controller does it later."""
    if charge is None:
        return

    def give_back(current: Json) -> None:
        _remove_record(current, charge, format_time(call.core.clock.now()))

    budgets = client.resource("policy", "v1", "poddisruptionbudgets")
    try:
        await client.change(
            budgets, call.info.namespace, charge.budget, give_back, subresource="status", for_deletion=True
        )
    except (errors.ApiError, DiskFull, StoreStopped) as error:
        _log.warning(
            "refunding a disruption to its budget failed", budget=charge.budget, pod=charge.pod, error=str(error)
        )


def _needs_no_budget(pod: Json) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in {"Succeeded", "Failed", "Pending"} or bool(pod["metadata"].get("deletionTimestamp"))


def _covers(budget: Json, pod: Json) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return False
    return selectors.label_selector_from(selector).matches(pod["metadata"].get("labels") or {})


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _unready_may_go(budget: Json) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return bool(desired > 0 and healthy >= desired)


def _record_disruption(budget: Json, pod: str, now: str) -> None:
    """Record one disruption in the budget's status, or raise the reason why it is not allowed."""
    name = budget["metadata"]["name"]
    status = budget.setdefault("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", 10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise errors.Forbidden("pdb disruptions allowed is negative")
    disrupted = status.setdefault("disruptedPods", {})
    if len(disrupted) > _MAX_DISRUPTED:
        raise errors.Forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if allowed == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _refused(f"The disruption budget {name} needs {needs} healthy pods and has {has} currently", 0)
    status["disruptionsAllowed"] = allowed - 1
    disrupted[pod] = now
    if allowed == 1:
        _set_condition(status, budget["metadata"].get("generation", 0), now, allowed=False)


def _remove_record(budget: Json, charge: _RecordedDisruption, now: str) -> None:
    """Undo one recorded disruption, unless the disruption controller has done so."""
    status = budget.setdefault("status", {})
    disrupted = status.get("disruptedPods") or {}
    if disrupted.get(charge.pod) != charge.time:
        return
    del disrupted[charge.pod]
    if not disrupted:
        del status["disruptedPods"]
    status["disruptionsAllowed"] = status.get("disruptionsAllowed", 0) + 1
    _set_condition(status, budget["metadata"].get("generation", 0), now, allowed=True)


def _set_condition(status: Json, generation: int, now: str, *, allowed: bool) -> None:
    conditions = status.setdefault("conditions", [])
    known = next((c for c in conditions if c.get("type") == "DisruptionAllowed"), None)
    if known is None:
        known = {"type": "DisruptionAllowed"}
        conditions.append(known)
    verdict, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    if known.get("status") != verdict:
        known["lastTransitionTime"] = now
    known.update(status=verdict, reason=reason, message="", observedGeneration=generation)


def _refused(cause: str, retry_after: int) -> errors.TooManyRequests:
    return errors.too_many_requests(_REFUSAL, retry_after, causes=[{"reason": "DisruptionBudget", "message": cause}])


async def _mark_disrupted(
    call: Call, client: InternalClient, pod: Json, request: DeleteRequest, options: WriteOptions
) -> None:
    """Set the DisruptionTarget condition of the pod before its deletion, with the preconditions of the request."""
    now = format_time(call.core.clock.now())

    def mark(current: Json) -> None:
        metadata = current["metadata"]
        if metadata["uid"] != pod["metadata"]["uid"] or request.uid not in {None, metadata["uid"]}:
            raise errors.conflict(call.resource.group_resource, call.info.name, "Precondition failed: UID has changed")
        conditions = current.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [c for c in conditions if c.get("type") != "DisruptionTarget"]
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastTransitionTime": now,
            }
        )

    if pod["metadata"].get("deletionTimestamp") or request.resource_version is not None:
        return
    await client.change(
        call.resource,
        call.info.namespace,
        call.info.name,
        mark,
        subresource="status",
        dry_run=options.dry_run,
        for_deletion=True,
    )
