"""Printers of nodes, namespaces, configuration, events, leases and classes.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/printers/internalversion/printers.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.printers.columns import (
    NONE,
    UNKNOWN,
    Cells,
    Printer,
    age,
    columns,
    dig,
    listed,
    name_of,
    quantity_text,
    since,
)

__all__ = ["CLUSTER", "simple"]

_ROLE_PREFIX = "node-role.kubernetes.io/"


def simple(*parts: Callable[[Json], Any]) -> Cells:
    """Return the cells of a kind that prints its name, a few values and its age."""
    return lambda obj, now: [name_of(obj), *(part(obj) for part in parts), age(obj, now)]


def _node(obj: Json, now: dt.datetime) -> list[Any]:
    ready = next((c for c in reversed(listed(obj, "status", "conditions")) if c.get("type") == "Ready"), None)
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if dig(obj, "spec", "unschedulable"):
        status += ",SchedulingDisabled"
    info = dig(obj, "status", "nodeInfo", default={})
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(obj),
        status,
        ",".join(_roles(obj)) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(node: Json) -> list[str]:
    roles = set()
    for key, value in dig(node, "metadata", "labels", default={}).items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return sorted(roles - {""})


def _address(node: Json, kind: str) -> str:
    addresses = listed(node, "status", "addresses")
    return next((found.get("address", "") for found in addresses if found.get("type") == kind), NONE)


def _event(obj: Json, now: dt.datetime) -> list[Any]:
    """Return the cells of an event of either group; the newer group has the same fields under other names."""
    first = since(obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime"), now)
    last_time = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    last = since(last_time, now) if last_time else first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = obj.get("series")
    if series is not None:
        last, count = since(series.get("lastObservedTime"), now), series.get("count") or 0
    target = obj.get("involvedObject") or obj.get("regarding") or {}
    kind = str(target.get("kind") or "").lower()
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{target['name']}" if target.get("name") else kind,
        target.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        (obj.get("message") or obj.get("note") or "").strip(),
        first,
        count,
        name_of(obj),
    ]


def _resource_quota(obj: Json, now: dt.datetime) -> list[Any]:
    used = dig(obj, "status", "used", default={})
    requests: list[str] = []
    limits: list[str] = []
    for name, hard in sorted(dig(obj, "status", "hard", default={}).items()):
        text = f"{name}: {quantity_text(used.get(name))}/{quantity_text(hard)}"
        (limits if name.startswith("limits.") else requests).append(text)
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def _priority_class(obj: Json, now: dt.datetime) -> list[Any]:
    is_default, policy = bool(obj.get("globalDefault")), obj.get("preemptionPolicy") or ""
    return [name_of(obj), obj.get("value") or 0, is_default, age(obj, now), policy]


def _claim_state(obj: Json) -> str:
    deleted = bool(dig(obj, "metadata", "deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if dig(obj, "status", "allocation") is not None:
        states.append("allocated")
        if listed(obj, "status", "reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _size(*fields: str) -> Callable[[Json], int]:
    return lambda obj: sum(len(obj.get(field) or {}) for field in fields)


def _text(*path: str) -> Callable[[Json], Any]:
    return lambda obj: dig(obj, *path, default="")


_NAME_AGE = Printer(columns("Name", "Age"), simple())

CLUSTER: dict[tuple[str, str], Printer] = {
    ("", "ConfigMap"): Printer(columns("Name", "Data", "Age"), simple(_size("data", "binaryData"))),
    ("", "Event"): Printer(
        columns(
            "Last Seen",
            "Type",
            "Reason",
            "Object",
            "Subobject+",
            "Source+",
            "Message",
            "First Seen+",
            "Count+",
            "Name+",
        ),
        _event,
    ),
    ("", "Namespace"): Printer(columns("Name", "Status", "Age"), simple(_text("status", "phase"))),
    ("", "Node"): Printer(
        columns(
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "Internal-IP+",
            "External-IP+",
            "OS-Image+",
            "Kernel-Version+",
            "Container-Runtime+",
        ),
        _node,
    ),
    ("", "ResourceQuota"): Printer(columns("Name", "Request", "Limit", "Age"), _resource_quota),
    ("", "Secret"): Printer(columns("Name", "Type", "Data", "Age"), simple(_text("type"), _size("data"))),
    ("", "ServiceAccount"): _NAME_AGE,
    ("coordination.k8s.io", "Lease"): Printer(
        columns("Name", "Holder", "Age"), simple(_text("spec", "holderIdentity"))
    ),
    ("node.k8s.io", "RuntimeClass"): Printer(columns("Name", "Handler", "Age"), simple(_text("handler"))),
    ("resource.k8s.io", "DeviceClass"): _NAME_AGE,
    ("resource.k8s.io", "ResourceClaim"): Printer(columns("Name", "State", "Age"), simple(_claim_state)),
    ("resource.k8s.io", "ResourceClaimTemplate"): _NAME_AGE,
    ("resource.k8s.io", "ResourceSlice"): Printer(
        columns("Name", "Node", "Driver", "Pool", "Age"),
        simple(_text("spec", "nodeName"), _text("spec", "driver"), _text("spec", "pool", "name")),
    ),
    ("scheduling.k8s.io", "PriorityClass"): Printer(
        columns("Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"), _priority_class
    ),
}
CLUSTER["events.k8s.io", "Event"] = CLUSTER["", "Event"]
