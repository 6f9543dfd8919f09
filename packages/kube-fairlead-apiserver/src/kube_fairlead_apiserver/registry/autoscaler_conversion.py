"""Conversion of HorizontalPodAutoscalers between v2, which is stored, and v1, which has only CPU utilization.

What v1 has no field for, it carries in annotations, as Kubernetes does, so that a client that reads and writes v1
loses nothing. They exist in v1 only, so they cannot disagree with the stored form.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/autoscaling/v1/conversion.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/autoscaling/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/autoscaling/annotations.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/autoscaling/helpers.go
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kube_fairlead.api import golang
from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.quantity import Quantity, QuantityError
from kube_fairlead_apiserver.registry.resource import Conversion
from kube_fairlead_apiserver.schema.defaulting import copy_json
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode
from kube_fairlead_apiserver.schema.pruning import prune
from kube_fairlead_apiserver.schema.typed_decoder import TypeMismatch, conform
from kube_fairlead_apiserver.types import schemas

__all__ = ["AUTOSCALER_CONVERSION", "default_served", "drop_carried"]

_STORED: Final = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")
_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = f"{_PREFIX}metrics"
_BEHAVIOR: Final = f"{_PREFIX}behavior"
_CURRENT: Final = f"{_PREFIX}current-metrics"
_CONDITIONS: Final = f"{_PREFIX}conditions"
_TOLERANCES: Final = (f"{_PREFIX}scale-down-tolerance", f"{_PREFIX}scale-up-tolerance")
_CARRIED: Final = (_METRICS, _BEHAVIOR, _CURRENT, _CONDITIONS, *_TOLERANCES)

_DEFAULT_PERCENT: Final = 80
_REFERENCE: Final = ("kind", "name", "apiVersion")
_CONDITION: Final = ("type", "status", "lastTransitionTime", "reason", "message")
# The parts of v2's behavior in the order in which Go writes them.
_RULES: Final = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_POLICY: Final = ("type", "value", "periodSeconds")

# The fields of v2 for the fields of a v1 metric, by type and in the order in which Go writes them.
_Places = Mapping[str, Mapping[str, tuple[str, ...]]]
_TARGETS: Final[_Places] = {
    "object": {
        "target": ("describedObject",),
        "metricName": ("metric", "name"),
        "targetValue": ("target", "value"),
        "selector": ("metric", "selector"),
        "averageValue": ("target", "averageValue"),
    },
    "pods": {
        "metricName": ("metric", "name"),
        "targetAverageValue": ("target", "averageValue"),
        "selector": ("metric", "selector"),
    },
    "resource": {
        "name": ("name",),
        "targetAverageUtilization": ("target", "averageUtilization"),
        "targetAverageValue": ("target", "averageValue"),
    },
    "containerResource": {
        "name": ("name",),
        "targetAverageUtilization": ("target", "averageUtilization"),
        "targetAverageValue": ("target", "averageValue"),
        "container": ("container",),
    },
    "external": {
        "metricName": ("metric", "name"),
        "metricSelector": ("metric", "selector"),
        "targetValue": ("target", "value"),
        "targetAverageValue": ("target", "averageValue"),
    },
}


def _measured(name: str, place: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the name of a current value: that of the target value with another prefix."""
    if place[0] != "target":
        return name, place
    return name.replace("target", "current"), ("current", *place[1:])


_MEASURED: Final[_Places] = {
    kind: dict(_measured(name, place) for name, place in places.items()) for kind, places in _TARGETS.items()
}
# Quantities that v1 writes even when they are absent.
_ALWAYS: Final = frozenset(
    {
        ("object", "targetValue"),
        ("object", "currentValue"),
        ("pods", "targetAverageValue"),
        ("pods", "currentAverageValue"),
        ("resource", "currentAverageValue"),
        ("containerResource", "currentAverageValue"),
        ("external", "currentValue"),
    }
)


