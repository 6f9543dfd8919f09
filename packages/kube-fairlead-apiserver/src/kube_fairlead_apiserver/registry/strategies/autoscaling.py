"""HorizontalPodAutoscalers: replicas, metrics and scaling behavior.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/autoscaling/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/autoscaling/v2/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/autoscaling/v2/zz_generated.validations.go,
    k8s.io/apimachinery@v0.36.4/pkg/runtime/schema/group_version.go
"""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.quantity import Quantity, QuantityError
from kube_fairlead_apiserver.registry.autoscaler_conversion import drop_carried
from kube_fairlead_apiserver.registry.strategies import field_checks
from kube_fairlead_apiserver.registry.strategy import Strategy
from kube_fairlead_apiserver.schema.defaulting import copy_json

__all__ = ["HorizontalPodAutoscalerStrategy"]

_SPEC: Final = FieldPath("spec")
_MAX_PERIOD: Final = 1800
_MAX_WINDOW: Final = 3600
_PERIOD: Final = 15
# The metric types, and the field of each.
_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_CPU: Final[Json] = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_ALL_AT_ONCE: Final[Json] = {"type": "Percent", "value": 100, "periodSeconds": _PERIOD}
_BEHAVIOR: Final[Json] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": _PERIOD}, _ALL_AT_ONCE],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_ALL_AT_ONCE]},
}


