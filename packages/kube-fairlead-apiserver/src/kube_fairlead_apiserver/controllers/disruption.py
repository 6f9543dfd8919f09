"""The status of PodDisruptionBudgets: expected pods, healthy pods, allowed disruptions.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/disruption/disruption.go
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kube_fairlead.api import errors, selectors
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time, parse_time
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.registry.resource import split_key
from kube_fairlead_apiserver.storage.entries import Change
from kube_fairlead_apiserver.storage.selection import Selection

__all__ = ["DisruptionController"]

_BUDGETS = "poddisruptionbudgets.policy"
# An eviction without a visible deletion within this time is taken as failed.
_DISRUPTED_SECONDS = 120
# Controllers with a replica count. A pod of any other controller counts as one.
_COUNTED = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1", "Deployment": "apps/v1"}
_TABLES = frozenset(
    {"pods", _BUDGETS, "replicasets.apps", "statefulsets.apps", "replicationcontrollers", "deployments.apps"}
)


class _Count(msgspec.Struct, frozen=True):
    expected: int
    desired: int


class DisruptionController:
    """Reconciles the status of budgets. Its keys are those of the budgets."""

    name = "disruption-controller"

    def __init__(self, core: Core) -> None:
        self._core = core
        self._client = InternalClient(core, "disruption-controller")
        self._left_over: dict[str, dict[str, str]] = {}  # by budget: evictions of an earlier process

    def initial(self) -> Iterable[str]:
        """Yield every budget. Evictions that an earlier process charged have either happened, or never will."""
        budgets = self._client.resource("policy", "v1", "poddisruptionbudgets")
        entries = dict(self._core.store.table(_BUDGETS).entries)
        for key, entry in entries.items():
            disrupted = (budgets.decode(entry).get("status") or {}).get("disruptedPods")
            if disrupted:
                self._left_over[key] = disrupted
        return list(entries)

    def affected(self, table: str, change: Change) -> Iterable[str]:
        """Yield a changed budget, or every budget of a namespace in which a pod or its owner changed."""
        if table not in _TABLES:
            return ()
        if table == _BUDGETS:
            return (change.last.key,)
        budgets = self._core.store.table(_BUDGETS)
        if not budgets.entries:
            return ()
        namespace, _ = split_key(change.last.key)
        return [entry.key for entry in budgets.page(Selection(namespace=namespace))]

    async def reconcile(self, key: str) -> float | None:
        """Write the budget's computed status."""
        namespace, name = split_key(key)
        budgets = self._client.resource("policy", "v1", "poddisruptionbudgets")
        budget = self._client.newest(budgets, namespace, name)
        if budget is None:
            return None
        now = self._core.clock.now()
        pods = list(self._pods(namespace, budget))
        again: float | None = None

        def bring_up_to_date(current: Json) -> None:
            nonlocal again
            again = self._fill_status(current, pods, now, self._left_over.get(key, {}))

        try:
            await self._client.change(budgets, namespace, name, bring_up_to_date, subresource="status")
        except errors.NotFound:
            return None
        self._left_over.pop(key, None)
        return again

    def _pods(self, namespace: str, budget: Json) -> Iterator[Json]:
        selector = (budget.get("spec") or {}).get("selector")
        if selector is None:
            return
        matcher = selectors.CompactLabels(selectors.label_selector_from(selector))
        pods = self._client.resource("", "v1", "pods")
        for pod in self._client.list(pods, Selection(namespace=namespace, labels=matcher)):
            if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}:
                yield pod

    def _fill_status(
        self, budget: Json, pods: Sequence[Json], now: dt.datetime, left_over: Mapping[str, str]
    ) -> float | None:
        count, problem = self._count(budget, pods)
        status = budget.setdefault("status", {})
        begun = {
            pod: since for pod, since in (status.get("disruptedPods") or {}).items() if left_over.get(pod) != since
        }
        disrupted, again = _still_disrupted(begun, pods, now)
        healthy = sum(_is_healthy(pod) and pod["metadata"]["name"] not in disrupted for pod in pods)
        allowed = max(0, healthy - count.desired) if count.expected > 0 else 0
        generation = budget["metadata"].get("generation", 0)
        status.update(
            observedGeneration=generation,
            currentHealthy=healthy,
            desiredHealthy=count.desired,
            expectedPods=count.expected,
            disruptionsAllowed=0 if problem else allowed,
        )
        if disrupted:
            status["disruptedPods"] = disrupted
        else:
            status.pop("disruptedPods", None)
        _set_condition(status, generation, problem, now)
        return again

    def _count(self, budget: Json, pods: Sequence[Json]) -> tuple[_Count, str]:
        """Return the expected pods, the required healthy pods, and the reason why they cannot be counted."""
        spec = budget.get("spec") or {}
        minimum, maximum = spec.get("minAvailable"), spec.get("maxUnavailable")
        try:
            if maximum is not None:
                expected = self._expected(pods)
                return _Count(expected, max(0, expected - _scaled(maximum, expected))), ""
            if isinstance(minimum, int):
                return _Count(len(pods), minimum), ""
            if minimum is not None:
                expected = self._expected(pods)
                return _Count(expected, _scaled(minimum, expected)), ""
        except ValueError as error:
            return _Count(0, 0), str(error)
        return _Count(0, 0), ""

    def _expected(self, pods: Sequence[Json]) -> int:
        """Return the sum of the replicas of the pods' controllers."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = _controller(pod["metadata"])
            if owner is None:
                raise ValueError(f"found no controller ref for pod {pod['metadata']['name']!r}")
            wanted[owner["uid"]] = self._replicas(pod["metadata"]["namespace"], owner)
        return sum(wanted.values())

    def _replicas(self, namespace: str, owner: Json) -> int:
        version = _COUNTED.get(owner["kind"])
        resource = None if version is None else self._core.catalog.of_kind(version, owner["kind"])
        if resource is None:
            raise ValueError(f"found no controllers for owner {owner['kind']} {owner['name']!r}")
        found = self._client.get(resource, namespace, owner["name"])
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            raise ValueError(f"the controller {owner['kind']} {owner['name']!r} is gone")
        above = _controller(found["metadata"])
        if above is not None and above["kind"] == "Deployment":
            return self._replicas(namespace, above)
        replicas = found.get("spec", {}).get("replicas", 1)
        return int(replicas)


def _controller(metadata: Json) -> Json | None:
    return next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), None)


def _scaled(value: Any, total: int) -> int:
    if isinstance(value, int):
        return value
    return math.ceil(int(str(value).removesuffix("%")) * total / 100)


def _is_healthy(pod: Json) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _still_disrupted(
    disrupted: dict[str, str], pods: Sequence[Json], now: dt.datetime
) -> tuple[dict[str, str], float | None]:
    """Return the recorded evictions that have not happened yet, and when to reconcile again."""
    living = {pod["metadata"]["name"] for pod in pods if not pod["metadata"].get("deletionTimestamp")}
    kept: dict[str, str] = {}
    again: float | None = None
    for name, since in disrupted.items():
        left = _DISRUPTED_SECONDS - (now - parse_time(since)).total_seconds()
        if name in living and left > 0:
            kept[name] = since
            again = left if again is None else min(again, left)
    return kept, again


def _set_condition(status: Json, generation: int, problem: str, now: dt.datetime) -> None:
    if problem:
        verdict, reason = "False", "SyncFailed"
    elif status["disruptionsAllowed"] > 0:
        verdict, reason = "True", "SufficientPods"
    else:
        verdict, reason = "False", "InsufficientPods"
    conditions = status.setdefault("conditions", [])
    known = next((c for c in conditions if c.get("type") == "DisruptionAllowed"), None)
    if known is None:
        known = {"type": "DisruptionAllowed"}
        conditions.append(known)
    if known.get("status") != verdict:
        known["lastTransitionTime"] = format_time(now)
    known.update(status=verdict, reason=reason, message=problem, observedGeneration=generation)
