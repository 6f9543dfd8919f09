"""pods/eviction: a delete that first asks the pod's disruption budget."""

from __future__ import annotations

import msgspec

from fairlead.api import errors, selectors
from fairlead.api.gvk import GroupVersionKind
from fairlead.api.time import format_time
from fairlead.apiserver.http.messages import Json, Response, json_response
from fairlead.apiserver.operations.core import WriteOptions
from fairlead.apiserver.operations.delete import check_preconditions, delete
from fairlead.apiserver.operations.internal import Inside
from fairlead.apiserver.operations.propagation import DeleteRequest, read_delete_options
from fairlead.apiserver.storage.selection import Selection
from fairlead.apiserver.subresources.admission import admit_posted
from fairlead.apiserver.types import schemas
from fairlead.apiserver.verbs.body import read_object
from fairlead.apiserver.verbs.call import Call

__all__ = ["EVICTION", "evict"]

EVICTION = GroupVersionKind("policy", "v1", "Eviction")
_MAX_DISRUPTED = 2000
_REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."
_CONFLICT_ATTEMPTS = 20


async def evict(call: Call) -> Response:
    """POST: delete the pod if its budget allows it."""
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
    """Decide on the pod as it is now; when it changes under the decision, decide again."""
    inside = Inside(call.core, "eviction")
    if request.uid is not None or request.resource_version is not None:
        # What is refused on them must not depend on a write that may still fail.
        await call.core.store.settle(call.resource.table, call.resource.key(call.info.namespace, call.info.name))
    for _ in range(_CONFLICT_ATTEMPTS):
        pod = inside.newest(call.resource, call.info.namespace, call.info.name)
        if pod is None:
            raise errors.not_found(call.resource.group_resource, call.info.name)
        check_preconditions(call.resource, pod, request)  # before anything is spent on a pod that does not go
        spends = await _ask_budget(call, inside, pod, options)
        guarded = request
        if not spends and request.resource_version is None:
            # Nothing was spent because of the state the pod is in, so it must still be in that state.
            guarded = msgspec.structs.replace(request, resource_version=pod["metadata"]["resourceVersion"])
        try:
            await _mark_disrupted(call, inside, pod, request, options)
            if guarded is not request:
                guarded = _refreshed(call, inside, pod, guarded)
            await delete(
                call.core,
                call.resource,
                namespace=call.info.namespace,
                name=call.info.name,
                request=guarded,
                options=options,
            )
        except errors.Conflict:
            if spends or request.resource_version is not None or request.uid is not None:
                raise
            continue
        return
    raise errors.too_many_requests(_REFUSAL, 10)


def _refreshed(call: Call, inside: Inside, pod: Json, request: DeleteRequest) -> DeleteRequest:
    """The same guard after our own status write moved the version."""
    now = inside.newest(call.resource, call.info.namespace, call.info.name)
    if now is None or now["metadata"]["uid"] != pod["metadata"]["uid"]:
        return request
    return msgspec.structs.replace(request, resource_version=now["metadata"]["resourceVersion"])


async def _ask_budget(call: Call, inside: Inside, pod: Json, options: WriteOptions) -> bool:
    """Whether this eviction was paid for from a budget (False: it needs none). Raises when the budget says no."""
    if _needs_no_budget(pod):
        return False
    budgets = inside.resource("policy", "v1", "poddisruptionbudgets")
    matching = [
        budget for budget in inside.list(budgets, Selection(namespace=call.info.namespace)) if _covers(budget, pod)
    ]
    if not matching:
        return False
    if len(matching) > 1:
        raise errors.InternalError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = matching[0]
    if not _is_ready(pod) and _unready_may_go(budget):
        return False
    now = format_time(call.core.clock.now())

    def spend(current: Json) -> None:
        _spend(current, pod["metadata"]["name"], now)

    await inside.change(
        budgets,
        call.info.namespace,
        budget["metadata"]["name"],
        spend,
        subresource="status",
        dry_run=options.dry_run,
    )
    return True


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


def _spend(budget: Json, pod: str, now: str) -> None:
    """Take one disruption out of the budget's status, or say why there is none to take."""
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
        _set_condition(status, budget["metadata"].get("generation", 0), now)


def _set_condition(status: Json, generation: int, now: str) -> None:
    conditions = status.setdefault("conditions", [])
    known = next((c for c in conditions if c.get("type") == "DisruptionAllowed"), None)
    if known is None:
        known = {"type": "DisruptionAllowed"}
        conditions.append(known)
    if known.get("status") != "False":
        known["lastTransitionTime"] = now
    known.update(status="False", reason="InsufficientPods", message="", observedGeneration=generation)


def _refused(cause: str, retry_after: int) -> errors.TooManyRequests:
    return errors.too_many_requests(_REFUSAL, retry_after, causes=[{"reason": "DisruptionBudget", "message": cause}])


async def _mark_disrupted(call: Call, inside: Inside, pod: Json, request: DeleteRequest, options: WriteOptions) -> None:
    """Say on the pod why it goes, before it goes; a guard of the request is honoured here already."""
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
    await inside.change(
        call.resource, call.info.namespace, call.info.name, mark, subresource="status", dry_run=options.dry_run
    )