def drop_carried(obj: Json) -> None:
    """Remove the annotations that only v1 uses."""
    annotations = obj["metadata"].get("annotations")
    if not annotations or not any(name in annotations for name in _CARRIED):
        return
    kept = {name: value for name, value in annotations.items() if name not in _CARRIED}
    if kept:
        obj["metadata"]["annotations"] = kept
    else:
        del obj["metadata"]["annotations"]


def default_served(obj: Json) -> None:
    """The defaults of v1. The default metric is set on conversion, which sees the annotations."""
    spec = obj.setdefault("spec", {})
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1


def _to_served(obj: Json) -> None:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    drop_carried(obj)
    carried = _carry(spec, status)
    if carried:
        obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), **carried}
    obj["spec"] = {field: spec[field] for field in ("scaleTargetRef", "minReplicas", "maxReplicas") if field in spec}
    shares = [share for metric in spec.get("metrics") or () if (share := _cpu_share(metric, "target")) is not None]
    if shares:
        obj["spec"]["targetCPUUtilizationPercentage"] = shares[0]
    obj["status"] = {field: status[field] for field in ("observedGeneration", "lastScaleTime") if field in status}
    for field in ("currentReplicas", "desiredReplicas"):
        obj["status"][field] = status.get(field) or 0
    used = [
        share for metric in status.get("currentMetrics") or () if (share := _cpu_share(metric, "current")) is not None
    ]
    if used:
        obj["status"]["currentCPUUtilizationPercentage"] = used[-1]


def _carry(spec: Json, status: Json) -> Json:
    """Return the parts that v1 has no field for, as annotations."""
    others = [metric for metric in spec.get("metrics") or () if _cpu_share(metric, "target") is None]
    behavior = spec.get("behavior")
    carried = {
        _METRICS: [_flatten(metric, _TARGETS) for metric in others],
        _CURRENT: [_flatten(metric, _MEASURED) for metric in status.get("currentMetrics") or ()],
        _BEHAVIOR: None if behavior is None else _named_by_go(behavior),
        _CONDITIONS: [
            {field: one.get(field) for field in _CONDITION if one.get(field) or field == "lastTransitionTime"}
            for one in status.get("conditions") or ()
        ],
    }
    return {name: golang.json_text(value, struct=True) for name, value in carried.items() if value}


def _to_stored(obj: Json) -> None:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    annotations = obj["metadata"].get("annotations") or {}
    drop_carried(obj)
    metrics = _read(annotations.get(_METRICS), list[Json], _wanted, "spec", "metrics") or []
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is None and not metrics:
        percent = _DEFAULT_PERCENT
    if percent is not None:
        metrics.append(_cpu("target", {"type": "Utilization", "averageUtilization": percent}))
    obj["spec"] = {**spec, "metrics": metrics}
    behavior = _read(annotations.get(_BEHAVIOR), Json, _not_capital, "spec", "behavior")
    if behavior:
        obj["spec"]["behavior"] = behavior
    used = status.pop("currentCPUUtilizationPercentage", None)
    measured = _read(annotations.get(_CURRENT), list[Json], _seen, "status", "currentMetrics")
    if measured is None and used is not None:
        measured = [_cpu("current", {"averageUtilization": used})]
    obj["status"] = {field: value for field, value in status.items() if field != "currentReplicas" or value}
    obj["status"] |= {"currentMetrics": measured or None, "desiredReplicas": status.get("desiredReplicas") or 0}
    conditions = _read(annotations.get(_CONDITIONS), list[Json], copy_json, "status", "conditions")
    if conditions:
        obj["status"]["conditions"] = conditions


def _cpu(part: str, value: Json) -> Json:
    return {"type": "Resource", "resource": {"name": "cpu", part: value}}


