"""Validation of pod templates in workloads, and the kind PodTemplate.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/apps/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/podtemplate/strategy.go
"""

from __future__ import annotations

from kube_fairlead.api import selectors
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.validation.metadata import validate_annotations, validate_labels
from kube_fairlead.api.validation.selectors import validate_label_selector
from kube_fairlead_apiserver.registry.strategies.pod_spec import default_pod_spec
from kube_fairlead_apiserver.registry.strategies.pod_validation import validate_pod_spec
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = [
    "PodTemplateStrategy",
    "is_readable",
    "is_selected",
    "template_labels",
    "validate_endless",
    "validate_selector",
    "validate_template",
]


def template_labels(spec: Json) -> Json:
    """Return the labels of the template."""
    labels: Json = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return labels


def validate_template(template: Json, path: FieldPath) -> list[FieldError]:
    """Validate a template."""
    metadata, pod = template.get("metadata") or {}, template.get("spec") or {}
    problems = validate_labels(metadata.get("labels") or {}, path.child("labels"))
    problems += validate_annotations(metadata.get("annotations") or {}, path.child("annotations"))
    problems += validate_pod_spec(pod, path.child("spec"), template=True)
    if pod.get("ephemeralContainers"):
        at = path.child("spec", "ephemeralContainers")
        problems.append(FieldError.forbidden(at, "ephemeral containers not allowed in pod template"))
    return problems


def validate_endless(template: Json, path: FieldPath, kind: str) -> list[FieldError]:
    """Validate the restart policy Always: the controller replaces ended pods."""
    pod = template.get("spec") or {}
    problems: list[FieldError] = []
    if pod.get("restartPolicy") != "Always":
        at = path.child("spec", "restartPolicy")
        problems.append(FieldError.not_supported(at, pod.get("restartPolicy") or "", ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        at = path.child("spec", "activeDeadlineSeconds")
        problems.append(FieldError.forbidden(at, f"activeDeadlineSeconds in {kind} is not Supported"))
    return problems


def validate_selector(selector: Json | None, path: FieldPath, kind: str) -> list[FieldError]:
    """Validate a selector: required, and not empty."""
    if selector is None:
        return [FieldError.required(path, "")]
    problems = validate_label_selector(selector, path)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        problems.append(FieldError.invalid(path, selector, f"empty selector is invalid for {kind}"))
    return problems


def is_readable(selector: Json | None) -> bool:
    """Return whether a selector is valid; a missing one selects nothing."""
    try:
        selectors.label_selector_from(selector or {})
    except selectors.SelectorError:
        return False
    return True


def is_selected(selector: Json | None, spec: Json, path: FieldPath) -> list[FieldError]:
    """Validate that a selector matches the template's labels. An invalid selector is reported elsewhere."""
    labels = template_labels(spec)
    if not is_readable(selector):
        return []
    if selector is not None and selectors.label_selector_from(selector).matches(labels):
        return []
    at = path.child("template", "metadata", "labels")
    return [FieldError.invalid(at, labels or None, "`selector` does not match template `labels`")]


class PodTemplateStrategy(Strategy):
    """v1 PodTemplate: a pod template as an object of its own."""

    tracks_generation: bool = True
    returns_deleted_object: bool = True

    def default(self, obj: Json) -> None:
        """Set the defaults of a template, as in any workload."""
        template = obj.setdefault("template", {})
        template.setdefault("metadata", {})
        default_pod_spec(template.setdefault("spec", {}))

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate the template, as in any workload."""
        return validate_template(obj["template"], FieldPath("template"))

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """Return whether the template differs."""
        return bool(obj.get("template") != old.get("template"))
