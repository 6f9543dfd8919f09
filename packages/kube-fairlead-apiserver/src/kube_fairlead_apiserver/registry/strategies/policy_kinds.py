"""PodDisruptionBudgets, Leases, RBAC kinds, PriorityClasses, RuntimeClasses, LimitRanges and ResourceQuotas.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/policy/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/policy/poddisruptionbudget/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/coordination/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/coordination/lease/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/rbac/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/rbac/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/rbac/v1/zz_generated.validations.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/scheduling/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/scheduling/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/node/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/node/v1/zz_generated.validations.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/apps/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/limitrange/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/resourcequota/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/v1/defaults.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.validation.metadata import validate_labels
from kube_fairlead.api.validation.selectors import validate_label_selector
from kube_fairlead_apiserver.registry.strategies import field_checks
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = [
    "BindingStrategy",
    "LeaseStrategy",
    "LimitRangeStrategy",
    "PodDisruptionBudgetStrategy",
    "PriorityClassStrategy",
    "ResourceQuotaStrategy",
    "RoleStrategy",
    "RuntimeClassStrategy",
]

_RBAC = "rbac.authorization.k8s.io"


class PodDisruptionBudgetStrategy(Strategy):
    """policy/v1 PodDisruptionBudget."""

    allow_unconditional_update: bool = False
    has_status: bool = True
    tracks_generation: bool = True

    def prepare_create(self, obj: Json) -> None:
        """No disruption is allowed before the controller has counted the pods."""
        obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate: one of minAvailable and maxUnavailable, and its value."""
        spec = obj.get("spec") or {}
        path = FieldPath("spec")
        problems: list[FieldError] = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            problems.append(FieldError.invalid(path, spec, "minAvailable and maxUnavailable cannot be both set"))
        for field in ("minAvailable", "maxUnavailable"):
            problems += _amount(spec.get(field), path.child(field))
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy not in {None, "IfHealthyBudget", "AlwaysAllow"}:
            problems.append(
                FieldError.not_supported(
                    path.child("unhealthyPodEvictionPolicy"), policy, ("AlwaysAllow", "IfHealthyBudget")
                )
            )
        return problems


def _amount(value: Any, path: FieldPath) -> list[FieldError]:
    if isinstance(value, int) and value < 0:
        return [FieldError.invalid(path, value, "must be greater than or equal to 0")]
    if isinstance(value, str):
        return [FieldError.invalid(path, value, message) for message in names.percent(value)] or (
            [FieldError.invalid(path, value, "must not be greater than 100%")] if int(value[:-1]) > 100 else []
        )
    return []


class LeaseStrategy(Strategy):
    """coordination.k8s.io/v1 Lease."""

    allow_create_on_update: bool = True
    allow_unconditional_update: bool = False

    def validate(self, obj: Json) -> list[FieldError]:
        """Durations are positive, transitions not negative, a preferred holder needs a strategy."""
        spec = obj.get("spec") or {}
        path = FieldPath("spec")
        problems: list[FieldError] = []
        duration = spec.get("leaseDurationSeconds")
        if isinstance(duration, int) and duration <= 0:
            problems.append(FieldError.invalid(path.child("leaseDurationSeconds"), duration, "must be greater than 0"))
        transitions = spec.get("leaseTransitions")
        if isinstance(transitions, int) and transitions < 0:
            problems.append(
                FieldError.invalid(path.child("leaseTransitions"), transitions, "must be greater than or equal to 0")
            )
        if spec.get("preferredHolder") and not spec.get("strategy"):
            problems.append(
                FieldError.forbidden(path.child("preferredHolder"), "may only be specified if `strategy` is defined")
            )
        return problems