class HorizontalPodAutoscalerStrategy(Strategy):
    """autoscaling/v2 HorizontalPodAutoscaler."""

    has_status: bool = True

    def default(self, obj: Json) -> None:
        """Defaults: at least one replica, CPU utilization."""
        drop_carried(obj)
        spec = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if not spec.get("metrics"):
            spec["metrics"] = [copy_json(_CPU)]
        behavior = spec.get("behavior")
        if behavior is not None:
            for direction, rules in _BEHAVIOR.items():
                chosen = {key: value for key, value in (behavior.get(direction) or {}).items() if value is not None}
                behavior[direction] = {**copy_json(rules), **chosen}

    def prepare_create(self, obj: Json) -> None:
        """A new autoscaler has no measurements."""
        obj["status"] = {"currentMetrics": None, "desiredReplicas": 0}

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate target, replicas, metrics and behavior."""
        spec = obj.get("spec") or {}
        problems = _validate_bounds(spec)
        problems += _validate_target(spec.get("scaleTargetRef") or {}, _SPEC.child("scaleTargetRef"), grouped=True)
        metrics = spec.get("metrics") or []
        for index, metric in enumerate(metrics):
            problems += _validate_metric(metric, _SPEC.item("metrics", index))
        if spec.get("minReplicas") == 0 and not any(metric.get("type") in {"Object", "External"} for metric in metrics):
            text = "must specify at least one Object or External metric to support scaling to zero replicas"
            problems.append(FieldError.forbidden(_SPEC.child("metrics"), text))
        behavior = spec.get("behavior") or {}
        for direction in _BEHAVIOR:
            if behavior.get(direction) is not None:
                problems += _validate_rules(behavior[direction], _SPEC.child("behavior", direction))
        return problems


def _validate_bounds(spec: Json) -> list[FieldError]:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    problems: list[FieldError] = []
    if least is not None and least < 1:
        problems.append(FieldError.invalid(_SPEC.child("minReplicas"), least, "must be greater than or equal to 1"))
    path = _SPEC.child("maxReplicas")
    if most == 0:
        problems.append(FieldError.required(path, "must be set and greater than 0"))
    elif most < 0:
        problems.append(FieldError.invalid(path, most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        problems.append(FieldError.invalid(path, most, "must be greater than or equal to `minReplicas`"))
    return problems


def _validate_target(target: Json, path: FieldPath, *, grouped: bool) -> list[FieldError]:
    problems: list[FieldError] = []
    for field in ("kind", "name"):
        value = target.get(field) or ""
        if value:
            problems += field_checks.complaints(path.child(field), value, names.path_segment_name(value))
        else:
            problems.append(FieldError.required(path.child(field), ""))
    version = target.get("apiVersion") or ""
    if version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        problems.append(FieldError.invalid(path.child("apiVersion"), version, text))
    elif grouped and "/" not in version:
        problems.append(FieldError.invalid(path.child("apiVersion"), version, "apiVersion must specify API group"))
    return problems


def _validate_metric(metric: Json, path: FieldPath) -> list[FieldError]:
    kind = metric.get("type") or ""
    present = [field for field in _SOURCES.values() if metric.get(field) is not None]
    problems: list[FieldError] = []
    if not kind:
        problems.append(FieldError.required(path.child("type"), "must specify a metric source type"))
    if kind not in _SOURCES:
        problems.append(FieldError.not_supported(path.child("type"), kind, _SOURCES))
    elif _SOURCES[kind] not in present:
        at = path.child(_SOURCES[kind])
        problems.append(FieldError.required(at, "must populate information for the given metric source"))
    if len(present) == 1:
        return problems + _validate_source(present[0], metric[present[0]], path.child(present[0]))
    return problems + [
        FieldError.forbidden(path.child(field), "must populate the given metric source only")
        for field in present
        if field != _SOURCES.get(kind)
    ]


def _validate_source(field: str, source: Json, path: FieldPath) -> list[FieldError]:
    target, at = source.get("target") or {}, path.child("target")
    problems = _validate_aim(target, at)
    both = target.get("averageUtilization") is not None and target.get("averageValue") is not None
    if field in {"resource", "containerResource"}:
        if not source.get("name"):
            problems.append(FieldError.required(path.child("name"), "must specify a resource name"))
        if field == "containerResource" and not source.get("container"):
            problems.append(FieldError.required(path.child("container"), "must specify a container"))
        if both:
            text = "may not set both a target raw value and a target utilization"
            problems.append(FieldError.forbidden(at.child("averageValue"), text))
        elif target.get("averageUtilization") is None and target.get("averageValue") is None:
            text = "must set either a target raw value or a target utilization"
            problems.append(FieldError.required(at.child("averageUtilization"), text))
        return problems
    if not (source.get("metric") or {}).get("name"):
        problems.append(FieldError.required(path.child("metric", "name"), "must specify a metric name"))
    if field == "object":
        problems += _validate_target(source.get("describedObject") or {}, path.child("describedObject"), grouped=False)
    enough = ("averageValue",) if field == "pods" else ("averageValue", "value")
    if all(target.get(name) is None for name in enough):
        problems.append(FieldError.required(at.child("averageValue"), _NO_AIM[field]))
    return problems


_NO_AIM: Final = {
    "external": "must set either a target value for metric or a per-pod target",
    "object": "must set either a target value or averageValue",
    "pods": "must specify a positive target averageValue",
}


def _validate_aim(target: Json, path: FieldPath) -> list[FieldError]:
    kind = target.get("type") or ""
    problems: list[FieldError] = []
    if not kind:
        problems.append(FieldError.required(path.child("type"), "must specify a metric target type"))
    if kind not in {"Utilization", "Value", "AverageValue"}:
        text = "must be either Utilization, Value, or AverageValue"
        problems.append(FieldError.invalid(path.child("type"), kind, text))
    problems += [
        FieldError.invalid(path.child(field), target[field], "must be positive")
        for field in ("value", "averageValue")
        if target.get(field) is not None and not _is_positive(target[field])
    ]
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        problems.append(FieldError.invalid(path.child("averageUtilization"), share, "must be greater than 0"))
    return problems


def _is_positive(value: Any) -> bool:
    try:
        return Quantity.parse(str(value)) > Quantity(0)
    except QuantityError:
        return True  # rejected by the decoder


def _validate_rules(rules: Json, path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    window, at = rules.get("stabilizationWindowSeconds"), path.child("stabilizationWindowSeconds")
    if window is not None and window < 0:
        problems.append(FieldError.invalid(at, window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_WINDOW:
        problems.append(FieldError.invalid(at, window, f"must be less than or equal to {_MAX_WINDOW}"))
    problems += field_checks.one_of(rules, path, "selectPolicy", ("Disabled", "Max", "Min"))
    policies = rules.get("policies") or []
    if not policies:
        problems.append(FieldError.required(path.child("policies"), "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        at = path.item("policies", index)
        if policy.get("type") not in {"Percent", "Pods"}:
            problems.append(FieldError.not_supported(at.child("type"), policy.get("type") or "", ("Percent", "Pods")))
        problems += [
            FieldError.invalid(at.child(field), policy.get(field) or 0, "must be greater than zero")
            for field in ("value", "periodSeconds")
            if (policy.get(field) or 0) <= 0
        ]
        if (policy.get("periodSeconds") or 0) > _MAX_PERIOD:
            text = f"must be less than or equal to {_MAX_PERIOD}"
            problems.append(FieldError.invalid(at.child("periodSeconds"), policy["periodSeconds"], text))
    return problems