def _cpu_share(metric: Json, part: str) -> int | None:
    """Return the CPU utilization of a metric, which v1 has a field for."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    share: int | None = (resource.get(part) or {}).get("averageUtilization")
    return share


def _flatten(metric: Json, places: _Places) -> Json:
    """Return a metric of v2 in the form of v1."""
    flat: Json = {"type": metric.get("type") or ""}
    for kind, fields in places.items():
        if metric.get(kind) is None:
            continue
        flat[kind] = {}
        for name, place in fields.items():
            value: Any = metric[kind]
            for part in place:
                value = (value or {}).get(part)
            if place == ("describedObject",):
                value = {field: value[field] for field in _REFERENCE if field in (value or {})}
            if value is None and (kind, name) in _ALWAYS:
                value = "0"
            if value is not None:
                flat[kind][name] = value
    return flat


def _nest(flat: Json, places: _Places) -> Json:
    """Return a metric of v1 in the form of v2."""
    metric: Json = {"type": flat.get("type")}
    for kind, fields in places.items():
        source = flat.get(kind)
        if not isinstance(source, dict):
            metric |= {kind: source} if source is not None else {}  # which does not fit
            continue
        metric[kind] = {}
        for name, place in fields.items():
            value = source.get(name, "0" if (kind, name) in _ALWAYS else None)
            if value is not None:
                *way, last = place
                functools.reduce(lambda inner, part: inner.setdefault(part, {}), way, metric[kind])[last] = value
    return metric


def _aim(metric: Json) -> Json:
    """Set the type of a metric's target, which v1 leaves implicit."""
    for kind in _TARGETS.keys() & metric.keys():
        target = metric[kind].setdefault("target", {}) if isinstance(metric[kind], dict) else {}
        average = target.get("averageValue") is not None
        if kind == "object" and average and _is_zero(target.get("value")):
            del target["value"]
        if kind in {"resource", "containerResource"}:
            target["type"] = "AverageValue" if target.get("averageUtilization") is None else "Utilization"
        elif kind == "external":
            target["type"] = "AverageValue" if target.get("value") is None else "Value"
        else:
            target["type"] = "AverageValue" if average or kind == "pods" else "Value"
    return metric


def _wanted(metrics: list[Json]) -> list[Json]:
    return [_aim(_nest(metric, _TARGETS)) for metric in metrics]


def _seen(metrics: list[Json]) -> list[Json]:
    return [_nest(metric, _MEASURED) for metric in metrics]


def _is_zero(value: Any) -> bool:
    try:
        return Quantity.parse(str(value)) == Quantity(0)
    except QuantityError:
        return False


def _named_by_go(behavior: Json) -> Json:
    """Kubernetes writes this annotation with Go's field names, whether they are set or not."""

    def capital(name: str) -> str:
        return name[0].upper() + name[1:]

    named: Json = {}
    for direction in ("scaleUp", "scaleDown"):
        rules = behavior.get(direction)
        named[capital(direction)] = None if rules is None else {capital(field): rules.get(field) for field in _RULES}
        if rules is not None and rules.get("policies") is not None:
            policies = [{capital(field): policy.get(field) for field in _POLICY} for policy in rules["policies"]]
            named[capital(direction)]["Policies"] = policies
    return named


def _not_capital(value: Any) -> Any:
    """Return the same in reverse; unset fields are left out."""
    if isinstance(value, list):
        return [_not_capital(item) for item in value]
    if isinstance(value, dict):
        return {name[:1].lower() + name[1:]: _not_capital(item) for name, item in value.items() if item is not None}
    return value


def _read(text: str | None, form: Any, turned: Callable[[Any], Any], *path: str) -> Any:
    """Return the part of the stored form that an annotation holds.

    An invalid annotation is ignored, as in Kubernetes.
    """
    if not text:
        return None
    node = _node(*path)
    try:
        value = turned(msgspec.json.decode(text, type=form))
        conform(node, value)
    except (msgspec.DecodeError, RecursionError, TypeMismatch):
        return None
    prune(node, value, root=False)
    return value


@functools.cache
def _node(*path: str) -> SchemaNode:
    node = schemas.node(_STORED) or ANYTHING
    return functools.reduce(lambda found, field: found.properties[field], path, node)


AUTOSCALER_CONVERSION: Final = Conversion(_to_stored, _to_served)