class RoleStrategy(Strategy):
    """Roles and ClusterRoles."""

    always_written = ("rules",)
    allow_create_on_update: bool = True
    name_rule: Callable[..., list[str]] = staticmethod(names.name_is_path_segment)

    def validate(self, obj: Json) -> list[FieldError]:
        """A rule names verbs, and resources or paths."""
        problems: list[FieldError] = []
        gathered = (obj.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        if obj.get("aggregationRule") is not None and not gathered:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            problems.append(FieldError.required(FieldPath("aggregationRule", "clusterRoleSelectors"), text))
        for index, selector in enumerate(gathered):
            at = FieldPath("aggregationRule").child("clusterRoleSelectors").index(index)
            problems += validate_label_selector(selector, at)
        for index, rule in enumerate(obj.get("rules") or ()):
            path = FieldPath("rules").index(index)
            if not rule.get("verbs"):
                problems.append(FieldError.required(path.child("verbs"), "verbs must contain at least one value"))
            if rule.get("nonResourceURLs"):
                if obj["metadata"].get("namespace"):
                    problems.append(
                        FieldError.invalid(
                            path.child("nonResourceURLs"),
                            rule["nonResourceURLs"],
                            "namespaced rules cannot apply to non-resource URLs",
                        )
                    )
                continue
            for field, what in (("apiGroups", "api group"), ("resources", "resource")):
                if not rule.get(field):
                    problems.append(
                        FieldError.required(path.child(field), f"resource rules must supply at least one {what}")
                    )
        return problems


class BindingStrategy(Strategy):
    """RoleBindings and ClusterRoleBindings."""

    allow_create_on_update: bool = True
    name_rule: Callable[..., list[str]] = staticmethod(names.name_is_path_segment)

    def default(self, obj: Json) -> None:
        """Groups of subjects follow from their kinds."""
        reference = obj.get("roleRef") or {}
        if reference and not reference.get("apiGroup"):
            reference["apiGroup"] = _RBAC
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in {"User", "Group"} and not subject.get("apiGroup"):
                subject["apiGroup"] = _RBAC

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate the role reference and the subjects."""
        path = FieldPath("roleRef")
        reference = obj.get("roleRef") or {}
        problems: list[FieldError] = []
        namespaced = bool(obj["metadata"].get("namespace"))
        kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
        if reference.get("kind") not in kinds:
            problems.append(FieldError.not_supported(path.child("kind"), reference.get("kind") or "", kinds))
        if not reference.get("name"):
            problems.append(FieldError.required(path.child("name"), ""))
        for index, subject in enumerate(obj.get("subjects") or ()):
            at = FieldPath("subjects").index(index)
            if not subject.get("name"):
                problems.append(FieldError.required(at.child("name"), ""))
            if subject.get("kind") not in {"ServiceAccount", "User", "Group"}:
                problems.append(
                    FieldError.not_supported(
                        at.child("kind"), subject.get("kind") or "", ("ServiceAccount", "User", "Group")
                    )
                )
            elif subject["kind"] == "ServiceAccount" and not subject.get("namespace") and not namespaced:
                # In a RoleBinding, the default namespace of a service account is the binding's.
                problems.append(FieldError.required(at.child("namespace"), ""))
        return problems

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The role reference is immutable."""
        problems = self.validate(obj)
        if obj.get("roleRef") != old.get("roleRef"):
            problems.append(FieldError.invalid(FieldPath("roleRef"), obj.get("roleRef"), "cannot change roleRef"))
        return problems


class PriorityClassStrategy(Strategy):
    """scheduling.k8s.io/v1 PriorityClass: the value is immutable, so its generation stays one."""

    tracks_generation: bool = True

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """The generation is always one."""
        del obj, old
        return False

    def default(self, obj: Json) -> None:
        """Default preemptionPolicy: PreemptLowerPriority."""
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate: user classes are below the system classes."""
        name = obj["metadata"].get("name") or ""
        if not name.startswith("system-") and obj.get("value", 0) > 1_000_000_000:
            return [
                FieldError.forbidden(
                    FieldPath("value"),
                    "maximum allowed value of a user defined priority is 1000000000",
                )
            ]
        return []

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The value is immutable, because pods already have it."""
        problems = self.validate(obj)
        if obj.get("value") != old.get("value"):
            problems.append(FieldError.forbidden(FieldPath("value"), "may not be changed in an update."))
        return problems


class RuntimeClassStrategy(Strategy):
    """node.k8s.io/v1 RuntimeClass: the handler that runs the pods of a class."""

    allow_create_on_update: bool = True
    allow_unconditional_update: bool = False

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate the handler and the node selector."""
        handler, path = obj.get("handler") or "", FieldPath("handler")
        problems = field_checks.complaints(path, handler, names.dns1123_label(handler)) if handler else []
        if not handler:
            problems.append(FieldError.required(path, ""))
        selector = (obj.get("scheduling") or {}).get("nodeSelector") or {}
        return problems + validate_labels(selector, FieldPath("scheduling", "nodeSelector"))

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The handler is immutable."""
        return self.validate(obj) + field_checks.changed(obj, old, FieldPath(), "handler")


class LimitRangeStrategy(Strategy):
    """v1 LimitRange: stored with its defaults; this server does not enforce it."""

    allow_create_on_update: bool = True

    def default(self, obj: Json) -> None:
        """Default limits are the maximum, and default requests are the limits."""
        for item in (obj.get("spec") or {}).get("limits") or ():
            if item.get("type") != "Container":
                continue
            limit = {**(item.get("max") or {}), **(item.get("default") or {})}
            request = {**(item.get("min") or {}), **limit, **(item.get("defaultRequest") or {})}
            for field, amounts in (("default", limit), ("defaultRequest", request)):
                if amounts:
                    item[field] = amounts


class ResourceQuotaStrategy(Strategy):
    """v1 ResourceQuota: stored; this server does not count usage."""

    has_status: bool = True
    returns_deleted_object: bool = True

    def prepare_create(self, obj: Json) -> None:
        """A new quota has no status."""
        obj["status"] = {}
